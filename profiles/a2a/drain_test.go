package a2a_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

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
