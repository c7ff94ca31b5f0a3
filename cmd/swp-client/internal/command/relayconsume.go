package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/profiles/relay"
)

// exitData is the exit code of a command that will never be able to process a
// delivery: EX_DATAERR of sysexits.h.
const exitData = 65

// consumeFlags say what is done with deliveries.
type consumeFlags struct {
	exec        string
	raw         bool
	maxInFlight int
	wanted      wanted
	drain       time.Duration
	patience    time.Duration
}

func newRelayConsume(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consume ADDR[/PARTNER] TOPIC",
		Short: "Process the deliveries of a topic",
		Long: fmt.Sprintf(`Attach to a topic and process its deliveries as they arrive. Without --exec the payload
is written to standard output, a line each; with --raw without an end of line, and with
--json as an object. It is acknowledged when it is written.

With --exec a shell runs a command for each delivery, which has the payload as standard
input, and in its environment SWP_DELIVERY_ID (hex), SWP_TOPIC, SWP_PUBLISHER (an
identity), SWP_HOPS and, if the delivery has one, SWP_TTL_MS. Exit status 0 acknowledges the
delivery. With %d another attempt is useless, and the delivery is dead at once; with
any other status it is attempted again, up to the limit of the endpoint. Up to
--max-in-flight commands run at once. A command whose program does not exist is refused at
the start.

With --count it ends after so many deliveries, processed or not. With --wait as well the
exit code is 1 if fewer have come in that time; those being processed then are finished.

A delivery arrives at least once, and sometimes again: processing must be idempotent.
Its publisher and id identify it. After a lost connection this reconnects, without a time
limit. Ctrl-C detaches and waits for deliveries being processed, up to --drain; a second
Ctrl-C ends it.`, exitData),
		Example: `  swp-client relay consume swp+tls://127.0.0.1:7777 builds
  swp-client relay consume swp+tls://127.0.0.1:7777 builds --exec './import.sh || exit 65' --max-in-flight 4
  swp-client relay consume swp+quic://127.0.0.1:7777 builds --count 1 --wait 1m --raw >report.json
  swp-client relay consume swp+tls://127.0.0.1:7777 builds --json | jq -r .delivery_id`,
	}
	var o consumeFlags
	fl := cmd.Flags()
	fl.StringVar(&o.exec, "exec", "", "`command` that a shell runs for each delivery")
	fl.BoolVar(&o.raw, "raw", false, "write raw payloads, one after the other")
	fl.IntVar(&o.maxInFlight, "max-in-flight", 0, "maximum unanswered deliveries (default 1 with --exec or --count, else 16)")
	o.wanted.flags(cmd, "deliveries")
	fl.DurationVar(&o.drain, "drain", 30*time.Second, "time for commands to end after Ctrl-C")
	fl.DurationVar(&o.patience, "patience", 0, "how long the endpoint may be unreachable; 0 = no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case o.maxInFlight < 1 && fl.Changed("max-in-flight"):
			return &usageError{fmt.Sprintf("--max-in-flight %d: want at least 1", o.maxInFlight)}
		case o.drain <= 0 || o.patience < 0:
			return &usageError{"--drain is above 0, and --patience at least 0"}
		case o.raw && f.asJSON:
			return &usageError{"--raw and --json are two ways to write a payload; keep one"}
		case o.exec != "" && (o.raw || f.asJSON):
			return &usageError{"with --exec only the command writes output; leave out --raw and --json"}
		}
		if err := checkTopic(args[1]); err != nil {
			return err
		}
		if err := o.wanted.check(); err != nil {
			return err
		}
		if err := checkLine(o.exec); err != nil {
			return err
		}
		return f.consume(cmd.Context(), args[0], args[1], &o)
	}
	return cli.UntilStopped(cmd)
}

// printedInFlight is how many deliveries may be on their way to be written.
const printedInFlight = 16

func (f *flags) consume(ctx context.Context, address, topic string, o *consumeFlags) error {
	away, remark := f.verbose, sync.OnceFunc(func() { f.remarkLocal(ctx, address, "topic", topic) })
	c := client.Consumer{
		Connect: func(ctx context.Context) (*client.Client, error) { return f.dial(ctx, address) },
		Topic:   topic, MaxInFlight: o.maxInFlight, Count: o.wanted.count,
		Silence: f.timeout, Patience: o.patience, Drain: o.drain,
		Process: func(_ context.Context, d *relay.Delivery) error { return f.write(d, o.raw) },
		Attached: func(on *client.Client) {
			remark()
			if away {
				f.warnf("attached to %s at %s", topic, on.Peer().Identity)
			}
		},
		Lost: func(err error, pause time.Duration) {
			away = true
			f.warnf("%s; again in %v", lost(err), pause.Round(time.Millisecond))
		},
	}
	if c.MaxInFlight == 0 {
		if c.MaxInFlight = printedInFlight; o.exec != "" || o.wanted.count > 0 {
			c.MaxInFlight = 1
		}
	}
	if o.exec != "" {
		run, err := f.newRunner(o.exec)
		if err != nil {
			return err
		}
		c.Process, c.Parallel = run.process, c.MaxInFlight
	}
	c.Abort = cli.Abort(ctx)
	process := c.Process
	c.Process = func(ctx context.Context, d *relay.Delivery) error {
		o.wanted.came.Add(1)
		return process(ctx, d)
	}
	return relayAdvice(o.wanted.within(ctx, c.Consume))
}

// printedPayload is a delivery as JSON.
type printedPayload struct {
	ID        string `json:"delivery_id"`
	Publisher string `json:"publisher"`
	Topic     string `json:"topic"`
	TTL       int64  `json:"ttl_ms,omitempty"`
	Hops      uint64 `json:"hops,omitempty"`
	Payload   any    `json:"payload,omitempty"`
}

// write writes a delivery to standard output. It does not buffer: the octets are
// with the system when it returns.
func (f *flags) write(d *relay.Delivery, raw bool) error {
	var err error
	switch {
	case f.asJSON:
		p := printedPayload{ID: hex.EncodeToString(d.ID), Publisher: d.Publisher, Topic: d.Topic, TTL: d.TTL.Milliseconds(), Hops: d.Hops}
		if len(d.Payload) > 0 {
			p.Payload = readable(d.Payload)
		}
		err = f.printJSON(p)
	case isTerminal(f.out):
		_, err = fmt.Fprintf(f.out, "%s\n", visible(string(d.Payload)))
	case raw:
		_, err = f.out.Write(d.Payload)
	default:
		_, err = f.out.Write(append(slices.Clip(d.Payload), '\n'))
	}
	if err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// checkLine refuses a command line for a shell whose program does not exist. A line that does
// not begin with a plain word is left to the shell.
func checkLine(line string) error {
	line = strings.TrimSpace(line)
	word := line
	if end := strings.IndexAny(line, " \t\n;|&<>"); end >= 0 {
		word = line[:end]
	}
	if word == "" || strings.ContainsAny(word, "$`\"'\\=(){}*?[]~#!") {
		return nil
	}
	_, err := exec.LookPath(word)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return nil
	}
	if !strings.ContainsRune(word, '/') && exec.Command(shell, "-c", `command -v -- "$0"`, word).Run() == nil {
		return nil // the shell knows it
	}
	return &usageError{"--exec: " + err.Error()}
}

// shell runs the command lines of --exec.
const shell = "/bin/sh"

// runner runs a command for each delivery.
type runner struct {
	f       *flags
	program *proc.Program
	mu      sync.Mutex // of the outputs
}

// commandGrace is how long a command has between SIGTERM and SIGKILL.
const commandGrace = 2 * time.Second

func (f *flags) newRunner(line string) (*runner, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	program, err := proc.Resolve(proc.Config{
		Command: shell, Args: []string{"-c", line}, Env: environment(), Path: os.Getenv("PATH"), Dir: dir,
	})
	if err != nil {
		return nil, err
	}
	return &runner{f: f, program: program}, nil
}

// process runs the command. The outputs of commands that run at once are mixed, as
// they write.
func (r *runner) process(ctx context.Context, d *relay.Delivery) error {
	more := []string{
		"SWP_DELIVERY_ID=" + hex.EncodeToString(d.ID), "SWP_TOPIC=" + d.Topic, "SWP_PUBLISHER=" + d.Publisher,
		hopsVariable + "=" + strconv.FormatUint(d.Hops, 10), "SWP_TTL_MS=" + ttl(d.TTL),
	}
	p, err := r.program.Start(more...)
	if err != nil {
		return err // it would not start for the next one
	}
	var streams sync.WaitGroup
	streams.Go(func() {
		_, _ = p.Stdin.Write(d.Payload) // a command need not read it
		_ = p.Stdin.Close()
	})
	streams.Go(func() { r.copy(r.f.out, p.Stdout) })
	streams.Go(func() { r.copy(r.f.errOut, p.Stderr) })
	err = p.Wait(ctx.Done(), func() time.Duration { return commandGrace })
	streams.Wait()
	p.Close()
	exited := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &client.NotProcessed{Retryable: true, Reason: "stopped"}
	case errors.As(err, &exited):
		r.mu.Lock()
		r.f.warnf("delivery %x: the command ended with %v", d.ID, exited)
		r.mu.Unlock()
		return &client.NotProcessed{Retryable: exited.ExitCode() != exitData, Reason: "exit_" + strconv.Itoa(exited.ExitCode())}
	}
	return err
}

// ttl is empty if it was not given.
func ttl(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// copy passes on what a command writes.
func (r *runner) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			r.mu.Lock()
			_, _ = to.Write(buf[:n])
			r.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}
