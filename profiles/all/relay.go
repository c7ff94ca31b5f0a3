package all

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// openStream calls a method of a relay.
func openStream(ctx context.Context, lane profiles.Lane, method string, params []byte, ext e1.Extensions) (relay.Stream, error) {
	return rpc.Invocation{Method: method, Params: params, Extensions: ext}.Open(ctx, lane)
}
