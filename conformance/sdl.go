package conformance

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/agents/sdlagent"
	"github.com/slimwire/swp/profiles"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
	"github.com/slimwire/swp/vectors"
)

// The agents of vectors of A2A-SDL: peers may speak as the first, the endpoint is the
// second.
const (
	sdlCaller = "did:key:caller"
	sdlServer = "did:web:server.example"
)

// buildSDL returns what sets an endpoint that speaks A2A-SDL: one that takes what is
// not signed, or one that takes what is signed.
func buildSDL(setup string) (func(*stage) error, error) {
	switch setup {
	case vectors.Serve, vectors.Signed:
		build := func(s *stage) ([]*profiles.Profile, error) { return sdlProfiles(s, setup == vectors.Signed) }
		return func(s *stage) error { return endpointOf(s, build) }, nil
	}
	return nil, fmt.Errorf("%w: nothing here plays setup %q", ErrNotPlayed, setup)
}

// sdlProfiles are the profile with the tool math.add behind it.
func sdlProfiles(s *stage, signed bool) ([]*profiles.Profile, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	o := serve.Options{
		Now: s.clock.now, Tools: serve.ToolSet{"math.add": serve.Sum}, ToolPolicy: &trust.ToolPolicy{Tools: []string{"math.add"}},
	}
	if signed {
		seed := sha256.Sum256([]byte("key of " + sdlCaller))
		public, _ := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey) // it is one
		keys := canonical.Object(canonical.Member{Name: sdlCaller + "#1", Value: canonical.String(seal.FormatB64(public))})
		o.Registry, err = trust.NewRegistry(canonical.Object(canonical.Member{Name: "trusted_signing_keys", Value: keys}), s.clock.now(), trust.RegistryOptions{})
		if err != nil {
			return nil, err
		}
		o.Policy = &trust.Policy{
			Local: sdlServer, Registry: o.Registry, RequireReplay: true,
			Replay: &trust.Replay{Nonces: sdlagent.Nonces{Records: db, Now: s.clock.now}},
		}
	}
	agent, err := sdlagent.New(context.Background(), sdlagent.Options{
		Language: o, Records: db, May: func(_, agentID string) bool { return agentID == sdlCaller },
	})
	if err != nil {
		return nil, err
	}
	s.onClose(agent.Close)
	service, err := carriage.New(carriage.Options{Server: agent})
	if err != nil {
		return nil, err
	}
	s.onClose(service.Close)
	return []*profiles.Profile{witnessed(s, service.Profile())}, nil
}

// compareMembers compares two documents of A2A-SDL, in the same form, but for the
// content of free members, which are named by their path. One that the expected document has must
// be present.
func compareMembers(free []string, want, got *e1.Envelope) string {
	w, err := sdlDocument(want.Payload)
	if err != nil {
		return "octets that are expected: " + err.Error()
	}
	g, err := sdlDocument(got.Payload)
	if err != nil {
		return err.Error()
	}
	if (want.Payload[0] >= 0xa0) != (got.Payload[0] >= 0xa0) {
		return fmt.Sprintf("%q was sent, want the other form", got.Payload)
	}
	for _, name := range free {
		path := strings.Split(name, ".")
		if at(g, path).IsNull() && !at(w, path).IsNull() {
			return fmt.Sprintf("%s is missing in %s", name, got.Payload)
		}
		w, g = without(w, path), without(g, path)
	}
	if !w.Equal(g) {
		return fmt.Sprintf("%s was sent, want %s", g.AppendJSON(nil), w.AppendJSON(nil))
	}
	return ""
}

// sdlDocument reads a document.
func sdlDocument(payload []byte) (canonical.Value, error) {
	form, refused := sdl.FormOf(payload)
	if refused != nil {
		return canonical.Value{}, refused
	}
	v, refused := sdl.Decode(payload, form, sdl.Limits{})
	if refused != nil {
		return v, refused
	}
	return v, nil
}

func at(v canonical.Value, path []string) canonical.Value {
	for _, name := range path {
		v = v.Get(name)
	}
	return v
}

func without(v canonical.Value, path []string) canonical.Value {
	switch {
	case !v.Has(path[0]):
		return v
	case len(path) == 1:
		return v.Without(path[0])
	}
	return v.With(path[0], without(v.Get(path[0]), path[1:]))
}
