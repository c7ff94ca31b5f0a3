package all

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/slip"
)

// SLIPRelay stores messages of profile 1025 in the relay for agents that are not connected.
type SLIPRelay struct {
	// Agents reports whether messages for an agent are stored. Nil: none are.
	Agents func(agentID string) bool

	// TTL is the time to live of a message, zero for the default of the relay.
	TTL time.Duration
}

// TopicSLIP is the prefix of the topics for such messages; the agent_id follows.
const TopicSLIP = "slip/"

// owned are the topics of the profiles that store deliveries in the relay.
var owned = []relay.Owned{{Prefix: TopicSLIP}, {Prefix: sdl.Topic, Endpoints: true}}

// KeepSLIP returns a slip.Relay that stores messages in a relay.
func KeepSLIP(in *relay.Service, o SLIPRelay) slip.Relay { return slipRelay{o, in} }

// slipRelay implements slip.Relay. A message is the payload of a delivery, as text,
// which begins with "@" if it is nSLIP.
type slipRelay struct {
	SLIPRelay
	relay *relay.Service
}

func (r slipRelay) Keeps(agentID string) bool { return r.Agents(agentID) }

func (r slipRelay) Keep(ctx context.Context, identity, agentID string, msgID, text []byte, hops uint64) error {
	p := &relay.Publication{ID: hex.AppendEncode(nil, msgID), Topic: TopicSLIP + agentID, Payload: text, TTL: r.TTL, Hops: hops}
	err := r.relay.Keep(ctx, identity, p)
	if ctx.Err() != nil {
		return profiles.Unavailable(err)
	}
	return err
}
