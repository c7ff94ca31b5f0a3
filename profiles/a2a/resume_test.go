package a2a_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// numbered are the Events that counting sends after number from.
func numbered(from, to int) (list []string) {
	for i := from + 1; i <= to; i++ {
		list = append(list, fmt.Sprintf("%d %d", i, i))
	}
	return list
}

// resumable are the ends of a connection that can be made anew.
type resumable struct {
	dial func() profiles.Session
	cut  func()
}

// resumeEverywhere has a task of n Events, loses the connection after k of them
// for each k, and wants exactly the rest, once and in order, on the next one.
// live says that the task goes on meanwhile; otherwise it is over by then.
func resumeEverywhere(t *testing.T, n int, live bool, on resumable, client *a2a.Service, w *worker) {
	t.Helper()
	for k := range n + 1 {
		session := on.dial()
		d, err := client.Send(t.Context(), session, &a2a.Task{Kind: "k", Input: fmt.Append(nil, k)}, a2a.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := w.started(t)
		for i := range k {
			r.progress(t, fmt.Sprint(i+1))
		}
		var got []string
		for range k {
			e, err := d.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d %s", e.Seq, e.Message))
		}
		if diff := cmp.Diff(numbered(0, k), got); diff != "" {
			t.Errorf("before the cut after %d:\n%s", k, diff)
		}
		on.cut()
		for i := k; i < n; i++ {
			if live && i == (n+k)/2 {
				break
			}
			r.progress(t, fmt.Sprint(i+1))
		}
		if !live {
			r.finish("out")
		}
		session = on.dial()
		again, err := client.Send(t.Context(), session, &a2a.Task{ID: d.ID(), Kind: "k", Input: fmt.Append(nil, k)}, a2a.SendOptions{Resume: true, After: uint64(k)})
		if err != nil {
			t.Fatal(err)
		}
		if live {
			for i := (n + k) / 2; i < n; i++ {
				r.progress(t, fmt.Sprint(i+1))
			}
			r.finish("out")
		}
		events, result := receive(t, again)
		if diff := cmp.Diff(numbered(k, n), events); diff != "" {
			t.Errorf("after the cut after %d:\n%s", k, diff)
		}
		if diff := cmp.Diff(&a2a.Result{OK: true, Output: []byte("out"), Last: uint64(n)}, result); diff != "" {
			t.Errorf("after the cut after %d:\n%s", k, diff)
		}
		again.Close()
		d.Close()
		on.cut()
		w.idle(t)
	}
}

func TestResumeAtEveryEventGetsExactlyTheRest(t *testing.T) {
	for _, live := range []bool{true, false} {
		t.Run(fmt.Sprintf("live=%v", live), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker()
				server := service(t, a2a.Options{Workers: kinds(w, "k")})
				client := bare(t)
				var x, y *profiletest.Session
				on := resumable{
					dial: func() profiles.Session {
						x, y = profiletest.Pair(alice, registry(t, client), bob, registry(t, server), profiletest.SessionOptions{})
						return x
					},
					cut: func() { hangUp(x, y) },
				}
				resumeEverywhere(t, 40, live, on, client, w)
			})
		})
	}
}

func TestWireResumeAtEveryEventGetsExactlyTheRest(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		for _, live := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s live=%v", kind, live), func(t *testing.T) {
				w := newWorker()
				ln, policy := listen(t, kind, service(t, a2a.Options{Workers: kinds(w, "k")}))
				client := bare(t)
				ep := newEndpoint(t, client)
				var session *endpoint.Session
				on := resumable{
					dial: func() profiles.Session {
						session = ep.Attach(dial(t, kind, ln, policy))
						return session
					},
					cut: func() { session.Close(profiles.OK) },
				}
				resumeEverywhere(t, 8, live, on, client, w)
			})
		}
	}
}

func newEndpoint(t testing.TB, s *a2a.Service) *endpoint.Endpoint {
	t.Helper()
	ep, err := endpoint.New(endpoint.Options{Registry: registry(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	return ep
}

// listen serves a Service over a transport, and returns the policy of a client
// that it trusts.
func listen(t testing.TB, kind string, s *a2a.Service) (transport.Listener, *transport.Policy) {
	t.Helper()
	ca := transporttest.NewCA(t)
	ln := transporttest.Listen(t, kind, ca.Policy(t, transporttest.Server), nil)
	ep := newEndpoint(t, s)
	served := make(chan error, 1)
	go func() { served <- ep.Serve(t.Context(), ln) }()
	t.Cleanup(func() {
		_ = ln.Close()
		<-served
	})
	return ln, ca.Policy(t, transporttest.Client)
}

func dial(t testing.TB, kind string, ln transport.Listener, policy *transport.Policy) transport.Conn {
	t.Helper()
	conn, err := transporttest.Dial(t.Context(), kind, ln.Addr().String(), policy)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestResumeOfAnUnknownTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k")}), alice)
		id := p.send(task("t", "k", ""), number(a2a.ExtResume, 1))
		p.want(message{Type: 4, MsgID: id, ID: "t", Reason: "the task is unknown, or no longer known"})
		w.idle(t)
		p.send(task("t", "k", ""), number(a2a.ExtResume, 0))
		w.started(t).finish("out")
		p.want(message{Type: 4, ID: "t", OK: true, Payload: "out"})
	})
}

func TestResumeBeyondTheEndGetsTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := script(t, service(t, a2a.Options{Workers: kinds(counting(2), "k")}), alice)
		p.send(task("t", "k", ""))
		p.want(
			message{Type: 3, Seq: 1, ID: "t", Message: "1"},
			message{Type: 3, Seq: 2, ID: "t", Message: "2"},
			message{Type: 4, Seq: 2, ID: "t", OK: true},
		)
		for _, after := range []uint64{2, 3, 1<<64 - 1} {
			id := p.send(task("t", "k", ""), number(a2a.ExtResume, after))
			p.want(message{Type: 4, MsgID: id, Seq: 2, ID: "t", OK: true})
		}
		p.quiet()
	})
}

func TestWhatIsNoLongerHeldIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		s := service(t, a2a.Options{Store: d.open(t), Workers: kinds(counting(5), "k")})
		p := script(t, s, alice)
		p.send(task("t", "k", ""))
		for range 6 {
			p.next()
		}
		d.trim(3)
		p.send(task("t", "k", ""), number(a2a.ExtResume, 1))
		p.want(
			message{Type: 3, Seq: 4, First: 4, ID: "t", Message: "4"},
			message{Type: 3, Seq: 5, ID: "t", Message: "5"},
			message{Type: 4, Seq: 5, ID: "t", OK: true},
		)
		p.send(task("t", "k", ""), number(a2a.ExtResume, 4))
		p.want(message{Type: 3, Seq: 5, ID: "t", Message: "5"}, message{Type: 4, Seq: 5, ID: "t", OK: true})
		d.trim(5)
		p.send(task("t", "k", ""), number(a2a.ExtResume, 1))
		p.want(message{Type: 4, Seq: 5, First: 6, ID: "t", OK: true})

		// And the other end hears it.
		client := bare(t)
		session, _ := connect(t, alice, client, bob, s)
		again, err := client.Send(t.Context(), session, &a2a.Task{ID: []byte("t"), Kind: "k"}, a2a.SendOptions{Resume: true, After: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if events, result := receive(t, again); len(events) > 0 || result.FirstHeld != 6 || result.Last != 5 {
			t.Errorf("%q, %+v", events, result)
		}
	})
}

// The repair of a damaged store leaves out Events between others.
func TestST04AHoleBetweenEventsIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		s := service(t, a2a.Options{Store: d.open(t), Workers: kinds(counting(5), "k")})
		p := script(t, s, alice)
		p.send(task("t", "k", ""))
		for range 6 {
			p.next()
		}
		d.lose(3, 4)
		p.send(task("t", "k", ""), number(a2a.ExtResume, 1))
		p.want(
			message{Type: 3, Seq: 2, ID: "t", Message: "2"},
			message{Type: 3, Seq: 5, First: 5, ID: "t", Message: "5"},
			message{Type: 4, Seq: 5, ID: "t", OK: true},
		)
	})
}

func TestRetentionEndsAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k"), Retention: time.Hour, Deadline: time.Minute})
		p := script(t, s, alice)
		p.send(task("t", "k", "first"))
		r := w.started(t)
		r.progress(t, "e")
		r.finish("one")
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "e"}, message{Type: 4, Seq: 1, ID: "t", OK: true, Payload: "one"})
		time.Sleep(time.Hour + time.Minute - time.Millisecond)
		p.send(task("t", "k", "first"), number(a2a.ExtResume, 0))
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "e"}, message{Type: 4, Seq: 1, ID: "t", OK: true, Payload: "one"})
		time.Sleep(time.Millisecond)
		p.refuse(event("t", "e"), good("t", ""))
		p.send(task("t", "k", "first"), number(a2a.ExtResume, 1))
		p.want(message{Type: 4, ID: "t", Reason: "the task is unknown, or no longer known"})
		// The same task_id begins a new life, with nothing of the former one.
		p.send(task("t", "k", "second"))
		r = w.started(t)
		r.progress(t, "f")
		r.finish("two")
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "f"}, message{Type: 4, Seq: 1, ID: "t", OK: true, Payload: "two"})
	})
}

func TestTheTimesOfTasksChangeForLaterTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k"), Retention: time.Hour, Deadline: time.Minute})
		p := script(t, s, alice)
		run := func(id string, left time.Duration) {
			t.Helper()
			p.send(task(id, "k", ""))
			r := w.started(t)
			if got := time.Until(r.Deadline); got != left {
				t.Errorf("%s: the worker has %v, want %v", id, got, left)
			}
			r.progress(t, "e")
			r.finish("one")
			p.want(message{Type: 3, Seq: 1, ID: id, Message: "e"}, message{Type: 4, Seq: 1, ID: id, OK: true, Payload: "one"})
		}
		known := func(id string, want bool) {
			t.Helper()
			p.send(task(id, "k", ""), number(a2a.ExtResume, 1))
			if want {
				p.want(message{Type: 4, Seq: 1, ID: id, OK: true, Payload: "one"})
			} else {
				p.want(message{Type: 4, ID: id, Reason: "the task is unknown, or no longer known"})
			}
		}
		run("old", time.Minute)
		if err := s.SetLimits(a2a.Options{Retention: 4 * time.Hour, Deadline: 2 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		if err := s.SetLimits(a2a.Options{Retention: -1}); err == nil {
			t.Error("a negative time is taken")
		}
		run("new", 2*time.Minute)
		time.Sleep(time.Hour + time.Minute)
		known("old", false)
		known("new", true)
		time.Sleep(3*time.Hour + time.Minute)
		known("new", false)
	})
}

func TestTheNewestSenderReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k")})
		p, q := script(t, s, alice), script(t, s, alice)
		p.send(task("t", "k", ""))
		r := w.started(t)
		r.progress(t, "1")
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "1"})
		q.send(task("t", "k", "")) // from now on
		synctest.Wait()
		if n := p.service.InFlight(); n != 0 {
			t.Errorf("%d exchanges are open on the connection that lost the delivery", n)
		}
		r.progress(t, "2")
		q.want(message{Type: 3, Seq: 2, ID: "t", Message: "2"})
		p.send(task("t", "k", ""), number(a2a.ExtResume, 0))
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "1"}, message{Type: 3, Seq: 2, ID: "t", Message: "2"})
		r.finish("")
		p.want(message{Type: 4, Seq: 2, ID: "t", OK: true})
		q.quiet()
	})
}

func TestEveryTaskIsAnsweredOnceItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := script(t, service(t, a2a.Options{Workers: kinds(counting(2), "k")}), alice)
		p.send(task("t", "k", ""))
		for range 3 {
			p.next()
		}
		first := p.send(task("t", "k", ""))
		p.send(task("t", "k", ""), number(a2a.ExtResume, 1))
		last := p.send(task("t", "k", ""))
		want := map[string]bool{first: true, last: true}
		for range 4 {
			m := p.next()
			if m.Type == a2a.TypeResult && want[m.MsgID] {
				delete(want, m.MsgID)
			}
		}
		if len(want) > 0 {
			t.Errorf("%d tasks were not answered under their msg_id", len(want))
		}
		p.quiet()
	})
}

func TestASlowReceiverGetsEverythingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := effort.Rounds(15_000) // several times what waits for Recv
		server := service(t, a2a.Options{Workers: kinds(counting(n), "k")})
		client := bare(t)
		session, _ := connect(t, alice, client, bob, server)
		d, err := client.Send(t.Context(), session, &a2a.Task{Kind: "k"}, a2a.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		time.Sleep(time.Hour)
		for i := range n {
			e, err := d.Recv(t.Context())
			if err != nil || e.Seq != uint64(i+1) || e.Message != fmt.Sprint(i+1) {
				t.Fatalf("event %d: %+v, %v", i+1, e, err)
			}
			if i%1000 == 0 {
				time.Sleep(time.Minute)
			}
		}
		if _, err := d.Recv(t.Context()); !errors.Is(err, io.EOF) || !d.Result().OK {
			t.Errorf("%v, %+v", err, d.Result())
		}
	})
}

func TestEventsThatAreMissingAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, id := executor(t)
		seq := func(n uint64) []byte { return number(a2a.ExtSequence, n) }
		p.send(event(id, "1"), seq(1))
		p.send(event(id, "1"), seq(1)) // again
		p.send(event(id, "3"), seq(3)) // 2 is missing
		m := p.next()
		if after, _ := m.Ext.LookupUvarint(a2a.ExtResume); m.Type != 2 || m.ID != id || after != 1 {
			t.Fatalf("%+v after %d, want the task again, after 1", m, after)
		}
		p.send(event(id, "4"), seq(4)) // was on its way
		p.send(good(id, "out"), seq(4))
		p.quiet() // asked once
		for n := uint64(2); n <= 4; n++ {
			p.send(event(id, fmt.Sprint(n)), seq(n))
		}
		p.send(good(id, "out"), seq(5)) // 5 is missing
		m = p.next()
		if after, _ := m.Ext.LookupUvarint(a2a.ExtResume); m.Type != 2 || after != 4 {
			t.Fatalf("%+v after %d, want the task again, after 4", m, after)
		}
		p.send(event(id, "7"), seq(7), number(a2a.ExtFirstHeld, 7))
		p.send(good(id, "out"), seq(7))
		events, result := receive(t, d)
		if diff := cmp.Diff([]string{"1 1", "2 2", "3 3", "4 4", "7 7"}, events); diff != "" || !result.OK {
			t.Errorf("%+v, %s", result, diff)
		}
	})
}

func TestAnExecutorThatNumbersOtherwiseIsTakenAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, id := executor(t)
		for range 4 {
			p.send(event(id, "e"), number(a2a.ExtSequence, 10))
			p.send(good(id, ""), number(a2a.ExtSequence, 10))
			time.Sleep(time.Minute)
		}
		if events, result := receive(t, d); len(events) != 1 || events[0] != "10 e" || !result.OK {
			t.Errorf("%q, %+v", events, result)
		}
	})
}

func TestATaskWithoutAnAnswerIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, id := executor(t)
		for range 3 {
			time.Sleep(30 * time.Second)
			m := p.next()
			if after, ok := m.Ext.LookupUvarint(a2a.ExtResume); m.Type != 2 || m.ID != id || after != 0 || !ok {
				t.Fatalf("%+v, want the task again, to be resumed from the start", m)
			}
			for len(p.got) > 0 {
				p.next()
			}
		}
		p.accept(event(id, "e"))
		time.Sleep(time.Hour)
		p.quiet()
	})
}

func TestAnotherDeliveryOfATaskReplacesTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		p := script(t, s, bob)
		var list []*a2a.Delivery
		for range 2 {
			d, err := s.Send(t.Context(), p.service, &a2a.Task{ID: []byte("t"), Kind: "k"}, a2a.SendOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			list = append(list, d)
		}
		if _, err := list[0].Recv(t.Context()); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("the first: %v", err)
		}
		p.accept(good("t", "out"))
		if _, result := receive(t, list[1]); string(result.Output) != "out" {
			t.Errorf("the second: %+v", result)
		}
	})
}

// Who repeats a Task gets what is stored from then on. An Event that is on its
// way into the store belongs to one of the two, never to both.
func TestAnEventIsSentOnceAlthoughItsTaskIsRepeatedMeanwhile(t *testing.T) {
	events := effort.Rounds(2000)
	w := newWorker()
	p := script(t, service(t, a2a.Options{Workers: kinds(w, "k"), Events: 2 * events}), alice)
	p.send(task("t", "k", ""))
	r := w.started(t)
	var repeats sync.WaitGroup
	over := make(chan struct{})
	repeats.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				p.send(task("t", "k", ""))
			}
		}
	})
	for range events {
		r.progress(t, "e")
	}
	close(over)
	repeats.Wait()
	r.finish("")
	seen := make(map[uint64]int)
	for {
		m := p.next()
		if m.Type == a2a.TypeResult {
			break
		}
		if seen[m.Seq]++; seen[m.Seq] > 1 {
			t.Errorf("event %d came %d times", m.Seq, seen[m.Seq])
		}
	}
}
