package daemon

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// carrier is what travels with messages through this endpoint. It is there before the
// profiles are, for what is made first.
type carrier struct{ d *daemon }

// Attach implements profiles.Carrier.
func (c carrier) Attach(ctx context.Context, p *profiles.Profile, req *profiles.Request) context.Context {
	return c.d.profiles.Carriers.Attach(ctx, p, req)
}

// Forward implements profiles.Carrier.
func (c carrier) Forward(ctx context.Context, lane profiles.Lane, m *profiles.Onward) (context.Context, error) {
	return c.d.profiles.Carriers.Forward(ctx, lane, m)
}
