package a2a_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

func TestDrainEndsWhatRunsAndLeavesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		w := newWorker()
		registrations := []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 1}}
		s := service(t, a2a.Options{Store: disk.open(t), Workers: registrations})
		p := script(t, s, alice)
		p.accept(task("one", "k", ""), task("two", "k", ""))
		running := w.started(t)

		brief, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Drain(brief); !errors.Is(err, context.Canceled) {
			t.Errorf("Drain while a task runs: %v", err)
		}
		running.finish("done")
		if m := p.next(); m.Type != a2a.TypeResult || m.ID != string(running.ID) || !m.OK {
			t.Errorf("%+v, want the result of %s", m, running.ID)
		}
		w.idle(t)
		p.hangUp()
		s.Close()

		later := service(t, a2a.Options{Store: disk.open(t), Workers: registrations})
		waited := w.started(t)
		if string(waited.ID) == string(running.ID) {
			t.Errorf("task %s was started again", waited.ID)
		}
		waited.finish("done")
		if err := later.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		w.idle(t)
	})
}

func TestDrainLetsGoOfWhatAnAgentCarriesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		w := newWorker()
		agent := service(t, a2a.Options{Workers: kinds(w, "k", "other")})
		s := service(t, a2a.Options{Store: disk.open(t)})
		p := script(t, s, alice)
		x, y := connect(t, bob, agent, "spiffe://test/server", s)
		p.accept(handshake("away", "other"))
		if err := agent.Declare(t.Context(), x, "agent", []string{"k"}); err != nil {
			t.Fatal(err)
		}
		q := script(t, s, alice)
		p.hangUp() // and with it the agent that is away
		q.accept(task("given", "k", ""), task("waiting", "other", ""))
		r := w.started(t)
		r.progress(t, "1")
		q.want(message{Type: 3, Seq: 1, ID: "given", Message: "1"})
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.progress(t, "2")
		q.accept(task("late", "k", ""))
		q.quiet()
		if n := q.service.InFlight(); n != 0 { // the late one may have come before, and been stored after
			t.Errorf("%d exchanges are open", n)
		}
		q.hangUp()
		hangUp(x, y)
		s.Close()

		s = service(t, a2a.Options{Store: disk.open(t)})
		x, _ = connect(t, bob, agent, "spiffe://test/server", s)
		if err := agent.Declare(t.Context(), x, "agent", []string{"k", "other"}); err != nil {
			t.Fatal(err)
		}
		q = script(t, s, alice)
		q.send(task("given", "k", ""), number(a2a.ExtResume, 1))
		q.want(message{Type: 3, Seq: 2, ID: "given", Message: "2"})
		r.finish("out")
		q.want(message{Type: 4, Seq: 2, ID: "given", OK: true, Payload: "out"})
		for range 2 {
			w.started(t).finish("")
		}
		q.send(task("waiting", "other", ""), number(a2a.ExtResume, 0))
		q.want(message{Type: 4, ID: "waiting", OK: true})
	})
}

// A connection that is drained for another one still carries what belongs to tasks that it
// has: the Result of their sender, which cancels them, and what their agents report.
func TestADrainedConnectionServesWhatBelongsToATask(t *testing.T) {
	for _, typ := range service(t, a2a.Options{}).Profile().Types {
		if within := typ.Role&profiles.Within != 0; within != (typ.ID == a2a.TypeEvent || typ.ID == a2a.TypeResult) {
			t.Errorf("%s: served while draining: %v", typ.Name, within)
		}
	}
}
