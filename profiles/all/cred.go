package all

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// credTime bounds how long a task waits until its credentials are taken where it
// goes.
const credTime = 10 * time.Second

// tellCredentials is a2a.Options.Credentials. Where the peer does not take them the
// task does not go there.
func (s *Set) tellCredentials(ctx context.Context, lane profiles.Lane) (context.Context, error) {
	wait, cancel := context.WithTimeout(ctx, credTime)
	defer cancel()
	named, err := s.Cred.Forward(wait, lane, confirm)
	if errors.As(err, new(*profiles.PeerError)) {
		return nil, &profiles.Error{Code: profiles.SecurityPolicy, Detail: "cred_chain", Text: "the credentials of the task were not taken", Cause: err}
	}
	if err != nil {
		return nil, err
	}
	if chain := profiles.ChainOf(named); len(chain) > 0 {
		return profiles.WithChain(ctx, chain), nil
	}
	return ctx, nil
}

// confirm calls swp.sync on a lane.
func confirm(ctx context.Context, lane profiles.Lane) error {
	_, err := rpc.Call(ctx, lane, rpc.MethodSync, nil)
	return err
}
