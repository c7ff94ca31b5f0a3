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

// relayOptions sets the store and the limits of profile 19. Other parts set other options. The limits
// of waiting deliveries and remembered ids belong to the store; see Open.
func relayOptions(o *relay.Options, c *config.Config, queues store.Queues) {
	r := &c.Relay
	o.Store, o.Window, o.TTL, o.Retention, o.DeadRetention = queues, r.Window, r.TTL, r.Retention, r.DeadRetention
	o.AckTimeout, o.Backoff, o.MaxBackoff, o.MaxAttempts = r.AckTimeout, r.Backoff, r.MaxBackoff, r.MaxAttempts
	o.MaxPayload, o.FrameLimit = int(c.RelayPayload()), int(c.Limits.FrameBytes)
	o.Envelope = e1.Limits{MaxPayload: int(c.Limits.PayloadBytes), MaxExtensions: int(c.Limits.ExtensionBytes)}
	o.MaxAnswer = int(c.Limits.PayloadBytes / 16 * 15)
	o.MaxInFlight, o.IdentityInFlight, o.InFlight = r.MaxInFlight, r.InFlightPerIdentity, r.InFlight
}
