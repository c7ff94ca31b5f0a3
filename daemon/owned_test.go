package daemon

import (
	"testing"

	"github.com/slimwire/swp/profiles/relay"
)

// Whom slip send denies does not speak by the relay, which has a rule for all topics.
func TestPR20TheRelayDoesNotSpeakForOtherProfiles(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, number int) {
		t.Parallel()
		b := open(t, "b", "slip: {relay: [archivist]}\n")
		a := open(t, "a", "slip: {relay: [archivist]}\naccess: {rules: [{identity: '**', profile: relay}]}\n")
		a.trusting("b", b, b.addrs[number])
		b.trusting("a", a)
		a.connected("b")
		s := a.mustDial(a.addrs[number])
		for _, topic := range []string{"slip/archivist", "sdl/archivist", "b/slip/archivist", "b/sdl/archivist"} {
			if _, err := relay.Send(t.Context(), s.Session, &relay.Publication{ID: []byte(topic), Topic: topic}); err == nil {
				t.Errorf("%s: published", topic)
			}
		}
		for _, topic := range []string{"orders", "b/orders"} {
			if _, err := relay.Send(t.Context(), s.Session, &relay.Publication{ID: []byte(topic), Topic: topic}); err != nil {
				t.Errorf("%s: %v", topic, err)
			}
		}
	})
}
