package serve

import (
	"context"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Handler answers the messages of one content type. Handlers are called at once
// for as many messages as are being answered.
type Handler interface {
	// Serve returns the payload of the answer. An *sdl.Error becomes the error
	// envelope unchanged. Any other error is a failure of the handler: the sender
	// learns of it as INTERNAL and nothing of its text.
	Serve(ctx context.Context, r *Request) (Result, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, r *Request) (Result, error)

// Serve calls f.
func (f HandlerFunc) Serve(ctx context.Context, r *Request) (Result, error) { return f(ctx, r) }

// Request is a message that passed every check of A2A-SDL §2.2 before the handler.
type Request struct {
	Envelope *sdl.Envelope

	// Payload is in clear, and satisfies the schema of the message and the one of
	// its content type.
	Payload canonical.Value

	Caller   Caller
	Verified bool      // it was signed by a key bound to its sender
	Now      time.Time // when it arrived
}

// Agent returns the agent_id of the sender.
func (r *Request) Agent() string { return r.Envelope.From.AgentID }

// authentic reports whether it is certain who sent the message: by its signature, or
// by the carriage, which did not let it name an agent that its sender may not be.
func (r *Request) authentic() bool { return r.Verified || r.Caller.MayUse != nil }

// Result is what an answer says. The Server writes the envelope around it.
type Result struct {
	CT      string // content type, one of those of sdl
	Payload canonical.Value
}

// member is short for a member of an object.
func member(name string, v canonical.Value) canonical.Member {
	return canonical.Member{Name: name, Value: v}
}

// object is short for an object.
func object(members ...canonical.Member) canonical.Value { return canonical.Object(members...) }

// text returns the string that v is, or "".
func text(v canonical.Value) string {
	s, _ := v.Text()
	return s
}
