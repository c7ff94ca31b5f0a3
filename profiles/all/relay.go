package all

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// attach is swp.relay.attach: held open while the caller is a consumer.
func (s *Set) attach(p *rpc.Pending, params []byte) error { return s.Relay.Attach(p, params) }

// dead is swp.relay.dead.
func (s *Set) dead(ctx context.Context, req *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
	return s.Relay.Dead(ctx, req.Session, params)
}

// openStream calls a method of a relay.
func openStream(ctx context.Context, lane profiles.Lane, method string, params []byte) (relay.Stream, error) {
	return rpc.Open(ctx, lane, method, params)
}
