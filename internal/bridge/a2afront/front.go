// Package a2afront is A2A 1.0 over HTTP for clients that know nothing of SlimWire: at
// /a2a/<agent> is the agent of that name behind the other end of a link, at
// /a2a/<partner>/<agent> one of a partner's. Both bindings are there, JSON-RPC at that
// path and REST below it, and the card:
//
//	POST /a2a/<agent>                                JSON-RPC
//	POST /a2a/<agent>/message:send                   REST, with or without /{tenant} or /v1 before it
//	GET  /a2a/<agent>/.well-known/agent-card.json    the card, naming this front
//	GET  /a2a/<agent>/agent-card.original.json       the card, octet for octet
//
// Each operation is one lifecycle of profile 2. Messages go on and come back octet for
// octet, with one exception that the format of streams asks for: a carriage return,
// which in JSON can stand between tokens only, becomes a space in a stream.
//
// Package gate has authenticated the caller before.
//
// Specification: mcp-a2a mapping §4 and §5.
package a2afront

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
)

// Path is what the paths of a Front begin with.
const Path = "/a2a"

// CardPath is where the card of the default agent is, and below the path of an agent
// that agent's.
const CardPath = "/.well-known/agent-card.json"

// Session is a connection to the endpoint of the agents.
type Session struct {
	profiles.Session
	Tasks *a2a.Service // of the side of the callers
}

// Link is the way of one caller to the agents. It is safe for concurrent use.
type Link interface {
	// Session returns the connection to the endpoint: the same one as long as it
	// lives, then another. It may wait.
	Session(ctx context.Context) (Session, error)

	// Card returns the card of an agent, as far as this caller may have it.
	Card(ctx context.Context, agent string) (agdisc.Card, error)
}

// Options configure a Front. Link and Caller are required; zero elsewhere means the
// default that is named.
type Options struct {
	// Link returns the way of a caller.
	Link func(caller string) Link

	// Caller returns the identity of the caller of a request.
	Caller func(*http.Request) string

	// Carried returns the context of a request with what its headers say of it: a trace
	// context, and hints. An error, an *profiles.Error, refuses the request. Nil means that
	// nothing goes on.
	Carried func(*http.Request) (context.Context, error)

	// Partner reports whether a name is the name of a partner, so that the next segment
	// names an agent. May be nil.
	Partner func(name string) bool

	// Default is the agent whose card is at /.well-known/agent-card.json; empty means none.
	// Single means that only this agent is served.
	Default string
	Single  bool

	// URL is where clients reach this front, as cards say it: scheme, host and port.
	// Empty means as the request that asks for a card says.
	URL string

	// Verbatim returns cards unchanged, with the interfaces and signatures of
	// their authors.
	Verbatim bool

	// TenantV1 says that v1 in front of a path of REST is a tenant. Otherwise it says
	// nothing, for clients that write /v1/message:send (Slipstream C2).
	TenantV1 bool

	// Params are the names of headers that are service parameters besides those that
	// begin with A2A-.
	Params []string

	// Memory is the budget for requests and answers. Nil: one of 256 MiB.
	Memory *memory.Budget

	// Served reports whether the caller may use any agent. Otherwise its bodies
	// above 64 KiB are refused unread. Nil: every caller may.
	Served func(caller string) bool

	MaxBody   int64         // octets of a request, default 8 MiB − 64 KiB
	Body      time.Duration // for a request to arrive, default 30 s
	Deadline  time.Duration // for a single answer, default 1 h
	Stream    time.Duration // for a stream, after which its client has to subscribe again; default 24 h
	Patience  time.Duration // for a link that is lost to come back, default 30 s
	KeepAlive time.Duration // between comments in a stream that is silent, default 15 s
	Write     time.Duration // for the client to take what is written, default 30 s
}

// Front is an http.Handler. It is safe for concurrent use.
type Front struct {
	opts    Options
	terms   atomic.Pointer[terms]
	streams context.Context // ends with Drain
	drain   context.CancelFunc
	counts  counts
}

// Stats are the counters and gauges of a Front.
type Stats struct {
	Open    int64 // operations under way, now
	Streams int64 // of them, streams

	RPC     int64 // operations passed on, of JSON-RPC
	REST    int64
	Cards   int64 // requests for cards
	Refused int64 // malformed requests refused here
	Resumed int64 // operations taken up again after their session was lost
}

// terms are the options that Set changes.
type terms struct {
	Options
	params map[string]bool // names of Params in lower case
}

type counts struct{ open, streams, rpc, rest, cards, refused, resumed atomic.Int64 }

// Stats returns the present figures.
func (f *Front) Stats() Stats {
	c := &f.counts
	return Stats{
		Open: c.open.Load(), Streams: c.streams.Load(), RPC: c.rpc.Load(), REST: c.rest.Load(),
		Cards: c.cards.Load(), Refused: c.refused.Load(), Resumed: c.resumed.Load(),
	}
}

// New returns a Front. It fails without Link or Caller, and for service
// parameters that would carry credentials or what HTTP itself is about.
func New(o Options) (*Front, error) {
	if o.Link == nil || o.Caller == nil {
		return nil, errors.New("a2afront: Link and Caller are required")
	}
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20-64<<10)
	o.Memory = cmp.Or(o.Memory, memory.New(256<<20))
	if o.Served == nil {
		o.Served = func(string) bool { return true }
	}
	o.Body = cmp.Or(o.Body, 30*time.Second)
	o.Deadline = cmp.Or(o.Deadline, time.Hour)
	o.Stream = cmp.Or(o.Stream, 24*time.Hour)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.Write = cmp.Or(o.Write, 30*time.Second)
	f := &Front{opts: o}
	if err := f.Set(o); err != nil {
		return nil, err
	}
	f.streams, f.drain = context.WithCancel(context.Background())
	return f, nil
}

// Set changes Default, URL, Verbatim, TenantV1 and Params for later requests; other fields
// are ignored. It fails for service parameters that New refuses, and then changes nothing.
func (f *Front) Set(o Options) error {
	t := &terms{Options: o, params: make(map[string]bool)}
	for _, name := range o.Params {
		if err := CheckParam(name); err != nil {
			return err
		}
		t.params[strings.ToLower(name)] = true
	}
	f.terms.Store(t)
	return nil
}

// Drain ends streams, which would go on to the last, with an error that says so.
// Operations with one answer go on.
func (f *Front) Drain() { f.drain() }

// ServeHTTP serves what begins with Path, and CardPath.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, ok := f.find(r.URL.EscapedPath())
	if !ok {
		f.counts.refused.Add(1)
		f.writeStatus(w, http.StatusNotFound, "NOT_FOUND", "nothing is served at this path")
		return
	}
	if f.opts.Carried != nil {
		ctx, err := f.opts.Carried(r)
		if err != nil {
			f.counts.refused.Add(1)
			if fault := profiles.AsError(err); fault.Code == profiles.SecurityPolicy {
				f.writeStatus(w, http.StatusForbidden, "PERMISSION_DENIED", fault.Text)
			} else {
				f.writeStatus(w, http.StatusBadRequest, "INVALID_ARGUMENT", fault.Text)
			}
			return
		}
		r = r.WithContext(ctx)
	}
	for _, s := range at.serves {
		if s.method == r.Method || s.method == http.MethodGet && r.Method == http.MethodHead {
			f.serve(w, r, &at, s.what)
			return
		}
	}
	for _, s := range at.serves {
		w.Header().Add("Allow", s.method)
	}
	f.counts.refused.Add(1)
	f.writeStatus(w, http.StatusMethodNotAllowed, "UNIMPLEMENTED", "this path is not served by that method")
}

func (f *Front) serve(w http.ResponseWriter, r *http.Request, at *place, what string) {
	link := f.opts.Link(f.opts.Caller(r))
	held := f.opts.Memory.Hold(f.opts.Caller(r))
	defer held.Release()
	switch what {
	case rpcEndpoint:
		f.rpc(w, r, link, at, held)
	case cardHere:
		f.counts.cards.Add(1)
		f.card(w, r, link, at)
	case cardOriginal:
		f.counts.cards.Add(1)
		f.original(w, r, link, at)
	default:
		o, _ := a2abinding.Named(what)
		f.rest(w, r, link, at, o, held)
	}
}
