package config

import (
	"cmp"
	"time"

	"github.com/slimwire/swp/store"
)

// Relay configures profile 19.
type Relay struct {
	Window        time.Duration `yaml:"window"`         // how long a delivery_id is remembered, from custody
	TTL           time.Duration `yaml:"ttl"`            // of deliveries that name none; 0 = retention
	Retention     time.Duration `yaml:"retention"`      // of an unprocessed delivery, whatever its ttl_ms
	DeadRetention time.Duration `yaml:"dead_retention"` // of a dead delivery, and again once its publisher was told
	AckTimeout    time.Duration `yaml:"ack_timeout"`    // of one attempt
	Backoff       time.Duration `yaml:"backoff"`        // after the first failed attempt; it doubles
	MaxBackoff    time.Duration `yaml:"max_backoff"`    //
	MaxAttempts   int           `yaml:"max_attempts"`   //

	MaxPayload          Size `yaml:"max_payload"`            // of one delivery; 0 = what can be delivered
	Waiting             int  `yaml:"waiting"`                // deliveries of one topic
	Remembered          int  `yaml:"remembered"`             // delivery_ids
	MaxInFlight         int  `yaml:"max_in_flight"`          // unanswered deliveries of one consumer
	InFlight            int  `yaml:"in_flight"`              // of all consumers together
	InFlightPerIdentity int  `yaml:"in_flight_per_identity"` //
}

// defaultRelay has the defaults.
func defaultRelay() Relay {
	return Relay{
		Window: 24 * time.Hour, Retention: 7 * 24 * time.Hour, DeadRetention: 7 * 24 * time.Hour,
		AckTimeout: 30 * time.Second, Backoff: time.Second, MaxBackoff: time.Minute, MaxAttempts: 5,
		Waiting: 100_000, Remembered: 16 << 20,
		MaxInFlight: 128, InFlight: 16_384, InFlightPerIdentity: 4096,
	}
}

// maxRelayTime bounds all durations of a relay, so that times computed with them stay
// valid dates.
const maxRelayTime = 10 * 365 * 24 * time.Hour

// relayOverhead is an upper bound of the octets of a delivery besides its payload and
// its extensions, stored or in a frame.
const relayOverhead = 1 << 10

// RelayPayload is relay.max_payload, or the possible maximum.
func (c *Config) RelayPayload() Size { return cmp.Or(c.Relay.MaxPayload, c.mostPayload()) }

func (c *Config) mostPayload() Size {
	l := &c.Limits
	return max(1, min(l.PayloadBytes, l.FrameBytes-l.ExtensionBytes, store.MaxValue)-relayOverhead)
}

// envelopeRoom is an upper bound of the octets of an envelope besides its payload and its
// extensions.
const envelopeRoom = 256

// FramedPayload is the size up to which a payload fits in a frame with any extensions, and
// with the data beside it in the store.
func (c *Config) FramedPayload() Size {
	l := &c.Limits
	return max(1, min(l.PayloadBytes, l.FrameBytes-l.ExtensionBytes-envelopeRoom, store.MaxValue-l.ExtensionBytes-envelopeRoom))
}

func (c *Config) checkRelay(p *problems) {
	r := &c.Relay
	for _, row := range []struct {
		key              string
		value, low, high time.Duration
	}{
		{"window", r.Window, time.Second, maxRelayTime},
		{"ttl", r.TTL, 0, r.Retention},
		{"retention", r.Retention, time.Second, maxRelayTime},
		{"dead_retention", r.DeadRetention, time.Second, maxRelayTime},
		{"ack_timeout", r.AckTimeout, time.Millisecond, 24 * time.Hour},
		{"backoff", r.Backoff, time.Millisecond, r.MaxBackoff},
		{"max_backoff", r.MaxBackoff, time.Millisecond, 24 * time.Hour},
	} {
		if row.value < row.low || row.value > row.high {
			p.add("relay."+row.key, "is %v, want %v to %v", row.value, row.low, max(row.low, row.high))
		}
	}
	for _, row := range []struct {
		key         string
		value, most int
	}{
		{"max_attempts", r.MaxAttempts, 1000},
		{"waiting", r.Waiting, r.Remembered},
		{"remembered", r.Remembered, 1 << 30},
		{"max_in_flight", r.MaxInFlight, r.InFlightPerIdentity},
		{"in_flight", r.InFlight, 1 << 20},
		{"in_flight_per_identity", r.InFlightPerIdentity, r.InFlight},
	} {
		if row.value < 1 || row.value > row.most {
			p.add("relay."+row.key, "is %d, want 1 to %d", row.value, max(1, row.most))
		}
	}
	if most := c.mostPayload(); r.MaxPayload > most {
		p.add("relay.max_payload", "is %s, want at most %s: what fits limits.payload_bytes, limits.frame_bytes and the store", r.MaxPayload, most)
	}
}
