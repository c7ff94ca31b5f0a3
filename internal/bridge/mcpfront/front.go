// Package mcpfront serves Streamable HTTP for MCP clients without SlimWire: /mcp is the
// default server at the other end of a link, /mcp/<target> a named one, which may be
// partner/server. Bodies are forwarded octet for octet.
//
// Both eras are served, without translation between them. A modern request (from
// 2026-07-28) is one POST, whose headers must agree with its body; closing its response
// cancels it. A legacy client (up to 2025-11-25) has a session of this front, bound to the
// caller and to one session at the other end. Its calls continue when a response is lost,
// and the client resumes them by Last-Event-ID.
//
// Package gate authenticates the caller first.
//
// Specification: MCP mapping §1, §3, §5.
package mcpfront

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Path is what the paths of a Front begin with.
const Path = "/mcp"

// Link is the way of one caller to the servers.
type Link struct {
	Session profiles.Session
	MCP     *mcpmap.Client // of that session
}

// Options configure a Front. Connect and Caller are required; zero elsewhere means
// the default that is named.
type Options struct {
	// Connect returns the link of a caller: the same one as long as it lives, then
	// another. It may wait. The error is told to the client by mcpmap.AppendFailureOf.
	Connect func(ctx context.Context, caller string) (*Link, error)

	// Caller returns the identity of the caller of a request.
	Caller func(*http.Request) string

	// Carried returns the context of a request with the statements of its headers: a trace
	// context, and hints. An error, an *profiles.Error, refuses the request. Nil means that
	// nothing goes on.
	Carried func(*http.Request) (context.Context, error)

	// Carrier sends this ahead of the request. Required with Carried.
	Carrier profiles.Carrier

	// Identity is the identity of the endpoint, for data.endpoint in errors of the front.
	// Empty omits it.
	Identity string

	// Memory is the budget for requests and answers. Nil: one of 256 MiB.
	Memory *memory.Budget

	// Served reports whether the caller may use any server. Otherwise its bodies
	// above 64 KiB are refused unread. Nil: every caller may.
	Served func(caller string) bool

	// Single means that only /mcp is served, which stands for Target: a server, or
	// the default one if it is empty.
	Single bool
	Target string

	MaxBody     int64 // octets of a request, default 8 MiB − 8 KiB
	MaxSessions int   // legacy sessions in all, default 1,024; callers share them

	MaxSessionsPerCaller int // default 64
	MaxStreams           int // exchanges of a session that are in flight or can be taken up again, default 256

	MaxEvents int   // messages kept in a session, default 1,024
	MaxStored int64 // octets of them, default 1 MiB; callers share 64 times that

	// SessionIdle bounds the time of a legacy session without a request, an exchange
	// or a stream. Default 30 min.
	SessionIdle time.Duration

	// KeepAlive bounds the silence of a response before a comment shows that it
	// is alive. Default 15 s.
	KeepAlive time.Duration

	// Soon bounds the time of an answer that is one JSON document, if a stream has to
	// begin with an event without a message. Default 200 ms.
	Soon time.Duration

	Write time.Duration // for one message to be taken by the client, default 30 s
	Body  time.Duration // for a request to arrive: this plus a second per 64 KiB, default 5 s
}

func (o Options) withDefaults() Options {
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20-8<<10)
	o.Memory = cmp.Or(o.Memory, memory.New(256<<20))
	if o.Served == nil {
		o.Served = func(string) bool { return true }
	}
	o.MaxSessions = cmp.Or(o.MaxSessions, 1024)
	o.MaxSessionsPerCaller = cmp.Or(o.MaxSessionsPerCaller, 64)
	o.MaxStreams = cmp.Or(o.MaxStreams, 256)
	o.MaxEvents = cmp.Or(o.MaxEvents, 1024)
	o.MaxStored = cmp.Or(o.MaxStored, 1<<20)
	o.SessionIdle = cmp.Or(o.SessionIdle, 30*time.Minute)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.Soon = cmp.Or(o.Soon, 200*time.Millisecond)
	o.Write = cmp.Or(o.Write, 30*time.Second)
	o.Body = cmp.Or(o.Body, 5*time.Second)
	return o
}

// Front is an http.Handler. It is safe for concurrent use.
type Front struct {
	opts     Options
	ctx      context.Context // ends with Drain
	draining context.CancelFunc
	stored   fair.Budget // octets kept in sessions, by caller
	tools    mcpheader.Tools
	counts   struct{ modern, legacy, refused, dropped, streams atomic.Int64 }

	mu       sync.Mutex
	closed   bool
	sessions map[string]*frontSession
	places   fair.Shares // of sessions
}

// Stats are the counters and gauges of a Front.
type Stats struct {
	Sessions int   // legacy sessions now
	Streams  int64 // responses that are streams, now
	Stored   int64 // octets kept for clients that come back, now

	Modern  int64 // requests passed on
	Legacy  int64
	Refused int64 // malformed requests refused here
	Dropped int64 // messages that no client came for in time
}

// New returns a Front.
func New(o Options) *Front {
	f := &Front{opts: o.withDefaults(), sessions: make(map[string]*frontSession)}
	f.places.Bound(f.opts.MaxSessions)
	f.stored.Bound(storedSessions * int(f.opts.MaxStored))
	f.ctx, f.draining = context.WithCancel(context.Background())
	return f
}

// Pools returns the use of the sessions, and of the octets that are kept in them, by callers.
func (f *Front) Pools() []fair.Pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []fair.Pool{f.places.Pool("mcp sessions over HTTP"), f.stored.Pool("mcp octets kept over HTTP")}
}

// Stats returns the present figures.
func (f *Front) Stats() Stats {
	f.mu.Lock()
	n := len(f.sessions)
	f.mu.Unlock()
	return Stats{
		Sessions: n, Streams: f.counts.streams.Load(), Stored: int64(f.stored.Used()),
		Modern: f.counts.modern.Load(), Legacy: f.counts.legacy.Load(),
		Refused: f.counts.refused.Load(), Dropped: f.counts.dropped.Load(),
	}
}

// Drain ends what would go on to the last: GET streams and subscriptions. Sessions
// are not opened any more. Calls go on.
func (f *Front) Drain() { f.draining() }

// Close ends all sessions, here and at the other end as far as that can be told
// within ctx. No session is opened afterwards.
func (f *Front) Close(ctx context.Context) {
	f.Drain()
	f.mu.Lock()
	f.closed = true
	list := slices.Collect(maps.Values(f.sessions))
	f.mu.Unlock()
	var ends sync.WaitGroup
	for _, s := range list {
		ends.Go(func() { s.end(ctx) })
	}
	ends.Wait()
	for _, s := range list {
		s.work.Wait()
	}
}

// maxTarget bounds the name of a server in a path.
const maxTarget = 256

// target returns the server that a path names.
func (f *Front) target(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, Path)
	switch {
	case !ok:
		return "", false
	case rest == "":
		return f.opts.Target, true
	}
	name := rest[1:]
	if rest[0] != '/' || f.opts.Single || len(name) > maxTarget {
		return "", false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", false // what others on the way may take for another path
		}
	}
	return name, true
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, ok := f.target(r.URL.Path)
	if !ok {
		f.refuse(w, http.StatusNotFound, invalid("there is nothing here; servers are at "+Path+"/<name>"))
		return
	}
	switch r.Method {
	case http.MethodPost:
		r, err := f.carried(r)
		if err != nil {
			fault := profiles.AsError(err)
			status := http.StatusBadRequest
			if fault.Code == profiles.SecurityPolicy {
				status = http.StatusForbidden
			}
			f.refuse(w, status, refusal{code: mcpmap.CodeInvalidRequest, text: fault.Text, swp: fault.Code})
			return
		}
		f.post(w, r, target)
	case http.MethodGet:
		f.get(w, r, target)
	case http.MethodDelete:
		f.delete(w, r, target)
	default:
		f.notAllowed(w)
	}
}

func (f *Front) notAllowed(w http.ResponseWriter) {
	w.Header().Set("Allow", "POST, GET, DELETE")
	f.refuse(w, http.StatusMethodNotAllowed, invalid("a request is a POST; GET and DELETE are for a session, by its "+mcpheader.Session))
}

// carried returns a request that has the statements of its headers in its context.
func (f *Front) carried(r *http.Request) (*http.Request, error) {
	if f.opts.Carried == nil {
		return r, nil
	}
	ctx, err := f.opts.Carried(r)
	if err != nil {
		return nil, err
	}
	return r.WithContext(ctx), nil
}

// onward returns ctx for the one call of a request, with what goes on with it.
func (f *Front) onward(ctx context.Context, r *http.Request) context.Context {
	if trace := profiles.TraceOf(r.Context()); trace != (profiles.Trace{}) {
		ctx = profiles.WithTrace(ctx, trace)
	}
	if hints := profiles.AllHints(r.Context()); len(hints) > 0 {
		ctx = profiles.WithHints(ctx, hints)
	}
	return profiles.WithForward(ctx, f.opts.Carrier, profiles.Onward{}, nil)
}
