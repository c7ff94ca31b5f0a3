package storage

import (
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store"
)

// The record of the secret of the ids under which deliveries are passed on.
const (
	spaceRelay = "relay.keys"
	nameIDs    = "ids"
)

// relayOptions configure profile 19. The limits of waiting deliveries and remembered ids
// belong to the store; see Open.
func relayOptions(c *config.Config, queues store.Queues) relay.Options {
	r := &c.Relay
	return relay.Options{
		Store: queues, Window: r.Window, TTL: r.TTL, Retention: r.Retention, DeadRetention: r.DeadRetention,
		AckTimeout: r.AckTimeout, Backoff: r.Backoff, MaxBackoff: r.MaxBackoff, MaxAttempts: r.MaxAttempts,
		MaxPayload: int(c.RelayPayload()), FrameLimit: int(c.Limits.FrameBytes),
		Envelope:  e1.Limits{MaxPayload: int(c.Limits.PayloadBytes), MaxExtensions: int(c.Limits.ExtensionBytes)},
		MaxAnswer: int(c.Limits.PayloadBytes / 16 * 15), MaxInFlight: r.MaxInFlight, IdentityInFlight: r.InFlightPerIdentity, InFlight: r.InFlight,
	}
}
