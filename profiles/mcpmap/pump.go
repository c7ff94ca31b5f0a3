package mcpmap

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Messages of the server are queued in the session and sent to the client in order, by a
// goroutine that lives while the queue is not empty. So neither the server nor a read loop
// waits for a client that is slow or disconnected.

// Notify implements Counterpart. A change of a list that the client may not see is dropped.
func (s *serverSession) Notify(octets []byte) bool {
	return !s.view().concerns(octets) || s.push(message{kind: Notification, octets: slices.Clone(octets)})
}

// Pace implements Counterpart.
func (s *serverSession) Pace(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && (s.home != nil || s.listener != nil) && (len(s.due) > s.m.opts.MaxPending/2 || s.dueSize > maxDueOctets/2) {
		if err := s.room.Wait(ctx, &s.mu); err != nil {
			return err
		}
	}
	return nil
}

// Request implements Counterpart.
func (s *serverSession) Request(x *Exchange, m *Message, answer func(octets []byte)) {
	msg := message{kind: Request, octets: slices.Clone(m.Octets()), answer: answer}
	if x != nil && x.pin() {
		msg.related = slices.Clone(x.req.MsgID)
		x.unpin()
	}
	s.mu.Lock()
	full := s.asks >= s.m.opts.MaxAsked
	if !full {
		s.asks++
	}
	s.mu.Unlock()
	if full {
		go answer(AppendFailure(nil, m.ID(), profiles.Busy("mcp_asked", "the client has too much to answer")))
		return
	}
	s.push(msg)
}

// push queues a message for the client, if there is room.
func (s *serverSession) push(msg message) bool {
	s.mu.Lock()
	n := len(msg.octets)
	if s.closed || len(s.due) >= s.m.opts.MaxPending || len(s.due) > 0 && s.dueSize+n > maxDueOctets {
		s.mu.Unlock()
		s.undelivered(&msg)
		return false
	}
	s.due = append(s.due, msg)
	s.dueSize += n
	s.startPump()
	s.mu.Unlock()
	return true
}

// undelivered gives up a message.
func (s *serverSession) undelivered(msg *message) {
	if msg.kind == Notification {
		s.m.stats.dropped.Add(1)
		return
	}
	fault := profiles.Busy("mcp_pending", "the client is not there")
	go s.answer(msg, fault)
}

// answer tells the server that its request failed.
func (s *serverSession) answer(msg *message, err error) {
	var m Message
	_ = m.Scan(msg.octets) // was scanned before
	s.answerWith(msg, AppendFailure(nil, m.ID(), err))
}

func (s *serverSession) answerWith(msg *message, octets []byte) {
	msg.answer(octets)
	s.mu.Lock()
	s.asks--
	for _, x := range s.open {
		x.touch() // the server was waiting for this answer
	}
	s.mu.Unlock()
}

// startPump starts sending if there is a path. The caller holds mu.
func (s *serverSession) startPump() {
	if !s.pumping && !s.closed && len(s.due) > 0 && (s.home != nil || s.listener != nil) {
		s.pumping = true
		go s.pump()
	}
}

func (s *serverSession) pump() {
	for {
		s.mu.Lock()
		if s.closed || len(s.due) == 0 {
			s.pumping = false
			s.mu.Unlock()
			return
		}
		msg := s.due[0]
		path, ok := s.path()
		if !ok {
			s.pumping = false
			s.mu.Unlock()
			return
		}
		if s.counted != path.sess {
			s.counted = path.sess
			s.window.Forget()
		}
		if msg.kind == Notification && s.window.Full() {
			s.pumping = false // confirm follows
			s.mu.Unlock()
			path.unpin()
			return
		}
		sent, mark := s.window.After(weightOf(len(msg.octets)))
		s.sending = true
		s.mu.Unlock()
		var asks uint64
		if mark {
			asks = sent
		}
		err := s.send(&msg, path, asks)
		path.unpin()

		s.mu.Lock()
		s.sending = false
		if err == nil && msg.kind == Notification {
			s.window.Sent(sent, mark)
		}
		if s.closed { // close has handled the messages behind it
			s.pumping = false
			s.mu.Unlock()
			if err != nil {
				s.undelivered(&msg)
			}
			return
		}
		if err != nil && path.sess.Context().Err() != nil {
			// The path is lost, but not the message. It stays in the queue for the next
			// path, which starts a pump.
			if s.listener != nil && s.listener.conn.sess == path.sess {
				s.listener = nil
				s.room.Open()
			}
			if s.home != nil && s.home.sess == path.sess {
				s.pumping = false
				s.mu.Unlock()
				return // lost follows
			}
			s.mu.Unlock()
			continue
		}
		if err != nil && s.listener != nil && s.listener.lane == path.lane && !errors.As(err, new(*profiles.Error)) {
			s.listener = nil // it has ended its stream, but the connection is open
			s.room.Open()
			s.mu.Unlock()
			continue
		}
		s.due = slices.Delete(s.due, 0, 1)
		s.dueSize -= len(msg.octets)
		s.room.Open()
		s.mu.Unlock()
		if err != nil {
			s.undelivered(&msg)
		}
	}
}

// path is a path to the client. lane is nil if no usable one is known.
type path struct {
	sess  profiles.Session
	lane  profiles.Lane
	unpin func()
}

// path returns the best path to the client: where it listens, else the lane of the newest
// exchange, else its connection. If it listens on another connection than the one used
// last, and waits for an answer on that one, the listening connection may be lost without
// being detected yet. A lane may be used only while an exchange on it is open, so it is
// pinned until unpin. The caller holds mu.
func (s *serverSession) path() (path, bool) {
	l := s.listener
	if l != nil && (s.home == nil || l.conn == s.home) && l.pin() {
		return path{l.conn.sess, l.lane, l.unpin}, true
	}
	for _, x := range slices.Backward(s.open) {
		if s.home != nil && x.conn == s.home && x.pin() {
			return path{s.home.sess, x.req.Lane, x.unpin}, true
		}
	}
	switch {
	case l != nil && l.pin():
		return path{l.conn.sess, l.lane, l.unpin}, true
	case s.home == nil:
		return path{}, false
	}
	return path{s.home.sess, nil, func() {}}, true
}

// confirm notes that the client has taken the notifications up to a weight.
func (s *serverSession) confirm(sent uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.window.Confirm(sent) {
		s.used = time.Now()
		s.startPump()
	}
}

// send sends one message. A request gets a goroutine that waits for its answer. A notification asks
// the client to confirm it with a number, unless that is 0.
func (s *serverSession) send(msg *message, p path, asks uint64) error {
	env := e1.Envelope{
		ProfileID: ProfileID, MsgType: uint64(msg.kind), Payload: msg.octets,
		Extensions: e1.AppendExtension(nil, ExtSession, []byte(s.id)),
	}
	if s.hidden {
		env.Extensions = nil
	}
	if msg.related != nil {
		env.Extensions = e1.AppendExtension(env.Extensions, ExtRelated, msg.related)
	}
	if msg.kind == Notification {
		if asks > 0 {
			env.Extensions = e1.AppendExtensionUvarint(env.Extensions, ExtWindow, asks)
		}
		if p.lane == nil {
			return p.sess.Send(s.ctx, env)
		}
		return p.lane.Send(s.ctx, env)
	}
	open := p.sess.Call
	if p.lane != nil {
		open = p.lane.Call
	}
	call, err := open(s.ctx, env)
	if err != nil {
		return err
	}
	go s.await(msg, call, p)
	return nil
}

// leftBehind repeats a request once if the client half-closed its path on a connection that
// is still open: the client no longer listened there, and cannot answer on that stream. It
// reports whether this is so.
func (s *serverSession) leftBehind(msg *message, err error, p path) bool {
	if msg.again || errors.As(err, new(*profiles.Error)) || s.ctx.Err() != nil || p.sess.Context().Err() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.due) >= s.m.opts.MaxPending {
		return false
	}
	if s.listener != nil && s.listener.lane == p.lane {
		s.listener = nil
		s.room.Open()
	}
	again := *msg
	again.again = true
	s.due = append(s.due, again)
	s.dueSize += len(again.octets)
	s.startPump()
	return true
}

// await forwards the client's answer to the server, or reports that it is missing.
func (s *serverSession) await(msg *message, call profiles.Call, p path) {
	defer call.Close()
	ctx, cancel := context.WithTimeout(s.ctx, s.m.opts.LongIdle)
	defer cancel()
	env, err := call.Recv(ctx)
	if err != nil && ctx.Err() == nil && s.leftBehind(msg, err, p) {
		return
	}
	if err != nil {
		s.answer(msg, err)
		return
	}
	// Only this request is answered: a client cannot answer another one under its id.
	var asked, answer Message
	_ = asked.Scan(msg.octets) // was scanned before
	if err := answer.Scan(env.Payload); err != nil {
		s.answer(msg, err)
		return
	}
	if TokenKey(answer.ID()) != TokenKey(asked.ID()) {
		s.answer(msg, invalid(detailShape, "the answer has another id"))
		return
	}
	s.answerWith(msg, env.Payload)
}

// listener is where the client of a session listens.
type listener struct {
	conn    *conn
	lane    profiles.Lane
	standby bool // for an endpoint whose client does not listen

	mu    sync.Mutex
	over  bool
	uses  int
	why   error // with over: the argument of ended
	ended func(error)
}

func (l *listener) pin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.uses++
	return true
}

func (l *listener) unpin() {
	l.mu.Lock()
	l.uses--
	l.finish()
}

// end ends the listening when its lane is no longer in use. The first why counts.
func (l *listener) end(why error) {
	l.mu.Lock()
	if !l.over {
		l.over, l.why = true, why
	}
	l.finish()
}

// finish is called with mu held and releases it.
func (l *listener) finish() {
	var ended func(error)
	if l.over && l.uses == 0 {
		ended, l.ended = l.ended, nil
	}
	why := l.why
	l.mu.Unlock()
	if ended != nil {
		ended(why)
	}
}
