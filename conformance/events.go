package conformance

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
)

// eventsProfiles are the EVENTS profile. Producers and subscribers are peers.
func eventsProfiles(s *stage) ([]*profiles.Profile, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	bus, err := events.New(events.Options{Store: db, Heartbeat: never, Now: s.clock.now})
	if err != nil {
		return nil, err
	}
	s.onClose(bus.Close)
	return []*profiles.Profile{witnessed(s, bus.Profile())}, nil
}
