package a2a_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// rules is an Access that allows everything to all but alice, and to alice while may is set.
type rules struct{ may atomic.Bool }

func (r *rules) Allowed(identity, _, _, _ string) bool { return identity != alice || r.may.Load() }

// holds reports whether the records on a disk contain text.
func (d *disk) holds(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.records {
		if bytes.Contains(r.value, []byte(text)) {
			return true
		}
	}
	return false
}

func TestRS10TheInputOfADeniedTaskIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "an input that nobody has allowed"
		d, w, may := newDisk(), newWorker(), new(rules)
		open := func() (*a2a.Service, *memory) {
			store := d.open(t)
			store.impoverish(alice) // she pays nothing for a denial
			return service(t, a2a.Options{Store: store, Workers: kinds(w, "k"), Access: may}), store
		}
		s, store := open()
		denied := message{Type: 4, ID: "t", Reason: "denied"}
		store.gate <- struct{}{} // the Task is being stored
		p := script(t, s, alice)
		p.send(task("t", "k", secret))
		p.send(task("t", "k", secret))
		p.send(task("ended", "k", secret))
		synctest.Wait()
		if code := p.verdict(bad("ended", "never mind")); code != profiles.OK {
			t.Errorf("the result of the initiator: %v", code)
		}
		<-store.gate
		p.want(denied) // once: both messages are one task
		p.send(task("t", "k", secret))
		p.want(denied)
		p.refuse(task("t", "k", "another input"))
		if d.holds(secret) {
			t.Error("the input is stored")
		}

		p.hangUp()
		s.Close()
		store.close()
		may.may.Store(true)
		s, store = open()
		store.impoverish("")
		p = script(t, s, alice)
		p.send(task("t", "k", secret))
		p.want(denied)
		p.refuse(task("t", "k", "another input"))
		w.idle(t)
		p.send(task("u", "k", secret))
		w.started(t).finish("")
		p.want(message{Type: 4, ID: "u", OK: true})
	})
}

// Denied tasks have a bounded number of places, for all callers of a peer together.
func TestRS10DeniedTasksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 1024
		d := newDisk()
		s := service(t, a2a.Options{Store: d.open(t), Workers: kinds(newWorker(), "k"), Access: new(rules)})
		p := script(t, s, alice)
		for i := range 3 * places {
			id := fmt.Sprint(i)
			p.send(task(id, "k", strings.Repeat("x", 1000)))
			p.want(message{Type: 4, ID: id, Reason: "denied"})
		}
		synctest.Wait()
		for _, space := range []string{"a2a.denied", "a2a.request", "a2a.ending"} {
			if n := d.size(space); n == 0 || n > places {
				t.Errorf("%d records of %s, want at most %d", n, space, places)
			}
		}
		if n := d.size("a2a.standing"); n > 0 {
			t.Errorf("%d standings", n)
		}
		p.send(task("0", "k", strings.Repeat("x", 1000))) // forgotten or not
		p.want(message{Type: 4, ID: "0", Reason: "denied"})
	})
}

// A rule that is removed ends what waits for a Worker or for an agent, and what runs.
func TestTL12ARemovedRuleEndsTheTasksOfAnIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, may := newWorker(), new(rules)
		may.may.Store(true)
		s := service(t, a2a.Options{Access: may, Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 2}}})
		agent := script(t, s, carol)
		agent.accept(handshake("a", "remote"))
		p, q := script(t, s, alice), script(t, s, bob)
		p.send(task("runs", "k", ""))
		runs := w.started(t)
		q.send(task("runs", "k", ""))
		of := w.started(t)
		p.send(task("given", "remote", ""))
		_, given := agent.given("remote", "")
		p.send(task("waits", "k", ""))
		q.send(task("waits", "k", ""))
		agent.hangUp()
		synctest.Wait()

		may.may.Store(false)
		s.Profile().Review()
		left := map[string]bool{"runs": true, "given": true, "waits": true}
		for range 3 {
			if m := p.next(); m.Type != 4 || m.Reason != "denied" || !left[m.ID] {
				t.Errorf("%+v", m)
			} else {
				delete(left, m.ID)
			}
		}
		if runs.ctx.Err() == nil {
			t.Error("the task of alice still runs")
		}
		next := w.started(t)
		if next.Peer != bob || of.ctx.Err() != nil {
			t.Errorf("the tasks of bob: %+v, %v", next.Task, of.ctx.Err())
		}
		_ = given
		p.quiet()
		q.quiet()
	})
}

// A rule may be removed while a task is being stored: the task does not wait for its agent.
func TestTL12ATaskThatIsBeingStoredEndsWithItsRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, may := newDisk().open(t), new(rules)
		may.may.Store(true)
		s := service(t, a2a.Options{Store: store, Access: may})
		agent, p := script(t, s, carol), script(t, s, alice)
		agent.accept(handshake("a", "remote"))
		agent.hangUp()
		store.gate <- struct{}{}
		p.send(task("t", "remote", ""))
		synctest.Wait()
		may.may.Store(false)
		s.Profile().Review()
		<-store.gate
		p.want(message{Type: 4, ID: "t", Reason: "denied"})
	})
}

// Access is asked when a task begins: a rule may have been removed while it waited, and
// between two processes.
func TestTL12ATaskThatWaitedBeginsOnlyIfARuleAllowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w, may := newDisk(), newWorker(), new(rules)
		may.may.Store(true)
		opts := a2a.Options{Access: may, Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 1}}}
		store := d.open(t)
		opts.Store = store
		s := service(t, opts)
		p, q := script(t, s, alice), script(t, s, bob)
		q.send(task("first", "k", ""))
		first := w.started(t)
		for _, id := range []string{"one", "two"} {
			p.send(task(id, "k", ""))
		}
		q.send(task("last", "k", ""))
		agentless := task("no agent", "remote", "")
		agent := script(t, s, carol)
		agent.accept(handshake("a", "remote"))
		agent.hangUp()
		p.send(agentless)
		synctest.Wait()
		p.hangUp()
		q.hangUp()
		s.Close()
		store.close()
		_ = first

		may.may.Store(false)
		opts.Store = d.open(t)
		s = service(t, opts)
		if r := w.started(t); r.Peer != bob || string(r.ID) != "last" {
			t.Errorf("started %+v", r.Task)
		}
		agent = script(t, s, carol)
		agent.accept(handshake("a", "remote"))
		agent.quiet()
		p = script(t, s, alice)
		for _, id := range []string{"one", "two"} {
			p.send(task(id, "k", ""))
			p.want(message{Type: 4, ID: id, Reason: "denied"})
		}
		p.send(agentless)
		p.want(message{Type: 4, ID: "no agent", Reason: "denied"})
		w.idle(t)
	})
}

// What a partner has given ends with it, as denied, and what it was given; what others have
// given to others goes on. A task under way when the partner is configured anew stays.
func TestTL30TheTasksOfARemovedPartnerEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w := newDisk(), newWorker()
		partners := map[string]string{"far": carol, "near": alice}
		open := func(partners map[string]string) *a2a.Service {
			return service(t, a2a.Options{Store: d.open(t), Partners: partners, Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 2}}})
		}
		to := func(agent string) e1.Extensions { return param(a2a.ExtAgent, agent) }
		far := message{Type: 4, Reason: "the partner was removed"}
		denied := message{Type: 4, Reason: "denied"}
		want := func(p *peer, m message, ids ...string) {
			t.Helper()
			left := make(map[string]bool)
			for _, id := range ids {
				left[id] = true
			}
			for range ids {
				got := p.next()
				if got.Type != 4 || got.Reason != m.Reason || !left[got.ID] {
					t.Errorf("%+v, want %+v of %v", got, m, ids)
				}
				delete(left, got.ID)
			}
			p.quiet()
		}

		s := open(partners)
		p, q, partner := script(t, s, bob), script(t, s, alice), script(t, s, carol)
		s.Reached("far", partner.service, true)
		p.send(task("there", "k", ""), to("far/x"))
		partner.given("k", "")
		q.send(task("runs", "k", ""))
		w.started(t)
		p.send(task("here", "k", ""))
		w.started(t)
		q.send(task("waits", "k", ""))
		synctest.Wait()
		partner.hangUp()
		s.SetPartners(partners)
		p.quiet()
		q.quiet()
		s.SetPartners(map[string]string{"near": alice})
		want(p, far, "there")
		s.SetPartners(nil)
		want(q, denied, "runs", "waits")
		p.hangUp()
		q.hangUp()
		s.Close()

		// Removed while the process does not run.
		s = open(partners)
		p, q, partner = script(t, s, bob), script(t, s, alice), script(t, s, carol)
		s.Reached("far", partner.service, true)
		p.send(task("given", "k", ""), to("far/x"))
		partner.given("k", "")
		partner.hangUp()
		p.send(task("one", "k", ""))
		w.started(t)
		p.send(task("two", "k", ""))
		w.started(t)
		q.send(task("queued", "k", ""))
		synctest.Wait()
		p.hangUp()
		q.hangUp()
		s.Close()
		s = open(nil)
		p, q = script(t, s, bob), script(t, s, alice)
		p.send(task("given", "k", ""), to("far/x"))
		want(p, far, "given")
		q.send(task("queued", "k", ""))
		want(q, denied, "queued")
		w.idle(t)
	})
}

// An agent that is away may be denied its name, too: nobody waits for it.
func TestTL12ATaskDoesNotWaitForAnAgentThatIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		may := new(rules)
		may.may.Store(true)
		s := service(t, a2a.Options{Access: may})
		agent, p := script(t, s, alice), script(t, s, bob)
		agent.accept(handshake("a", "k"))
		p.send(task("given", "k", ""))
		agent.given("k", "")
		agent.hangUp()
		synctest.Wait()
		s.Profile().Review()
		p.quiet() // it may come back
		may.may.Store(false)
		s.Profile().Review()
		p.want(message{Type: 4, ID: "given", Reason: "the worker did not come back"})
	})
}
