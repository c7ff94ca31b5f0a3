package a2aowners

import (
	"context"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
)

// Offered reports whether an agent offers an operation, as its card says. A card that cannot
// be had, or read, says nothing against it.
//
// An agent refuses what it does not offer before it looks for a task. An endpoint that refuses
// an operation because of its task therefore asks here first: else the answer would depend on
// the number of endpoints in front of the agent.
func Offered(ctx context.Context, o a2abinding.Operation, card func(context.Context) ([]byte, error)) bool {
	if o.Needs == "" {
		return true
	}
	octets, err := card(ctx)
	if err != nil {
		return true
	}
	members, err := a2ajson.Parse(octets)
	if err != nil {
		return true
	}
	capabilities, err := members.Inner("capabilities")
	if err != nil || capabilities == nil {
		return true
	}
	offered, err := capabilities.Find(o.Needs)
	return err != nil || string(offered) == "true"
}
