package a2a

import (
	"context"
	"strings"

	"github.com/slimwire/swp/profiles"
)

// credited returns ctx with the delegation under which a task is at this moment. A
// task that waits long is asked again when it begins: its chain may have expired,
// or have been revoked.
func (t *task) credited(ctx context.Context) (context.Context, error) {
	if t.Chain == "" {
		return ctx, nil
	}
	if t.s.opts.Chains == nil {
		return ctx, profiles.ErrChain
	}
	d, err := t.s.opts.Chains.Delegation(&profiles.Peer{Identity: t.Owner}, []byte(t.Chain))
	if err != nil {
		return ctx, err
	}
	return profiles.WithDelegation(ctx, d), nil
}

// chainReason is reasonChain, followed by what is wrong with the chain.
func chainReason(err error) string {
	if _, why, ok := strings.Cut(profiles.AsError(err).Text, ": "); ok {
		return reasonChain + ": " + why
	}
	return reasonChain
}

// chainless refuses a Task whose chain is of no use, with a Result that says so.
func chainless(taskID []byte, err error) error {
	fault := *profiles.AsError(err)
	m := ResultBody{TaskID: taskID, ErrorMessage: []byte(chainReason(err))}
	fault.Answer = resultOf(&m)
	return &fault
}
