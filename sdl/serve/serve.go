// Package serve answers messages of A2A-SDL: it takes a body through every check
// that the specification orders, hands what passed to the handler of its content
// type, and writes the answer.
//
// There are handlers for task.v1, toolcall.v1, negotiation.v1, trustsync.v1 and
// session.v1; others may take their place. The package knows no transport: who
// carries messages says in a Caller what it knows about their sender.
//
// Specification: A2A-SDL §2.2, §6.7, §9 and §10.
package serve

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/trust"
)

// Options configure a Server. The zero value answers messages without security, and
// lets nobody call a tool.
type Options struct {
	Limits   sdl.Limits
	Versions sdl.VersionPolicy

	// Fetch gets schemas that a message names by their address, as in sdl.Options; nil,
	// the default, refuses such messages.
	Fetch func(uri string) (canonical.Value, error)

	// Policy says whose messages are trusted. Without one, a message that is signed or
	// encrypted is refused: nobody could tell what it is worth.
	Policy *trust.Policy

	// Replay refuses, without a Policy, a message whose nonce its sender used before;
	// nil looks at no nonce. A Policy has its own.
	Replay *trust.Replay

	// Handlers answer content types; one for a type that is built in replaces that.
	Handlers map[string]Handler

	Tools      ToolCaller        // of toolcall.v1, default none
	ToolPolicy *trust.ToolPolicy // nil denies every call
	Tasks      Tasks             // of task.v1; nil accepts tasks and leaves them alone

	// Sessions remembers what session.v1 opens, for a Policy that demands it; nil binds
	// without remembering. SessionKey signs the bindings; without it they are unsigned.
	Sessions   *trust.Sessions
	SessionKey ed25519.PrivateKey

	// Registry is the registry that trustsync.v1 shows and changes, usually that of
	// the Policy; nil shows an empty one. Proposals decides on changes; nil refuses
	// all.
	Registry  *trust.Registry
	Proposals trust.Verifier

	// Signer signs answers to requests that say they are signed; without a key none is.
	Signer seal.Signer

	Compat Compat

	Now   func() time.Time // default time.Now
	NewID func() string    // of envelopes and spans, default sdl.NewID

	// Failed is told about errors of handlers and tools, whose text is not for peers.
	// It is called by many at once. It may be nil.
	Failed func(r *Request, err error)
}

// Server answers messages. It never changes and may be used by many at once.
type Server struct {
	o        Options
	handlers map[string]Handler
}

// New returns a Server. It fails if a key of Handlers is no content type.
func New(o Options) (*Server, error) {
	if o.Tools == nil {
		o.Tools = ToolSet{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Failed == nil {
		o.Failed = func(*Request, error) {}
	}
	s := &Server{o: o.opened()}
	s.handlers = map[string]Handler{
		sdl.CTTask:        HandlerFunc(s.task),
		sdl.CTToolCall:    HandlerFunc(s.toolcall),
		sdl.CTNegotiation: HandlerFunc(s.negotiation),
		sdl.CTTrustSync:   HandlerFunc(s.trustsync),
		sdl.CTSession:     HandlerFunc(s.session),
	}
	for ct, h := range o.Handlers {
		if !sdl.IsContentType(ct) || h == nil {
			return nil, fmt.Errorf("serve: handler %v for %q, want one for a content type of A2A-SDL", h, ct)
		}
		s.handlers[ct] = h
	}
	return s, nil
}

// Implemented returns the content types that the Server answers, sorted.
func (s *Server) Implemented() []string { return slices.Sorted(maps.Keys(s.handlers)) }

// Caller is what the carriage of a message knows about it.
type Caller struct {
	// Identity is who sent it, as the carriage authenticated it; for handlers.
	Identity string

	// MayUse reports whether that identity may call itself agent. Nil means that the
	// carriage authenticated nobody: every agent_id passes, and none is vouched for.
	MayUse func(agent string) bool

	// Type is the type that the message has to have; any if empty.
	Type string
}

// Outcome is what became of a message.
type Outcome struct {
	// Answer is the envelope to send back, in the form of the message; nil if the
	// message is not of the type that its Caller says, and so not answered.
	Answer   []byte
	Response canonical.Value // the same as a value

	// Err says why the message was refused, or that its handler failed (INTERNAL);
	// nil if the handler answered, be it with an error envelope.
	Err *sdl.Error

	// Request is what was handed to the handler; nil if none was asked.
	Request *Request
}

// Handle answers a message. It returns once the handler has; ctx ends what the
// handler does. The outcome keeps nothing of body.
func (s *Server) Handle(ctx context.Context, body []byte, form sdl.Form, caller Caller) *Outcome {
	v, r, err := s.receive(ctx, body, form, caller)
	switch {
	case err != nil && mistyped(v, caller):
		return &Outcome{Err: err}
	case err != nil:
		return s.refuse(v, err, form)
	}
	out := s.Dispatch(ctx, r)
	out.Answer = form.Append(nil, out.Response)
	return out
}

// Receive takes a message through the same checks without answering it. Its nonce
// counts as used.
func (s *Server) Receive(ctx context.Context, body []byte, form sdl.Form, caller Caller) (*Request, *sdl.Error) {
	_, r, err := s.receive(ctx, body, form, caller)
	return r, err
}

// Refuse answers a message that cannot even be read.
func (s *Server) Refuse(err *sdl.Error) *Outcome {
	return s.refuse(canonical.Value{}, err, sdl.JSON)
}

func (s *Server) refuse(v canonical.Value, err *sdl.Error, form sdl.Form) *Outcome {
	out := &Outcome{Response: s.refusal(v, err), Err: err}
	out.Answer = form.Append(nil, out.Response)
	return out
}
