package a2a_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// garbled are values that are not exactly one uvarint.
var garbled = map[string]string{"nothing": "", "cut": "\x80", "more": "\x01\x01", "too long": strings.Repeat("\x80", 10) + "\x01"}

func TestExtensionsThatSayNothingAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k")})
		p, q := script(t, s, alice), script(t, s, bob)
		type row struct {
			name string
			body body
			ext  e1.Extensions
		}
		rows := []row{
			{"agent empty", task("t", "k", ""), param(a2a.ExtAgent, "")},
			{"agent blank", task("t", "k", ""), param(a2a.ExtAgent, " ")},
			{"agent no text", task("t", "k", ""), param(a2a.ExtAgent, "\xff")},
			{"agent too long", task("t", "k", ""), param(a2a.ExtAgent, strings.Repeat("a", a2a.MaxText+1))},
			{"parameter without a value", task("t", "k", ""), param(a2a.ExtParam, "name")},
			{"parameter without a name", task("t", "k", ""), param(a2a.ExtParam, "=value")},
			{"parameter no text", task("t", "k", ""), param(a2a.ExtParam, "name=\xff")},
		}
		var many e1.Extensions
		for range 257 {
			many = e1.AppendExtension(many, a2a.ExtParam, []byte("a="))
		}
		rows = append(rows, row{"257 parameters", task("t", "k", ""), many})
		for name, value := range garbled {
			for _, typ := range []uint64{a2a.ExtResume, profiles.ExtHops, profiles.ExtDeadline} {
				rows = append(rows, row{fmt.Sprintf("%d %s", typ, name), task("t", "k", ""), param(typ, value)})
			}
		}
		for _, r := range rows {
			if code := p.verdictOf(r.body, r.ext); code != profiles.InvalidProfilePayload {
				t.Errorf("%s: %v, want %v", r.name, code, profiles.InvalidProfilePayload)
			}
			w.idle(t)
		}
		// What is at the bound, and what nobody here knows, is accepted.
		many = many[:len(many)/257*256]
		ext := append(many, param(99, "\x80")...)
		if code := p.verdictOf(task("t", "k", ""), ext); code != profiles.OK {
			t.Errorf("256 parameters and an unknown extension: %v", code)
		}
		w.started(t)

		// The same of what an executor says.
		d, err := s.Send(t.Context(), q.service, &a2a.Task{ID: []byte("sent"), Kind: "k"}, a2a.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		synctest.Wait()
		for name, value := range garbled {
			for _, typ := range []uint64{a2a.ExtSequence, a2a.ExtFirstHeld} {
				for _, b := range []body{event("sent", "e"), good("sent", "")} {
					if code := q.verdictOf(b, param(typ, value)); code != profiles.InvalidProfilePayload {
						t.Errorf("%T with %d %s: %v, want %v", b, typ, name, code, profiles.InvalidProfilePayload)
					}
				}
			}
		}
		q.accept(event("sent", "e"), good("sent", "out"))
		if events, result := receive(t, d); len(events) != 1 || string(result.Output) != "out" {
			t.Errorf("%q, %+v", events, result)
		}
	})
}

// After a lost connection an executor repeats what was not confirmed: also Events before a
// Result that has arrived. It must not send a new one.
func TestAnEventMayBeRepeatedAfterTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{Store: newDisk().open(t)})
		p, agent := script(t, s, alice), script(t, s, bob)
		agent.accept(handshake("a", "k"))
		p.send(task("t", "k", ""))
		_, id := agent.given("k", "")
		for _, step := range []struct {
			body body
			at   uint64
			want profiles.Code
		}{
			{event(id, "1"), 1, profiles.OK},
			{event(id, "2"), 2, profiles.OK},
			{good(id, ""), 2, profiles.OK},
			{event(id, "1"), 1, profiles.OK},
			{event(id, "2"), 2, profiles.OK},
			{good(id, ""), 2, profiles.OK},
			{event(id, "3"), 3, profiles.InvalidProfilePayload},
			{event(id, "0"), 0, profiles.InvalidProfilePayload},
		} {
			if got := agent.verdictOf(step.body, number(a2a.ExtSequence, step.at)); got != step.want {
				t.Errorf("%+v at %d: %v, want %v", step.body, step.at, got, step.want)
			}
		}
		if got := agent.verdict(event(id, "1")); got != profiles.InvalidProfilePayload {
			t.Errorf("without a number: %v", got)
		}
	})
}
