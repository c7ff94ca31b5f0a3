// Package mcpmap is profile 1: MCP over SlimWire. A payload is one JSON-RPC message, octet
// for octet; this package reads its outline (Message) and never re-encodes it.
//
// Both eras of MCP are supported. A modern request (from 2026-07-28) is independent: its
// notifications, then one response. A legacy client (up to 2025-11-25) has a session:
// initialize opens it, the answer has its id (extension 17), and the server may send
// requests to the client.
//
// One Mapping serves both directions of any number of connections: requests of peers go to
// the servers of a Backend, and Client calls the servers of a peer.
//
// Specification: SWP profiles §1, MCP mapping §1 to §3.
package mcpmap

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// ProfileID is the profile_id of the MCP mapping.
const ProfileID = 1

// profileName is the profile in metrics and access rules.
const profileName = "mcp"

// Options configure a Mapping. Zero means the stated default.
type Options struct {
	// Backend is the servers offered to peers. Nil: none.
	Backend Backend

	// Identity is the identity of this endpoint. Its own errors have it as data.endpoint.
	// May be empty.
	Identity string

	// Access is asked about each request and notification of a peer to a server: profile
	// "mcp", the JSON-RPC method, and the server, or server/tool for tools/call. Denied
	// messages are refused with SecurityPolicy before the server sees them. Nil denies
	// nothing.
	Access profiles.Access

	// Store stores the owners of tasks that are not in a process of this endpoint.
	// Nil: this ends with the Mapping. See Mapping.Restore.
	Store Store

	// CallTimeout is how long a call may be without a message, unless its Server is Timed;
	// default profiles.WorkWait. Altogether it may take profiles.WholeWork of that.
	CallTimeout time.Duration
	LongIdle    time.Duration // while a client is being asked, default 10 min

	// SessionGrace is how long a legacy session outlives its connection, default
	// 60 s.
	SessionGrace time.Duration

	MaxSessions        int // legacy sessions served at once, default 1,024; identities share them
	MaxSessionsPerPeer int // of one identity, default 64
	MaxTasks           int // tasks of servers remembered at once, default 16,384; identities share them
	MaxPending         int // messages kept for a client that is not there, default 256
	MaxAsked           int // requests to one client that it has not answered, default 64

	// MaxDue bounds the messages that the Events of a call, or of a session, have not taken: the
	// sum of their weights, default 16 MiB. Half of it is the window of a call, see
	// Exchange.Pace.
	MaxDue int
}

func (o Options) withDefaults() Options {
	orDefault(&o.CallTimeout, profiles.WorkWait)
	orDefault(&o.LongIdle, 10*time.Minute)
	orDefault(&o.SessionGrace, time.Minute)
	orDefault(&o.MaxSessions, 1024)
	orDefault(&o.MaxSessionsPerPeer, 64)
	orDefault(&o.MaxTasks, 16384)
	orDefault(&o.MaxPending, 256)
	orDefault(&o.MaxAsked, 64)
	orDefault(&o.MaxDue, 16<<20)
	if o.Access == nil {
		o.Access = profiles.Everyone
	}
	return o
}

func orDefault[T int | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// Mapping is profile 1 of one endpoint. It is safe for concurrent use.
type Mapping struct {
	opts     Options
	stats    counters
	tasks    *tasks
	draining atomic.Bool // exchanges without an expected end are refused

	mu       sync.Mutex
	closed   bool
	conns    map[profiles.Session]*conn
	sessions map[string]*serverSession
	places   fair.Shares // of sessions
}

// Stats are the counters and gauges of a Mapping.
type Stats struct {
	Sessions int // legacy sessions served now
	Tasks    int // tasks of servers that are remembered

	// Dropped counts well-formed messages without a receiver: notifications of no exchange
	// or session, messages above a bound, late answers.
	Dropped uint64

	// Overrun counts the calls of this side that ended because their Events did not keep up
	// with the notifications.
	Overrun uint64
}

type counters struct{ dropped, overrun atomic.Uint64 }

// New returns a Mapping.
func New(opts Options) *Mapping {
	opts = opts.withDefaults()
	return &Mapping{
		opts:     opts,
		tasks:    newTasks(opts.MaxTasks, opts.Store),
		conns:    make(map[profiles.Session]*conn),
		sessions: make(map[string]*serverSession),
		places:   fair.NewShares(opts.MaxSessions),
	}
}

// Stats returns the present figures.
func (m *Mapping) Stats() Stats {
	tasks := m.tasks.count()
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{Sessions: len(m.sessions), Tasks: tasks, Dropped: m.stats.dropped.Load(), Overrun: m.stats.overrun.Load()}
}

// Close ends all legacy sessions; later requests that would open one are refused.
func (m *Mapping) Close() {
	m.mu.Lock()
	m.closed = true
	list := slices.Collect(maps.Values(m.sessions))
	m.mu.Unlock()
	for _, s := range list {
		s.close()
	}
}

// Profile returns the mapping for the Registry of an endpoint.
func (m *Mapping) Profile() *profiles.Profile {
	return &profiles.Profile{
		ID:   ProfileID,
		Name: profileName, Review: m.review,
		Types: []profiles.Type{
			{ID: uint64(Request), Name: "JSON-RPC Request", Role: profiles.Initiating},
			{ID: uint64(Response), Name: "JSON-RPC Response", Role: profiles.Answer | profiles.Lone},
			{ID: uint64(Notification), Name: "JSON-RPC Notification", Role: profiles.Initiating | profiles.Concluding},
		},
		Operations: operations(),
		Open:       true,
		Extensions: []uint64{
			ExtTarget, ExtSession, ExtRelated, ExtMCPParam, ExtHTTPStatus, ExtWindow, ExtTaken,
			profiles.ExtHops, profiles.ExtDeadline, profiles.ExtChain,
		},
		Methods: []profiles.Method{
			{Name: MethodRPCListen, Open: true, Local: true, Long: true, Held: m.listen},
			{Name: MethodRPCClose, Open: true, Local: true, Repeatable: true, Inline: m.end},
		},
		Behind:  profiles.PassedOn,
		Handler: m,
		Check:   check,
		Act:     m.act,
		Refusal: m.refusal,
		Aside:   aside,
	}
}

// aside reports whether a message is a notification of a call, such as of its progress, its cancellation, or
// a subscription: there can be thousands of one call.
func aside(env *e1.Envelope) bool {
	_, related := env.Extensions.Lookup(ExtRelated)
	return related && Kind(env.MsgType) == Notification
}

// check returns an error if the payload of an answer is not a JSON-RPC response.
func check(env *e1.Envelope) error {
	var msg Message
	if err := msg.Scan(env.Payload); err != nil {
		return err
	}
	return msg.Check(Response)
}

// refusal answers a refused request with a JSON-RPC error. Refused errors and notifications
// have no answer.
func (m *Mapping) refusal(req *profiles.Request, err *profiles.Error) (e1.Envelope, bool) {
	if Kind(req.MsgType) != Request {
		return e1.Envelope{}, false
	}
	var msg Message
	malformed := msg.Scan(req.Payload) // without an outline the id is null
	if malformed == nil {
		malformed = msg.Check(Request)
	}
	code := rpcCode(err.Code)
	if malformed != nil && err.Code == profiles.InvalidMCPPayload {
		code = Malformed(malformed)
	}
	return e1.Envelope{
		MsgType: uint64(Response),
		MsgID:   req.MsgID,
		Payload: appendFailure(req.Scratch(512), msg.ID(), code, err, m.opts.Identity),
	}, true
}

// conn is the state of one connection.
type conn struct {
	m    *Mapping
	sess profiles.Session

	mu        sync.Mutex
	gone      bool
	exchanges map[string]*Exchange      // requests of the peer, by msg_id
	current   map[string]*serverSession // newest legacy session of a target, for requests that name none
	client    *Client                   // nil until this side calls
}

// conn returns the state of a connection, and makes it at the first message.
func (m *Mapping) conn(sess profiles.Session) *conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.conns[sess]
	if c == nil {
		c = &conn{m: m, sess: sess, exchanges: make(map[string]*Exchange), current: make(map[string]*serverSession)}
		m.conns[sess] = c
		context.AfterFunc(sess.Context(), c.lost)
	}
	return c
}

// lost is called at the end of the connection. Exchanges end by themselves.
func (c *conn) lost() {
	c.m.mu.Lock()
	delete(c.m.conns, c.sess)
	var mine []*serverSession
	for _, s := range c.m.sessions {
		if s.livesOn(c) {
			mine = append(mine, s)
		}
	}
	c.m.mu.Unlock()
	c.mu.Lock()
	c.gone = true
	client := c.client
	c.mu.Unlock()
	for _, s := range mine {
		s.orphan(c)
	}
	if client != nil {
		client.lost()
	}
}

func (c *conn) add(x *Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchanges[string(x.req.MsgID)] = x
}

func (c *conn) forget(x *Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exchanges[string(x.req.MsgID)] == x {
		delete(c.exchanges, string(x.req.MsgID))
	}
}

// related returns the exchange of a notification of the peer: by msg_id, else the one with
// the id in a cancellation.
func (c *conn) related(req *profiles.Request, msg *Message) *Exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := req.Extensions.Lookup(ExtRelated); ok {
		return c.exchanges[string(id)]
	}
	key := TokenKey(msg.RequestID())
	if key == "" {
		return nil
	}
	session, _ := req.Extensions.Lookup(ExtSession)
	for _, x := range c.exchanges {
		if x.session.named(string(session)) && x.key == key {
			return x
		}
	}
	return nil
}
