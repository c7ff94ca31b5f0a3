package rpc

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// service is the handler of the profile.
type service struct {
	identity string // of this endpoint; may be empty
	methods  map[string]*method
	resolve  func(name string) (Method, bool) // nil knows none
	toward   func(target, name string) (Method, error)
	live     *table
	access   profiles.Access // nil allows everything
	keeping  profiles.Access // the same for calls whose outcome is kept
	runs     *runs           // nil: idempotency keys are not kept
}

// Serve handles one message.
func (s *service) Serve(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	switch req.MsgType {
	case TypeReq:
		return s.request(req, w)
	case TypeCancel:
		return s.cancel(req)
	}
	if err := check(&req.Envelope); err != nil {
		return err
	}
	return errUnknownCall
}

func (s *service) request(req *profiles.Request, w profiles.Responder) error {
	var in Req
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	if s.live.has(req.Session, in.RPCID) {
		return errInUse()
	}
	m := s.method(in.Method)
	left, bounded, err := deadline(req.Extensions)
	if err != nil {
		return err
	}
	if _, _, err := profiles.Uvarint(req.Extensions, ExtWindow); err != nil {
		return err
	}
	name := subject(m, in.Method)
	var away *Error // why there is nothing at the target
	target, err := profiles.TargetOf(req.Extensions)
	switch {
	case err != nil:
		return err
	case target != "" && m != nil && m.targets:
		m = &method{Method: m.Method, name: target + "/" + m.name}
	case target != "":
		name = target + "/" + name
		m, away = s.methodAt(target, name, m, in.Method)
	}
	req.About("call", name)
	keyed := len(in.IdempotencyKey) > 0 && m != nil && !m.always
	switch {
	case keyed && s.runs != nil && !allowed(req, s.keeping, name):
		return s.refuse(w, in.RPCID, errKeyDenied)
	case (!keyed || s.runs == nil) && !allowed(req, s.access, name):
		return s.refuse(w, in.RPCID, errUnauthorized)
	case away != nil:
		return s.refuse(w, in.RPCID, away)
	case m == nil:
		return s.refuse(w, in.RPCID, errUnknownMethod)
	case len(in.IdempotencyKey) > maxKey:
		return s.refuse(w, in.RPCID, errKeyLength)
	case keyed && s.runs == nil && !m.Repeatable:
		return s.refuse(w, in.RPCID, errKey)
	case bounded && left == 0:
		return s.refuse(w, in.RPCID, errTimeout)
	}
	switch {
	case keyed && s.runs != nil:
		return s.keyed(req, &in, m, left)
	case m.Inline != nil:
		return inline(req, w, &in, m)
	case m.Detached != nil:
		return s.detach(req, &in, m, left)
	}
	return s.hold(req, &in, m, left)
}

// method returns the method with a name, or nil.
func (s *service) method(name []byte) *method {
	m := s.methods[string(name)]
	if m != nil || s.resolve == nil {
		return m
	}
	if found, ok := s.resolve(string(name)); ok && found.validate() == nil {
		return &method{Method: found, name: string(name)}
	}
	return nil
}

// methodAt returns the method of a call with a target, or an error. here is the method with
// this name at this endpoint.
func (s *service) methodAt(target, name string, here *method, called []byte) (*method, *Error) {
	switch {
	case here != nil && here.local:
		return nil, &Error{Code: CodeInvalidRequest, Message: string(called) + " is about one connection, and does not go to a partner"}
	case s.toward == nil:
		return nil, &Error{Code: CodeInvalidRequest, Message: "there are no partners here"}
	}
	found, err := s.toward(target, string(called))
	if err != nil {
		return nil, &Error{Code: CodeInvalidRequest, Message: profiles.AsError(err).Text}
	}
	return &method{Method: found, name: name}, nil
}

// subject is the name of a method, known or not. No string is made of one that is.
func subject(m *method, name []byte) string {
	if m == nil {
		return string(name)
	}
	return m.name
}

func allowed(req *profiles.Request, a profiles.Access, name string) bool {
	return a == nil || profiles.Allowed(req.Exchange, a, req.Identity(), "rpc", "call", name)
}

// act is the call of a method. The built-in methods, and those about their connection, reach
// nothing beyond it.
func (s *service) act(req *profiles.Request) (profiles.Act, error) {
	if _, confirms := req.Extensions.Lookup(ExtTaken); confirms && req.MsgType == TypeCancel {
		return profiles.Act{Operation: "cancel", Free: true}, nil
	}
	if req.MsgType != TypeReq {
		return profiles.Act{Operation: "cancel", Ends: true}, nil
	}
	var in Req
	if err := in.Decode(req.Payload); err != nil {
		return profiles.Act{}, err
	}
	target, err := profiles.TargetOf(req.Extensions)
	if err != nil {
		return profiles.Act{}, err
	}
	act := profiles.Act{Operation: "call", Name: string(in.Method), Ruled: true}
	if target != "" {
		act.Name = target + "/" + act.Name
	} else if m := s.methods[act.Name]; m != nil {
		act.Free = m.builtin || m.local
	}
	return act, nil
}

// inline answers at once. Nothing here allocates.
func inline(req *profiles.Request, w profiles.Responder, in *Req, m *method) error {
	result, err := m.Inline(req, in.Params)
	if err != nil {
		return finishFailure(w, in.RPCID, err)
	}
	out := Resp{RPCID: in.RPCID, Result: result}
	if len(result) >= largeResult {
		head := out.appendHead(req.Scratch(out.Size() - len(result)))
		return w.Finish(e1.Envelope{MsgType: TypeResp, Payload: head, Tail: result})
	}
	return w.Finish(e1.Envelope{MsgType: TypeResp, Payload: out.Append(req.Scratch(out.Size()))})
}

// largeResult is the size from which a result is sent from where it lies
// instead of being copied behind its rpc_id.
const largeResult = 32 << 10

// detach runs a method in the pool of the session. The first of them answers:
// the method, or a cancellation or timeout.
func (s *service) detach(req *profiles.Request, in *Req, m *method, left time.Duration) error {
	over, stop := context.WithCancelCause(context.Background())
	l := s.live.add(req, in.RPCID, m.name, func() { stop(errCancelled) })
	if l == nil {
		return errInUse()
	}
	if left > 0 {
		late := time.AfterFunc(left, func() { stop(errTimeout) })
		context.AfterFunc(over, func() { late.Stop() })
	}
	err := req.Detach(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		defer stop(nil)
		defer s.live.remove(l)
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		var once sync.Once
		answer := func(f func() error) (err error) {
			once.Do(func() {
				s.live.remove(l) // the id is free before the caller can learn that the call has ended
				if err = f(); errors.Is(err, profiles.ErrFinished) {
					err = nil // the endpoint was first
				}
			})
			return err
		}
		cut := func() error {
			reason := new(Error)
			if !errors.As(context.Cause(over), &reason) {
				return nil
			}
			return finishErr(w, []byte(l.key.rpcID), reason)
		}
		defer context.AfterFunc(over, func() {
			end(context.Cause(over))
			_ = answer(cut)
		})()

		var in Req
		if err := in.Decode(req.Payload); err != nil {
			return err
		}
		result, err := m.Detached(ctx, req, in.Params, func(item []byte) error {
			if err := l.flow.wait(ctx); err != nil && over.Err() == nil {
				return err
			}
			if over.Err() != nil {
				return context.Cause(over)
			}
			return l.flow.send(w, in.RPCID, item, profiles.EndToEnd{})
		})
		return answer(func() error {
			switch gone := w.Context().Err() != nil; {
			case gone:
				return nil //nolint:nilerr // the caller is gone
			case over.Err() != nil:
				return cut()
			case err != nil:
				return finishFailure(w, in.RPCID, err)
			}
			return finish(w, in.RPCID, result, profiles.EndToEnd{})
		})
	})
	if err != nil {
		s.live.remove(l)
		stop(nil)
	}
	return err
}

// cancel ends a call early, or confirms items of it. An rpc_id that is unknown here, or not the sender's,
// makes no difference that the peer could see. The subject is the method, if a call was ended.
func (s *service) cancel(req *profiles.Request) error {
	req.About("cancel", "")
	var in Cancel
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	taken, confirms, err := profiles.Uvarint(req.Extensions, ExtTaken)
	if err != nil {
		return err
	}
	l := s.live.get(req.Session, in.RPCID)
	switch {
	case l == nil || !req.Inherit(l.peer):
	case confirms:
		l.flow.confirm(taken)
	default:
		req.About("cancel", l.method)
		l.cancel()
	}
	return nil
}

func finish(w profiles.Responder, rpcID, result []byte, keeps profiles.EndToEnd) error {
	m := Resp{RPCID: rpcID, Result: result}
	env := e1.Envelope{MsgType: TypeResp, Payload: m.Append(make([]byte, 0, m.Size()))}
	keeps.Put(&env)
	return w.Finish(env)
}

// finishFailure answers with the error of a method, or returns it for the
// endpoint to report and answer.
func finishFailure(w profiles.Responder, rpcID []byte, err error) error {
	answer, fault := failure(err)
	if fault != nil {
		return fault
	}
	return finishErr(w, rpcID, answer)
}

// refuse answers with an error of this endpoint.
func (s *service) refuse(w profiles.Responder, rpcID []byte, e *Error) error {
	own := *e
	own.Endpoint = s.identity
	profiles.Ended(w, ended(e))
	return w.Finish(errEnvelope(rpcID, &own))
}

func finishErr(w profiles.Responder, rpcID []byte, e *Error) error {
	profiles.Ended(w, ended(e))
	return w.Finish(errEnvelope(rpcID, e))
}

// ended is how a call ends with an error, for those who watch.
func ended(e *Error) profiles.Outcome {
	switch e {
	case errUnauthorized:
		return profiles.OutcomeDenied
	case errCancelled:
		return profiles.OutcomeCancelled
	}
	return profiles.OutcomeFailed
}

func errEnvelope(rpcID []byte, e *Error) e1.Envelope {
	m := Err{RPCID: rpcID, ErrorCode: []byte(e.Code), Retryable: e.Retryable, ErrorMessage: []byte(e.Message)}
	// Both are required, and a method may have left one out.
	if len(m.ErrorCode) == 0 {
		m.ErrorCode = []byte(CodeInternal)
	}
	if len(m.ErrorMessage) == 0 {
		m.ErrorMessage = m.ErrorCode
	}
	env := e1.Envelope{MsgType: TypeErr, Payload: m.Append(make([]byte, 0, m.Size()))}
	if e.Endpoint != "" {
		env.Extensions = e1.AppendExtension(nil, profiles.ExtEndpoint, []byte(e.Endpoint))
	}
	e.Keeps.Put(&env)
	return env
}

// check says whether an answer is well formed.
func check(env *e1.Envelope) error {
	switch env.MsgType {
	case TypeResp:
		return new(Resp).Decode(env.Payload)
	case TypeErr:
		return new(Err).Decode(env.Payload)
	}
	return new(StreamItem).Decode(env.Payload)
}
