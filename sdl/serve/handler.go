package serve

import (
	"context"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Handler answers the messages of one content type, with the payload of the answer. An
// *sdl.Error becomes the error envelope unchanged. Any other error becomes INTERNAL; its
// text is not sent. It is called concurrently.
type Handler func(ctx context.Context, r *Request) (Result, error)

// Request is a message that passed every check of A2A-SDL §2.2 before the handler.
type Request struct {
	Envelope *sdl.Envelope

	// Payload is decrypted, and valid under the schema of the message and that of its
	// content type.
	Payload canonical.Value

	Caller   Caller
	Verified bool      // it was signed by a key bound to its sender
	Now      time.Time // when it arrived
}

// Agent returns the agent_id of the sender.
func (r *Request) Agent() string { return r.Envelope.From.AgentID }

// authentic reports whether the sender is authenticated: by its signature, or by the
// carriage, which then has checked the agent against the identity.
func (r *Request) authentic() bool { return r.Verified || r.Caller.MayUse != nil }

// Result is the content of an answer. The Server writes the envelope around it.
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
