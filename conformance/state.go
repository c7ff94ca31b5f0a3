package conformance

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// stateProfiles are the STATE profile, and RPC with the method that reads deltas.
func stateProfiles(s *stage) ([]*profiles.Profile, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	states, err := state.New(state.Options{Store: db, Now: s.clock.now})
	if err != nil {
		return nil, err
	}
	s.onClose(states.Close)
	deltas := func(ctx context.Context, req *profiles.Request, params []byte, send func([]byte) error) ([]byte, error) {
		_, err := states.Deltas(ctx, req.Session.Peer(), params, send)
		return nil, err
	}
	calls, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{state.MethodDeltas: {Detached: deltas}}})
	if err != nil {
		return nil, err
	}
	return []*profiles.Profile{witnessed(s, states.Profile()), witnessed(s, calls)}, nil
}
