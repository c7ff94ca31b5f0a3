package sdl

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// serve accepts a message. Everything that needs its octets happens on another goroutine.
func (s *Service) serve(ctx context.Context, req *profiles.Request, _ profiles.Responder) error {
	if req.Unsolicited {
		return nil // an unsolicited response: counted and dropped
	}
	head, back := s.backwards(req)
	if s.opts.Server == nil && !back {
		return errNone
	}
	form, _ := FormOf(req.Payload) // the Server refuses an invalid form after the length check
	limit := s.patience()
	if ms, bounded, err := profiles.Uvarint(req.Extensions, profiles.ExtDeadline); err != nil {
		return err
	} else if bounded && ms > 0 && ms < uint64(limit/time.Millisecond) {
		limit = time.Duration(ms) * time.Millisecond
	}
	req.About("send", "") // until the message was read
	leave, err := s.enter(req.Identity(), form, req.Payload)
	if err != nil {
		return err
	}
	if req.MsgType == TypeEvt {
		env := req.Envelope.Clone()
		m := &Message{Type: TypeEvt, Form: form, Body: env.Payload, Session: req.Session, From: req.Identity(), leave: leave}
		done := req.Defer()
		before, next := s.turns.next(req.Session)
		go func() {
			defer next()
			if before != nil {
				<-before
			}
			// An event is handled even if its sender has left.
			ctx := context.WithoutCancel(ctx)
			if back {
				s.within(ctx, limit, m, func(ctx context.Context) { done(s.bring(ctx, head, &env, m.From)) })
				return
			}
			s.run(ctx, limit, m, func(_ Answer, err error) { done(err) })
		}()
		return nil
	}
	held, w, err := req.Hold()
	if err != nil {
		leave()
		return err
	}
	m := &Message{Type: TypeReq, Form: form, Body: held.Payload, Session: held.Session, From: held.Identity(), leave: leave}
	go s.run(w.Context(), limit, m, func(a Answer, err error) {
		profiles.About(w, profiles.Subject{Operation: "send", Name: a.Claimed})
		if err == nil {
			_ = w.Finish(e1.Envelope{MsgType: TypeRes, Payload: a.Body}) // an error means that the sender is gone
			return
		}
		w.Fail(err)
	})
	return nil
}

// run handles a message and calls end.
func (s *Service) run(ctx context.Context, limit time.Duration, m *Message, end func(Answer, error)) {
	answered := make(chan struct{})
	defer close(answered)
	m.Answered = answered
	s.within(ctx, limit, m, func(ctx context.Context) {
		a, err := s.handle(ctx, m)
		if err == nil && a.Agent != "" {
			s.agents.heard(m.Session, m.From, a.Agent)
		}
		end(a, err)
	})
}

// within calls f with the time limit of a message, and releases its room.
func (s *Service) within(ctx context.Context, limit time.Duration, m *Message, f func(context.Context)) {
	defer m.leave()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	f(ctx)
}

// handle passes a message to the Server. The error is the verdict, with its answer.
func (s *Service) handle(ctx context.Context, m *Message) (a Answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			f := &Fault{Code: CodeInternal, Cause: fmt.Errorf("%w: %v\n%s", errPanic, v, debug.Stack())}
			err = f.verdict(m.Type, s.opts.Server.Refusal(m.Form, f))
		}
	}()
	if err := s.slots.Take(ctx, m.From); err != nil {
		f := &Fault{Code: CodeInternal, Retryable: true, Cause: err}
		return Answer{}, f.verdict(m.Type, s.opts.Server.Refusal(m.Form, f))
	}
	slot := &slot{of: s.slots, identity: m.From}
	defer slot.rest()
	a = s.opts.Server.Handle(context.WithValue(ctx, slotKey{}, slot), m)
	switch {
	case a.Fault != nil:
		return a, a.Fault.verdict(m.Type, a.Body)
	case m.Type == TypeReq && len(a.Body) == 0:
		f := &Fault{Code: CodeInternal, Cause: errSilent}
		return a, f.verdict(m.Type, s.opts.Server.Refusal(m.Form, f))
	}
	return a, nil
}

// refusal builds the SDL error for a request that was refused unread. A msg_id in use gets
// none: the peer would take it for the answer to the other message with this msg_id.
func (s *Service) refusal(req *profiles.Request, fault *profiles.Error) (e1.Envelope, bool) {
	var by interface {
		Refusal(form Form, f *Fault) []byte
	}
	switch {
	case req.MsgType != TypeReq, fault.Code == profiles.DuplicateMsgID, fault.Detail == DetailMismatch:
		return e1.Envelope{}, false
	case s.opts.Server != nil:
		by = s.opts.Server
	case s.opts.Onward != nil:
		by = s.opts.Onward
	default:
		return e1.Envelope{}, false
	}
	form, _ := FormOf(req.Payload)
	return e1.Envelope{MsgType: TypeRes, Payload: by.Refusal(form, faultOf(fault))}, true
}
