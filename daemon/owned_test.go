package daemon

import (
	"slices"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
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

// A name that a rule allows and that belongs to another is denied as one without a rule, and the
// trail names no rule that allowed it.
func TestOP25ADenialThatNoRuleDecidesIsAuditedWithItsReason(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, number int) {
		t.Parallel()
		r := open(t, "a", sdlOpen+"slip: {relay: [archivist]}\na2a: {workers: {w: {kinds: [k], command: cat}}}\n")
		s := r.mustDial(r.addrs[number])
		if _, err := relay.Send(t.Context(), s.Session, &relay.Publication{ID: []byte("1"), Topic: "slip/archivist"}); err == nil {
			t.Error("published")
		}
		if _, result := s.hand(t, &a2a.Task{ID: []byte("2"), Kind: "sdl/task.v1"}, a2a.SendOptions{}); result.OK {
			t.Error("executed")
		}
		if err := s.tasks.Declare(t.Context(), s.Session, "b/", nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct{ profile, operation, name, why string }{
			{"relay", "publish", "slip/archivist", "relay_owned"},
			{"a2a", "task", "sdl/task.v1", "a2a_owned"},
			{"a2a", "handshake", "b/", "agent_id"},
		} {
			r.await(`"profile":"` + want.profile + `","operation":"` + want.operation + `","name":"` + want.name + `","why":"` + want.why + `"`)
			var denied []recorded
			r.eventually("a record of "+want.name, func() bool {
				denied = slices.DeleteFunc(r.trail(), func(e recorded) bool {
					return e.Profile != want.profile || e.Operation != want.operation || e.Name != want.name || e.Outcome != "denied"
				})
				return len(denied) > 0
			})
			if len(denied) != 1 || denied[0].Rule != "" || denied[0].Reason != want.why {
				t.Errorf("%+v: records %+v", want, denied)
			}
		}
		r.counts(`swpd_denials_total{profile="relay"}`, "1")
		r.counts(`swpd_denials_total{profile="a2a"}`, "2")
	})
}
