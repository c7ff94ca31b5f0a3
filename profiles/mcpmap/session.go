package mcpmap

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/room"
	"github.com/slimwire/swp/profiles"
)

// serverSession is one legacy session: a conversation with a server on one side, the connection
// of its client on the other. It belongs to the identity that opened it, outlives its
// connection for a while, and queues the server's messages until the client returns.
type serverSession struct {
	m        *Mapping
	id       string
	peer     *profiles.Peer // who has opened it
	identity string         // of peer
	target   string
	server   Server
	hidden   bool // its id was never sent: it ends with its connection
	conv     Conversation
	ctx      context.Context
	cancel   context.CancelFunc

	mu       sync.Mutex
	closed   bool
	home     *conn            // the connection used last; nil if it is lost
	listener *listener        // where the client listens, if it does
	open     []*Exchange      // exchanges in flight, oldest first
	asks     int              // number of unanswered requests to the client
	declared []string         // changes that the server announces
	begun    bool             // the client is ready for messages
	due      []message        // queue for the client
	dueSize  int              // octets in due
	pumping  bool             // a goroutine is sending them
	sending  bool             // the goroutine is sending the first of them
	room     room.Gate        // opened when one of them was sent, and when nobody sends
	window   profiles.Window  // of the notifications among them
	counted  profiles.Session // the connection that window is about
	expiry   *time.Timer
	used     time.Time // when the client has last sent anything

	telling sync.Mutex // held while conv is told whether the client listens
}

// message is a message of the server for the client that belongs to no exchange.
type message struct {
	kind    Kind
	octets  []byte
	related []byte // msg_id of the exchange of a request, or nil
	answer  func(octets []byte)
	again   bool // a request that was sent once on a path where the client no longer listens
}

// open starts a session with its first request.
func (m *Mapping) open(c *conn, req *profiles.Request, msg *Message, server Server, name string, hidden bool) error {
	window, _, err := profiles.Uvarint(req.Extensions, ExtWindow)
	if err != nil {
		return err
	}
	if hidden {
		window = 0 // a confirmation names the session
	}
	s := &serverSession{
		m: m, id: rand.Text(), used: time.Now(), peer: req.Peer(), identity: req.Identity(), target: name, server: server, hidden: hidden, home: c,
		window: profiles.Window{Size: window},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := m.admit(s); err != nil {
		s.cancel()
		return err
	}
	conv, err := server.Connect(s)
	if err != nil {
		s.close()
		return err
	}
	s.mu.Lock()
	s.conv = conv
	closed := s.closed
	s.mu.Unlock()
	if closed {
		conv.Close()
		return m.sessionGone(req, msg)
	}
	c.mu.Lock()
	c.current[name] = s
	gone := c.gone
	c.mu.Unlock()
	if gone {
		s.orphan(c)
	}
	return s.request(c, req, msg)
}

var errSessions = profiles.Busy("mcp_sessions", "too many sessions")

// admit enters a session within the bounds, or in the place of an idle session, which ends.
func (m *Mapping) admit(s *serverSession) error {
	m.mu.Lock()
	fault := m.enter(s)
	var idle *serverSession
	if fault != nil && !m.closed {
		idle = m.idleFor(s.identity, fault.Excused)
	}
	if idle != nil {
		delete(m.sessions, idle.id)
		m.places.Pass(idle.identity, s.identity)
		m.sessions[s.id] = s
	}
	m.mu.Unlock()
	switch {
	case idle != nil:
		idle.close()
	case fault != nil:
		return fault
	}
	return nil
}

// idleFor returns the idle session that ends for a new session of an identity, or nil. full says that the
// identity is within its share: then a session of an identity with more ends first. Next is a session of the
// identity, and last a session of another caller of its peer with more. The caller holds mu.
func (m *Mapping) idleFor(identity string, full bool) (idle *serverSession) {
	if full {
		idle = m.idlest(func(of string) bool { return m.places.Yields(of, identity) })
	}
	if idle == nil {
		idle = m.idlest(func(of string) bool { return of == identity })
	}
	if idle == nil {
		idle = m.idlest(func(of string) bool { return fair.PeerOf(of) == fair.PeerOf(identity) && m.places.Yields(of, identity) })
	}
	return idle
}

// idlest returns the least recently used idle session whose identity may accepts, or nil. The caller
// holds mu.
func (m *Mapping) idlest(may func(identity string) bool) (idlest *serverSession) {
	var since time.Time
	for _, s := range m.sessions {
		if !may(s.identity) {
			continue
		}
		if used, idle := s.idleSince(); idle && (idlest == nil || used.Before(since)) {
			idlest, since = s, used
		}
	}
	return idlest
}

// remove gives back the place of a session. The caller holds mu.
func (m *Mapping) remove(s *serverSession) {
	if m.sessions[s.id] == s {
		delete(m.sessions, s.id)
		m.places.Give(s.identity, 1)
	}
}

// enter enters a session, if there is a place. The caller holds mu.
func (m *Mapping) enter(s *serverSession) *profiles.Error {
	switch {
	case m.closed:
		return profiles.Busy("draining", "this endpoint is shutting down")
	case m.places.Exceeds(s.identity, 1, m.opts.MaxSessionsPerPeer, profiles.Asserters(m.opts.Access)):
		return profiles.Busy("mcp_sessions", "too many sessions of this identity")
	}
	if fault := m.places.Take(s.identity, 1).Refuse(errSessions); fault != nil {
		return fault
	}
	m.sessions[s.id] = s
	return nil
}

// session returns a session by its id, if it belongs to a peer and, if one is named, to the
// target. A peer that asserts no caller reaches the sessions of its callers too.
func (m *Mapping) session(id string, of *profiles.Peer, target string) *serverSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[id]
	if s == nil || s.hidden || s.identity != of.Identity && profiles.Link(s.identity) != of.Identity || target != "" && target != s.target {
		return nil
	}
	return s
}

// view returns what the client may see of the server.
func (s *serverSession) view() view {
	return view{access: s.m.opts.Access, tasks: s.m.tasks, identity: s.identity, server: s.target}
}

// currentSession returns the newest session of an identity at a target, nil if another
// caller of the peer has opened a newer one.
func (c *conn) currentSession(target, identity string) *serverSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.current[target]; s != nil && s.identity == identity {
		return s
	}
	return nil
}

// named reports whether a session has this id; no session has the id "".
func (s *serverSession) named(id string) bool {
	if s == nil || s.hidden {
		return id == ""
	}
	return id == "" || s.id == id
}

// request passes a request of the client to the conversation.
func (s *serverSession) request(c *conn, req *profiles.Request, msg *Message) error {
	x, err := s.m.newExchange(c, s, s.target, s.server, req, msg)
	if err != nil {
		return err
	}
	defer x.watch()
	s.setConn(c)
	s.mu.Lock()
	conv, closed := s.conv, s.closed
	s.mu.Unlock()
	if closed {
		fault := &profiles.Error{Code: profiles.NotFound, Detail: detailSession, Text: "the session has ended"}
		x.FailStatus(fault, 404)
		return nil
	}
	conv.Do(x)
	return nil
}

func (s *serverSession) add(x *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, x)
}

// notify passes a notification of the client to the conversation.
func (s *serverSession) notify(c *conn, msg *Message) {
	s.setConn(c)
	s.mu.Lock()
	conv, closed := s.conv, s.closed
	s.begun = s.begun || msg.Is(methodInitialized)
	s.mu.Unlock()
	if !closed {
		conv.Notify(msg)
	}
}

// answered is called at the end of an exchange of the session, with its response if there
// is one. The answer to initialize gets the session id; without a response there is no
// session.
func (s *serverSession) answered(x *Exchange, octets []byte, ext e1.Extensions) e1.Extensions {
	s.mu.Lock()
	if i := slices.Index(s.open, x); i >= 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
	s.used = time.Now()
	s.mu.Unlock()
	if !x.initialize || s.hidden {
		return ext
	}
	var response Message
	if octets == nil || response.Scan(octets) != nil || response.Result() == nil {
		s.close()
		return ext
	}
	s.mu.Lock()
	s.declared = declared(octets)
	s.mu.Unlock()
	return e1.AppendExtension(ext, ExtSession, []byte(s.id))
}

// asking reports whether the client has unanswered requests.
func (s *serverSession) asking() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks > 0
}

// setConn makes c the connection of the session.
func (s *serverSession) setConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.home, s.used = c, time.Now()
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	s.startPump()
}

func (s *serverSession) livesOn(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.home == c
}

// orphan starts the time within which the client must reconnect after c was lost.
func (s *serverSession) orphan(c *conn) {
	s.mu.Lock()
	if s.closed || s.home != c {
		s.mu.Unlock()
		return
	}
	s.home = nil
	s.room.Open()
	if l := s.listener; l != nil && l.conn != c {
		s.home = l.conn
		s.mu.Unlock()
		return
	}
	if !s.hidden {
		s.expiry = time.AfterFunc(s.m.opts.SessionGrace, s.expire)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.close()
}

func (s *serverSession) expire() {
	s.mu.Lock()
	orphaned := s.home == nil
	if orphaned && !s.closed && s.m.tasks.working(s) {
		s.expiry = time.AfterFunc(s.m.opts.SessionGrace, s.expire) // its client has a task to come back for
		orphaned = false
	}
	s.mu.Unlock()
	if orphaned {
		s.close()
	}
}

// Peer implements Counterpart.
func (s *serverSession) Peer() *profiles.Peer { return s.peer }

// Attended implements Counterpart.
func (s *serverSession) Attended() bool {
	s.mu.Lock()
	attended := s.asks > 0 || s.listener != nil && !s.listener.standby
	s.mu.Unlock()
	return attended || s.m.tasks.working(s)
}

// idleSince returns when an idle session was used last. It returns false for one that is not idle.
func (s *serverSession) idleSince() (time.Time, bool) {
	s.mu.Lock()
	used, idle := s.used, !s.closed && s.conv != nil && len(s.open) == 0
	s.mu.Unlock()
	return used, idle && !s.Attended()
}

// Ended implements Counterpart.
func (s *serverSession) Ended() { s.close() }

// close ends the session and its conversation.
func (s *serverSession) close() {
	s.m.mu.Lock()
	s.m.remove(s)
	s.m.mu.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.room.Open()
	conv, listener, due, home := s.conv, s.listener, s.due, s.home
	s.listener, s.due = nil, nil
	if s.sending {
		due = due[1:]
	}
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	if home != nil {
		home.mu.Lock()
		if home.current[s.target] == s {
			delete(home.current, s.target)
		}
		home.mu.Unlock()
	}
	if conv != nil {
		conv.Close()
	}
	if listener != nil {
		listener.end(nil)
	}
	for _, msg := range due {
		s.undelivered(&msg)
	}
}

// Pools returns the use of the sessions by identities.
func (m *Mapping) Pools() []fair.Pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []fair.Pool{m.places.Pool("mcp sessions"), m.tasks.pool()}
}
