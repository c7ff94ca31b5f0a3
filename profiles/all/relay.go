package all

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// openStream calls a method of a relay.
func openStream(ctx context.Context, lane profiles.Lane, method string, params []byte) (relay.Stream, error) {
	return rpc.Open(ctx, lane, method, params)
}
