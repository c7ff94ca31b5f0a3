package partner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Options configure a Link. Zero values mean the defaults.
type Options struct {
	// Name is the first segment of names of this partner, without a slash. Required.
	Name string

	// Identity is the expected identity of the partner. Required.
	Identity string

	// Self returns the identity of this endpoint. If two ends dial each other, the
	// identities decide which session stays. Required.
	Self func() string

	// DialFault returns why every peer that is dialled refuses the certificate of this endpoint; empty
	// if none is known. May be nil.
	DialFault func() string

	// Barred is why nothing is sent to the partner and none of its sessions is used; empty if
	// the link is in use.
	Barred string

	// Over reports whether that is for good: deliveries to the partner are refused, not stored.
	Over bool

	// Addresses are dialled in order until one answers. Without addresses the partner has
	// to dial.
	Addresses []transport.Addr

	// Dial connects to an address, and fails if the peer is not the partner. Attach serves
	// the connection. Both are required with Addresses.
	Dial   func(ctx context.Context, addr transport.Addr) (transport.Conn, error)
	Attach func(conn transport.Conn) *endpoint.Session

	// Trace selects the parts of trace contexts that are forwarded.
	Trace Trace

	// Tell selects what the partner learns of callers, if it supports that (extension 51).
	// Pseudonym returns the pseudonym of a caller, the same each time; required with
	// TellPseudonym.
	Tell      Tell
	Pseudonym func(identity string) string

	// Carrier sends metadata ahead of a forwarded message: trace contexts according to
	// Trace, hints and credentials. Nil: no metadata is sent, and requests with a
	// delegation are refused.
	Carrier profiles.Carrier

	// Profiles are the profile_ids that the partner serves. Without RPC in the list,
	// swp.info and pings are not sent. Nil: the partner is asked.
	Profiles []uint64

	// Extensions are the extensions that the partner supports, by profile_id, in addition
	// to those from swp.info.
	Extensions map[uint64][]uint64

	// Remembered is what the partner is remembered to serve. Remember is called with each change of it,
	// concurrently, and must not block; it may be nil.
	Remembered Remembered
	Remember   func(Remembered)

	// Tasks forwards tasks for agents of the partner. May be nil.
	Tasks Tasks

	// Deliveries forwards deliveries for topics of the partner. May be nil.
	Deliveries Deliveries

	// Chains ends the revoked credentials at the partner. May be nil.
	Chains Chains

	// Agents and Tools receive the lists of the partner. May be nil.
	Agents *agdisc.Partners
	Tools  *tooldisc.Service

	// Ending reports whether a certificate of the partner expires soon. The link then
	// connects from time to time to see whether there is a new one, because an open session
	// does not show it. Nil: it never does.
	Ending func(*profiles.Peer) bool

	// InFlight limits the requests that the partner may have in flight here; default 4,096.
	// The endpoint that serves its sessions reads it through Directory.InFlight.
	InFlight int

	// Observe receives each change. It is called concurrently and must not block. May be
	// nil.
	Observe func(Event)

	// Refused receives each refusal by the partner or an endpoint behind it. It is called
	// concurrently and must not block. May be nil.
	Refused func(Refusal)

	// Wrong is called for each answer with which the partner breaks the protocol, like
	// Refused.
	Wrong func(Wrong)

	// Denied records that a request of a caller was not forwarded. It is called concurrently and must not
	// block. May be nil.
	Denied func(caller, profile, operation, name, why string)

	// Drifted reports that the partner lists another descriptor of a pinned tool than the pinned
	// one, or the tool no more: gone. It is called once for each change, concurrently, and must
	// not block. May be nil.
	Drifted func(tool string, gone bool)

	DialTimeout  time.Duration // limit for one address including swp.info, default 10 s
	Wait         time.Duration // limit for the wait of a request for a link that has just gone down, default 5 s
	Check        time.Duration // longest interval between two swp.info, default 30 s
	FirstPause   time.Duration // pause after a failed round of dialling, default 250 ms; it doubles each time
	LongestPause time.Duration // default 30 s
}

func (o Options) withDefaults() Options {
	for _, row := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&o.DialTimeout, 10 * time.Second},
		{&o.Wait, profiles.LinkWait},
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
	if o.Denied == nil {
		o.Denied = func(_, _, _, _, _ string) {}
	}
	if o.Drifted == nil {
		o.Drifted = func(string, bool) {}
	}
	if o.Wrong == nil {
		o.Wrong = func(Wrong) {}
	}
	if o.Remember == nil {
		o.Remember = func(Remembered) {}
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
	case o.Tell == TellPseudonym && o.Pseudonym == nil:
		return fmt.Errorf("partner: %s: %w", o.Name, errPseudonym)
	}
	return nil
}

var (
	errSelf = errors.New("want Self")
	errDial = errors.New("addresses without Dial and Attach")

	errPseudonym = errors.New("pseudonyms without Pseudonym")
)

// Event is a change of a link.
type Event struct {
	Name string
	What What
	Up   *Up   // for Connected, Lost and Crowded
	Err  error // reason, for Lost and Failed
}

// What is the kind of an Event.
type What uint8

// Kinds of events.
const (
	Connected What = iota // a session has become current
	Lost                  // the session has ended or was replaced
	Failed                // no address answered; another round follows
	Crowded               // seven eighths of the streams of the session have come into use
)

// Status is a snapshot of the state of a link.
type Status struct {
	Name      string    `json:"name"`
	Identity  string    `json:"identity"`
	Up        bool      `json:"up"`
	Dialled   bool      `json:"dialled"` // the current session was dialled by this endpoint
	Transport string    `json:"transport,omitempty"`
	Addr      string    `json:"addr,omitempty"`
	Since     time.Time `json:"since"`                    // up or down
	Failure   string    `json:"failure,omitempty"`        // reason if the link is down
	Cause     string    `json:"cause,omitempty"`          // name of the cause (package causes) if the partner refuses this endpoint
	Barred    string    `json:"barred,omitempty"`         // why it is not to be used, such as a suspended partner
	Targets   []string  `json:"targets,omitempty"`        // MCP servers that the other end offers
	Untold    bool      `json:"callers_untold,omitempty"` // the other end is to be told of callers, and does not support that
	Drifted   []string  `json:"drifted,omitempty"`        // pinned tools that have changed or are gone; calls of them are refused
	Connects  uint64    `json:"connects"`                 // number of sessions that became current
	Failures  uint64    `json:"failures"`                 // failed rounds of dialling

	// Streams is who uses the streams that this side may open to the partner; nil if they have no
	// bound, as over TLS.
	Streams *fair.Pool `json:"streams,omitempty"`

	NotAfter time.Time      `json:"certificate_not_after,omitzero"` // of the last certificate seen
	Seen     *profiles.Peer `json:"-"`                              // peer with that certificate; nil: none yet
}

// Up is a session to the partner with the last answer of the other end to swp.info.
type Up struct {
	Session *endpoint.Session
	Dialled bool // by this endpoint

	info  rpc.Info // replaced as a whole, never modified
	since time.Time
	asked bool // info is the answer of the partner; else it was not asked, see Link.mute, or has not answered

	pending bool // the partner is asked, and may still answer

	watched, used atomic.Bool // see Link.watch
	crowded       atomic.Bool // Crowded was observed, and holds

	leaving bool // drained in favour of another session, or about to be
}
