package endpoint

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
)

// maxAnswers is how many answers of one call wait for Recv before the call
// fails: the read loop does not wait for slow callers.
const maxAnswers = 1024

// call is a request of this side and the answers to it. It is pooled.
type call struct {
	s     *Session
	l     *lane
	n     uint64 // second half of id
	id    [16]byte
	alone bool          // l was opened for this call
	ends  bool          // its profile has answers that end an exchange
	prof  uint64        // profile_id, also of its answers
	ready chan struct{} // one slot: there is something to look at
	kept  *callRecord   // nil: the Recorder is not told

	mu    sync.Mutex
	queue []answer
	head  int
	bytes int
	after int64  // large frames of the session up to this request
	ended bool   // by its terminal answer
	err   error  // after the queue
	fault []byte // payload of the error frame behind err, if it is to be recorded

	// The state of Recv.
	env   e1.Envelope
	held  octets // what env aliases
	clean bool   // the last Recv returned an answer
}

// octets is the buffer of an answer with its charge.
type octets struct {
	buf  []byte
	paid int
	own  bool // the connection is charged as well, as it was when the answer was read
}

// freeAnswer is the size up to which a queued answer does not count against the budget for
// octets in flight. With maxAnswers, a call queues at most 4 MiB of such answers.
const freeAnswer = 4096

// answer is a received envelope with its variable octets in one buffer.
type answer struct {
	octets
	env  e1.Envelope // without msg_id
	last bool        // it ends the call
}

func newCall() *call { return &call{ready: make(chan struct{}, 1)} }

// call sends env as a request. fin ends our side of the stream with it.
func (l *lane) call(ctx context.Context, env e1.Envelope, alone bool) (*call, error) {
	s := l.s
	c := s.ep.calls.Get().(*call) //nolint:errcheck // the pool holds nothing else
	c.s, c.l, c.alone, c.prof = s, l, alone, env.ProfileID
	if p, ok := s.opts.Registry.Lookup(env.ProfileID); ok {
		c.ends = p.Ends()
	}
	c.n = s.nextID(&c.id)
	env.MsgID = c.id[:]
	env.Extensions = profiles.AppendChain(ctx, env.Extensions)
	l.complete(&env, s.opts.Now())
	if err := s.tell(ctx, &env); err != nil {
		s.ep.calls.Put(c)
		return nil, err
	}
	if !l.hold() {
		s.ep.calls.Put(c)
		return nil, s.over()
	}
	c.after = s.larges.Load()
	if env.Size()+frame.HeaderSize > memory.Small {
		c.after++
	}
	s.mu.Lock()
	if err := l.deaf; err != nil {
		s.mu.Unlock()
		s.ep.calls.Put(c)
		l.release()
		return nil, err
	}
	if s.calls == nil {
		s.calls = make(map[uint64]*call)
	}
	s.calls[c.n] = c
	s.mu.Unlock()
	s.calling.Add(1)
	// The check follows the entry in the table: a goroutine that ends the session at the
	// same time either finds the call there, or its error is seen here.
	err := s.err()
	if ahead := profiles.AheadOf(ctx); ahead != nil && err == nil {
		err = ahead(profiles.WithAhead(ctx, nil), l, &env)
	}
	if err == nil {
		c.kept = s.records(ctx, &env)
		err = l.out.send(ctx, &env, waits)
	}
	if errors.Is(err, profiles.ErrFinished) { // the stream is being closed
		err = s.over()
	}
	if err != nil {
		c.forget()
		c.alone = false // the lane is its opener's again
		c.Close()
		return nil, err
	}
	if alone {
		l.out.closeWrite()
	}
	return c, nil
}

func (c *call) MsgID() []byte { return c.id[:] }

func (c *call) Lane() profiles.Lane { return c.l }

func (c *call) Recv(ctx context.Context) (*e1.Envelope, error) {
	c.giveBack(c.held)
	c.held, c.clean = octets{}, false
	for {
		c.mu.Lock()
		if c.head < len(c.queue) {
			a := &c.queue[c.head]
			c.env, c.held = a.env, a.octets
			c.env.MsgID = c.id[:]
			c.bytes -= len(a.buf)
			*a = answer{last: a.last}
			if c.head++; c.head == len(c.queue) {
				c.queue, c.head = c.queue[:0], 0
			}
			last := a.last
			c.mu.Unlock()
			c.clean = true
			if c.kept != nil {
				c.received(last)
			}
			return &c.env, nil
		}
		err := c.err
		c.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *call) Close() {
	if c.kept != nil {
		c.record(false)
	}
	s, l, alone, clean := c.s, c.l, c.alone, c.clean
	s.touch(time.Now()) // idle begins here
	s.mu.Lock()
	delete(s.calls, c.n)
	if c.ends && !c.ended {
		s.givenUp.add(c.n)
	}
	ended := c.ended
	s.mu.Unlock()
	if !ended {
		s.limiter.expectLate()
	}
	s.calling.Add(-1)
	// From here no other goroutine finds the call.
	c.giveBack(c.held)
	for i := c.head; i < len(c.queue); i++ {
		c.giveBack(c.queue[i].octets)
		c.queue[i] = answer{}
	}
	select {
	case <-c.ready:
	default:
	}
	*c = call{ready: c.ready, queue: c.queue[:0]}
	s.ep.calls.Put(c)
	if alone {
		if clean {
			_ = l.Close()
		} else {
			l.Reset()
		}
	}
	l.release()
	s.checkDrained()
}

// giveBack returns the octets of an answer.
func (c *call) giveBack(o octets) {
	c.s.uncharge(o)
	c.s.ep.pool.Put(o.buf)
}

// uncharge returns what is charged for an answer.
func (s *Session) uncharge(o octets) {
	if o.own {
		s.giveBack(o.paid, memory.Large)
	} else {
		s.share.Give(o.paid, memory.Of(len(o.buf)))
	}
}

// push queues an answer. The caller holds the session's mu. It returns false if the call
// has ended.
func (c *call) push(a answer, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	if len(c.queue)-c.head >= maxAnswers || c.bytes+len(a.buf) > limit && c.bytes > 0 {
		c.err = untaken(profiles.Busy("slow_caller", "answers were not received in time"))
		c.wake()
		return false
	}
	if c.head >= maxAnswers {
		// Compact the queue: a caller that is always slightly behind must not make it grow.
		c.queue = c.queue[:copy(c.queue, c.queue[c.head:])]
		c.head = 0
	}
	c.queue = append(c.queue, a)
	c.bytes += len(a.buf)
	c.wake()
	return true
}

func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.wake()
}

func (c *call) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// hand hands the answer being served to the call that waits for it. A terminal one ends the call.
// The octets are copied, or the call takes over the buffer of the reader with the room that the answer
// has.
func (l *lane) hand(n uint64, terminal bool) disposition {
	s, env := l.s, &l.req.Envelope
	a := answer{env: *env, last: terminal}
	a.env.MsgID = nil
	size := len(env.Extensions) + len(env.Payload)
	if l.detaches(size) {
		copy(l.answerTo[:], env.MsgID)
		env.MsgID, env.Extensions, env.Payload = l.answerTo[:len(env.MsgID)], nil, nil
		a.buf, a.paid = l.detach()
		a.own = true
		return s.deliver(n, a, env.ProfileID)
	}
	if size > freeAnswer {
		if a.paid = frame.Capacity(size); !s.share.Try(a.paid, memory.Of(size)) {
			if s.failCall(n, profiles.Busy("in_flight_bytes", "too many octets in flight")) {
				s.ep.unread.Add(1)
				return awaited
			}
			return s.dispositionOf(n, terminal)
		}
	}
	a.buf = append(append(s.ep.pool.Get(size), env.Extensions...), env.Payload...)
	ext := len(env.Extensions)
	a.env.Extensions, a.env.Payload = e1.Extensions(a.buf[:ext:ext]), a.buf[ext:size:size]
	return s.deliver(n, a, env.ProfileID)
}

// deliver queues an answer at its call.
func (s *Session) deliver(n uint64, a answer, profile uint64) disposition {
	s.mu.Lock()
	c := s.calls[n]
	over := c == nil || c.ended
	if !over && c.prof != profile {
		c.fail(errForeign)
		over = true
	}
	if !over {
		s.answeredAfter(c.after)
	}
	ok := !over && c.push(a, s.opts.Bounds.InFlightBytesPerConn)
	if !over && a.last {
		c.ended = true
	}
	s.answered = true
	s.mu.Unlock()
	if !ok && !over {
		s.ep.unread.Add(1)
	}
	if !ok {
		s.uncharge(a.octets)
		s.ep.pool.Put(a.buf)
	}
	if over {
		return s.dispositionOf(n, a.last)
	}
	return awaited
}

// failCall ends a call with an error and reports whether the call was open.
func (s *Session) failCall(n uint64, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[n]
	if c != nil {
		c.fail(err)
	}
	return c != nil
}

// refuseCall is failCall for an error frame of the peer.
func (s *Session) refuseCall(n uint64, fault *profiles.Error, env *e1.Envelope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[n]
	if c == nil {
		return false
	}
	if s.ep.asked != nil {
		c.mu.Lock()
		c.fault = bytes.Clone(env.Payload)
		c.mu.Unlock()
	}
	c.fail(fault)
	return true
}

// failCallsOf fails the present and future calls on a stream on which no answer can arrive
// any more. If it is the only stream, Leaving ends first: a caller whose call fails may make the
// next one at once, and needs another session for it.
func (s *Session) failCallsOf(l *lane, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.conn.Multiplexed() {
		s.left.give(err)
	}
	if l.deaf == nil {
		l.deaf = err
	}
	for _, c := range s.calls {
		if c.l == l {
			c.fail(err)
		}
	}
}

func (s *Session) failCalls(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		c.fail(err)
	}
}

// disposition classifies an answer.
type disposition uint8

const (
	awaited disposition = iota // for an open call, or one that has just failed
	belated                    // for a call that was closed before its end
	excess                     // for a call that has ended, or is forgotten
)

// dispositionOf classifies an answer without an open call. After the terminal answer of a
// call that was closed early, no further answer to it may arrive.
func (s *Session) dispositionOf(n uint64, terminal bool) disposition {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.givenUp.has(n):
		return excess
	case terminal:
		s.givenUp.remove(n)
	}
	return belated
}

// givenUp is a set of calls that were closed before their end. The peer may still send
// answers to them. At most maxGivenUp calls are remembered; the older half is forgotten at
// once.
type givenUp struct{ now, before map[uint64]struct{} }

const maxGivenUp = 4096

func (g *givenUp) add(n uint64) {
	if len(g.now) >= maxGivenUp/2 {
		g.now, g.before = nil, g.now
	}
	if g.now == nil {
		g.now = make(map[uint64]struct{})
	}
	g.now[n] = struct{}{}
}

func (g *givenUp) has(n uint64) bool {
	if _, ok := g.now[n]; ok {
		return true
	}
	_, ok := g.before[n]
	return ok
}

func (g *givenUp) remove(n uint64) {
	delete(g.now, n)
	delete(g.before, n)
}
