package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/profiletest"
)

// site is a process that dies and comes back, with all that is around it.
type site struct {
	t      *testing.T
	disk   *disk
	opts   a2a.Options
	server *a2a.Service
	store  *memory
	open   []*profiletest.Session

	client *a2a.Service
	agent  *a2a.Service // nil if there is none
	kinds  []string
	runs   atomic.Int64
}

// start starts the process. It is tried until the store can be read.
func (s *site) start() {
	s.t.Helper()
	s.store = s.disk.open(s.t)
	opts := s.opts
	opts.Store = s.store
	var err error
	if s.server, err = a2a.New(opts); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.server.Close)
}

// stop ends the process: connections, Service and store, in this order.
func (s *site) stop() {
	for _, session := range s.open {
		session.Close()
	}
	for _, session := range s.open {
		session.Wait()
	}
	s.open = nil
	s.server.Close()
	s.store.close()
}

func (s *site) connect(name string, from *a2a.Service) *profiletest.Session {
	x, y := profiletest.Pair(name, registry(s.t, from), "spiffe://test/server", registry(s.t, s.server), profiletest.SessionOptions{})
	s.open = append(s.open, x, y)
	return x
}

// work is a Worker that counts how often it runs.
func (s *site) work(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	s.runs.Add(1)
	for i := range 4 {
		if err := event(fmt.Sprint(i+1), nil); err != nil {
			return nil, err
		}
		select {
		case <-time.After(400 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return t.Input, nil
}

// follow sends a task and follows it to its end, whatever happens. It returns
// the messages of its Events that are not ours, each of which came under the
// number after that of the one before.
func (s *site) follow(id string) (events []string, result *a2a.Result) {
	s.t.Helper()
	sent, last := false, uint64(0)
	for range 100 {
		session := s.connect(alice, s.client)
		if s.agent != nil {
			if err := s.agent.Declare(s.t.Context(), s.connect(bob, s.agent), "agent", s.kinds); err != nil {
				s.t.Fatal(err)
			}
			synctest.Wait()
		}
		d, err := s.client.Send(s.t.Context(), session, &a2a.Task{ID: []byte(id), Kind: "k", Input: []byte("in")}, a2a.SendOptions{Resume: sent, After: last})
		if err != nil {
			s.t.Fatal(err)
		}
		sent = true
		ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
		for err == nil {
			var e *a2a.Event
			if e, err = d.Recv(ctx); err == nil {
				if last++; e.Seq != last {
					s.t.Errorf("event %d came as number %d", last, e.Seq)
				}
				if e.Message != "accepted" {
					events = append(events, e.Message)
				}
			}
		}
		cancel()
		d.Close()
		if errors.Is(err, io.EOF) {
			return events, d.Result()
		}
		// Nothing comes any more, or the connection is gone: so is the process.
		s.stop()
		s.start()
	}
	s.t.Fatal("no result")
	return nil, nil
}

// atEveryStep plays a scenario with a fault at the first operation of the
// store, at the second, and so on, until it ends without one. After broken
// faults the store works again, unless the process is restarted.
func atEveryStep(t *testing.T, play func(t *testing.T, s *site) (clean bool)) {
	for _, broken := range []struct {
		name string
		ops  int
	}{{"for once", 1}, {"for a while", 5}, {"until a restart", 1 << 30}} {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, applied=%v", broken.name, applied), func(t *testing.T) {
				steps := 0
				for n := 1; n < 1000; n++ {
					done := false
					synctest.Test(t, func(t *testing.T) {
						s := &site{t: t, disk: newDisk()}
						s.client = bare(t)
						s.opts.Workers = kinds(a2a.WorkerFunc(s.work), "k")
						s.start()
						first := s.store
						first.fault(n, broken.ops, applied)
						done = play(t, s)
						done = done && !first.faulted()
						if t.Failed() {
							t.Logf("fault at operation %d", n)
						}
						s.stop()
					})
					if steps = n; done || t.Failed() {
						break
					}
				}
				t.Logf("%d operations", steps)
			})
		}
	}
}

func TestAStoreThatFailsAtAnyStepOfALocalTask(t *testing.T) {
	atEveryStep(t, func(t *testing.T, s *site) bool {
		events, result := s.follow("t")
		if n := s.runs.Load(); n > 1 || result.OK && n != 1 {
			t.Errorf("executed %d times, result %+v", n, result)
		}
		all := []string{"1", "2", "3", "4"}
		if !slices.Equal(all[:len(events)], events) || result.OK && len(events) != 4 {
			t.Errorf("events %q, result %+v", events, result)
		}
		for range 2 { // and it stays so
			s.stop()
			s.start()
			again, same := s.follow("t")
			if diff := cmp.Diff(result, same); diff != "" || len(again) != len(events) {
				t.Errorf("later: events %q, result %s", again, diff)
			}
		}
		if s.server.Live() > 0 || s.disk.size("a2a.standing") > 0 {
			t.Errorf("%d tasks live, %d stored as such", s.server.Live(), s.disk.size("a2a.standing"))
		}
		return result.OK
	})
}

func TestAStoreThatFailsAtAnyStepOfATaskOfAnAgent(t *testing.T) {
	atEveryStep(t, func(t *testing.T, s *site) bool {
		s.agent = service(t, a2a.Options{Workers: kinds(a2a.WorkerFunc(s.work), "k")})
		s.kinds = []string{"k"}
		s.opts.Workers = nil
		s.stop()
		n, ops, applied := s.store.failAt, s.store.failFor, s.store.applied
		s.start()
		s.store.fault(n, ops, applied)
		first := s.store
		events, result := s.follow("t")
		if n := s.runs.Load(); n != 1 || !result.OK || string(result.Output) != "in" {
			t.Errorf("executed %d times, result %+v", n, result)
		}
		if diff := cmp.Diff([]string{"1", "2", "3", "4"}, events); diff != "" {
			t.Errorf("events: %s", diff)
		}
		return !first.faulted()
	})
}

func TestARestartEndsWhatWasRunningHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		w := newWorker()
		open := func() (*a2a.Service, *memory) {
			m := d.open(t)
			return service(t, a2a.Options{Store: m, Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 1}}}), m
		}
		s, m := open()
		p := script(t, s, alice)
		p.send(task("running", "k", ""))
		r := w.started(t)
		r.progress(t, "e")
		p.send(task("waiting", "k", "input"))
		p.want(message{Type: 3, Seq: 1, ID: "running", Message: "e"})
		synctest.Wait()
		p.hangUp()
		s.Close()
		m.close()
		if r.ctx.Err() == nil || r.event("late", nil) == nil {
			t.Error("the worker was not stopped")
		}

		s, _ = open()
		r = w.started(t) // nobody had to ask for it
		if string(r.ID) != "waiting" || string(r.Input) != "input" || r.Peer != alice {
			t.Errorf("started %+v", r.Task)
		}
		p = script(t, s, alice)
		p.refuse(task("running", "k", "other"), event("nothing", "e"))
		p.send(task("running", "k", ""), number(a2a.ExtResume, 0))
		p.want(
			message{Type: 3, Seq: 1, ID: "running", Message: "e"},
			message{Type: 4, Seq: 1, ID: "running", Reason: "interrupted by a restart"},
		)
		p.send(task("waiting", "k", "input"), number(a2a.ExtResume, 0))
		r.finish("out")
		p.want(message{Type: 4, ID: "waiting", OK: true, Payload: "out"})
		w.idle(t)
	})
}

func TestARestartKeepsDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		m := d.open(t)
		s := service(t, a2a.Options{Store: m})
		q := script(t, s, bob)
		q.send(handshake("a", "k"))
		synctest.Wait()
		q.hangUp()
		p := script(t, s, alice)
		p.send(task("t", "k", ""), number(profiles.ExtDeadline, 30_000))
		time.Sleep(10 * time.Second)
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
		p.hangUp()
		s.Close()
		m.close()
		time.Sleep(10 * time.Second)
		p = script(t, service(t, a2a.Options{Store: d.open(t)}), alice)
		p.send(task("t", "k", ""))
		time.Sleep(10*time.Second - time.Millisecond)
		p.quiet()
		time.Sleep(2 * time.Millisecond)
		p.want(message{Type: 4, Seq: 1, ID: "t", Reason: "deadline exceeded"})
	})
}

func TestST07AClockThatJumpsMovesNoDeadline(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var off atomic.Int64
			d := newDisk()
			// Without the monotonic reading, as a clock that is set has none.
			now := func() time.Time { return time.Now().Add(time.Duration(off.Load())).Round(0) }
			w := newWorker()
			opts := a2a.Options{Store: d.open(t), Now: now, Workers: kinds(w, "k")}
			p := script(t, service(t, opts), alice)
			p.send(task("t", "k", ""), number(profiles.ExtDeadline, 60_000))
			r := w.started(t)
			off.Store(int64(jump))
			time.Sleep(time.Minute - time.Millisecond)
			p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
			p.quiet()
			if r.ctx.Err() != nil {
				t.Error("the worker was stopped before the deadline")
			}
			time.Sleep(2 * time.Millisecond)
			p.want(message{Type: 4, Seq: 1, ID: "t", Reason: "deadline exceeded"})
		})
	}
}

func TestNothingIsAcknowledgedThatARestartWouldForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		m := d.open(t)
		w := newWorker()
		p := script(t, service(t, a2a.Options{Store: m, Workers: kinds(w, "k")}), alice)
		m.fault(2, 5, false) // the request is stored, its standing is not, for a while
		p.send(task("t", "k", ""))
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
		if d.size("a2a.standing") != 1 {
			t.Error("acknowledged too early")
		}
		w.started(t).finish("")
		p.want(message{Type: 4, Seq: 1, ID: "t", OK: true})
	})
}

func TestAnAgentIsAskedForExactlyTheRestAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		m := d.open(t)
		s := service(t, a2a.Options{Store: m})
		p, q := script(t, s, alice), script(t, s, bob)
		q.send(handshake("a", "k"), instance("1"))
		synctest.Wait()
		p.send(task("t", "k", "input"))
		_, id := q.given("k", "input")
		time.Sleep(time.Second)
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
		for n := uint64(1); n <= 3; n++ {
			q.send(event(id, fmt.Sprint(n)), number(a2a.ExtSequence, n))
			p.want(message{Type: 3, Seq: n + 1, ID: "t", Message: fmt.Sprint(n)})
		}
		p.hangUp()
		q.hangUp()
		s.Close()
		m.close()

		s = service(t, a2a.Options{Store: d.open(t)})
		p, q = script(t, s, alice), script(t, s, bob)
		q.send(handshake("a", "k"), instance("1"))
		again, same := q.given("k", "input")
		if after, _ := again.Ext.LookupUvarint(a2a.ExtResume); after != 3 || same != id {
			t.Errorf("task %x after %d, want %x after 3", same, after, id)
		}
		q.send(event(id, "4"), number(a2a.ExtSequence, 4))
		q.accept(good(id, "out"))
		p.send(task("t", "k", "input"), number(a2a.ExtResume, 4))
		p.want(message{Type: 3, Seq: 5, ID: "t", Message: "4"}, message{Type: 4, Seq: 5, ID: "t", OK: true, Payload: "out"})
	})
}

func TestWhatFollowsATaskAtOnceIsJudgedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		m := d.open(t)
		s := service(t, a2a.Options{Store: m, Workers: kinds(counting(1), "k")})
		p := script(t, s, alice)
		p.send(task("t", "k", ""))
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "1"}, message{Type: 4, Seq: 1, ID: "t", OK: true})
		p.accept(bad("t", "crossed"))
		p.hangUp()
		s.Close()
		m.close()

		m = d.open(t)
		p = script(t, service(t, a2a.Options{Store: m, Workers: kinds(counting(1), "k")}), alice)
		codes := func(list ...body) (codes []profiles.Code) {
			synctest.Wait()
			n := len(p.service.Verdicts())
			m.gate <- struct{}{} // so that all of them come before the first is stored
			for _, b := range list {
				p.send(b)
			}
			synctest.Wait()
			<-m.gate
			synctest.Wait()
			for _, v := range p.service.Verdicts()[n:] {
				codes = append(codes, v.Code)
			}
			slices.Sort(codes)
			return codes
		}
		const refused = profiles.InvalidProfilePayload
		if got := codes(task("t", "k", ""), event("t", "e"), good("t", "other"), bad("t", "crossed")); !slices.Equal(got, []profiles.Code{0, 0, refused, refused}) {
			t.Errorf("of a task that is over: %v", got)
		}
		p.want(message{Type: 4, Seq: 1, ID: "t", OK: true})
		m.fault(1, 1, false)
		if got := codes(task("u", "k", ""), event("u", "e"), good("u", "")); !slices.Equal(got, []profiles.Code{profiles.RateLimitExceeded, refused, refused}) {
			t.Errorf("of a task that was not stored: %v", got)
		}
		if got := codes(task("v", "k", ""), event("v", "e"), task("v", "k", ""), task("v", "k", "other")); !slices.Contains(got, refused) {
			t.Errorf("of a task that is new: %v", got)
		}
		p.want(message{Type: 3, Seq: 1, ID: "v", Message: "1"}, message{Type: 4, Seq: 1, ID: "v", OK: true})
		p.quiet()
	})
}

func TestAnOwnerWithoutRoomIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newDisk().open(t)
		w := newWorker()
		s := service(t, a2a.Options{Store: m, Workers: kinds(w, "k")})
		p, q, agent := script(t, s, alice), script(t, s, bob), script(t, s, carol)
		agent.accept(handshake("a", "remote"))
		p.send(task("event", "k", ""))
		inEvent := w.started(t)
		p.send(task("result", "k", ""))
		inResult := w.started(t)
		p.send(task("remote", "remote", ""))
		_, id := agent.given("remote", "")
		q.send(task("t", "k", ""))
		other := w.started(t)
		m.impoverish(alice)

		const reason = "what is stored for this identity has reached its limit"
		if inEvent.event("e", nil) == nil {
			t.Error("an event without room was stored")
		}
		p.want(message{Type: 4, ID: "event", Reason: reason})
		inResult.finish("output")
		p.want(message{Type: 4, ID: "result", Reason: reason})
		agent.accept(event(id, "e"))
		p.want(message{Type: 4, ID: "remote", Reason: reason})
		agent.want(message{Type: 4, ID: id, Reason: reason})
		if code := p.verdict(task("new", "k", "")); code != profiles.RateLimitExceeded {
			t.Errorf("a new task: %v", code)
		}
		if n := s.Live(); n != 1 {
			t.Errorf("%d tasks are live", n)
		}
		other.progress(t, "1")
		other.finish("out")
		q.want(message{Type: 3, Seq: 1, ID: "t", Message: "1"}, message{Type: 4, Seq: 1, ID: "t", OK: true, Payload: "out"})
	})
}

func TestADamagedTaskDoesNotKeepTheOthersFromGoingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		m := d.open(t)
		w := newWorker()
		s := service(t, a2a.Options{Store: m, Workers: kinds(w, "k")})
		p := script(t, s, alice)
		p.send(task("a", "k", ""))
		w.started(t)
		p.send(task("b", "k", ""))
		w.started(t)
		p.hangUp()
		s.Close()
		m.close()
		for at, r := range d.records {
			if at[0] == "a2a.request" && strings.HasSuffix(at[1], "a") {
				r.value = r.value[:len(r.value)-1]
				d.records[at] = r
			}
		}
		var told []error
		p = script(t, service(t, a2a.Options{Store: d.open(t), Workers: kinds(w, "k"), Report: func(err error) { told = append(told, err) }}), alice)
		p.send(task("b", "k", ""))
		p.want(message{Type: 4, ID: "b", Reason: "interrupted by a restart"})
		p.refuse(event("nothing", "e"))
		if code := p.verdict(task("a", "k", "")); code != profiles.Internal || len(told) == 0 {
			t.Errorf("the damaged task: %v, reported %q", code, told)
		}
		w.idle(t)
	})
}
