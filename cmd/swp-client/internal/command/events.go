package command

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
)

func newEvents(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Publish events, and print events of others",
		Example: `  swp-client events publish swp+tls://127.0.0.1:7777 --type build.done --body '{"ok":true}'
  tail -f app.log | swp-client events publish swp+tls://127.0.0.1:7777 --type app.log --lines
  swp-client events subscribe swp+quic://127.0.0.1:7777 --filter type:build.done --name dashboard`,
	}
	cmd.AddCommand(newEventsPublish(f), newEventsSubscribe(f))
	return cmd
}

// publishFlags say what is published.
type publishFlags struct {
	eventType, severity, id, msg, task, rpc, body string
	at                                            int64
	lines                                         bool
	skip                                          uint64
}

func newEventsPublish(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish ADDR[/PARTNER] --type TYPE",
		Short: "Publish an event, or one for each line",
		Long: `Publish an event and wait until the endpoint has accepted it and, if it stores
events, stored it. With --lines each line of standard input is the body of an event,
whose id is --id with the number of the line; events are confirmed in batches, and
when no line arrives for a while.

The same event can be published again: its id identifies it. Repeat --time as well,
because an event with the same id and another time is refused. If --lines stops before
all events are confirmed, it prints how to continue; the exit code is then 1. An event
belongs to a message, a task or a call: use --msg, --task or --rpc. Without them a
message id is made from --id.`,
		Example: `  swp-client events publish swp+tls://127.0.0.1:7777 --type build.done --severity warn --task 3fa94c01 --body @report.json
  swp-client events publish swp+tls://127.0.0.1:7777 --type app.log --lines <app.log
  swp-client events publish swp+quic://127.0.0.1:7777 --type app.log --lines --id 7f9c1e --time 1767225600000 --skip 512 <app.log`,
	}
	var p publishFlags
	fl := cmd.Flags()
	fl.StringVar(&p.eventType, "type", "", "event_type (required)")
	cli.Choice(cmd, &p.severity, "severity", "info", "how severe it is", "debug", "info", "warn", "error")
	fl.StringVar(&p.id, "id", "", "event_id, unique among those of this identity (default random)")
	fl.StringVar(&p.msg, "msg", "", "id of the message it belongs to, in `hex`")
	fl.StringVar(&p.task, "task", "", "id of the task it belongs to, in `hex`")
	fl.StringVar(&p.rpc, "rpc", "", "id of the call it belongs to, in `hex`")
	fl.StringVar(&p.body, "body", "", "`text`, - for standard input, or @FILE")
	fl.Int64Var(&p.at, "time", 0, "when it happened, in Unix `milliseconds` (default now); with --id, the same as before")
	fl.BoolVar(&p.lines, "lines", false, "publish an event for each line of standard input")
	fl.Uint64Var(&p.skip, "skip", 0, "with --lines, how many lines to pass over at first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := p.record()
		if err != nil {
			return err
		}
		if p.lines {
			return f.publishLines(cmd.Context(), args[0], &p, r)
		}
		if r.Body, err = f.readInput(p.body); err != nil {
			return err
		}
		return f.publish(cmd.Context(), args[0], r)
	}
	return cmd
}

// record makes the event but for its body.
func (p *publishFlags) record() (*events.Record, error) {
	if p.eventType == "" {
		return nil, &usageError{"--type is required"}
	}
	if p.lines && p.body != "" || !p.lines && p.skip > 0 {
		return nil, &usageError{"with --lines the lines are the bodies; --body goes without it, --skip only with it"}
	}
	if p.id == "" {
		p.id = rand.Text()[:16]
	}
	if p.at == 0 {
		p.at = time.Now().UnixMilli()
	}
	r := &events.Record{EventID: []byte(p.id), EventType: []byte(p.eventType), Severity: []byte(p.severity), Timestamp: uint64(p.at)}
	for _, id := range []struct {
		flag, text string
		field      *[]byte
	}{{"--msg", p.msg, &r.MsgID}, {"--task", p.task, &r.TaskID}, {"--rpc", p.rpc, &r.RPCID}} {
		var err error
		if *id.field, err = hex.DecodeString(id.text); err != nil {
			return nil, &usageError{fmt.Sprintf("%s %.80q is not hexadecimal", id.flag, id.text)}
		}
	}
	if len(r.MsgID)+len(r.TaskID)+len(r.RPCID) == 0 {
		// Of the id, so that the same event is the same when it comes again.
		sum := sha256.Sum256(r.EventID)
		r.MsgID = sum[:16]
	}
	if err := r.Validate(); err != nil {
		return nil, &usageError{profiles.AsError(err).Text}
	}
	return r, nil
}

func (f *flags) publish(ctx context.Context, address string, r *events.Record) error {
	c, pub, err := f.publisher(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	defer pub.Close()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := pub.Publish(ctx, r); err != nil {
		return publishing(c.ExplainAbout(err, string(r.EventType)))
	}
	err = pub.Sync(ctx)
	if err == nil {
		f.remarkLocal(ctx, address, "event_type", string(r.EventType))
	}
	return f.sent(publishing(c.ExplainAbout(err, string(r.EventType))), func(confirmed bool) error {
		if f.asJSON {
			return f.printJSON(map[string]any{"event_id": string(r.EventID), "confirmed": confirmed})
		}
		f.printf("%s\n", visible(string(r.EventID)))
		return nil
	})
}

func (f *flags) publisher(ctx context.Context, address string) (*client.Client, *events.Publisher, error) {
	c, err := f.dial(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	pub, err := c.Publisher(ctx)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, pub, nil
}

// maxLine is how many octets a line may have.
const maxLine = 4 << 20

func (f *flags) publishLines(ctx context.Context, address string, p *publishFlags, r *events.Record) error {
	c, pub, err := f.publisher(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	defer pub.Close()
	lines := make(chan []byte)
	scan := bufio.NewScanner(f.in)
	scan.Buffer(nil, maxLine)
	var read uint64 // lines; settled once the channel is closed
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the input, or with the program
		defer close(lines)
		for scan.Scan() {
			if read++; read <= p.skip {
				continue
			}
			select {
			case lines <- append([]byte(nil), scan.Bytes()...):
			case <-ctx.Done():
				return
			}
		}
	}()
	publisher := client.EventLines{Events: pub, Timeout: f.timeout, Make: func(n uint64, line []byte) *events.Record {
		own := *r
		own.EventID = fmt.Appendf(nil, "%s-%d", p.id, p.skip+n)
		own.Body = line
		return &own
	}}
	confirmed, err := publisher.Publish(ctx, lines)
	confirmed += p.skip
	if err == nil && ctx.Err() == nil {
		if err = scan.Err(); errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("line %d has more than %d octets", read+1, maxLine-1)
		}
	}
	if confirmed > p.skip {
		f.remarkLocal(ctx, address, "event_type", string(r.EventType))
	}
	if unsure, ok := errors.AsType[*profiles.UnconfirmedError](err); ok && !unsure.Lost {
		return f.sent(err, func(bool) error {
			if f.asJSON {
				return f.printJSON(map[string]any{"id": p.id, "time": p.at, "confirmed": confirmed, "sent": read - p.skip})
			}
			f.printf("%s sent\n", plain.Count(read-p.skip, "line"))
			return nil
		})
	}
	if f.asJSON {
		err = errors.Join(f.printJSON(map[string]any{"id": p.id, "time": p.at, "confirmed": confirmed}), publishing(c.ExplainAbout(err, string(r.EventType))))
		return err
	}
	f.printf("%s confirmed\n", plain.Count(confirmed, "line"))
	if err != nil {
		return errors.Join(publishing(c.ExplainAbout(err, string(r.EventType))),
			fmt.Errorf("the lines after %d are not confirmed; go on with: --lines --id %s --time %d --skip %d", confirmed, p.id, p.at, confirmed))
	}
	return nil
}

// publishing says more about what endpoints refuse.
func publishing(err error) error {
	if strings.Contains(answered(err, events.Name).Message, "event_id was used for another event") {
		return advise(err, "Another event has this id. To publish the same one again give the same --time, and all else, as before.")
	}
	return err
}

// advise says what to do about an error of a connection.
func advise(err error, do string) error {
	advised := client.Explained{Err: err}
	if found := (*client.Explained)(nil); errors.As(err, &found) {
		advised = *found
	}
	advised.Do = do
	return &advised
}
