package daemon

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
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

// A rule for all topics does not let an identity take the messages that the relay keeps for the
// agents of others, here or at a partner.
func TestPR20TheRelayDoesNotHearForOtherProfiles(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, number int) {
		t.Parallel()
		b := open(t, "b", "slip: {relay: [archivist]}\n")
		a := open(t, "a", "slip: {relay: [archivist]}\naccess: {rules: [{identity: '**', profile: [relay, slip]}], agents: [{identity: '**', agent_ids: [planner]}]}\n")
		a.trusting("b", b, b.addrs[number])
		b.trusting("a", a)
		a.connected("b")
		s := a.mustDial(a.addrs[number])
		denied := func(err error) bool {
			fault, ok := errors.AsType[*rpc.Error](err)
			return ok && fault.Code == rpc.CodeUnauthorized
		}
		for _, topic := range []string{"slip/archivist", "sdl/archivist", "slip/", "sdl/planner/x", "b/slip/archivist", "b/sdl/archivist"} {
			if _, err := s.relays.Consume(t.Context(), s.Session, topic, 1); !denied(err) {
				t.Errorf("%s: %v", topic, err)
			}
		}
		if _, err := s.relays.Consume(t.Context(), profiles.Toward(s.Session, "b"), "slip/archivist", 1); !denied(err) {
			t.Errorf("slip/archivist at b: %v", err)
		}
		a.eventually("a record of the denial with its reason", func() bool {
			return slices.ContainsFunc(a.trail(), func(e recorded) bool {
				return e.Name == "slip/archivist" && e.Outcome == "denied" && e.Rule == "" && e.Reason == "agent_id"
			})
		})
		var attached []*relay.Consumer
		for _, topic := range []string{"slip/planner", "sdl/planner", "b/slip/planner", "b/sdl/planner", "orders", "orders/slip/archivist", "b/orders"} {
			c, err := s.relays.Consume(t.Context(), s.Session, topic, 1)
			if err != nil {
				t.Fatalf("%s: %v", topic, err)
			}
			attached = append(attached, c)
		}
		a.rewrite("agent_ids: [planner]", "agent_ids: [other]")
		a.reloaded()
		for i, c := range attached[:4] {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if _, err := c.Recv(ctx); !denied(err) {
				t.Errorf("attachment %d ends with %v", i, err)
			}
			cancel()
		}
		for _, c := range attached[4:] {
			c.Close()
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
