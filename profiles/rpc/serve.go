package rpc

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// service is the handler of the profile.
type service struct {
	methods map[string]Method
	live    *table
}

// Serve handles one message.
func (s *service) Serve(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	switch req.MsgType {
	case TypeReq:
		return s.request(req, w)
	case TypeCancel:
		return s.cancel(req)
	}
	// An answer to no call of ours: well formed it is counted and dropped.
	return check(&req.Envelope)
}

func (s *service) request(req *profiles.Request, w profiles.Responder) error {
	var in Req
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	if s.live.has(req.Session, in.RPCID) {
		return errInUse()
	}
	m, ok := s.methods[string(in.Method)]
	switch {
	case !ok:
		return finishErr(w, in.RPCID, errUnknownMethod)
	case len(in.IdempotencyKey) > 0 && !m.Repeatable:
		return finishErr(w, in.RPCID, errKey)
	case m.Inline != nil:
		return inline(req, w, &in, m)
	case m.Detached != nil:
		return s.detach(req, &in, m)
	}
	return s.hold(req, &in, m)
}

// inline answers at once. Nothing here allocates.
func inline(req *profiles.Request, w profiles.Responder, in *Req, m Method) error {
	result, err := m.Inline(req, in.Params)
	if err != nil {
		return finishFailure(w, in.RPCID, err)
	}
	out := Resp{RPCID: in.RPCID, Result: result}
	if len(result) >= largeResult {
		head := out.AppendHead(req.Scratch(out.Size() - len(result)))
		return w.Finish(e1.Envelope{MsgType: TypeResp, Payload: head, Tail: result})
	}
	return w.Finish(e1.Envelope{MsgType: TypeResp, Payload: out.Append(req.Scratch(out.Size()))})
}

// largeResult is the size from which a result is sent from where it lies
// instead of being copied behind its rpc_id.
const largeResult = 32 << 10

func (s *service) detach(req *profiles.Request, in *Req, m Method) error {
	cancelled, cancel := context.WithCancelCause(context.Background())
	l := s.live.add(req.Session, in.RPCID, func() { cancel(errCancelled) })
	if l == nil {
		return errInUse()
	}
	err := req.Detach(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		defer cancel(nil)
		defer s.live.remove(l)
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(cancelled, func() { end(context.Cause(cancelled)) })()

		var in Req
		if err := in.Decode(req.Payload); err != nil {
			return err
		}
		var seq uint64
		result, err := m.Detached(ctx, req, in.Params, func(item []byte) error {
			if cancelled.Err() != nil {
				return errCancelled
			}
			seq++
			return sendItem(w, in.RPCID, seq, item)
		})
		// The id is free before the caller can learn that the call has ended.
		s.live.remove(l)
		switch {
		case w.Context().Err() != nil:
			return nil // nobody is left to be told
		case cancelled.Err() != nil:
			return finishErr(w, in.RPCID, errCancelled)
		case err != nil:
			return finishFailure(w, in.RPCID, err)
		}
		return finish(w, in.RPCID, result)
	})
	if err != nil {
		s.live.remove(l)
		cancel(nil)
	}
	return err
}

// cancel ends a call early. An rpc_id that is unknown here, or not the sender's,
// makes no difference that anyone could see.
func (s *service) cancel(req *profiles.Request) error {
	var in Cancel
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	if l := s.live.get(req.Session, in.RPCID); l != nil {
		l.cancel()
	}
	return nil
}

func finish(w profiles.Responder, rpcID, result []byte) error {
	m := Resp{RPCID: rpcID, Result: result}
	return w.Finish(e1.Envelope{MsgType: TypeResp, Payload: m.Append(make([]byte, 0, m.Size()))})
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

func finishErr(w profiles.Responder, rpcID []byte, e *Error) error {
	m := Err{RPCID: rpcID, ErrorCode: []byte(e.Code), Retryable: e.Retryable, ErrorMessage: []byte(e.Message)}
	// Both are required, and a method may have left one out.
	if len(m.ErrorCode) == 0 {
		m.ErrorCode = []byte(CodeInternal)
	}
	if len(m.ErrorMessage) == 0 {
		m.ErrorMessage = m.ErrorCode
	}
	return w.Finish(e1.Envelope{MsgType: TypeErr, Payload: m.Append(make([]byte, 0, m.Size()))})
}

func sendItem(w profiles.Responder, rpcID []byte, seq uint64, item []byte) error {
	m := StreamItem{RPCID: rpcID, SeqNo: seq, Item: item}
	return w.Send(e1.Envelope{MsgType: TypeStreamItem, Payload: m.Append(make([]byte, 0, m.Size()))})
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
