// Package sdlfront serves programs that speak A2A-SDL without SlimWire: envelopes over HTTP
// (Front.Handler: POST /a2a, and a WebSocket at /a2a) and over a stream of frames (Front.Stream),
// such as a connection of a Unix socket.
//
// Each envelope becomes one message of profile 1024 on a session of its caller, and its answer
// goes back in the form that the caller reads. The front reads only the type of an envelope, its
// length and, over HTTP, its media type; refusals for these are error envelopes, too.
//
// Package gate authenticates callers over HTTP first. A stream has the caller that its listener
// says.
//
// Specification: docs/profile-sdl.md, A2A-SDL §16.
package sdlfront

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Path is the path for envelopes.
const Path = "/a2a"

// Options configure a Front. Zero means the default that is named.
type Options struct {
	// Open opens a session for one stream. Required for streams. The error of Open is told
	// as SECURITY_UNSUPPORTED.
	Open func(caller string, to Program) (*Session, error)

	// Memory is the budget for envelopes and answers. Nil: one of 256 MiB.
	Memory *memory.Budget

	// Served reports whether the caller may send any envelope. Otherwise its bodies above
	// 64 KiB are refused unread, and it has no WebSocket. Nil: every caller may.
	Served func(caller string) bool

	MaxBytes func() int // octets of an envelope; nil: 1 MiB

	// Burst is how many envelopes of one caller are accepted at once, and PerSecond how many
	// more each second; default 512 and 256. More are refused with rate_limit. A negative
	// PerSecond means none.
	Burst, PerSecond int

	Streams int           // streams at once, default 128, which callers share
	Ahead   int           // envelopes of a stream that wait for an earlier one, default 8
	Write   time.Duration // for one answer to be taken by the caller, default 30 s
	Body    time.Duration // for an envelope to arrive: this plus a second per 64 KiB, default 5 s

	Now func() time.Time // default time.Now
}

func (o Options) withDefaults() Options {
	o.Memory = cmp.Or(o.Memory, memory.New(256<<20))
	if o.Served == nil {
		o.Served = func(string) bool { return true }
	}
	if o.MaxBytes == nil {
		o.MaxBytes = func() int { return 1 << 20 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Burst = cmp.Or(o.Burst, 512)
	o.PerSecond = max(0, cmp.Or(o.PerSecond, 256))
	o.Streams = cmp.Or(o.Streams, 128)
	o.Ahead = cmp.Or(o.Ahead, 8)
	o.Write = cmp.Or(o.Write, 30*time.Second)
	o.Body = cmp.Or(o.Body, 5*time.Second)
	return o
}

// takes returns how long an envelope of n octets may take to arrive.
func (o *Options) takes(n int64) time.Duration {
	return o.Body + time.Duration(n)*time.Second/(64<<10)
}

// Program is the other end of one stream. It is safe for concurrent use.
type Program interface {
	// Hear delivers an event. It returns an error if the event cannot be delivered, and the
	// stream then ends.
	Hear(event []byte) error

	// Answered returns what is closed once the answer to the envelope that is being answered
	// now is written, or will never be. It is closed already if none is.
	Answered() <-chan struct{}
}

// Session is the session of one stream to this endpoint.
type Session struct {
	profiles.Session
	End func() // called once, when the stream has ended

	// Spoke is called with the agent_id that an envelope claims to be from, before it goes on.
	// It must not wait. It may be nil.
	Spoke func(agentID string)
}

// HTTP configures a Handler. Session and Caller are required.
type HTTP struct {
	// Session returns the session of a caller to this endpoint. The error is told as
	// SECURITY_UNSUPPORTED.
	Session func(caller string) (profiles.Session, error)

	// Caller returns the identity of the caller of a request.
	Caller func(*http.Request) string

	// Carried returns the context of a request with the trace context and the hints in its
	// headers. An error, an *profiles.Error, refuses the request. Nil means that
	// nothing goes on.
	Carried func(*http.Request) (context.Context, error)

	// Carrier sends this ahead of the request. Required with Carried.
	Carrier profiles.Carrier
}

// Front serves callers. It is safe for concurrent use.
type Front struct {
	opts   Options
	ctx    context.Context // ends with Drain
	drain  context.CancelFunc
	counts struct{ posts, streams, refused, events, dropped atomic.Int64 }

	mu      sync.Mutex
	closed  bool
	rates   map[string]*rate
	streams map[*stream]struct{}
	places  fair.Shares    // of streams
	work    sync.WaitGroup // streams
}

// Stats are the counters and gauges of a Front.
type Stats struct {
	Streams int // now

	Posted   int64 // envelopes over HTTP that went on
	Streamed int64 // envelopes of streams that went on
	Refused  int64 // envelopes that were refused here
	Events   int64 // events delivered over streams
	Dropped  int64 // answers and events without room, or that nobody took
}

// New returns a Front.
func New(o Options) *Front {
	o = o.withDefaults()
	f := &Front{opts: o, rates: make(map[string]*rate), streams: make(map[*stream]struct{}), places: fair.NewShares(o.Streams)}
	f.ctx, f.drain = context.WithCancel(context.Background())
	return f
}

// Stats returns the present figures.
func (f *Front) Stats() Stats {
	f.mu.Lock()
	n := len(f.streams)
	f.mu.Unlock()
	return Stats{
		Streams: n, Posted: f.counts.posts.Load(), Streamed: f.counts.streams.Load(), Refused: f.counts.refused.Load(),
		Events: f.counts.events.Load(), Dropped: f.counts.dropped.Load(),
	}
}

// Drain has streams end after the answers that are due, and refuses new ones.
func (f *Front) Drain() { f.drain() }

// Close ends all streams, and returns when they have ended.
func (f *Front) Close() {
	f.drain()
	f.mu.Lock()
	f.closed = true
	for s := range f.streams {
		s.end()
	}
	f.mu.Unlock()
	f.work.Wait()
}

// Review ends the streams of callers for which refuse returns an error, or that may not send any
// envelope.
func (f *Front) Review(refuse func(caller string) error) (ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.streams {
		if refuse(s.caller) != nil || !f.opts.Served(s.caller) {
			s.end()
			ended++
		}
	}
	return ended
}

// rate is a token bucket.
type rate struct {
	tokens float64
	at     time.Time
}

// maxRates bounds the buckets. A full bucket says nothing and is forgotten.
const maxRates = 1024

// admit takes a token of a caller.
func (f *Front) admit(caller string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, burst := f.opts.Now(), float64(f.opts.Burst)
	fill := func(r *rate) {
		r.tokens = min(burst, r.tokens+now.Sub(r.at).Seconds()*float64(f.opts.PerSecond))
		r.at = now
	}
	r := f.rates[caller]
	if r == nil {
		if len(f.rates) >= maxRates {
			for name, other := range f.rates {
				if fill(other); other.tokens >= burst {
					delete(f.rates, name)
				}
			}
		}
		r = &rate{burst, now}
		f.rates[caller] = r
	}
	if fill(r); r.tokens < 1 {
		return false
	}
	r.tokens--
	return true
}

// most returns how many octets an envelope of a caller may have, and the refusal of a longer one.
func (f *Front) most(caller string) (octets int64, above *sdl.Error) {
	limits := sdl.Limits{MaxBytes: f.opts.MaxBytes()}
	if limits.MaxBytes > memory.Small && !f.opts.Served(caller) {
		return memory.Small, errNobody
	}
	return int64(limits.MaxBytes), limits.Body(limits.MaxBytes + 1)
}

// Refusals of this front.
var (
	errRate     = busy(carriage.ReasonRate)
	errBusy     = busy(carriage.ReasonConcurrency)
	errTimeout  = sdl.Refuse(sdl.BadRequest, "the body did not arrive")
	errEncoding = sdl.Refuse(sdl.UnsupportedEncoding, "the body has another form than its media type")
	errCoding   = sdl.Refuse(sdl.UnsupportedEncoding, "a content coding")
	errNobody   = sdl.Insecure(false, "no access rule lets this caller send envelopes")
	errLost     = &sdl.Error{Code: sdl.Internal, Retryable: true}
	errAnswer   = sdl.Refuse(sdl.Internal, "there is no room for the answer")
)

func busy(reason string) *sdl.Error {
	return &sdl.Error{Code: sdl.BadRequest, Retryable: true, Reason: reason, Details: canonical.Object(
		canonical.Member{Name: "reason", Value: canonical.String(reason)},
	)}
}

// refusal is the error envelope for an envelope that goes no further.
func (f *Front) refusal(form sdl.Form, e *sdl.Error) []byte {
	f.counts.refused.Add(1)
	return form.Append(nil, sdl.ErrorEnvelope(canonical.Value{}, e, sdl.Writing{}))
}

// pass has this endpoint handle an envelope. The answer is nil for an event, and for a res, which
// belongs to no exchange and is dropped.
func (f *Front) pass(ctx context.Context, on profiles.Session, form sdl.Form, body []byte) (answer []byte, refused *sdl.Error) {
	var err error
	switch sdl.TypeOf(body, form) {
	case sdl.TypeEvt:
		err = carriage.Tell(ctx, on, body)
	case sdl.TypeRes:
		f.counts.dropped.Add(1)
	default: // also what is no envelope, which is answered with the reason
		answer, err = carriage.Call(ctx, on, body)
	}
	if err == nil {
		return answer, nil
	}
	if e, ok := errors.AsType[*profiles.Error](err); ok && e.Code == profiles.RateLimitExceeded {
		return nil, errBusy
	}
	return nil, errLost
}
