// Package serve answers messages of A2A-SDL: it makes every check that the specification
// requires on a body, passes the message to the handler of its content type, and writes the
// answer.
//
// It has handlers for task.v1, toolcall.v1, negotiation.v1, trustsync.v1 and session.v1,
// which can be replaced. The package has no transport: the carriage, which transports
// messages, describes the sender in a Caller.
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

// Options configure a Server. The zero value answers messages without security, and denies
// all tool calls.
type Options struct {
	Limits   sdl.Limits
	Versions sdl.VersionPolicy

	// Local is the to.agent_id of messages for this Server; empty means any. Others are
	// refused, and this Server does not answer them in the name of their receiver.
	Local string

	// Fetch loads schemas that a message names by their address, as in sdl.Options. Nil
	// refuses such messages.
	Fetch func(uri string) (canonical.Value, error)

	// Policy determines whose messages are trusted. Without a Policy a signed or encrypted
	// message is refused, because it cannot be verified.
	Policy *trust.Policy

	// Replay is used without a Policy: it refuses a message whose nonce was used before.
	// Nil ignores nonces. A Policy has its own Replay.
	Replay *trust.Replay

	// Handlers are handlers by content type. They replace built-in ones.
	Handlers map[string]Handler

	Tools      ToolCaller        // of toolcall.v1, default none
	ToolPolicy *trust.ToolPolicy // nil denies every call
	Tasks      Tasks             // of task.v1; nil accepts tasks and leaves them alone

	// Offers reports whether the sender of a request may use a content type, or a tool if
	// ct is toolcall.v1 and tool is not empty. Answers list only what it may use. It must not
	// wait. Nil leaves that to ToolPolicy.
	Offers func(r *Request, ct, tool string) bool

	// Sessions stores the sessions that session.v1 opens, for a Policy that requires them;
	// nil stores none. SessionKey signs the bindings; without it they are unsigned.
	Sessions   *trust.Sessions
	SessionKey ed25519.PrivateKey

	// Registry is the registry that trustsync.v1 shows and changes, usually that of the
	// Policy; nil is an empty one. Proposals verifies changes; nil refuses all.
	Registry  *trust.Registry
	Proposals trust.Verifier

	// Signer signs answers to signed requests; without a key no answer is signed.
	Signer seal.Signer

	// Recipients returns the keys of an agent, to which answers to its encrypted requests are
	// encrypted; none if it has none: then its encrypted requests are refused under a Policy of
	// mode enc+sig, and else answered in clear. Nil knows no keys.
	Recipients func(agent string) []seal.Recipient

	// Audit adds an entry for each request that Handle or Dispatch answers. It may be nil.
	Audit Audit

	// Keep is called with the result of a handler, before the answer is written. An error
	// refuses the request, as an error of the handler does. It may be nil.
	Keep func(ctx context.Context, r *Request, result Result) error

	Compat Compat

	Now   func() time.Time // default time.Now
	NewID func() string    // of envelopes and spans, default sdl.NewID

	// Failed is called with errors of handlers and tools, whose text must not be sent to
	// peers. It is called concurrently. It may be nil.
	Failed func(r *Request, err error)
}

// Server answers messages. It never changes and is safe for concurrent use.
type Server struct {
	o        Options
	handlers map[string]Handler
}

// New returns a Server. It fails if a key of Handlers is not a content type.
func New(o Options) (*Server, error) {
	if o.Tools == nil {
		o.Tools = ToolSet{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Recipients == nil {
		o.Recipients = func(string) []seal.Recipient { return nil }
	}
	if o.Offers == nil {
		o.Offers = func(*Request, string, string) bool { return true }
	}
	if o.Failed == nil {
		o.Failed = func(*Request, error) {}
	}
	s := &Server{o: o.opened()}
	s.handlers = map[string]Handler{
		sdl.CTTask:        s.task,
		sdl.CTToolCall:    s.toolcall,
		sdl.CTNegotiation: s.negotiation,
		sdl.CTTrustSync:   s.trustsync,
		sdl.CTSession:     s.session,
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

// Caller describes the sender of a message, as the carriage knows it.
type Caller struct {
	// Identity is the identity that the carriage authenticated; for handlers.
	Identity string

	// MayUse reports whether that identity may use an agent_id. Nil means that the carriage
	// authenticated nobody: every agent_id is accepted, but none is authenticated.
	MayUse func(agent string) bool

	// Type is the required type of the message; empty allows any.
	Type string

	// Fetches is called before Options.Fetch loads a schema for the message, for up to some
	// seconds. Nil: no schema is loaded, and a message that names one by its address is
	// refused.
	Fetches func()
}

// Outcome is the result of handling a message.
type Outcome struct {
	// Answer is the envelope to send back, in the form of the message. It is nil if the
	// type of the message differs from Caller.Type, because such a message is not answered.
	Answer   []byte
	Response canonical.Value // the same as a value

	// Err says why the message was refused, or that its handler failed (INTERNAL). It is
	// nil if the handler answered, also with an error envelope.
	Err *sdl.Error

	// Request was passed to the handler; nil if no handler was called.
	Request *Request
}

// Handle answers a message. It returns after the handler has; the end of ctx cancels the
// handler. The outcome does not alias body.
func (s *Server) Handle(ctx context.Context, body []byte, form sdl.Form, caller Caller) *Outcome {
	if s.o.Audit != nil {
		s = s.withAudit(s.o.Audit.Of(caller.Identity))
		if err := s.o.Audit.Ready(); err != nil { // before the nonce is recorded
			return s.unready(err, body, form, caller)
		}
	}
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

// Receive makes the same checks without answering. The nonce of the message is recorded.
func (s *Server) Receive(ctx context.Context, body []byte, form sdl.Form, caller Caller) (*Request, *sdl.Error) {
	_, r, err := s.receive(ctx, body, form, caller)
	return r, err
}

// Refuse returns the answer to a message that was not read. It adds no entry to Audit.
func (s *Server) Refuse(err *sdl.Error) *Outcome {
	return s.withAudit(nil).refuse(canonical.Value{}, err, sdl.JSON)
}

func (s *Server) refuse(v canonical.Value, err *sdl.Error, form sdl.Form) *Outcome {
	if s.o.Local != "" && text(v.Get("to").Get("agent_id")) != s.o.Local {
		v = v.With("to", canonical.Value{})
	}
	out := &Outcome{Response: s.refusal(v, err, nil), Err: err}
	out.Answer = form.Append(nil, out.Response)
	return out
}
