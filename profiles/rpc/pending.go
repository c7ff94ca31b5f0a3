package rpc

import (
	"context"
	"sync"

	"github.com/slimwire/swp/profiles"
)

// Pending is an open call of a Held method. It is safe for concurrent use, and
// no method waits. One of Return and Fail must be called in the end; once the
// call is over, whoever ended it, they do nothing.
type Pending struct {
	session profiles.Session
	lane    profiles.Lane
	rpcID   []byte
	w       profiles.Responder
	ctx     context.Context
	stop    context.CancelCauseFunc
	unwatch func() bool
	forget  func()
	after   func(f func()) bool // of the request; nil once Held has returned

	mu   sync.Mutex
	seq  uint64
	over bool
}

// Session is the connection of the caller.
func (p *Pending) Session() profiles.Session { return p.session }

// Lane is where the call came; what belongs to it is sent there.
func (p *Pending) Lane() profiles.Lane { return p.lane }

// After calls f once every message that was deferred earlier on the caller's
// stream is done, see profiles.Request; at once if there is none. f must not
// block. After belongs to Held: it may be called until that returns.
func (p *Pending) After(f func()) {
	if p.after == nil || !p.after(f) {
		f()
	}
}

// Context ends when the call is over, in whichever way: returned, failed,
// cancelled by the caller, or the caller is gone.
func (p *Pending) Context() context.Context { return p.ctx }

// Item queues a stream item. It fails with profiles.ErrFinished when the call
// is over.
func (p *Pending) Item(item []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.ctx.Err() != nil {
		return profiles.ErrFinished
	}
	p.seq++
	return sendItem(p.w, p.rpcID, p.seq, item)
}

// Return ends the call with its result. It fails with profiles.ErrFinished when
// the call is over already.
func (p *Pending) Return(result []byte) error {
	err := profiles.ErrFinished
	if p.ctx.Err() == nil {
		p.end(nil, func() { err = finish(p.w, p.rpcID, result) })
	}
	return err
}

// Fail ends the call with an error, as if a method had returned it. Nil stands
// for internal.
func (p *Pending) Fail(err error) {
	p.end(err, func() {
		answer, fault := failure(err)
		if fault != nil {
			p.w.Fail(fault)
			return
		}
		if err := finishErr(p.w, p.rpcID, answer); err != nil {
			p.w.Fail(nil) // nobody is left to be told
		}
	})
}

// end runs last if the call is not over yet. The rpc_id is free before.
func (p *Pending) end(cause error, last func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.over = true
	p.forget()
	last()
	p.unwatch()
	p.stop(cause)
}

// hold opens the call of a Held method.
func (s *service) hold(req *profiles.Request, in *Req, m Method) error {
	p := &Pending{session: req.Session, lane: req.Lane}
	if err := s.open(p, req, in.RPCID, m.Long); err != nil {
		return err
	}
	p.after = req.After
	err := m.Held(p, in.Params)
	p.after = nil
	if err != nil {
		p.Fail(err)
	}
	return nil
}

// open enters the call and takes over its exchange. It keeps the lock, because
// an RPC_CANCEL on another stream may find the call as soon as it is entered.
func (s *service) open(p *Pending, req *profiles.Request, rpcID []byte, long bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := s.live.add(req.Session, rpcID, func() { p.Fail(errCancelled) })
	if l == nil {
		return errInUse()
	}
	p.rpcID = []byte(l.key.rpcID)
	p.forget = func() { s.live.remove(l) }
	hold := req.Hold
	if long {
		hold = req.HoldLong
	}
	_, w, err := hold()
	if err != nil {
		p.over = true
		p.forget()
		return err
	}
	p.w = w
	p.ctx, p.stop = context.WithCancelCause(w.Context())
	p.unwatch = context.AfterFunc(p.ctx, func() { p.end(nil, func() { w.Fail(nil) }) })
	return nil
}
