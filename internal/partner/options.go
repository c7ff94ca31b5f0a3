package partner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Options configure a Link. Zero means the default that is named.
type Options struct {
	// Name is the first segment of names behind the partner. It has no slash.
	// Required.
	Name string

	// Identity is who the partner must be. Required.
	Identity string

	// Self returns the identity of this endpoint, by which two ends that dial each
	// other know which session stays. Required.
	Self func() string

	// Addresses are dialled in order until one answers. Without any the partner has
	// to dial.
	Addresses []transport.Addr

	// Dial connects to an address, and fails if it is not the partner who answers.
	// Attach serves the connection. Both are required where there are Addresses.
	Dial   func(ctx context.Context, addr transport.Addr) (transport.Conn, error)
	Attach func(conn transport.Conn) *endpoint.Session

	// Trace says what of a trace context crosses.
	Trace Trace

	// Carrier sends ahead of what is passed on what travels with it: trace contexts as
	// Trace has them, hints, credentials. Nil: nothing travels along, and what has a
	// delegation is not passed on.
	Carrier profiles.Carrier

	// Profiles are those that the partner serves, by profile_id. If RPC is not among them
	// it is not asked what it offers, nor for signs of life. Nil: it is asked.
	Profiles []uint64

	// Extensions are those that the partner honours, by profile_id, in addition
	// to those that swp.info reports.
	Extensions map[uint64][]uint64

	// Tasks passes on tasks for agents of the partner. Nil: nobody does.
	Tasks Tasks

	// Deliveries passes on deliveries for topics of the partner. Nil: nobody does.
	Deliveries Deliveries

	// Agents and Tools are told what the partner lists of them. Nil: nobody is.
	Agents *agdisc.Partners
	Tools  *tooldisc.Service

	// Ending reports whether the certificate that the partner has shown ends soon. The
	// link then looks from time to time whether its addresses show another: a session
	// that lasts does not tell. Nil: it never looks.
	Ending func(*profiles.Peer) bool

	// InFlight is how many requests the partner may have in flight here, default
	// 4,096. Whoever serves its sessions asks Directory.InFlight.
	InFlight int

	// Observe gets each change. It is called by several goroutines and must not
	// block. It may be nil.
	Observe func(Event)

	// Refused gets each refusal of a request by the partner, or by an endpoint behind
	// it. It is called by several goroutines and must not block. Nil: nobody is told.
	Refused func(Refusal)

	DialTimeout  time.Duration // of one address, its swp.info included, default 10 s
	Wait         time.Duration // of a request, for a link that has just gone down, default 5 s
	Idle         time.Duration // after which this end ends an idle session; 0: it does not
	Check        time.Duration // how often at least the other end is asked what it offers, default 30 s
	FirstPause   time.Duration // after a round of addresses that failed, default 250 ms; it doubles each time
	LongestPause time.Duration // default 30 s
}

func (o Options) withDefaults() Options {
	for _, row := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&o.DialTimeout, 10 * time.Second},
		{&o.Wait, 5 * time.Second},
		{&o.Check, 30 * time.Second},
		{&o.FirstPause, 250 * time.Millisecond},
		{&o.LongestPause, 30 * time.Second},
	} {
		if *row.v == 0 {
			*row.v = row.def
		}
	}
	if o.InFlight == 0 {
		o.InFlight = 4096
	}
	if o.Ending == nil {
		o.Ending = func(*profiles.Peer) bool { return false }
	}
	if o.Refused == nil {
		o.Refused = func(Refusal) {}
	}
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	return o
}

func (o *Options) validate() error {
	switch {
	case o.Name == "" || strings.Contains(o.Name, "/"):
		return fmt.Errorf("partner: name %q, want one without a slash", o.Name)
	case o.Identity == "":
		return fmt.Errorf("partner: %s: no identity", o.Name)
	case o.Self == nil:
		return fmt.Errorf("partner: %s: %w", o.Name, errSelf)
	case len(o.Addresses) > 0 && (o.Dial == nil || o.Attach == nil):
		return fmt.Errorf("partner: %s: %w", o.Name, errDial)
	}
	return nil
}

var (
	errSelf = errors.New("want Self")
	errDial = errors.New("addresses without Dial and Attach")
)

// Event is a change of a link.
type Event struct {
	Name string
	What What
	Up   *Up   // with Connected and Lost
	Err  error // why, with Lost and Failed
}

// What is the kind of an Event:
type What uint8

// The kinds of event.
const (
	Connected What = iota // this session carries what is passed on from now on
	Lost                  // it is gone, or given up for a better one
	Failed                // no address answered; another round follows
)

// Status is the state of a link at one moment.
type Status struct {
	Name      string    `json:"name"`
	Identity  string    `json:"identity"`
	Up        bool      `json:"up"`
	Dialled   bool      `json:"dialled"` // by this endpoint, if it is up
	Transport string    `json:"transport,omitempty"`
	Addr      string    `json:"addr,omitempty"`
	Since     time.Time `json:"since"`             // up or down
	Failure   string    `json:"failure,omitempty"` // why it is down
	Targets   []string  `json:"targets,omitempty"` // MCP servers that the other end offers
	Connects  uint64    `json:"connects"`          // sessions that carried something
	Failures  uint64    `json:"failures"`          // rounds of addresses in vain

	NotAfter time.Time      `json:"certificate_not_after,omitzero"` // of the certificate that it showed last
	Seen     *profiles.Peer `json:"-"`                              // who showed it; nil: nobody yet
}

// Up is a session to the partner with the other end's answer to swp.info.
type Up struct {
	Session *endpoint.Session
	Dialled bool // by this endpoint

	info  rpc.Info // replaced, not changed
	since time.Time

	leaving bool // it is drained in favour of another, or soon will be
}
