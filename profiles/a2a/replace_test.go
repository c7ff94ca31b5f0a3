package a2a_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// leaving is a Registration of a Worker for one task at once, and what says that it has
// left.
func leaving(w a2a.Worker, kinds ...string) (list []a2a.Registration, left chan struct{}) {
	left = make(chan struct{})
	return []a2a.Registration{{Kinds: kinds, Worker: w, Tasks: 1, Left: func() { close(left) }}}, left
}

func gone(t *testing.T, left chan struct{}, want bool) {
	t.Helper()
	synctest.Wait()
	select {
	case <-left:
		if !want {
			t.Error("the worker has left, and has something to do")
		}
	default:
		if want {
			t.Error("the worker has not left, and has nothing to do")
		}
	}
}

func TestAReplacedWorkerEndsWhatItHasBegunAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := newWorker(), newWorker()
		old, left := leaving(before, "k")
		s := service(t, a2a.Options{Workers: old})
		p := script(t, s, alice)
		p.accept(task("begun", "k", ""), task("waits", "k", "in"), task("waits too", "k", ""))
		begun := before.started(t)
		if n := s.Waiting(); n != 2 {
			t.Errorf("%d tasks wait, want 2", n)
		}
		next, still := leaving(after, "k")
		if err := s.ReplaceWorkers(old, next); err != nil {
			t.Fatal(err)
		}
		r := after.started(t) // beside what the old one has begun
		if string(r.ID) != "waits" || string(r.Input) != "in" {
			t.Errorf("task %q with %q", r.ID, r.Input)
		}
		gone(t, left, false)
		begun.finish("old")
		p.want(message{Type: 4, ID: "begun", OK: true, Payload: "old"})
		gone(t, left, true)
		r.finish("new")
		p.want(message{Type: 4, ID: "waits", OK: true, Payload: "new"})
		after.started(t).finish("new")
		p.want(message{Type: 4, ID: "waits too", OK: true, Payload: "new"})
		before.idle(t)
		gone(t, still, false)
		if n := s.Waiting(); n != 0 {
			t.Errorf("%d tasks wait, want none", n)
		}
	})
}

func TestAWorkerThatIsTakenOutEndsWhatWasAcceptedAndTheRestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		old, left := leaving(w, "k", "l")
		s := service(t, a2a.Options{Workers: old})
		p := script(t, s, alice)
		p.accept(task("begun", "k", ""), task("waits", "l", ""))
		begun := w.started(t)
		if err := s.ReplaceWorkers(old, nil); err != nil {
			t.Fatal(err)
		}
		p.send(task("late", "k", ""))
		if got := p.next(); got.OK || !strings.HasPrefix(got.Reason, "unsupported capability: ") {
			t.Errorf("a task that comes late: %+v", got)
		}
		begun.finish("")
		p.want(message{Type: 4, ID: "begun", OK: true})
		gone(t, left, false)
		w.started(t).finish("")
		p.want(message{Type: 4, ID: "waits", OK: true})
		gone(t, left, true)
	})
}

func TestAWorkerLeavesWithTheLastTaskThatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		old, left := leaving(w, "k")
		s := service(t, a2a.Options{Workers: old})
		p := script(t, s, alice)
		p.accept(task("begun", "k", ""), task("waits", "k", ""))
		begun := w.started(t)
		if err := s.ReplaceWorkers(old, nil); err != nil {
			t.Fatal(err)
		}
		begun.finish("")
		p.want(message{Type: 4, ID: "begun", OK: true})
		w.started(t)
		p.accept(bad("waits", "no more")) // by its initiator, while it runs
		gone(t, left, true)
	})
}

// Who asks for an agent by its name is judged by the rules for that name, whether or not
// the agent was here when the task came.
func TestAnAgentComesAndGoesWithItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := newWorker()
		s := service(t, a2a.Options{Access: names("billing/k")})
		p := script(t, s, alice)
		p.send(task("early", "k", ""), param(a2a.ExtAgent, "billing"))
		p.want(message{Type: 4, ID: "early", Reason: "denied"})
		billing := []a2a.Registration{{Agent: "billing", Kinds: []string{"k"}, Worker: mine}}
		if err := s.ReplaceWorkers(nil, billing); err != nil {
			t.Fatal(err)
		}
		if code := p.verdict(handshake("billing", "k")); code != profiles.SecurityPolicy {
			t.Errorf("somebody else declares it: %v, want %v", code, profiles.SecurityPolicy)
		}
		p.send(task("here", "k", ""), param(a2a.ExtAgent, "billing"))
		r := mine.started(t)
		if err := s.ReplaceWorkers(billing, nil); err != nil {
			t.Fatal(err)
		}
		r.finish("out")
		p.want(message{Type: 4, ID: "here", OK: true, Payload: "out"})
		p.accept(handshake("billing", "k"))
	})
}

func TestWorkersThatCannotBeUsedChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k")})
		p := script(t, s, alice)
		for name, list := range map[string][]a2a.Registration{
			"no worker": {{Kinds: []string{"l"}}}, "a kind that is taken": kinds(w, "l", "k"),
		} {
			if s.ReplaceWorkers(nil, list) == nil {
				t.Errorf("%s: taken", name)
			}
		}
		p.send(task("t", "k", ""))
		w.started(t).finish("")
		p.want(message{Type: 4, ID: "t", OK: true})
		p.send(task("u", "l", ""))
		if got := p.next(); got.OK {
			t.Errorf("%+v", got)
		}
	})
}
