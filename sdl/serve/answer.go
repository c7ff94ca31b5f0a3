package serve

import (
	"slices"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// maxTools bounds the names of tools that an answer advertises.
const maxTools = 1000

// tools returns the sorted names of the tools that the sender of a request may call.
func (s *Server) tools(r *Request) []string {
	names := slices.Clone(s.o.Tools.Tools())
	if !s.o.Compat.AllContentTypes {
		for _, name := range s.o.ToolPolicy.Named(r.Agent()) {
			if _, ok := s.o.Tools.Tool(name); ok {
				names = append(names, name)
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !s.offers(r, name) })
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	return names[:min(len(names), maxTools)]
}

// offers reports whether the sender of a request may call a tool.
func (s *Server) offers(r *Request, tool string) bool {
	if s.o.ToolPolicy != nil || !s.o.Compat.NoToolPolicyAllows {
		scope := object(member("scopes", canonical.Strings(s.o.ToolPolicy.Scope(tool))))
		if s.o.ToolPolicy.Allow(s.granted(r), tool, scope) != nil {
			return false
		}
	}
	return s.o.Offers(r, sdl.CTToolCall, tool)
}

// types returns the sorted content types that the sender of a request may use.
func (s *Server) types(r *Request) []string {
	if s.o.Compat.AllContentTypes {
		return sdl.ContentTypes()
	}
	return slices.DeleteFunc(s.Implemented(), func(ct string) bool {
		switch {
		case ct == sdl.CTTrustSync && !s.o.Compat.UnauthenticatedTrust && !r.Verified,
			ct == sdl.CTSession && !s.o.Compat.UnauthenticatedSession && !r.authentic():
			return true
		}
		return !s.o.Offers(r, ct, "")
	})
}

// respond writes the answer to a request. The answer passes every check of an envelope.
func (s *Server) respond(r *Request, result Result) (canonical.Value, *sdl.Error) {
	v := sdl.Response(r.Envelope.Value, result.CT, result.Payload, s.writing(s.tools(r)))
	return s.answer(r.Envelope.Value, v, r.Envelope.Sec.Signed(), r.Envelope.Sec.Encrypted(), r.Agent())
}

// writing returns the settings for an answer. Refusals advertise no tools.
func (s *Server) writing(tools []string) sdl.Writing {
	return sdl.Writing{Limits: s.o.Limits, Tools: tools, Now: s.o.Now, NewID: s.o.NewID}
}

// serving adds to the details of a refusal what this server accepts now: the members of A2A-SDL
// §6.2 and §9 list everything that the language has. accepted.modes are the modes that the
// policy lets in, implemented the content types with a handler.
func (s *Server) serving(e *sdl.Error) *sdl.Error {
	told := *e
	switch {
	case e.Code == sdl.SecurityUnsupported:
		told.Details = e.Details.With("accepted", object(member("modes", canonical.Strings(s.modes()...))))
	case e.Code == sdl.UnsupportedCT && !e.Details.Has("implemented"):
		told.Details = e.Details.With("implemented", canonical.Strings(s.Implemented()...))
	}
	return &told
}

// modes returns the security modes of envelopes that can be admitted.
func (s *Server) modes() []string {
	p := s.o.Policy
	switch {
	case p == nil:
		return []string{sdl.ModeNone}
	case p.Mode != "":
		return []string{p.Mode}
	case len(p.DecryptKeys) == 0:
		return []string{sdl.ModeSig}
	}
	return []string{sdl.ModeEncSig, sdl.ModeSig}
}

// refusal writes the error envelope for a message. The message may be any value, also null. r
// is nil until it was admitted: then nothing is encrypted.
func (s *Server) refusal(request canonical.Value, e *sdl.Error, r *Request) canonical.Value {
	e = s.serving(e)
	sealed, agent := false, ""
	if r != nil {
		sealed, agent = r.Envelope.Sec.Encrypted(), r.Agent()
	}
	mode := seal.Mode(request)
	v, err := s.answer(request, sdl.ErrorEnvelope(request, e, s.writing(nil)), mode == seal.Sig || mode == seal.EncSig, sealed, agent)
	if err == nil {
		return v
	}
	// What secures it made it too long. Without sender, receiver and trace of the request
	// it is short.
	short := sdl.ErrorEnvelope(canonical.Value{}, e, s.writing(nil))
	if v, err = s.answer(request, short, false, false, ""); err == nil {
		return v
	}
	return short // no entry can be added
}

// Secure secures an answer or an event, and checks it: it encrypts it if the request was
// encrypted and the agent that gets it has a key, and signs it if the request was signed and
// there is a key to sign with. Under a policy of mode enc+sig nothing of an encrypted request
// goes out in clear.
func (s *Server) Secure(v canonical.Value, signed, sealed bool, agent string) (canonical.Value, *sdl.Error) {
	v, refused := s.seal(v, sealed, agent)
	if refused != nil {
		return v, refused
	}
	return s.sign(v, signed)
}

// seal checks an answer and encrypts it.
func (s *Server) seal(v canonical.Value, sealed bool, agent string) (canonical.Value, *sdl.Error) {
	_, refused := sdl.Validate(v, sdl.Options{Limits: s.o.Limits, Now: s.o.Now})
	if refused != nil || !sealed {
		return v, refused
	}
	to := s.o.Recipients(agent)
	if len(to) == 0 {
		if s.seals() {
			return v, sdl.NoAnswerKey(agent)
		}
		return v, nil
	}
	encrypted, err := seal.Encrypt(v, nil, to...)
	if err != nil {
		return v, sdl.Refuse(sdl.Internal, "encrypting for %.100q: %v", agent, err)
	}
	return encrypted, nil
}

// sign signs an answer and checks it.
func (s *Server) sign(v canonical.Value, signed bool) (canonical.Value, *sdl.Error) {
	if signed && s.o.Signer.Key != nil {
		var err error
		if v, err = s.o.Signer.Sign(v); err != nil {
			return v, sdl.Refuse(sdl.Internal, "signing: %v", err)
		}
	}
	_, refused := sdl.Validate(v, sdl.Options{Limits: s.o.Limits, Now: s.o.Now})
	return v, refused
}

// seals reports whether nothing of an encrypted request may go out in clear.
func (s *Server) seals() bool {
	return s.o.Policy != nil && s.o.Policy.Mode == sdl.ModeEncSig && !s.o.Compat.ClearAnswers
}
