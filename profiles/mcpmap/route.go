package mcpmap

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
)

// clientSession is a legacy session at a peer. If the peer does not support session ids,
// it is found by its target.
//
// While it is used, its messages share one lane, which keeps them in order. It has none while it
// is idle, because a connection has few streams. The next lane is opened when the peer has read
// the messages on the one before. The fields below turn are guarded by the mu of the Client.
type clientSession struct {
	events Events
	inbox  *inbox
	turn   chan struct{} // one slot: of the message that opens a lane

	route  *route          // nil while the session is idle
	uses   int             // messages on route that are not over
	noted  uint64          // notifications that were sent
	heard  uint64          // of them, those that the peer is known to have read
	before <-chan struct{} // closed when the peer has read the lane before; nil if it has
	idle   *time.Timer     // ends a route whose last message was a notification
}

// linger is how long the lane of a session stays after a notification, to which there is no
// answer. A request usually follows soon.
const linger = time.Second

// route is a reference-counted lane. It is closed with the last reference, because a closed
// lane may be reused.
type route struct {
	lane  profiles.Lane
	users atomic.Int32
	read  chan struct{} // if not nil, closed when the peer has read what was sent on the lane
}

// release gives up a reference; nil has none.
func (r *route) release() {
	switch {
	case r == nil, r.users.Add(-1) > 0:
	case r.read != nil:
		profiles.CloseThen(r.lane, func() { close(r.read) })
	default:
		_ = r.lane.Close()
	}
}

// way is the route of one message, and the outcome of the message. A message that belongs to no
// session of this connection has no session; a notification then has no route.
type way struct {
	*route
	session  *clientSession
	noted    uint64 // of the session, when the message got the route
	answered bool
	notified bool
	failed   bool // the lane may not be usable any more
}

// way returns the route of a call: the one of its session, else a new one. A call that is
// alone on its lane keeps it open until the answer, because its cancellation is sent on the
// same lane. The caller leaves it.
func (c *Client) way(ctx context.Context, call *Call, msg *Message) (way, error) {
	if !msg.Is(MethodInitialize) && (call.Session != "" || !msg.Modern()) {
		if w, err := c.sessionWay(ctx, call.Target, call.Session); w.route != nil || err != nil {
			return w, err
		}
	}
	lane, err := c.c.sess.Open(ctx)
	if err != nil {
		return way{}, err
	}
	w := way{route: &route{lane: lane}}
	w.users.Add(1)
	return w, nil
}

// sessionWay returns the route of a session, which has one from then on. It returns none if the
// session does not belong to this connection.
func (c *Client) sessionWay(ctx context.Context, target, session string) (way, error) {
	key := sessionKey(target, session)
	for {
		c.mu.Lock()
		s := c.sessions[key]
		if s == nil {
			c.mu.Unlock()
			return way{}, nil
		}
		if s.route != nil {
			defer c.mu.Unlock()
			return s.use(), nil
		}
		c.mu.Unlock()
		if err := c.reopen(ctx, key, s); err != nil {
			return way{}, err
		}
	}
}

// use takes the route of a session for a message. The caller holds mu of the Client.
func (s *clientSession) use() way {
	s.uses++
	s.route.users.Add(1)
	if s.idle != nil {
		s.idle.Stop()
	}
	return way{route: s.route, session: s, noted: s.noted}
}

// reopen gives a session a lane, unless another message has done so, or the session has ended.
func (c *Client) reopen(ctx context.Context, key string, s *clientSession) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	c.mu.Lock()
	before, needless := s.before, s.route != nil || c.sessions[key] != s
	c.mu.Unlock()
	if needless {
		return nil
	}
	if before != nil {
		late := time.NewTimer(cancelTime)
		defer late.Stop()
		select {
		case <-before:
		case <-late.C: // a request that was given up may keep the lane open at the peer
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	lane, err := c.c.sess.Open(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	ended := c.sessions[key] != s
	if !ended {
		s.route, s.before = &route{lane: lane}, nil
		s.route.users.Add(1)
	}
	c.mu.Unlock()
	if ended {
		_ = lane.Close()
	}
	return nil
}

// leave ends the use of a route. After its last message a session is idle: at once if that was
// answered, because the peer has then read all messages before it.
func (c *Client) leave(w way) {
	if w.session != nil {
		c.mu.Lock()
		unused := w.session.left(c, &w)
		c.mu.Unlock()
		unused.release()
	}
	w.release()
}

// left is leave for the session of a route. It returns the route if the session gives it up, to be
// released. The caller holds mu of the Client.
func (s *clientSession) left(c *Client, w *way) (unused *route) {
	s.uses--
	if w.notified {
		s.noted++
	}
	if w.answered {
		s.heard = max(s.heard, w.noted)
	}
	switch {
	case s.route != w.route: // the session has another one, or has ended
	case w.failed, s.uses == 0 && s.heard == s.noted:
		return s.rest()
	case s.uses > 0:
	case s.idle == nil:
		s.idle = time.AfterFunc(linger, func() { c.idle(s) })
	default:
		s.idle.Reset(linger)
	}
	return nil
}

// idle takes the route from a session that is not used.
func (c *Client) idle(s *clientSession) {
	c.mu.Lock()
	var unused *route
	if s.uses == 0 {
		unused = s.rest()
	}
	c.mu.Unlock()
	unused.release()
}

// rest takes the route from a session, to be released. The caller holds mu of the Client.
func (s *clientSession) rest() *route {
	r := s.route
	s.route = nil
	if r != nil && s.heard < s.noted {
		r.read = make(chan struct{})
		s.before, s.heard = r.read, s.noted
	}
	return r
}

// Resume continues a legacy session that was opened on another connection to the same peer.
// events receives messages of the session that belong to no call. The peer learns of the new
// connection with the next message of the session, or with swp.mcp.listen.
func (c *Client) Resume(_ context.Context, target, session string, events Events) error {
	_, err := c.begin(session, &Call{Target: target, Events: events}, nil, &inbox{limit: c.m.opts.MaxDue})
	return err
}

// Leave removes a legacy session on this side. The peer keeps it for a while; swp.mcp.close
// ends it there.
func (c *Client) Leave(target, session string) {
	key := sessionKey(target, session)
	c.mu.Lock()
	s := c.sessions[key]
	delete(c.sessions, key)
	unused := s.end()
	c.mu.Unlock()
	unused.release()
}

// begin keeps a session that initialize opened on r, which counts as a use, or that has no route.
func (c *Client) begin(id string, call *Call, r *route, box *inbox) (*clientSession, error) {
	if call.Shared {
		if err := names(id); err != nil {
			return nil, err
		}
	}
	key := sessionKey(call.Target, id)
	s := &clientSession{route: r, events: call.Events, inbox: box, turn: make(chan struct{}, 1)}
	c.mu.Lock()
	old := c.sessions[key]
	if old != nil && call.Shared {
		c.mu.Unlock()
		return nil, profiles.Errorf(profiles.InvalidMCPPayload, "mcpmap: a new session with the name of another")
	}
	if r != nil {
		s.uses = 1
		r.users.Add(1)
	}
	c.sessions[key] = s
	c.deliverEarly()
	unused := old.end()
	c.mu.Unlock()
	unused.release()
	return s, nil
}

// end takes the route from a session that has ended, or is nil. The caller holds mu of the Client.
func (s *clientSession) end() *route {
	if s == nil {
		return nil
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	return s.rest()
}

// lost is called at the end of the connection.
func (c *Client) lost() {
	c.mu.Lock()
	sessions := c.sessions
	c.sessions = make(map[string]*clientSession)
	var unused []*route
	for _, s := range sessions {
		unused = append(unused, s.end())
	}
	c.mu.Unlock()
	for _, r := range unused {
		r.release()
	}
}

// stay keeps a lane for the answer to a request of the server until leave is called, if it is the route of
// a session.
func (c *Client) stay(id string, lane profiles.Lane) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[id]
	if s == nil { // a peer without session ids names none
		for _, s = range c.sessions {
			if s.route != nil && s.route.lane == lane {
				break
			}
		}
	}
	if s == nil || s.route == nil || s.route.lane != lane {
		return func() {}
	}
	w := s.use()
	return func() { c.leave(w) }
}
