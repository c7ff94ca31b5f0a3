package a2a_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

const mallory = "spiffe://test/mallory"

// flood sends tasks until they are refused, at most n, and returns how many were accepted.
func (p *peer) flood(n int) (accepted int) {
	for i := range n {
		if p.verdict(task(fmt.Sprint("flood ", i), "k", "")) == profiles.OK {
			accepted++
		}
	}
	return accepted
}

// turns lets one task after the other end, n of them, and returns whose they were: the last
// part of each identity.
func (w *worker) turns(t *testing.T, n int) string {
	t.Helper()
	var list []string
	for range n {
		r := w.started(t)
		synctest.Wait()
		list = append(list, r.Peer[strings.LastIndexAny(r.Peer, "/ ")+1:]+":"+string(r.ID))
		r.finish("")
		synctest.Wait()
	}
	return strings.Join(list, ", ")
}

func TestRS20TasksOfOneIdentityDoNotHoldUpThoseOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 1}}})
		p, q := script(t, s, mallory), script(t, s, alice)
		p.flood(500)
		p.hangUp()
		q.accept(task("1", "k", ""), task("2", "k", ""), task("3", "k", ""))
		const want = "mallory:flood 0, mallory:flood 1, alice:1, mallory:flood 2, alice:2, mallory:flood 3, alice:3, mallory:flood 4"
		if got := w.turns(t, 8); got != want {
			t.Errorf("served in the order\n%s, want\n%s", got, want)
		}
	})
}

func TestRS20CallersOfAPartnerTakeTurnsAmongThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 1}}})
		first := script(t, s, bob)
		first.accept(task("first", "k", ""))
		for _, caller := range []string{"x", "x", "x", "y", "z"} {
			p := script(t, s, profiles.OnBehalf("partner", caller))
			p.accept(task(fmt.Sprint(s.Live()), "k", ""))
		}
		q := script(t, s, alice)
		q.accept(task("1", "k", ""), task("2", "k", ""), task("3", "k", ""))
		const want = "bob:first, x:1, alice:1, y:4, alice:2, z:5, alice:3, x:2, x:3"
		if got := w.turns(t, 9); got != want {
			t.Errorf("served in the order\n%s, want\n%s", got, want)
		}
	})
}

func TestRS20AnIdentityFindsAWorkerBesideLongTasksOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 16}}})
		p, q := script(t, s, mallory), script(t, s, alice)
		p.flood(100)
		var running []*run
		for range 14 {
			running = append(running, w.started(t))
		}
		synctest.Wait()
		w.idle(t)
		for i := range 8 {
			q.accept(task(fmt.Sprint(i), "k", ""))
		}
		for range 2 {
			if r := w.started(t); r.Peer != alice {
				t.Errorf("a task of %s started in a free place", r.Peer)
			}
		}
		for range 5 { // until each has 7
			running[0].finish("")
			running = running[1:]
			if r := w.started(t); r.Peer != alice {
				t.Errorf("a task of %s started in its place", r.Peer)
			}
		}
		for range 2 { // until two places are free again
			running[0].finish("")
			running = running[1:]
			synctest.Wait()
			w.idle(t)
		}
		running[0].finish("")
		if r := w.started(t); r.Peer != mallory {
			t.Errorf("a task of %s started in the place of mallory", r.Peer)
		}
	})
}

func TestRS20WaitingTasksOfOneIdentityLeaveRoomForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: newWorker(), Tasks: 8, Waiting: 72}}})
		p, q := script(t, s, mallory), script(t, s, alice)
		if n := p.flood(100); n != 70 {
			t.Errorf("mallory has %d of 80 tasks, want 70", n)
		}
		for i := range 20 {
			if n := script(t, s, profiles.OnBehalf(mallory, fmt.Sprint("caller", i))).flood(1); n > 0 {
				t.Error("a caller of mallory has more")
			}
		}
		if n := q.flood(20); n != 10 {
			t.Errorf("alice has %d tasks, want the 10 that were left", n)
		}
	})
}

func TestRS20StoredTasksBeginInTurnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w := newDisk(), newWorker()
		opts := a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 1}}}
		store := d.open(t)
		opts.Store = store
		s := service(t, opts)
		p, q := script(t, s, mallory), script(t, s, alice)
		p.flood(20)
		q.accept(task("1", "k", ""), task("2", "k", ""))
		w.started(t)
		p.hangUp()
		q.hangUp()
		s.Close()
		store.close()

		opts.Store = d.open(t)
		service(t, opts)
		const want = "mallory:flood 1, alice:1, mallory:flood 2, alice:2, mallory:flood 3, mallory:flood 4"
		if got := w.turns(t, 6); got != want {
			t.Errorf("served in the order\n%s, want\n%s", got, want)
		}
	})
}

func TestFairnessOfAWorker(t *testing.T) {
	served := func(flooded bool) (n int) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorker()
			s := service(t, a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 1}}})
			if flooded {
				script(t, s, mallory).flood(100)
			}
			script(t, s, alice).flood(40)
			n = strings.Count(w.turns(t, 20), "alice:")
		})
		return n
	}
	fairtest.Row(t, "a2a: tasks of a worker", "tasks in 20 turns", served(false), served(true))
}

func TestFairnessOfTheProcessesOfAWorker(t *testing.T) {
	running := func(flooded bool) (n int) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorker()
			s := service(t, a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 16}}})
			p, q := script(t, s, mallory), script(t, s, alice)
			var first []*run
			if flooded {
				p.flood(100)
				for range 14 {
					first = append(first, w.started(t))
				}
			}
			q.flood(40)
			for _, r := range first {
				r.finish("")
				synctest.Wait()
			}
			whose := map[string]int{}
			for len(w.runs) > 0 {
				whose[(<-w.runs).Peer]++
			}
			n = whose[alice]
		})
		return n
	}
	fairtest.Row(t, "a2a: processes of a worker", "places of 16", running(false), running(true))
}

func TestFairnessOfTasksUnderWay(t *testing.T) {
	underWay := func(flooded bool) (n int) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorker()
			s := service(t, a2a.Options{Tasks: 16, Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 64}}})
			p, q := script(t, s, mallory), script(t, s, alice)
			if flooded {
				p.flood(40)
			}
			q.flood(40)
			for i := range 5 { // an identity of which tasks end has new ones
				if !flooded {
					break
				}
				w.started(t).finish("") // the oldest, of mallory
				synctest.Wait()
				for k := range 4 {
					p.verdict(task(fmt.Sprint("again ", i, k), "k", ""))
					q.verdict(task(fmt.Sprint("again ", i, k), "k", ""))
				}
			}
			for _, pool := range s.Pools() {
				for _, use := range pool.Most {
					if pool.Name == "tasks" && use.Identity == alice {
						n = use.Used
					}
				}
			}
		})
		return n
	}
	fairtest.Row(t, "a2a: tasks under way", "tasks of 16", underWay(false), underWay(true))
}

func TestRS32AgentsOfOneIdentityLeavePlacesForAnother(t *testing.T) {
	seated := func(flooded bool) (n int) {
		synctest.Test(t, func(t *testing.T) {
			s := service(t, a2a.Options{Agents: 16, AgentsPerSession: 4})
			var hosts []*peer
			if flooded {
				for i := range 6 {
					p := script(t, s, mallory)
					hosts = append(hosts, p)
					for k := range 4 {
						p.verdict(handshake(fmt.Sprint("m", i, k)))
					}
				}
			}
			for i := range 6 {
				q := script(t, s, alice)
				for k := range 4 {
					if q.verdict(handshake(fmt.Sprint("a", i, k))) == profiles.OK {
						n++
					}
				}
				if flooded && i < 2 {
					hosts[i].hangUp()
					synctest.Wait()
					for k := range 4 {
						hosts[4+i].verdict(handshake(fmt.Sprint("n", i, k)))
					}
				}
			}
			n = 0
			for _, a := range s.Agents() {
				if a.Identity == alice && a.Online {
					n++
				}
			}
		})
		return n
	}
	fairtest.Row(t, "a2a: agents of sessions", "agents of 16", seated(false), seated(true))
}

func TestPoolsNameWhoHasMostTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: newWorker(), Tasks: 1, Waiting: 79}}})
		script(t, s, mallory).flood(3)
		script(t, s, alice).flood(1)
		want := []fair.Use{{Identity: mallory, Used: 3}, {Identity: alice, Used: 1}}
		for _, pool := range s.Pools() {
			if pool.Name != "agents" && pool.Used != 4 || pool.Name == "agents" && pool.Used != 0 {
				t.Errorf("%+v", pool)
			}
			if pool.Used == 4 && !slices.Equal(pool.Most, want) {
				t.Errorf("%+v", pool)
			}
		}
		if n := len(s.Pools()); n != 3 {
			t.Errorf("%d pools, want all tasks, those of the worker, and the agents", n)
		}
	})
}
