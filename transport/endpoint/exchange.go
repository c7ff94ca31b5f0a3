package endpoint

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// responder is a lane as the profiles.Responder of the message being served.
type responder lane

func (r *responder) Send(env e1.Envelope) error {
	l := (*lane)(r)
	if l.ended || l.taken != nil {
		return profiles.ErrFinished
	}
	l.answering(&l.req, &env, l.now)
	return l.out.send(l.ctx, &env, inline)
}

func (r *responder) Finish(env e1.Envelope) error {
	err := r.Send(env)
	if err == nil {
		r.ended = true
	}
	return err
}

// Fail does nothing inside Serve, which returns its error instead.
func (r *responder) Fail(error) {}

func (r *responder) Context() context.Context { return r.ctx }

// answering fills in what an answer takes from its request.
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
	if ep.handler.Add(1) > int64(ep.opts.Bounds.Handlers) {
		ep.handler.Add(-1)
		return profiles.Busy("handlers", "too many requests are being handled")
	}
	e, err := l.take(waits, false)
	if err != nil {
		ep.handler.Add(-1)
		return err
	}
	go e.run(f)
	return nil
}

func (x *exchanger) Hold(_ *profiles.Request, long bool) (*profiles.Request, profiles.Responder, error) {
	e, err := (*lane)(x).take(refuses, long)
	if err != nil {
		return nil, nil, err
	}
	return &e.req, e, nil
}

// exchange is a request whose handling goes on after Serve returned. It is the
// profiles.Responder of that request.
type exchange struct {
	l       *lane
	profile *profiles.Profile
	req     profiles.Request // owns its octets: buf
	buf     []byte
	seq     uint64
	size    int
	mode    patience
	long    bool
	ctx     context.Context

	mu       sync.Mutex
	answered bool // a terminal answer was sent
	done     bool
}

// take copies the message being served into an exchange and enters it in the
// table of what is in flight.
func (l *lane) take(mode patience, long bool) (*exchange, error) {
	if l.taken != nil || l.ended {
		return nil, errTaken
	}
	s, b := l.s, &l.s.ep.opts.Bounds
	env := &l.req.Envelope
	n := len(env.MsgID) + len(env.Extensions) + len(env.Payload)
	s.mu.Lock()
	full := !long && len(s.inflight)-s.long >= b.InFlight || long && s.long >= b.LongExchanges
	s.mu.Unlock()
	if full {
		return nil, profiles.Busy("in_flight", "too many requests in flight on this connection")
	}
	if !s.hold(n) {
		return nil, profiles.Busy("in_flight_bytes", "too many octets in flight")
	}
	profile, _ := s.ep.opts.Registry.Lookup(env.ProfileID)
	e := &exchange{
		l: l, profile: profile, req: l.req, seq: l.seq, size: l.size, mode: mode, long: long, ctx: l.ctx,
		buf: s.ep.pool.Get(n),
	}
	e.buf = append(append(append(e.buf, env.MsgID...), env.Extensions...), env.Payload...)
	id, ext := len(env.MsgID), len(env.MsgID)+len(env.Extensions)
	e.req.MsgID = e.buf[:id:id]
	e.req.Extensions = e1.Extensions(e.buf[id:ext:ext])
	e.req.Payload = e.buf[ext:n:n]
	e.req.Exchange = taken{}
	s.mu.Lock()
	if s.inflight == nil {
		s.inflight = make(map[string]*exchange)
	}
	s.inflight[string(e.req.MsgID)] = e
	if long {
		s.long++
	}
	s.mu.Unlock()
	l.hold()
	l.taken = e
	return e, nil
}

// run is the goroutine of a detached request.
func (e *exchange) run(f func(context.Context, *profiles.Request, profiles.Responder) error) {
	ep := e.l.s.ep
	defer ep.handler.Add(-1)
	ctx, cancel := context.WithTimeout(e.ctx, ep.opts.Bounds.Handler)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			e.end(&profiles.Error{Code: profiles.Internal, Detail: "deadline", Text: "the handler took too long", Retryable: true}, false)
		}
	})
	defer stop()
	err := func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
		return f(ctx, &e.req, e)
	}()
	e.end(err, true)
}

func (e *exchange) Context() context.Context { return e.ctx }

func (e *exchange) Send(env e1.Envelope) error { return e.send(env, false) }

func (e *exchange) Finish(env e1.Envelope) error {
	err := e.send(env, true)
	if e.mode == refuses {
		e.Fail(nil)
	}
	return err
}

func (e *exchange) send(env e1.Envelope, terminal bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done || e.answered {
		return profiles.ErrFinished
	}
	e.l.answering(&e.req, &env, e.l.s.ep.opts.Now())
	err := e.l.out.send(e.ctx, &env, e.mode)
	var fault *profiles.Error
	if errors.As(err, &fault) && terminal {
		// The answer itself cannot be sent, for its size. One that can takes
		// its place, so that the requester is not left waiting.
		e.l.answerRefusal(e.profile, &e.req, fault, false, e.mode)
	}
	e.answered = terminal
	return err
}

// Fail ends a held exchange.
func (e *exchange) Fail(err error) { e.end(err, true) }

// end ends the exchange once: the first caller's error decides the verdict.
// The octets of the request are given back only when its handler is through
// with them; at a deadline that may be never.
func (e *exchange) end(err error, through bool) {
	e.mu.Lock()
	if e.done {
		e.mu.Unlock()
		if through && e.mode == waits {
			e.free()
		}
		return
	}
	e.done = true
	l, s := e.l, e.l.s
	v := Verdict{
		Session: s, Lane: l.id, Seq: e.seq, ProfileID: e.req.ProfileID, MsgType: e.req.MsgType,
		Flags: e.req.Flags, MsgID: e.req.MsgID, Bytes: e.size,
	}
	spent := false
	if err != nil {
		fault := profiles.AsError(err)
		v.Code, v.Detail, v.Err, v.Reject = fault.Code, fault.Detail, fault, !fault.Domain
		told := l.answerRefusal(e.profile, &e.req, fault, e.answered, e.mode)
		if v.Reject {
			spent = fault.Code != profiles.Internal && s.pace.charge(&s.ep.opts.Bounds, fault.Pace)
			switch {
			case spent:
				v.Action = Closed
			case !told && s.conn.Multiplexed():
				v.Action = Reset
			}
		}
	}
	e.mu.Unlock()
	s.ep.opts.Observer.Verdict(v)
	s.mu.Lock()
	if s.inflight[string(e.req.MsgID)] == e {
		delete(s.inflight, string(e.req.MsgID))
		if e.long {
			s.long--
		}
	}
	s.mu.Unlock()
	switch v.Action {
	case Closed:
		s.close(profiles.RateLimitExceeded, errBudget)
	case Reset:
		l.stream.Reset(uint64(v.Code))
	case Kept:
	}
	if through {
		e.free()
	}
	s.settle()
	l.release()
}

// free gives the copied octets back.
func (e *exchange) free() {
	e.l.s.hold(-len(e.buf))
	e.l.s.ep.pool.Put(e.buf)
	e.buf = nil
}

// taken is the Exchange of a request that was detached or held before.
type taken struct{}

func (taken) Detach(*profiles.Request, func(context.Context, *profiles.Request, profiles.Responder) error) error {
	return errTaken
}

func (taken) Hold(*profiles.Request, bool) (*profiles.Request, profiles.Responder, error) {
	return nil, nil, errTaken
}

func (taken) Scratch(n int) []byte { return make([]byte, 0, n) }
