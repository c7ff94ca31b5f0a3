package conformance

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/slip"
)

// The agents of vectors of SLIP. Any peer may speak as any of them but the last, which
// is the first peer's. Messages for sleeper are kept while it is away.
var slipNumbers = map[uint64]string{0: "coordinator", 1: "planner", 2: "executor", 3: "sleeper", 4: "nobody"}

// slipProfiles are the SLIP profile, A2A by which agents declare themselves, and the
// relay that keeps messages. executor wants nSLIP in binary.
func slipProfiles(s *stage) ([]*profiles.Profile, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	agents, err := a2a.New(a2a.Options{Store: db, Now: s.clock.now, After: s.clock.after})
	if err != nil {
		return nil, err
	}
	s.onClose(agents.Close)
	kept, err := relay.New(relay.Options{Store: db, Now: s.clock.now, After: s.clock.after})
	if err != nil {
		return nil, err
	}
	s.onClose(kept.Close)
	service, err := slip.New(slip.Options{
		Agents: agents, Numbers: slipNumbers, Forms: map[string]uint64{"executor": slip.TypeBinary}, Now: s.clock.now, Timeout: never,
		MayUse: func(identity, agent string) bool { return agent != "reserved" || identity == peerIdentity },
		Relay:  all.KeepSLIP(kept, all.SLIPRelay{Agents: func(agent string) bool { return agent == "sleeper" }}),
	})
	if err != nil {
		return nil, err
	}
	s.onClose(service.Close)
	return []*profiles.Profile{witnessed(s, service.Profile()), witnessed(s, agents.Profile()), witnessed(s, kept.Profile())}, nil
}
