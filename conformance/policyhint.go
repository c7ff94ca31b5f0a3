package conformance

import (
	"fmt"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// buildPolicyHint returns what sets an endpoint with the POLICYHINT profile: with
// methods that hints can stop, or between two connections.
func buildPolicyHint(setup string) (func(*stage) error, error) {
	switch setup {
	case vectors.Serve:
		return serving(hintedProfiles), nil
	case vectors.Relay:
		return func(s *stage) error {
			return buildHop(s, s.hints(), rpc.Options{})
		}, nil
	}
	return nil, fmt.Errorf("%w: nothing here plays setup %q", ErrNotPlayed, setup)
}

// methodTargets are the targets: of a method that is not in it nothing is known.
type methodTargets map[string]*policyhint.Target

// Target implements policyhint.Targets.
func (d methodTargets) Target(profile, name string) (*policyhint.Target, bool) {
	t, ok := d[name]
	return t, ok && profile == "rpc"
}

// european is what is declared of vector.done and vector.held.
func european() *policyhint.Target {
	cost, _ := policyhint.ParseCost("0.02 EUR") // a constant
	return &policyhint.Target{ExternalNetwork: new(false), Regions: []string{"eu-west-1"}, Cost: &cost}
}

// hints is the POLICYHINT profile, whose hints from now on are attached to each
// exchange.
func (s *stage) hints() *policyhint.Hints {
	h := policyhint.New(policyhint.Options{Forward: never, Targets: methodTargets{"vector.done": european(), "vector.held": european()}})
	s.tracer = endpoint.ContextFunc(h.Attach)
	return h
}

// hintedProfiles are POLICYHINT, and RPC with the methods vector.done, of which
// something is declared, and vector.bare, of which nothing is.
func hintedProfiles(s *stage) ([]*profiles.Profile, error) {
	h := s.hints()
	done := rpc.Method{Inline: func(*profiles.Request, []byte) ([]byte, error) { return []byte("done"), nil }}
	calls, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{"vector.done": done, "vector.bare": done}})
	if err != nil {
		return nil, err
	}
	return []*profiles.Profile{witnessed(s, h.Profile()), witnessed(s, calls)}, nil
}
