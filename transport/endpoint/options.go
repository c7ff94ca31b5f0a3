package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/internal/room"
	"github.com/slimwire/swp/profiles"
)

// Options configure an Endpoint. Registry is required; elsewhere zero means the stated
// default.
type Options struct {
	// Registry holds the profiles that are served to peers. Required.
	Registry *profiles.Registry

	// Access becomes the Rules of each request. Nil denies nothing.
	Access profiles.Access

	// Observer receives every verdict, every security event and every session. Nil writes
	// refusals and failed handlers to the default logger of log/slog. Use Discard to ignore
	// all events.
	Observer Observer

	// FrameLimit is MAX_FRAME_BYTES in octets, default 8 MiB. The limits of
	// envelopes are checked independently of it (SWP Core §4).
	FrameLimit int

	// Identity returns the identity of this endpoint. It is added to each error that this
	// endpoint writes (extension 53). Nil, or an empty result, adds nothing.
	Identity func() string

	// Callers verifies who peers act for (extension 51, see profiles.Request.Caller). It
	// requires Identity. False: assertions of peers are ignored.
	Callers bool

	// Envelope holds the limits of E1, in octets.
	Envelope e1.Limits

	// Freshness is the policy for ts_unix_ms. Off by default.
	Freshness Freshness

	// Rate paces reading. Off by default.
	Rate Rate

	// Window refuses messages above a fixed rate. Off by default.
	Window Window

	// ReplayWindow is how long the msg_id of an initiating message stays in use after the
	// message was handled, within one connection. Zero: only while it is being handled. At
	// most 65,536 ids are remembered per connection; the oldest are forgotten first.
	ReplayWindow time.Duration

	// ErrorFrames turns on the error path: profile 4096 tells the peer why a
	// message was refused (docs/profile-error-path.md). Peers that do not know
	// the profile close the connection, so it is off by default.
	ErrorFrames bool

	// Reserved restricts what is sent on a session to the profiles that its peer is known to
	// serve (Session.Known). Messages of other profiles fail with profiles.Unserved. Without
	// Reserved everything is sent. A peer may close the connection because of a message of a
	// profile that it does not know.
	Reserved bool

	// Ask asks the peer of a session which profiles it serves, and enters them in
	// Session.Known. It reports whether the peer need not be asked again. It is called if
	// Reserved would refuse a message, with a context of at most 10 s, and by one goroutine
	// at a time for each session. Nil: no peer is asked.
	Ask func(ctx context.Context, s profiles.Session) (asked bool)

	// Memory is the budget for octets in flight, which endpoints of one process may share.
	// Nil: the endpoint has one of Bounds.InFlightBytes.
	Memory *memory.Budget

	// Bounds limits the resources that peers can use.
	Bounds Bounds

	// InFlightOf returns how many requests a connection of an identity may have in flight;
	// 0 means Bounds.InFlight. It is called for each request and must not block. Nil:
	// Bounds.InFlight applies to every identity.
	InFlightOf func(identity string) int

	// LongOf returns the same of long exchanges; 0 and nil mean Bounds.LongExchanges.
	LongOf func(identity string) int

	// Farewells tell peers why their connection is not served. Nil: only QUIC has a code for that.
	Farewells *Farewells

	// Draining is the code for a connection that comes while the endpoint drains, for peers that Farewells
	// know. 0: the code of a full endpoint.
	Draining uint64

	// Admit is called before a connection is served. An error closes the connection with
	// RateLimitExceeded. Nil admits all.
	Admit func() error

	// Recorder keeps a record of each exchange. Nil: nobody does.
	Recorder Recorder

	// Tracer follows exchanges. May be nil.
	Tracer Tracer

	// Now is the clock for freshness, Window, ReplayWindow and outgoing
	// timestamps. Nil means time.Now. Waits and deadlines never use it.
	Now func() time.Time
}

// Freshness is the policy for ts_unix_ms (SWP Core §7). A message is fresh if
// its timestamp differs from the clock by at most Skew, in either direction.
type Freshness struct {
	// Owner determines which code a stale message gets.
	Owner FreshnessOwner

	// Skew is MAX_CLOCK_SKEW_MS as a duration, default 5 minutes.
	Skew time.Duration

	// Required refuses messages without a timestamp. Otherwise 0 passes.
	Required bool
}

// FreshnessOwner says who enforces freshness.
type FreshnessOwner uint8

// Owners of the freshness policy.
const (
	FreshnessOff  FreshnessOwner = iota // nobody; documented as such
	FreshnessCore                       // stale: ERR_INVALID_ENVELOPE
	FreshnessS1                         // stale: ERR_SECURITY_POLICY and a security event
)

// Rate is a token bucket per connection. Above it reading pauses; nothing is refused.
type Rate struct {
	Frames int // per second; zero turns it off
	Burst  int // default 2 × Frames
}

// Window is a fixed window per connection (SWP Core §8): the first frame opens
// it, Frames frames are accepted in it, the next is refused with
// RateLimitExceeded.
type Window struct {
	Frames int           // zero turns it off
	Period time.Duration // default 1 s
}

// Bounds limits the resources that peers can use. New refuses negative values.
type Bounds struct {
	Connections            int // at once, default 16,384
	ConnectionsPerIdentity int // at once, default 256
	InFlight               int // requests per connection, default 128
	LongExchanges          int // per connection, default 1,024
	Handlers               int // detached handlers overall, default 4,096; identities share them
	Deferred               int // messages of a stream whose commit is under way, default 1,024; then reading pauses

	InFlightBytes        int // octets held overall, default 256 MiB
	InFlightBytesPerConn int // per connection, default 16 MiB; those of deferred messages have as much again
	OutboundBytes        int // queued per connection, default 16 MiB; four times that with answers
	OutboundFrames       int // queued per stream, default 1,024; likewise

	ErrorBudget int // refused messages per connection and minute, default 16
	PaceBudget  int // refusals for pace or by the access rules per connection and minute, default 1,024

	Idle     time.Duration // at a frame boundary with nothing in flight, default 10 min
	LongIdle time.Duration // of a connection with long exchanges open, default 10 min without a message
	Body     time.Duration // to receive a frame: this plus a second per 64 KiB, default 5 s
	Room     time.Duration // to wait for room for a large frame, default 2 min; Body does not pass then
	Write    time.Duration // to write a frame, or each 512 KiB of a larger one, default 10 s; see AwaitRoom
	Handler  time.Duration // for a detached handler, default 30 s
	Lapse    time.Duration // to end what is in flight after the certificate of the peer has expired, default 3 s
}

const defaultSkew = 5 * time.Minute

func orDefault[T int | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

func (o Options) withDefaults() Options {
	orDefault(&o.FrameLimit, frame.DefaultLimit)
	o.Envelope = o.Envelope.WithDefaults()
	orDefault(&o.Freshness.Skew, defaultSkew)
	orDefault(&o.Rate.Burst, 2*o.Rate.Frames)
	orDefault(&o.Window.Period, time.Second)
	b := &o.Bounds
	orDefault(&b.Connections, 16_384)
	orDefault(&b.ConnectionsPerIdentity, 256)
	orDefault(&b.InFlight, 128)
	orDefault(&b.LongExchanges, 1024)
	orDefault(&b.Handlers, 4096)
	orDefault(&b.Deferred, 1024)
	orDefault(&b.InFlightBytes, 256<<20)
	orDefault(&b.InFlightBytesPerConn, 16<<20)
	orDefault(&b.OutboundBytes, room.Defaults.Octets)
	orDefault(&b.OutboundFrames, room.Defaults.Frames)
	orDefault(&b.ErrorBudget, 16)
	orDefault(&b.PaceBudget, 1024)
	orDefault(&b.Idle, 10*time.Minute)
	orDefault(&b.LongIdle, 10*time.Minute)
	orDefault(&b.Body, 5*time.Second)
	orDefault(&b.Room, profiles.RoomWait)
	orDefault(&b.Write, profiles.WriteWait)
	orDefault(&b.Handler, profiles.HandlerWait)
	orDefault(&b.Lapse, 3*time.Second)
	if o.Observer == nil {
		o.Observer = logging{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o *Options) validate() error {
	if o.Registry == nil {
		return errors.New("endpoint: Options.Registry is required")
	}
	if o.Callers && o.Identity == nil {
		return errors.New("endpoint: Options.Callers requires Identity")
	}
	if o.FrameLimit < 1 || o.FrameLimit > frame.MaxLimit {
		return fmt.Errorf("endpoint: FrameLimit %d, want 1 to %d", o.FrameLimit, frame.MaxLimit)
	}
	b := &o.Bounds
	for _, v := range []int{b.Connections, b.ConnectionsPerIdentity, b.InFlight, b.LongExchanges, b.Handlers, b.Deferred,
		b.InFlightBytes, b.InFlightBytesPerConn, b.OutboundBytes, b.OutboundFrames, b.ErrorBudget, b.PaceBudget,
		o.Rate.Frames, o.Rate.Burst, o.Window.Frames,
		o.Envelope.MaxPayload, o.Envelope.MaxExtensions, o.Envelope.MinMsgID, o.Envelope.MaxMsgID} {
		if v < 0 {
			return fmt.Errorf("endpoint: a bound of %d is negative", v)
		}
	}
	for _, v := range []time.Duration{b.Idle, b.LongIdle, b.Body, b.Room, b.Write, b.Handler, o.Freshness.Skew, o.Window.Period, o.ReplayWindow} {
		if v < 0 {
			return fmt.Errorf("endpoint: a duration of %v is negative", v)
		}
	}
	if o.Freshness.Owner > FreshnessS1 {
		return fmt.Errorf("endpoint: unknown freshness owner %d", o.Freshness.Owner)
	}
	return nil
}
