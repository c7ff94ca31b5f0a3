package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
)

// subscribeFlags say what is printed.
type subscribeFlags struct {
	filter, name string
	after        uint64
	given        bool // --after was
	wanted       wanted
	patience     time.Duration
}

func newEventsSubscribe(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "subscribe ADDR[/PARTNER]",
		Short: "Print events as they arrive",
		Long: `Print events as they arrive, a line each: time, severity, type, id and body. With
--json each line is an object. An event of a partner has the type that it has there: a
line shows PARTNER/TYPE, an object has the member partner beside event_type.

A filter is key:value pairs separated by commas, keys type, severity, task and rpc
(ids in hex). An event is printed if for each key one of the values matches. A type that
ends in * matches any rest, a severity that ends in + also the higher ones.

After a lost connection this reconnects, and if the endpoint stores events none is
missed. With --name this also holds between runs: $XDG_STATE_HOME/swp-client (default
~/.local/state/swp-client) stores the position, and the endpoint the name. --after
starts after another cursor; 0 is the oldest stored event. Events that are no longer
stored are reported on standard error.`,
		Example: `  swp-client events subscribe swp+tls://127.0.0.1:7777
  swp-client events subscribe swp+tls://127.0.0.1:7777 --filter 'type:build.*,severity:warn+'
  swp-client events subscribe swp+quic://127.0.0.1:7777 --name dashboard --json | jq .body`,
	}
	var o subscribeFlags
	fl := cmd.Flags()
	fl.StringVar(&o.filter, "filter", "", "which events; without it all")
	fl.StringVar(&o.name, "name", "", "of a subscription that goes on from run to run")
	fl.Uint64Var(&o.after, "after", 0, "`cursor` to begin after; 0 = with the oldest event")
	o.wanted.flags(cmd, "events")
	fl.DurationVar(&o.patience, "patience", 0, "how long the endpoint may be unreachable; 0 = no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.given = fl.Changed("after")
		if err := o.wanted.check(); err != nil {
			return err
		}
		return o.wanted.within(cmd.Context(), func(ctx context.Context) error { return f.subscribe(ctx, args[0], &o) })
	}
	return cli.UntilStopped(cmd)
}

// errEnough ends a subscription that has printed what it was asked for.
var errEnough = errors.New("enough")

// listener prints what a subscription brings.
type listener struct {
	f     *flags
	of    origin
	place *client.Place // nil without a name
	w     *wanted
	begun func()
	from  uint64 // cursor of what was printed in full, told by the first delivery
	skip  int    // events after it that were printed before
}

func (f *flags) subscribe(ctx context.Context, address string, o *subscribeFlags) error {
	filter, err := events.ParseFilter(o.filter)
	if err != nil {
		return &usageError{"--filter: " + profiles.AsError(err).Text}
	}
	if len(o.name) > events.MaxName {
		return &usageError{fmt.Sprintf("--name has %d octets, want at most %d", len(o.name), events.MaxName)}
	}
	l := &listener{
		f: f, of: origin{target([]string{address}), filter}, w: &o.wanted,
		begun: sync.OnceFunc(func() { f.remarkLocal(ctx, address, "event_type", filter.Types()...) }),
	}
	follow := client.EventsOptions{
		SubscribeOptions: events.SubscribeOptions{Filter: o.filter, Name: o.name},
		Patience:         o.patience, Silence: f.timeout,
		Deliver: l.deliver, Gap: l.gap, Lost: l.lost,
	}
	if o.name != "" {
		place, err := f.openPlace(address, o)
		if err != nil {
			return err
		}
		defer place.Close()
		l.place = place
		if cursor, more, ok := place.Cursor(); ok && !o.given {
			follow.After, l.skip = &cursor, more
		}
	}
	if o.given {
		follow.After = &o.after
	}
	err = client.FollowEvents(ctx, func(ctx context.Context) (*client.Client, error) { return f.dial(ctx, address) }, follow)
	switch {
	case errors.Is(err, errEnough):
		return nil
	case ctx.Err() != nil:
		return nil // Ctrl-C is how this ends, or --wait
	}
	return subscribing(err)
}

// origin is where the events of a subscription come from. A delivered event has the
// event_type that it has there.
type origin struct {
	target string // partners in the address
	filter *events.Filter
}

// partner returns the partner that an event comes from, as partner/partner if it is behind
// another; empty for an event of the endpoint.
func (o origin) partner(eventType string) string {
	partner, _ := o.filter.Path(eventType)
	return strings.Trim(o.target+"/"+partner, "/")
}

func (f *flags) openPlace(address string, o *subscribeFlags) (*client.Place, error) {
	opts, err := f.options(address)
	if err != nil {
		return nil, err
	}
	cert := opts.Identity.Cert
	if cert != "" {
		if cert, err = filepath.Abs(cert); err != nil {
			return nil, err
		}
	}
	dir, err := client.StateDir()
	if err != nil {
		return nil, err
	}
	return client.OpenPlace(dir, client.PlaceOf{Address: address, Name: o.name, Filter: o.filter, Cert: cert})
}

func (l *listener) deliver(d events.Delivery) error {
	l.begun()
	for i := range d.Events {
		if l.skip > 0 {
			l.skip--
			continue
		}
		if err := l.f.printEvent(&d.Events[i], l.of.partner(string(d.Events[i].EventType)), d.Cursor); err != nil {
			return err
		}
		if l.w.came.Add(1) == l.w.count && i+1 < len(d.Events) {
			if err := l.move(l.from, i+1); err != nil {
				return err
			}
			return errEnough
		}
	}
	l.from = d.Cursor
	if err := l.move(l.from, l.skip); err != nil {
		return err
	}
	if l.w.count > 0 && l.w.came.Load() >= l.w.count {
		return errEnough
	}
	return nil
}

// move notes what was printed.
func (l *listener) move(cursor uint64, more int) error {
	if l.place == nil {
		return nil
	}
	return l.place.Move(cursor, more)
}

func (l *listener) gap(after, start uint64) {
	l.skip = 0
	l.f.warnf("events between the cursors %d and %d are no longer held; some may be missing here", after, start)
}

func (l *listener) lost(err error, pause time.Duration) {
	l.f.warnf("%v; subscribing again in %v", err, pause.Round(time.Millisecond))
}

// printedEvent is an event as JSON.
type printedEvent struct {
	EventID   string `json:"event_id"`
	EventType string `json:"event_type"`
	Partner   string `json:"partner,omitempty"`
	Severity  string `json:"severity"`
	Timestamp uint64 `json:"ts_unix_ms"`
	MsgID     string `json:"msg_id,omitempty"`
	TaskID    string `json:"task_id,omitempty"`
	RPCID     string `json:"rpc_id,omitempty"`
	Body      any    `json:"body,omitempty"`
	Cursor    uint64 `json:"cursor,omitempty"` // of the delivery it came with
}

func (f *flags) printEvent(r *events.Record, partner string, cursor uint64) error {
	level, _ := events.ParseSeverity(r.Severity)
	if f.asJSON {
		e := printedEvent{
			EventID: string(r.EventID), EventType: string(r.EventType), Partner: partner, Severity: level.String(), Timestamp: r.Timestamp,
			MsgID: hex.EncodeToString(r.MsgID), TaskID: hex.EncodeToString(r.TaskID), RPCID: hex.EncodeToString(r.RPCID), Cursor: cursor,
		}
		if len(r.Body) > 0 {
			e.Body = readable(r.Body)
		}
		return f.printJSON(e)
	}
	body := visible(string(r.Body))
	if !utf8.Valid(r.Body) {
		body = fmt.Sprintf("(%d octets; --json prints them)", len(r.Body))
	}
	at := "-"
	if r.Timestamp <= 253402300799999 { // the year 9999
		at = time.UnixMilli(int64(r.Timestamp)).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	_, err := fmt.Fprintf(f.out, "%s %-5s %s %s %s\n", at, level, cli.Field(strings.TrimPrefix(partner+"/"+string(r.EventType), "/")), cli.Field(string(r.EventID)), body)
	return err
}

// subscribing says more about what endpoints refuse.
func subscribing(err error) error {
	switch answered(err, events.Name).Code {
	case events.CodeGap:
		return advise(err, "The events after the last ones of this name have expired. --after 0 goes on with the oldest one that is held.")
	case events.CodeInvalidCursor:
		return advise(err, "The endpoint has begun a new log, or this is another endpoint. --after 0 begins with its oldest event.")
	case events.CodeNotDurable:
		return advise(err, "The endpoint is configured with events.retention 0; leave out --name and --after.")
	case events.CodeReplaced:
		return advise(err, "Another program has subscribed under this name.")
	}
	return err
}
