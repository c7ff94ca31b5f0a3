package a2a_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// names is an Access that allows tasks of one name, and every agent_id.
type names string

func (n names) Allowed(_, _, operation, name string) bool {
	return operation != "task" || name == string(n)
}

func TestTasksOfAnAgentHereAreForItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, anyone := newWorker(), newWorker()
		s := service(t, a2a.Options{Access: names("billing/k"), Workers: []a2a.Registration{
			{Agent: "billing", Kinds: []string{"k"}, Worker: mine}, {Kinds: []string{"k", "other"}, Worker: anyone},
		}})
		p := script(t, s, alice)
		p.send(task("to it", "k", ""), param(a2a.ExtAgent, "billing"))
		mine.started(t).finish("out")
		p.want(message{Type: 4, ID: "to it", OK: true, Payload: "out"})

		p.send(task("to no one", "k", ""))
		p.want(message{Type: 4, ID: "to no one", Reason: "denied"}) // its name is k
		p.send(task("to another", "k", ""), param(a2a.ExtAgent, "sales"))
		p.want(message{Type: 4, ID: "to another", Reason: "denied"})
		p.send(task("of another kind", "other", ""), param(a2a.ExtAgent, "billing"))
		p.want(message{Type: 4, ID: "of another kind", Reason: "denied"})
		anyone.idle(t)
	})
}

func TestTL11NobodyDeclaresAnAgentThatIsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: []a2a.Registration{{Agent: "billing", Kinds: []string{"k"}, Worker: w}}})
		p := script(t, s, alice)
		if code := p.verdict(handshake("billing", "k", "more")); code != profiles.SecurityPolicy {
			t.Errorf("%v, want %v", code, profiles.SecurityPolicy)
		}
		p.accept(handshake("another", "k"))
		p.send(task("t", "k", ""), param(a2a.ExtAgent, "billing"))
		w.started(t).finish("")
		p.want(message{Type: 4, ID: "t", OK: true})
	})
}

func TestASpareWorkerGetsWhatNoSessionHasDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Access: names("k"), Workers: []a2a.Registration{{Agent: "billing", Spare: true, Kinds: []string{"k"}, Worker: w}}})
		p, agent := script(t, s, alice), script(t, s, bob)
		spare := func(id string) {
			t.Helper()
			p.send(task(id, "k", ""), param(a2a.ExtAgent, "billing"))
			w.started(t).finish("spare")
			p.want(message{Type: 4, ID: id, OK: true, Payload: "spare"})
		}
		spare("nobody is there")
		agent.accept(handshake("billing", "other")) // sessions may declare it
		spare("of another kind")
		agent.accept(handshake("billing", "k", "other"))
		if !s.Takes("billing", "k") || s.Takes("billing", "more") || s.Takes("sales", "k") {
			t.Error("what billing takes is not what it has declared")
		}
		p.send(task("declared", "k", "in"), param(a2a.ExtAgent, "billing"))
		_, id := agent.given("k", "in")
		agent.accept(good(id, "out"))
		p.want(message{Type: 4, ID: "declared", OK: true, Payload: "out"})
		agent.hangUp()
		synctest.Wait()
		if s.Takes("billing", "k") {
			t.Error("billing is away")
		}
		p.send(task("away", "k", ""), param(a2a.ExtAgent, "billing")) // waits for it
		p.quiet()
		w.idle(t)
		p.send(task("for no agent", "k", ""))
		p.quiet() // waits for billing, too
		if err := s.ReplaceWorkers([]a2a.Registration{{Agent: "billing", Spare: true, Kinds: []string{"k"}}}, nil); err != nil {
			t.Fatal(err)
		}
		p.send(task("removed", "k", ""), param(a2a.ExtAgent, "sales"))
		if m := p.next(); m.OK {
			t.Errorf("%+v", m)
		}
	})
}

func TestASpareWorkerHasRoomForSoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: []a2a.Registration{{Agent: "billing", Spare: true, Kinds: []string{"k"}, Worker: w, Tasks: 1, Waiting: 1}}})
		p := script(t, s, alice)
		for _, id := range []string{"1", "2", "3"} {
			p.send(task(id, "k", ""), param(a2a.ExtAgent, "billing"))
			synctest.Wait()
		}
		p.want(message{Type: 4, ID: "3", Reason: "too many tasks of this kind are waiting"})
		for _, id := range []string{"1", "2"} {
			w.started(t).finish("")
			p.want(message{Type: 4, ID: id, OK: true})
		}
	})
}

func TestRegistrationsOfAgentsAreChecked(t *testing.T) {
	for name, list := range map[string][]a2a.Registration{
		"a slash":      {{Agent: "a/b", Kinds: []string{"k"}, Worker: newWorker()}},
		"spare, none":  {{Spare: true, Kinds: []string{"k"}, Worker: newWorker()}},
		"blank":        {{Agent: " ", Kinds: []string{"k"}, Worker: newWorker()}},
		"a kind twice": {{Agent: "a", Kinds: []string{"k"}, Worker: newWorker()}, {Agent: "a", Kinds: []string{"k"}, Worker: newWorker()}},
	} {
		if s, err := a2a.New(a2a.Options{Workers: list}); err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

// resumer is a worker that goes on with what was begun.
type resumer struct {
	*worker
	last chan string
	runs *atomic.Int32
}

func (r resumer) Run(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	r.runs.Add(1)
	return r.worker.Run(ctx, t, event)
}

func (r resumer) Resume(ctx context.Context, t *a2a.Task, last []byte, event func(string, []byte) error) ([]byte, error) {
	r.last <- string(last)
	return r.worker.Run(ctx, t, event)
}

func TestAResumerGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		r := resumer{newWorker(), make(chan string, 16), new(atomic.Int32)}
		options := func() a2a.Options {
			return a2a.Options{Store: disk.open(t), Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: r, Tasks: 2}}}
		}
		s := service(t, options())
		p := script(t, s, alice)
		p.accept(task("said", "k", "input"), task("silent", "k", ""))
		for range 2 {
			if one := r.started(t); string(one.ID) == "said" {
				one.progress(t, "1")
			}
		}
		p.want(message{Type: 3, Seq: 1, ID: "said", Message: "1"})
		p.accept(task("waits", "k", ""))
		if err := s.Drain(t.Context()); err != nil { // which does not wait for them
			t.Fatal(err)
		}
		synctest.Wait()
		if n := p.service.InFlight(); n != 0 {
			t.Errorf("%d exchanges are open, want none", n)
		}
		p.hangUp()
		s.Close()

		s = service(t, options())
		p = script(t, s, alice)
		for range 3 { // in any order
			switch one := r.started(t); string(one.ID) {
			case "said":
				if string(one.Input) != "input" {
					t.Errorf("input %q", one.Input)
				}
				one.progress(t, "2")
				one.finish("out")
			case "silent":
				one.finish("out")
			default:
				one.finish("")
			}
		}
		for range 2 {
			if last := <-r.last; last != "" { // the Event had a message and no payload
				t.Errorf("last payload %q", last)
			}
		}
		p.send(task("said", "k", "input"), number(a2a.ExtResume, 1))
		p.want(message{Type: 3, Seq: 2, ID: "said", Message: "2"}, message{Type: 4, Seq: 2, ID: "said", OK: true, Payload: "out"})
		p.send(task("silent", "k", ""), number(a2a.ExtResume, 0))
		p.want(message{Type: 4, ID: "silent", OK: true, Payload: "out"})
		p.send(task("waits", "k", ""), number(a2a.ExtResume, 0))
		p.want(message{Type: 4, ID: "waits", OK: true})
		if n := r.runs.Load(); n != 3 {
			t.Errorf("%d tasks were begun, want 3", n)
		}
	})
}

func TestAResumerIsToldTheLastPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		last := make(chan string, 1)
		options := func(w a2a.Worker) a2a.Options {
			return a2a.Options{Store: disk.open(t), Workers: []a2a.Registration{{Agent: "a", Kinds: []string{"k"}, Worker: w}}}
		}
		two := a2a.WorkerFunc(func(ctx context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
			for _, payload := range []string{"first", "second"} {
				if err := event("", []byte(payload)); err != nil {
					return nil, err
				}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		w := newWorker()
		s := service(t, options(two))
		p := script(t, s, alice)
		p.send(task("t", "k", ""), param(a2a.ExtAgent, "a"))
		p.want(message{Type: 3, Seq: 1, ID: "t", Payload: "first"}, message{Type: 3, Seq: 2, ID: "t", Payload: "second"})
		p.hangUp()
		s.Close()
		service(t, options(resumer{w, last, new(atomic.Int32)}))
		w.started(t).finish("")
		if got := <-last; got != "second" {
			t.Errorf("last payload %q", got)
		}
	})
}
