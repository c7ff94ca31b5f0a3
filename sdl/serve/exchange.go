package serve

import (
	"fmt"

	"github.com/slimwire/swp/sdl"
)

// CheckAnswer returns an error unless a valid answer is from the agent that was asked, and
// about the request: the answer to a request with a trace names its span. An error envelope
// may be from sdl.UnknownAgent, if the server could not read the request; such an error is
// not authenticated.
func CheckAnswer(request, answer *sdl.Envelope) error {
	switch {
	case answer.Type != sdl.TypeRes:
		return fmt.Errorf("serve: answer of type %q, want %q", answer.Type, sdl.TypeRes)
	case answer.CT == sdl.CTError && answer.From.AgentID == sdl.UnknownAgent:
		return nil
	case answer.From.AgentID != request.To.AgentID:
		return fmt.Errorf("serve: answer from %q, want %q, which was asked", answer.From.AgentID, request.To.AgentID)
	case answer.To.AgentID != request.From.AgentID:
		return fmt.Errorf("serve: answer to %q, want %q, which asked", answer.To.AgentID, request.From.AgentID)
	case request.Trace == nil:
		return nil
	case answer.Trace == nil:
		return fmt.Errorf("serve: answer without trace, want one of span %q", request.Trace.SpanID)
	case answer.Trace.ParentSpanID != request.Trace.SpanID:
		return fmt.Errorf("serve: answer of span %q, want %q", answer.Trace.ParentSpanID, request.Trace.SpanID)
	}
	return nil
}
