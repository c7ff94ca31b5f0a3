package serve

import (
	"context"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Tasks accepts tasks that other agents carry out.
type Tasks interface {
	// Accept accepts the task of a task.v1 request. It returns before the task is done;
	// state.v1 events report its progress. An error is that of a Handler.
	Accept(ctx context.Context, r *Request) error
}

// emptyBase is the hash of the initial state of every accepted task: no octets (A2A-SDL
// §5).
const emptyBase = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// task answers task.v1 with the first state of the task (A2A-SDL §10.1).
func (s *Server) task(ctx context.Context, r *Request) (Result, error) {
	if s.o.Tasks != nil {
		if err := s.o.Tasks.Accept(ctx, r); err != nil {
			return Result{}, err
		}
	}
	return Result{sdl.CTState, object(
		member("base", canonical.String(emptyBase)),
		member("patch", canonical.Array(
			add("/status", canonical.String("accepted")),
			add("/goal", canonical.String(text(r.Payload.Get("goal")))),
		)),
	)}, nil
}

// add is an operation of a state patch (RFC 6902).
func add(path string, v canonical.Value) canonical.Value {
	return object(member("op", canonical.String("add")), member("path", canonical.String(path)), member("value", v))
}
