package serve

import (
	"slices"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// maxTools bounds the names of tools that an answer advertises.
const maxTools = 1000

// tools returns the sorted names that answers advertise.
func (s *Server) tools() []string {
	names := slices.Compact(slices.Sorted(slices.Values(s.o.Tools.Tools())))
	return names[:min(len(names), maxTools)]
}

// respond writes the answer to a request. The answer passes every check of an envelope.
func (s *Server) respond(r *Request, result Result) (canonical.Value, *sdl.Error) {
	v := sdl.Response(r.Envelope.Value, result.CT, result.Payload, s.writing(s.tools()))
	return s.finish(r.Envelope.Value, v)
}

// writing returns the settings for an answer. Refusals advertise no tools.
func (s *Server) writing(tools []string) sdl.Writing {
	return sdl.Writing{Limits: s.o.Limits, Tools: tools, Now: s.o.Now, NewID: s.o.NewID}
}

// refusal writes the error envelope for a message. The message may be any value, also null.
func (s *Server) refusal(request canonical.Value, e *sdl.Error) canonical.Value {
	v, err := s.finish(request, sdl.ErrorEnvelope(request, e, s.writing(nil)))
	if err != nil {
		// The signature made it too long. Without sender, receiver and trace of the request
		// it is short.
		v = sdl.ErrorEnvelope(canonical.Value{}, e, s.writing(nil))
	}
	return v
}

// finish signs the answer if the request was signed, and checks it.
func (s *Server) finish(request, v canonical.Value) (canonical.Value, *sdl.Error) {
	if mode := seal.Mode(request); s.o.Signer.Key != nil && (mode == seal.Sig || mode == seal.EncSig) {
		signed, err := s.o.Signer.Sign(v)
		if err != nil {
			return v, sdl.Refuse(sdl.Internal, "signing the answer: %v", err)
		}
		v = signed
	}
	_, err := sdl.Validate(v, sdl.Options{Limits: s.o.Limits, Now: s.o.Now})
	return v, err
}
