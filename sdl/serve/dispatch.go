package serve

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/slimwire/swp/sdl"
)

// Dispatch passes a message to the handler of its content type: row 16 of A2A-SDL §2.2. The
// outcome has no Answer yet; its form is that of the message.
func (s *Server) Dispatch(ctx context.Context, r *Request) *Outcome {
	out := &Outcome{Request: r}
	h, ok := s.handlers[r.Envelope.CT]
	if !ok {
		out.Response = s.refusal(r.Envelope.Value, sdl.NoHandler(r.Envelope.CT, s.Implemented()), r)
		return out
	}
	result, err := s.guard(ctx, h, r)
	if refused := (*sdl.Error)(nil); errors.As(err, &refused) && refused.Code != sdl.Internal {
		out.Response = s.refusal(r.Envelope.Value, refused, r)
		return out
	}
	if err != nil {
		s.o.Failed(r, err)
		out.Err = &sdl.Error{Code: sdl.Internal, Retryable: true, Reason: err.Error()}
		out.Response = s.refusal(r.Envelope.Value, out.Err, r)
		return out
	}
	v, refused := s.respond(r, result)
	if refused != nil {
		err := fmt.Errorf("serve: answer of the handler of %s: %w", r.Envelope.CT, refused)
		s.o.Failed(r, err)
		out.Err = &sdl.Error{Code: sdl.Internal, Retryable: refused.Code == sdl.Internal && refused.Retryable, Reason: err.Error()}
		out.Response = s.refusal(r.Envelope.Value, out.Err, r)
		return out
	}
	out.Response = v
	return out
}

// guard calls a handler, and keeps its result. A panic becomes an error.
func (s *Server) guard(ctx context.Context, h Handler, r *Request) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("serve: handler of %s: panic: %v\n%s", r.Envelope.CT, p, debug.Stack())
		}
	}()
	if result, err = h(ctx, r); err == nil && s.o.Keep != nil {
		err = s.o.Keep(ctx, r, result)
	}
	return result, err
}
