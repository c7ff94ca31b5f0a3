package endpoint

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
)

// responder is a lane as the profiles.Responder of the message being served.
type responder lane

func (r *responder) Send(env e1.Envelope) error { return (*lane)(r).answer(&env, false) }

// answer sends an answer to the message being served.
func (l *lane) answer(env *e1.Envelope, terminal bool) error {
	if l.ended || l.taken != nil {
		return profiles.ErrFinished
	}
	l.answering(&l.req, env, l.now)
	size, err := l.out.sizeOf(env)
	if err != nil {
		return err
	}
	if terminal {
		l.s.ep.count(&l.account, l.req.MsgID, env, size)
		l.last(&l.account, &l.req, nil, l.reqCtx)
		return l.out.queue(l.ctx, env, size, inline)
	}
	if err = l.out.queue(l.ctx, env, size, inline); err == nil {
		l.s.ep.count(&l.account, l.req.MsgID, env, size)
		l.s.alongside(l.reqCtx, env, l.req.MsgID)
	}
	return err
}

func (r *responder) Finish(env e1.Envelope) error {
	err := (*lane)(r).answer(&env, true)
	if err == nil {
		r.ended = true
	}
	return err
}

// Fail does nothing inside Serve, which returns its error instead.
func (r *responder) Fail(error) {}

func (r *responder) Context() context.Context { return r.reqCtx }

// answering fills in the fields that an answer copies from its request.
func (l *lane) answering(req *profiles.Request, env *e1.Envelope, now time.Time) {
	if len(env.MsgID) == 0 {
		env.MsgID = req.MsgID
	}
	if env.ProfileID == 0 {
		env.ProfileID = req.ProfileID
	}
	l.complete(env, now)
}

// exchanger is a lane as the profiles.Exchange of the message being served.
type exchanger lane

var errTaken = errors.New("endpoint: the request was detached, held or answered already")

func (x *exchanger) Scratch(n int) []byte {
	if cap(x.scratch) < n {
		x.s.ep.pool.Put(x.scratch)
		x.scratch = x.s.ep.pool.Get(n)
	}
	return x.scratch[:0]
}

func (x *exchanger) Detach(_ *profiles.Request, f func(context.Context, *profiles.Request, profiles.Responder) error) error {
	l := (*lane)(x)
	ep := l.s.ep
	who := l.req.Identity()
	if fault := ep.handlers.take(who, ep.opts.Load().Bounds.Handlers); fault != nil {
		return fault
	}
	e, err := l.take(waits, false)
	if err != nil {
		ep.handlers.give(who)
		return err
	}
	go e.run(f, who)
	return nil
}

// handlers are the places of detached handlers, which the identities of all connections
// share.
type handlers struct {
	mu     sync.Mutex
	places fair.Shares
}

var errHandlers = profiles.Busy("handlers", "too many requests are being handled")

func (h *handlers) take(identity string, bound int) *profiles.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places.Bound(bound)
	return h.places.Take(identity, 1).Refuse(errHandlers)
}

func (h *handlers) give(identity string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places.Give(identity, 1)
}

// Handlers returns who uses the places of detached handlers.
func (ep *Endpoint) Handlers() fair.Pool {
	ep.handlers.mu.Lock()
	defer ep.handlers.mu.Unlock()
	ep.handlers.places.Bound(ep.opts.Load().Bounds.Handlers)
	return ep.handlers.places.Pool("handlers")
}

func (h *handlers) running() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.places.Used()
}

func (x *exchanger) Hold(_ *profiles.Request, long bool) (*profiles.Request, profiles.Responder, error) {
	e, err := (*lane)(x).take(refuses, long)
	if err != nil {
		return nil, nil, err
	}
	return &e.req, e, nil
}

// exchange is a request whose handling continues after Serve has returned. It is the
// profiles.Responder of that request.
type exchange struct {
	s       *Session
	l       *lane // not used once the exchange has ended
	profile *profiles.Profile
	req     profiles.Request // owns its octets: buf
	buf     []byte
	paid    int // octets that are charged for buf
	seq     uint64
	size    int
	mode    patience
	long    bool
	ctx     context.Context
	cancel  context.CancelCauseFunc // of ctx; nil of a deferred message
	ended   func(Verdict)           // see Tracer; may be nil
	account account
	gone    bool           // the connection was lost when the exchange ended without an answer
	payer   *profiles.Peer // caller in whose part of the budget buf is, and of the places of the session; nil: none
	place   *deferral      // of a deferred message, in the order of its stream
	why     error          // it was revoked; nil: not so
	unwatch func()         // of its chain of credentials; nil: there is none

	lent loan // of buf, to Serve

	mu       sync.Mutex // held while an answer waits for the peer, unless mode is refuses
	answered bool       // a terminal answer was sent
	done     bool
}

// loan is the use of a request's buffer by Serve, which has not returned and shares it with the
// exchange. It has its own lock: the goroutine that reads the lane ends the loan, and an answer
// that waits for the peer must not keep it from reading on.
type loan struct {
	mu   sync.Mutex
	open bool
	owed func(*exchange) // to be called at the end; may be nil
}

// postpones reports whether the loan is open, and has f called at its end if it is.
func (l *loan) postpones(f func(*exchange)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.owed = f
	}
	return l.open
}

// served is called when Serve has returned.
func (e *exchange) served() {
	l := &e.lent
	l.mu.Lock()
	owed := l.owed
	l.open, l.owed = false, nil
	l.mu.Unlock()
	if owed != nil {
		owed(e)
	}
}

// smallCopy is the size up to which copies of requests are allocated exactly. A pool buffer
// has at least 4 KiB, too much for a thousand held requests of 40 octets. Copies of large requests are
// exact too: the buffer of a pool may have nearly twice as much.
const smallCopy = 1024

// newCopy returns an empty buffer for the copy of a request of n octets.
func (e *Endpoint) newCopy(n int) []byte {
	switch {
	case n > smallCopy && n <= memory.Small:
		return e.pool.Get(n)
	case n > memory.Small && e.pool.Large != nil:
		return e.pool.Large.Lend(n)[:0:n]
	}
	return make([]byte, 0, n)
}

// dropCopy takes back a buffer of newCopy that nobody uses any more.
func (e *Endpoint) dropCopy(buf []byte) {
	if cap(buf) > frame.Capacity(memory.Small) && e.pool.Large != nil {
		e.pool.Large.Return(buf)
		return
	}
	e.pool.Put(buf)
}

// take makes an exchange of the message being served and enters it in the table of requests in
// flight. The octets are copied, or the exchange takes over the buffer of the reader with the room
// that the message has: so it needs no second room after it was read.
func (l *lane) take(mode patience, long bool) (*exchange, error) {
	if l.taken != nil || l.ended {
		return nil, errTaken
	}
	s := l.s
	env := &l.req.Envelope
	n := len(env.MsgID) + len(env.Extensions) + len(env.Payload)
	room := n
	if n > smallCopy && n <= memory.Small {
		room = frame.Capacity(n)
	}
	of := memory.Of(l.size)
	payer := l.req.Caller
	whole := l.detaches(n)
	if whole {
		room = l.grown
		if payer != nil && !s.share.Assign(payer.Identity, room) {
			return nil, s.noRoom(room)
		}
	} else if err := s.holdFor(payer, room, of); err != nil {
		return nil, err
	}
	profile, _ := s.opts.Registry.Lookup(env.ProfileID)
	e := &exchange{
		s: s, l: l, profile: profile, req: l.req, seq: l.seq, size: l.size, mode: mode, long: long, ended: l.traced,
		account: l.account, payer: payer, paid: room,
	}
	e.ctx, e.cancel = context.WithCancelCause(l.reqCtx)
	if whole {
		e.lent.open = true // before another goroutine knows it
	}
	if err := s.register(e); err != nil {
		switch {
		case !whole:
			s.giveBackFor(payer, room, of)
		case payer != nil:
			s.share.Assign(payer.Identity, -room)
		}
		e.cancel(nil)
		return nil, err
	}
	if whole {
		e.buf, _ = l.detach()
	} else {
		e.buf = append(append(append(s.ep.newCopy(n), env.MsgID...), env.Extensions...), env.Payload...)
		id, ext := len(env.MsgID), len(env.MsgID)+len(env.Extensions)
		e.req.MsgID = e.buf[:id:id]
		e.req.Extensions = e1.Extensions(e.buf[id:ext:ext])
		e.req.Payload = e.buf[ext:n:n]
	}
	e.req.Exchange = taken{}
	l.hold()
	l.taken, l.traced, l.account.record = e, nil, nil
	if l.carries {
		e.watch()
	}
	if e.account.reviews != s.ep.reviews.Load() { // before the table had it
		go e.review()
	}
	return e, nil
}

// register enters an exchange in the table. It fails at a bound, and if the msg_id is in
// the table: on a multiplexed connection another stream may have entered it after the check
// in duplicate.
func (s *Session) register(e *exchange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.inflight[string(e.req.MsgID)]; known {
		return profiles.Errorf(profiles.DuplicateMsgID, "msg_id is in flight")
	}
	places, fault := s.placesOf(e)
	if refused := places.Take(e.sharer(), 1).Refuse(fault); refused != nil {
		return refused
	}
	if s.inflight == nil {
		s.inflight = make(map[string]*exchange)
	}
	s.inflight[string(e.req.MsgID)] = e
	s.exchanges++
	return nil
}

var (
	errLong     = profiles.Busy("long_exchanges", "too many long exchanges on this connection")
	errInFlight = profiles.Busy("in_flight", "too many requests in flight on this connection")
)

// placesOf returns the places of requests such as e, which the callers of the session share, and
// the refusal without one. The caller holds mu of the session.
func (s *Session) placesOf(e *exchange) (places *fair.Shares, fault *profiles.Error) {
	if e.long {
		s.long.Bound(s.bound(s.opts.LongOf, s.opts.Bounds.LongExchanges))
		return &s.long, errLong
	}
	s.short.Bound(s.bound(s.opts.InFlightOf, s.opts.Bounds.InFlight))
	return &s.short, errInFlight
}

// sharer returns the caller that the request is from, in the shares of its session; "" is the
// peer itself.
func (e *exchange) sharer() string {
	if e.payer == nil {
		return ""
	}
	return profiles.For(e.payer.Identity)
}

// bound returns the bound of the peer: by its identity if of knows one.
func (s *Session) bound(of func(identity string) int, otherwise int) int {
	if of != nil {
		if n := of(s.peer.Identity); n > 0 {
			return n
		}
	}
	return otherwise
}

// unregister removes an exchange from the table before the terminal answer is visible, so
// that its msg_id and its slot are free when the peer sees the answer.
func (e *exchange) unregister() {
	s := e.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inflight[string(e.req.MsgID)] != e {
		return
	}
	delete(s.inflight, string(e.req.MsgID))
	if e.long {
		s.long.Give(e.sharer(), 1)
	} else {
		s.short.Give(e.sharer(), 1)
	}
	if s.replay != nil {
		s.replay.add(e.req.MsgID, s.opts.Now())
	}
}

// errDeadline ends an exchange whose handler exceeded Bounds.Handler.
var errDeadline = &profiles.Error{Code: profiles.Internal, Detail: "deadline", Text: "the handler took too long", Retryable: true}

// errGoexit is the panic of a handler that ended its goroutine.
var errGoexit = errors.New("runtime.Goexit")

// run is the goroutine of a detached request of an identity.
func (e *exchange) run(f func(context.Context, *profiles.Request, profiles.Responder) error, who string) {
	ep := e.s.ep
	defer ep.handlers.give(who)
	ctx, cancel := context.WithTimeout(e.ctx, ep.opts.Load().Bounds.Handler)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			e.end(errDeadline, false)
		}
	})
	err := error(&PanicError{Value: errGoexit})
	defer func() {
		stop()
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		} else if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			err = errDeadline
		}
		e.end(err, true)
	}()
	err = f(ctx, &e.req, e)
}

func (e *exchange) Context() context.Context { return e.ctx }

func (e *exchange) Send(env e1.Envelope) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.send(env, false)
}

// SendLast implements profiles.SendLast.
func (e *exchange) SendLast(env e1.Envelope) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done || e.answered {
		return profiles.ErrFinished
	}
	e.l.answering(&e.req, &env, e.s.opts.Now())
	size, err := e.l.out.sizeOf(&env)
	if err != nil {
		return err
	}
	return e.l.out.queueFor(e.ctx, &env, size, e.mode, func() {
		e.s.ep.count(&e.account, e.req.MsgID, &env, size)
		e.l.last(&e.account, &e.req, nil, e.ctx)
	}, nil)
}

func (e *exchange) Finish(env e1.Envelope) error {
	e.mu.Lock()
	over := e.done || e.answered
	err := e.send(env, true)
	if e.mode != refuses {
		e.mu.Unlock()
		return err
	}
	if over { // it may have been revoked
		e.mu.Unlock()
		e.free()
		return err
	}
	v := e.conclude(err) // for a held exchange that was all
	e.mu.Unlock()
	e.carryOut(v)
	e.free()
	return err
}

// send sends an answer. The caller holds mu.
func (e *exchange) send(env e1.Envelope, terminal bool) error {
	if e.done || e.answered {
		return profiles.ErrFinished
	}
	e.l.answering(&e.req, &env, e.s.opts.Now())
	p := e.mode
	if terminal {
		e.unregister()
		p = e.last()
	}
	size, err := e.l.out.sizeOf(&env)
	if err == nil {
		if terminal {
			e.s.ep.count(&e.account, e.req.MsgID, &env, size)
			e.l.last(&e.account, &e.req, nil, e.ctx)
		}
		err = e.queue(&env, size, p)
		if err == nil && !terminal { // one that was not sent is sent again, or never
			e.s.ep.count(&e.account, e.req.MsgID, &env, size)
			e.s.alongside(e.ctx, &env, e.req.MsgID)
		}
	}
	var fault *profiles.Error
	if errors.As(err, &fault) && terminal {
		// The answer is too large to send. A short error replaces it, so that the peer does
		// not wait for ever.
		e.account.unsent()
		e.l.answerRefusal(e.profile, &e.req, &e.account, fault, false, p, e.ctx)
	}
	e.answered = terminal
	return err
}

// queue queues an answer. A handler that waits while its peer does not read holds a large
// answer in memory, so the answer counts until it is written.
func (e *exchange) queue(env *e1.Envelope, size int, p patience) error {
	if p == waits && size > memory.Small {
		if !e.s.share.Take(e.ctx, size, memory.Large, time.Now().Add(e.s.opts.Bounds.Write)) {
			return e.s.noRoom(size)
		}
		defer e.s.share.Give(size, memory.Large)
	}
	var held *exchange
	if p == answers {
		held = e
	}
	return e.l.out.queueFor(e.ctx, env, size, p, nil, held)
}

// payFor pays n octets of the last answer with the octets of the held request. The answer may be a copy
// of them. So a request is answered even if requests have filled the budget. The caller holds mu,
// and frees the buffer of the request at once, or when Serve has returned.
func (e *exchange) payFor(n int, of memory.Size) bool {
	who := ""
	if e.payer != nil {
		who = e.payer.Identity
	}
	if e.paid == 0 || !e.s.share.Swap(who, e.paid, memory.Of(e.size), n, of) {
		return false
	}
	e.s.allowance.tryTake(-e.paid)
	e.paid = 0
	return true
}

// last returns the patience for the terminal answer.
func (e *exchange) last() patience {
	if e.mode == refuses {
		return answers
	}
	return e.mode
}

// Fail ends a held exchange. A detached function returns its error instead.
func (e *exchange) Fail(err error) {
	if e.mode == refuses {
		e.end(err, true)
	}
}

// end ends the exchange once; the error of the first call decides the verdict. through says
// that the handler no longer uses the request. Without it, as at a deadline, the handler
// may still use the request: until it returns, the octets of the request stay allocated and
// counted, and the lane is not reused.
func (e *exchange) end(err error, through bool) {
	if through {
		defer e.free()
	}
	e.mu.Lock()
	if e.done {
		e.mu.Unlock()
		return
	}
	if !through {
		e.l.late.Store(true)
	}
	if answer, ok := profiles.AnswerOf(err); ok {
		err = e.send(answer, true)
	}
	v := e.conclude(err)
	e.mu.Unlock()
	e.carryOut(v)
}

// conclude decides how the exchange ended. The caller holds mu.
func (e *exchange) conclude(err error) Verdict {
	e.done = true
	e.unregister()
	v := Verdict{
		Session: e.s, Lane: e.l.id, Seq: e.seq, ProfileID: e.req.ProfileID, MsgType: e.req.MsgType,
		Flags: e.req.Flags, MsgID: e.req.MsgID, Bytes: e.size,
	}
	switch {
	case err == nil:
		e.gone = !e.answered && e.place == nil && e.ctx.Err() != nil
	case e.s.unanswerable(e.ctx, err, e.answered):
		v.Detail, v.Err = detailGone, err
	default:
		e.refuse(profiles.AsError(err), &v)
	}
	return v
}

// carryOut reports the verdict and applies its action. It is called once, without mu.
func (e *exchange) carryOut(v Verdict) {
	l, s := e.l, e.s
	s.opts.Observer.Verdict(v)
	if e.ended != nil {
		e.ended(v)
	}
	s.report(&e.account, &e.req, &v, e.ctx, e.gone)
	e.account.forget()
	switch v.Action {
	case Closed:
		s.close(profiles.RateLimitExceeded, errBudget)
	case Reset:
		l.sever(v.Code, false)
	case Kept:
	}
	if e.place != nil {
		e.leaveQueue()
	} else {
		e.cancel(e.why)
		if e.unwatch != nil {
			e.unwatch()
		}
	}
	s.touch(time.Now()) // idle begins here
	s.mu.Lock()
	s.exchanges--
	s.mu.Unlock()
	l.release()
	s.checkDrained()
}

// refuse charges the error budget, sends the error to the peer and fills in the verdict.
// The caller holds mu.
func (e *exchange) refuse(fault *profiles.Error, v *Verdict) {
	v.Code, v.Detail, v.Err, v.Reject = fault.Code, fault.Detail, fault, !fault.Domain
	spent := e.s.chargeRefusal(&e.req, fault)
	told := e.l.answerRefusal(e.profile, &e.req, &e.account, fault, e.answered, e.last(), e.ctx)
	if !v.Reject {
		return
	}
	switch {
	case spent:
		v.Action = Closed
	case !told && e.s.conn.Multiplexed():
		v.Action = Reset
	}
}

// free releases the octets of the request.
func (e *exchange) free() {
	if e.lent.postpones((*exchange).free) {
		return
	}
	e.mu.Lock()
	buf, paid := e.buf, e.paid
	e.buf, e.paid = nil, 0
	e.mu.Unlock()
	e.s.giveBackFor(e.payer, paid, memory.Of(e.size))
	e.s.ep.dropCopy(buf)
}

// Shed implements profiles.Shedder.
func (e *exchange) Shed() {
	if e.mode != refuses {
		return
	}
	e.mu.Lock()
	if e.done || e.answered || e.lent.postpones((*exchange).Shed) {
		e.mu.Unlock()
		return
	}
	buf, paid := e.buf, e.paid
	e.buf = bytes.Clone(e.req.MsgID)
	e.req.MsgID, e.req.Extensions, e.req.Payload = e.buf, nil, nil
	e.paid = len(e.buf)
	e.mu.Unlock()
	e.s.giveBackFor(e.payer, paid-len(e.buf), memory.Of(e.size))
	e.s.ep.dropCopy(buf)
}

// taken is the Exchange of a request that was already detached or held.
type taken struct{}

func (taken) Detach(*profiles.Request, func(context.Context, *profiles.Request, profiles.Responder) error) error {
	return errTaken
}

func (taken) Hold(*profiles.Request, bool) (*profiles.Request, profiles.Responder, error) {
	return nil, nil, errTaken
}

func (taken) Scratch(n int) []byte { return make([]byte, 0, n) }
