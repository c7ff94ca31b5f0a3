package all

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// confirm is cred.Options.Sync: it calls swp.sync on a lane.
func confirm(ctx context.Context, lane profiles.Lane) error {
	_, err := rpc.Call(ctx, lane, rpc.MethodSync, nil)
	return err
}
