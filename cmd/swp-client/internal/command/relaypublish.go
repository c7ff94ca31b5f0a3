package command

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/relay"
)

// relayFlags say what is published, and how.
type relayFlags struct {
	topic          string
	id             string
	ttl            time.Duration
	lines          bool
	wait, notices  bool
	patience       time.Duration
	base           []byte // of --id
	payload        string
	payloadIsGiven bool
	hops           uint64 // of $SWP_HOPS
}

func newRelayPublish(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish ADDR[/PARTNER] TOPIC [PAYLOAD|@FILE|-]",
		Short: "Publish a delivery, or one for each line",
		Long: `Publish a delivery, wait until the endpoint has stored it, and print its id. Then the
endpoint is responsible for it. Without a payload argument it is read from standard
input. With --lines each line of standard input is a delivery, whose id is --id and the
number of the line in 8 octets; they are confirmed in order.

After a lost connection this reconnects and sends unconfirmed messages again with the
same ids, so the endpoint stores none twice. The same holds for another run with the
same --id, as long as the endpoint remembers ids.

With --wait this ends when the delivery was processed or is dead, and prints which; the
exit code is 1 if one is dead. Meanwhile it prints why a delivery waits for a partner.
With --notices it also prints which other deliveries of this identity die while it runs.
Each is reported once; relay dead lists them all.`,
		Example: `  swp-client relay publish swp+tls://127.0.0.1:7777 builds @report.json --ttl 1h
  swp-client relay publish swp+tls://127.0.0.1:7777 builds '{"n":1}' --id 8f14e45fceea167a --wait
  tail -f app.log | swp-client relay publish swp+quic://127.0.0.1:7777 app.log --lines`,
	}
	var o relayFlags
	fl := cmd.Flags()
	fl.StringVar(&o.id, "id", "", "delivery_id in `hex`, unique for this identity (default random)")
	fl.DurationVar(&o.ttl, "ttl", 0, "time to live of the delivery; 0 = the default of the endpoint")
	fl.BoolVar(&o.lines, "lines", false, "publish a delivery for each line of standard input")
	fl.BoolVar(&o.wait, "wait", false, "wait until the delivery was processed, or is dead")
	fl.BoolVar(&o.notices, "notices", false, "print other deliveries that die while this runs")
	fl.DurationVar(&o.patience, "patience", 2*time.Minute, "how long to retry without a confirmation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.topic, o.payload = args[1], "-"
		if len(args) == 3 {
			o.payload, o.payloadIsGiven = args[2], true
		}
		if err := o.check(); err != nil {
			return err
		}
		return f.relay(cmd.Context(), args[0], &o)
	}
	return cmd
}

// hopsVariable is the environment variable with the number of endpoints that a delivery has
// passed. Relay consume sets it for its command, and what that command publishes continues
// the count, so that relays that feed each other stop.
const hopsVariable = "SWP_HOPS"

// lineNumber is how many octets of a delivery_id are the number of a line.
const lineNumber = 8

func (o *relayFlags) check() error {
	if err := checkTopic(o.topic); err != nil {
		return err
	}
	switch {
	case o.ttl < 0:
		return &usageError{fmt.Sprintf("--ttl %v: want 0s or more", o.ttl)}
	case o.patience <= 0:
		return &usageError{fmt.Sprintf("--patience %v: want more than 0s", o.patience)}
	case o.lines && o.payloadIsGiven && o.payload != "-":
		return &usageError{"with --lines the lines of standard input are the payloads"}
	}
	if hops := os.Getenv(hopsVariable); hops != "" {
		n, err := strconv.ParseUint(hops, 10, 8)
		if err != nil {
			return &usageError{fmt.Sprintf("$%s is %.40q, want a number; relay consume --exec sets it", hopsVariable, hops)}
		}
		o.hops = n
	}
	if o.id == "" {
		o.base = make([]byte, 16)
		_, _ = rand.Read(o.base) // never fails: it ends the program instead
		return nil
	}
	most := relay.MaxDeliveryID
	if o.lines {
		most -= lineNumber
	}
	var err error
	o.base, err = deliveryID("--id", o.id, most)
	return err
}

// idOf returns the delivery_id of a line, which is numbered from 1.
func (o *relayFlags) idOf(line uint64) []byte {
	if !o.lines {
		return o.base
	}
	return binary.BigEndian.AppendUint64(slices.Clone(o.base), line)
}

// relayed is the outcome of publications.
type relayed struct {
	f *flags
	o *relayFlags

	mu      sync.Mutex
	reasons map[string]relay.Reason // of deliveries of this run that are dead
	noticed chan relay.Notice       // to be printed

	waits refusal // why a delivery waits, as was printed last

	taken, known uint64 // confirmed, and those of them that the endpoint had
}

const (
	// maxReasons is how many reasons are kept at hand; others are asked for.
	maxReasons = 1024

	// maxNotices is how many notices wait to be printed; others are told again.
	maxNotices = 64
)

func (f *flags) relay(ctx context.Context, address string, o *relayFlags) error {
	r := &relayed{f: f, o: o, reasons: make(map[string]relay.Reason), noticed: make(chan relay.Notice, maxNotices)}
	if o.wait || o.notices {
		f.notice = r.notice
	}
	var printing sync.WaitGroup
	ended := make(chan struct{})
	defer printing.Wait()
	defer close(ended)
	printing.Go(func() {
		for {
			select {
			case n := <-r.noticed:
				r.print(n)
			case <-ended:
				return
			}
		}
	})
	p := &client.Publisher{
		Connect:  func(ctx context.Context) (*client.Client, error) { return f.dial(ctx, address) },
		Patience: o.patience, Silence: f.timeout,
		Lost: func(err error, pause time.Duration) {
			r.say("%v; again in %v", root(err), pause.Round(time.Millisecond))
		},
		Slow: r.slow,
	}
	if o.lines {
		return r.lines(ctx, p)
	}
	return r.single(ctx, p)
}

func (r *relayed) single(ctx context.Context, p *client.Publisher) error {
	payload, err := r.f.readInput(r.o.payload)
	if err != nil {
		return err
	}
	from := make(chan *relay.Publication, 1)
	from <- &relay.Publication{ID: r.o.base, Topic: r.o.topic, Payload: payload, TTL: r.o.ttl, Hops: r.o.hops}
	close(from)
	printed := printedDelivery{ID: hex.EncodeToString(r.o.base)}
	err = p.Publish(ctx, from, func(_ *relay.Publication, receipt relay.Receipt) error {
		printed.Duplicate, printed.Attempts = &receipt.Duplicate, receipt.Attempts
		return nil
	})
	if err != nil {
		return errors.Join(relayAdvice(err), unconfirmed(err, "it is not confirmed", "--id "+printed.ID))
	}
	r.f.remarkLocal(ctx, r.f.address(), "topic", r.o.topic)
	if !r.f.asJSON {
		r.f.printf("%s\n", printed.ID)
	}
	dead := error(nil)
	if r.o.wait {
		err := r.await(ctx, p, 1, func(_ []byte, d *printedDelivery) {
			printed.State, printed.Attempts, printed.Reason, printed.Refusal = d.State, d.Attempts, d.Reason, d.Refusal
		})
		if err != nil {
			return errors.Join(err, fmt.Errorf("it is confirmed; show its state with: relay status ADDR %s", printed.ID))
		}
		if printed.State == relay.DeadState {
			dead = fmt.Errorf("delivery %s is dead: %s", printed.ID, printed.why())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f.asJSON {
		return errors.Join(r.f.printJSON(printed), dead)
	}
	return dead
}

// unconfirmed says what to do about what was not confirmed because of err: nothing
// if the same is refused again.
func unconfirmed(err error, what, flags string) error {
	if client.Refused(err) {
		return fmt.Errorf("%s, and the same again is refused again", what)
	}
	return fmt.Errorf("%s; publish the same again with: %s", what, flags)
}

// printedLines is what came of --lines, as JSON.
type printedLines struct {
	ID         string `json:"id"`
	Confirmed  uint64 `json:"confirmed"`
	Duplicates uint64 `json:"duplicates"`
	Processed  uint64 `json:"processed,omitempty"`
	Dead       uint64 `json:"dead,omitempty"`
}

func (r *relayed) lines(ctx context.Context, p *client.Publisher) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := make(chan *relay.Publication)
	var failed error // settled once from is closed
	go func() {      // ends with the input, or with the program
		defer close(from)
		failed = r.read(ctx, from)
	}()
	err := p.Publish(ctx, from, func(_ *relay.Publication, receipt relay.Receipt) error {
		if r.taken++; receipt.Duplicate {
			r.known++
		}
		return nil
	})
	if err == nil {
		err = failed
	}
	printed := printedLines{ID: hex.EncodeToString(r.o.base), Confirmed: r.taken, Duplicates: r.known}
	if err != nil {
		line := ""
		if refused := (*client.RefusedError)(nil); errors.As(err, &refused) {
			line = fmt.Sprintf("line %d: ", r.lineOf(refused.Publication.ID))
		}
		err = errors.Join(fmt.Errorf("%s%w", line, relayAdvice(err)), unconfirmed(err, "not all lines are confirmed", "--lines --id "+printed.ID))
	}
	if r.taken > 0 {
		r.f.remarkLocal(ctx, r.f.address(), "topic", r.o.topic)
	}
	if r.o.wait && err == nil {
		err = r.await(ctx, p, r.taken, func(id []byte, d *printedDelivery) {
			if d.State == relay.DeadState {
				printed.Dead++
				r.say("line %d, delivery %x, is dead: %s", r.lineOf(id), id, d.why())
				return
			}
			printed.Processed++
		})
	}
	if err == nil && printed.Dead > 0 {
		err = fmt.Errorf("%d of %d deliveries are dead", printed.Dead, printed.Confirmed)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f.asJSON {
		return errors.Join(r.f.printJSON(printed), err)
	}
	r.f.printf("%s: %s confirmed, %d known before\n", printed.ID, plain.Count(printed.Confirmed, "line"), printed.Duplicates)
	return err
}

func (r *relayed) lineOf(id []byte) uint64 {
	return binary.BigEndian.Uint64(id[len(id)-lineNumber:])
}

// read makes publications of lines.
func (r *relayed) read(ctx context.Context, to chan<- *relay.Publication) error {
	scan := bufio.NewScanner(r.f.in)
	scan.Buffer(nil, maxLine)
	n := uint64(0)
	for scan.Scan() {
		n++
		p := &relay.Publication{ID: r.o.idOf(n), Topic: r.o.topic, Payload: slices.Clone(scan.Bytes()), TTL: r.o.ttl, Hops: r.o.hops}
		select {
		case to <- p:
		case <-ctx.Done():
			return nil // said elsewhere
		}
	}
	if err := scan.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d has more than %d octets", n+1, maxLine-1)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("standard input: %w", err)
	}
	return nil
}

// await waits until the deliveries of this run were processed or are dead.
func (r *relayed) await(ctx context.Context, p *client.Publisher, count uint64, over func(id []byte, d *printedDelivery)) error {
	ids := func(yield func([]byte) bool) {
		for n := uint64(1); n <= count && yield(r.o.idOf(n)); n++ {
		}
	}
	return relayAdvice(p.Await(ctx, ids, func(c *client.Client, id []byte, state relay.State, attempts uint32) error {
		d := &printedDelivery{State: state, Attempts: attempts}
		r.mu.Lock()
		d.Reason = r.reasons[string(id)]
		delete(r.reasons, string(id))
		r.mu.Unlock()
		if state == relay.DeadState {
			ctx, cancel := context.WithTimeout(ctx, r.f.timeout)
			defer cancel()
			if dead := deadOf(ctx, c, id); dead != nil {
				d.buried(c, dead)
			}
		}
		over(id, d)
		return nil
	}))
}

// slow says why a delivery waits for a partner, once for each reason.
func (r *relayed) slow(ctx context.Context, c *client.Client, id []byte) {
	ctx, cancel := context.WithTimeout(ctx, r.f.timeout)
	defer cancel()
	why := heldUp(ctx, c, id)
	if why == nil || *why == r.waits {
		return
	}
	r.waits = *why
	r.say("delivery %x waits%s", id, why.text(": "))
}

// notice records the deliveries that the relay has given up. It does not block: a
// notice without room is repeated.
func (r *relayed) notice(n relay.Notice) bool {
	if r.o.wait && r.own(n.DeliveryID) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, known := r.reasons[string(n.DeliveryID)]; !known && len(r.reasons) == maxReasons {
			return false
		}
		r.reasons[string(n.DeliveryID)] = n.Reason
		return true
	}
	if !r.o.notices {
		return false
	}
	select {
	case r.noticed <- n:
		return true
	default:
		return false
	}
}

// own reports whether a delivery is of this run.
func (r *relayed) own(id []byte) bool {
	rest, found := strings.CutPrefix(string(id), string(r.o.base))
	return found && (r.o.lines && len(rest) == lineNumber || !r.o.lines && rest == "")
}

func (r *relayed) print(n relay.Notice) {
	id := hex.EncodeToString(n.DeliveryID)
	if r.f.asJSON {
		r.mu.Lock()
		defer r.mu.Unlock()
		_ = r.f.printJSON(printedDelivery{ID: id, State: relay.DeadState, Reason: n.Reason})
		return
	}
	r.say("delivery %s is dead: %s", id, n.Reason)
}

// say says something on standard error.
func (r *relayed) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.f.warnf(format, args...)
}
