package serve

import (
	"context"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// receive makes the checks of rows 0 to 15 of A2A-SDL §2.2. The value is null if the body
// cannot be parsed.
func (s *Server) receive(ctx context.Context, body []byte, form sdl.Form, caller Caller) (canonical.Value, *Request, *sdl.Error) {
	v, err := sdl.Decode(body, form, s.o.Limits)
	if err != nil {
		return v, nil, err
	}
	if mistyped(v, caller) {
		return v, nil, sdl.Refuse(sdl.BadRequest, "type is %q, and %q where it came from", text(v.Get("type")), caller.Type)
	}
	fetch, stranger := s.fetch(v, caller)
	e, err := sdl.Validate(v, sdl.Options{Limits: s.o.Limits, Versions: s.o.Versions, Now: s.o.Now, Fetch: fetch})
	switch {
	case *stranger != nil:
		return v, nil, *stranger
	case err != nil:
		return v, nil, err
	}
	// Check both agents before the nonce is recorded.
	if err := s.between(e.From.AgentID, e.To.AgentID, caller); err != nil {
		return v, nil, err
	}
	r := &Request{Envelope: e, Payload: e.Payload, Caller: caller, Now: s.o.Now()}
	if s.o.Policy == nil {
		return v, r, s.unguarded(ctx, e)
	}
	if r.Payload, err = s.o.Policy.Admit(ctx, e, r.Now); err != nil {
		return v, nil, err
	}
	r.Verified = true
	if r.Envelope.Sec.Encrypted() && s.seals() && len(s.o.Recipients(r.Agent())) == 0 {
		return v, nil, sdl.NoAnswerKey(r.Agent())
	}
	return v, r, nil
}

// between checks the agents of a message.
func (s *Server) between(from, to string, caller Caller) *sdl.Error {
	if caller.MayUse != nil && !caller.MayUse(from) {
		return sdl.Insecure(false, "%q may not send as %q", caller.Identity, from)
	}
	if s.o.Local != "" && to != s.o.Local {
		return sdl.Insecure(false, "to.agent_id %.100q, want %q", to, s.o.Local)
	}
	return nil
}

// fetch returns how the schema of a message is loaded, nil if it is not. Nothing is loaded for a
// message between other agents; stranger is then the refusal of the message.
func (s *Server) fetch(v canonical.Value, caller Caller) (fetch func(uri string) (canonical.Value, error), stranger **sdl.Error) {
	stranger = new(*sdl.Error)
	if s.o.Fetch == nil || caller.Fetches == nil {
		return nil, stranger
	}
	return func(uri string) (canonical.Value, error) {
		from, to := v.Get("from").Get("agent_id"), v.Get("to").Get("agent_id")
		if *stranger = s.between(text(from), text(to), caller); *stranger != nil {
			return canonical.Value{}, *stranger
		}
		caller.Fetches()
		return s.o.Fetch(uri)
	}, stranger
}

// unguarded checks a message without a policy (A2A-SDL §6.7).
func (s *Server) unguarded(ctx context.Context, e *sdl.Envelope) *sdl.Error {
	if e.Sec.Mode != sdl.ModeNone {
		return sdl.Insecure(false, "mode %s without a policy", e.Sec.Mode)
	}
	if s.o.Replay == nil || e.Sec.Replay == nil {
		return nil
	}
	return s.o.Replay.Check(ctx, e, s.o.Now())
}

// mistyped reports whether the type in a message differs from the type that its Caller
// expects.
func mistyped(v canonical.Value, caller Caller) bool {
	if caller.Type == "" {
		return false
	}
	switch t := text(v.Get("type")); t {
	case sdl.TypeReq, sdl.TypeRes, sdl.TypeEvt:
		return t != caller.Type
	}
	return false // refused by the other checks
}
