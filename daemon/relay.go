package daemon

import (
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store"
)

// relayOptions configure profile 19. How many deliveries wait, and how many ids
// are remembered, is a matter of the store; see openState.
func relayOptions(c *config.Config, queues store.Queues) relay.Options {
	r := &c.Relay
	return relay.Options{
		Store: queues, Window: r.Window, TTL: r.TTL, Retention: r.Retention, DeadRetention: r.DeadRetention,
		AckTimeout: r.AckTimeout, Backoff: r.Backoff, MaxBackoff: r.MaxBackoff, MaxAttempts: r.MaxAttempts,
		MaxPayload: int(c.RelayPayload()), MaxInFlight: r.MaxInFlight, IdentityInFlight: r.InFlightPerIdentity, InFlight: r.InFlight,
	}
}
