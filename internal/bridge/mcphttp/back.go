// Package mcphttp speaks Streamable HTTP, the HTTP transport of MCP, in both eras:
// Backend is a server that lives at a URL.
//
// Messages pass octet for octet.
//
// Specification: MCP mapping §1 and §3, ABUSE GW-01 to GW-09.
package mcphttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// BackendOptions describe a server at a URL. They come from the operator. Data of a peer
// goes only into the body of a request and into the headers that MCP defines for it. Name
// and URL are required; zero values mean the defaults.
type BackendOptions struct {
	// Name is the target by which peers ask for the server. It has no '/'.
	Name string

	// URL is the address of the server, of any IP address: http or https,
	// without credentials. Redirects are not followed.
	URL string

	// Headers returns additional headers, usually credentials. It is called for each
	// request, concurrently, and must not wait. Its errors are logged and not shown to
	// peers. May be nil.
	Headers func() (http.Header, error)

	// Timeouts are how long the server may take for the next message of a call, the
	// head of a response included, unless a question to the client is open.
	Timeouts mcpmap.Timeouts

	// Brief is how long the server may take for a message that is not a call; default 60 s, or
	// Timeouts.Each if that is less.
	Brief time.Duration

	// Idle is how long a stream without a request may be silent. A comment of
	// the server counts. Default 10 min.
	Idle time.Duration

	// SessionIdle is how long a session may be without a message until it is ended.
	// Default 24 h.
	SessionIdle time.Duration

	Memory *memory.Budget // for long answers of the server, see upstream.Options

	MaxMessage int // octets of a message of the server, decompressed, default 8 MiB
	// Identities share these; one has at most seven eighths.
	MaxCalls   int // requests at once, default 256
	MaxStreams int // subscriptions and GET streams at once, default 1,024

	// Trouble gets the reason why a request got no proper response, with details that
	// the peer does not get. It is called by many goroutines at once and must not
	// block. It may be nil.
	Trouble func(err error)

	// Answered is called for each proper response, by many goroutines at once. It must not block, and may be nil.
	Answered func()
}

func (o BackendOptions) withDefaults() BackendOptions {
	o.Timeouts.Each = cmp.Or(o.Timeouts.Each, profiles.WorkWait)
	o.Brief = cmp.Or(o.Brief, min(time.Minute, o.Timeouts.Each))
	o.Idle = cmp.Or(o.Idle, 10*time.Minute)
	o.SessionIdle = cmp.Or(o.SessionIdle, 24*time.Hour)
	o.MaxMessage = cmp.Or(o.MaxMessage, 8<<20)
	o.MaxCalls = cmp.Or(o.MaxCalls, 256)
	o.MaxStreams = cmp.Or(o.MaxStreams, 1024)
	if o.Headers == nil {
		o.Headers = func() (http.Header, error) { return nil, nil }
	}
	if o.Trouble == nil {
		o.Trouble = func(error) {}
	}
	if o.Answered == nil {
		o.Answered = func() {}
	}
	return o
}

func (o *BackendOptions) validate() error {
	switch {
	case o.Name == "" || strings.Contains(o.Name, "/"):
		return fmt.Errorf("mcphttp: name %q, want one without a slash", o.Name)
	case o.Timeouts.Each < 0 || o.Brief < 0 || o.Idle < 0 || o.SessionIdle < 0:
		return fmt.Errorf("mcphttp: %s: a duration is negative", o.Name)
	case o.MaxMessage < 1 || o.MaxCalls < 1 || o.MaxStreams < 1:
		return fmt.Errorf("mcphttp: %s: a bound is negative", o.Name)
	}
	if err := upstream.CheckURL(o.URL); err != nil {
		return fmt.Errorf("mcphttp: %s: %w", o.Name, err)
	}
	return nil
}

// Backend is an MCP server at a URL, reached by Streamable HTTP in the era that
// each request is of. It implements mcpmap.Server and is safe for concurrent use.
//
// Messages pass octet for octet in both directions. A request of the stateless era
// is a separate POST, and closed when the client cancels. A session of the legacy
// era has its own session at the server, whose Mcp-Session-Id no other client sees.
//
// Specification: MCP mapping §3 (back end), ABUSE GW-01, GW-04 to GW-09.
type Backend struct {
	opts  BackendOptions
	stats backCounters
	tools mcpheader.Tools

	// Each kind of request has its own connections and bound, so that calls that
	// wait for a client to answer do not keep its answer from being sent.
	calls   *upstream.Client
	streams *upstream.Client
	brief   *upstream.Client // what is answered at once

	ctx    context.Context // ends when all that is left is to be given up
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	closed   bool // nothing new is accepted
	retiring bool // it closes once nothing uses it
	over     bool // no goroutine is started any more
	flights  int
	places   [2]fair.Shares // of flights that are calls, and of long ones
	idle     chan struct{}  // closed when closed and nothing is in flight
	sessions map[*backSession]struct{}
	era      backEra
	probe    *backProbe
}

type backCounters struct{ noise, dropped, failed atomic.Uint64 }

// BackendStats are the counters and gauges of a Backend.
type BackendStats struct {
	InFlight int // requests
	Sessions int // of the legacy era

	Noise   uint64 // events that are not messages
	Dropped uint64 // messages that belonged to nothing, or could not be brought on their way
	Failed  uint64 // requests without a proper response
}

// forever is longer than anything that has a bound of another kind.
const forever = time.Duration(math.MaxInt64)

// NewBackend returns the server of a configuration. Nothing is sent yet.
func NewBackend(opts BackendOptions) (*Backend, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	longest := opts.Timeouts.Longest()
	b := &Backend{
		opts: opts, places: [2]fair.Shares{fair.NewShares(opts.MaxCalls), fair.NewShares(opts.MaxStreams)}, idle: make(chan struct{}), sessions: make(map[*backSession]struct{}),
		calls:   upstream.New(upstream.Options{Silence: max(opts.Idle, longest), Total: profiles.WholeWork(max(opts.Idle, longest)), Calls: opts.MaxCalls, Memory: opts.Memory, MaxBody: opts.MaxMessage}),
		streams: upstream.New(upstream.Options{Silence: opts.Idle, Total: forever, Calls: opts.MaxStreams, Memory: opts.Memory, MaxBody: opts.MaxMessage, MaxLines: math.MaxInt64}),
		brief:   upstream.New(upstream.Options{Silence: opts.Brief, Calls: opts.MaxCalls, Memory: opts.Memory, MaxBody: opts.MaxMessage}),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// Name returns the target by which peers ask for the server.
func (b *Backend) Name() string { return b.opts.Name }

// Stats returns the present figures.
func (b *Backend) Stats() BackendStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BackendStats{
		InFlight: b.flights, Sessions: len(b.sessions),
		Noise: b.stats.noise.Load(), Dropped: b.stats.dropped.Load(), Failed: b.stats.failed.Load(),
	}
}

// Timeout implements mcpmap.Timed. It is above the timeout of a call, which the Backend ends itself
// because it knows why.
func (b *Backend) Timeout(m *mcpmap.Message) time.Duration {
	return b.opts.Timeouts.Timeout(m) * 3 / 2
}

// Do implements mcpmap.Server.
func (b *Backend) Do(x *mcpmap.Exchange) {
	c, err := b.begin(x, nil)
	if err != nil {
		x.Fail(err)
		return
	}
	if !b.spawn(c.stateless) {
		c.fail(errBackClosed)
		c.end()
		return
	}
	x.OnCancel(func([]byte) { c.stop(errGone) })
}

// Connect implements mcpmap.Server. The session at the server is opened by the
// first message.
func (b *Backend) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errBackClosed
	}
	s := newBackSession(b, client)
	b.sessions[s] = struct{}{}
	return s, nil
}

var errCalls = profiles.Busy("mcp_calls", "too many calls to this server")

// begin counts a request in.
func (b *Backend) begin(x *mcpmap.Exchange, s *backSession) (*backCall, *profiles.Error) {
	long, who := x.Message.Is(mcpmap.MethodListen), x.Peer().Identity
	b.mu.Lock()
	closed := b.closed
	var fault *profiles.Error
	if !closed {
		fault = b.kind(long).Take(who, 1).Refuse(errCalls)
	}
	if !closed && fault == nil {
		b.flights++
	}
	b.mu.Unlock()
	switch {
	case closed:
		return nil, errBackClosed
	case fault != nil:
		return nil, fault
	}
	return newBackCall(b, x, s, who, long), nil
}

// kind returns the Shares of calls, or of long ones.
func (b *Backend) kind(long bool) *fair.Shares {
	if long {
		return &b.places[1]
	}
	return &b.places[0]
}

// finished counts a request out.
func (b *Backend) finished(c *backCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kind(c.long).Give(c.who, 1)
	b.flights--
	b.closeIfIdle()
}

// closeIfIdle closes idle when nothing is in flight. The caller holds mu.
func (b *Backend) closeIfIdle() {
	unused := b.closed || b.retiring && len(b.sessions) == 0
	if b.flights > 0 || !unused {
		return
	}
	b.closed = true
	select {
	case <-b.idle:
	default:
		close(b.idle)
	}
}

// spawn runs f, unless it is too late for that.
func (b *Backend) spawn(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.work.Go(f)
	return true
}

// Close refuses new requests, waits until those in flight have ended or ctx does,
// gives up the rest, and takes its leave of the server. The error is that of ctx if
// it ended first.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.closeIfIdle()
	b.mu.Unlock()
	var err error
	select {
	case <-b.idle:
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.mu.Lock()
	sessions := slices.Collect(maps.Keys(b.sessions))
	b.mu.Unlock()
	for _, s := range sessions {
		s.Close()
	}
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.cancel()
	b.work.Wait()
	for _, client := range []*upstream.Client{b.calls, b.streams, b.brief} {
		client.Close()
	}
	return err
}

// Retire waits until no request is in flight and no session is open, or ctx ends, and
// then closes the server like Close. New requests are still served. The error is that
// of ctx if it ended first.
func (b *Backend) Retire(ctx context.Context) error {
	b.mu.Lock()
	b.retiring = true
	b.closeIfIdle()
	b.mu.Unlock()
	select {
	case <-b.idle:
	case <-ctx.Done():
	}
	return b.Close(ctx)
}

var (
	// errGone is why a call is given up for which nobody waits any more.
	errGone = errors.New("mcphttp: nobody waits for the answer")

	errBackClosed = &profiles.Error{
		Code: profiles.RateLimitExceeded, Detail: "draining", Text: "this endpoint is shutting down", Retryable: true,
	}
)
