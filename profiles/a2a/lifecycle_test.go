package a2a_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/profiletest"
)

// The vectors a2a_0001 to a2a_0015, from both ends.

func TestVector0001HandshakeSurfacesCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{})
		p := script(t, s, alice)
		p.accept(&a2a.HandshakeBody{AgentID: []byte("agent"), Capabilities: [][]byte{[]byte("b"), []byte("a"), []byte("b")}})
		want := []a2a.Agent{{ID: "agent", Identity: alice, Capabilities: []string{"a", "b"}, Online: true}}
		if diff := cmp.Diff(want, s.Agents()); diff != "" {
			t.Error(diff)
		}
		p.accept(&a2a.HandshakeBody{AgentID: []byte("agent"), Capabilities: [][]byte{[]byte("c")}})
		want[0].Capabilities = []string{"c"}
		if diff := cmp.Diff(want, s.Agents()); diff != "" {
			t.Errorf("a repeated handshake does not replace: %s", diff)
		}
		p.hangUp()
		synctest.Wait()
		if got := s.Agents(); len(got) != 1 || got[0].Online {
			t.Errorf("after the session: %+v, want the agent to be away", got)
		}
	})
}

func TestVector0002EventsAndResultComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k")}), alice)
		id := p.send(task("t", "k", "input"))
		r := w.started(t)
		if string(r.Input) != "input" || r.Peer != alice || string(r.ID) != "t" || r.Kind != "k" {
			t.Errorf("the worker got %+v", r.Task)
		}
		r.progress(t, "one")
		if err := r.event("two", []byte{0, 0xff}); err != nil {
			t.Fatal(err)
		}
		r.finish("output")
		p.want(
			message{Type: 3, Seq: 1, ID: "t", Message: "one"},
			message{Type: 3, Seq: 2, ID: "t", Message: "two", Payload: "\x00\xff"},
		)
		if m := p.next(); m.MsgID == id || !m.OK || m.Payload != "output" || m.Seq != 2 {
			t.Errorf("result %+v, want it under a fresh msg_id, with the number of the last event", m)
		}
		p.quiet()
	})
}

func TestVector0003FailureHasAReason(t *testing.T) {
	for _, test := range []struct {
		name   string
		err    error
		reason string
		output string
	}{
		{"told", &a2a.Failure{Reason: "no paper", Output: []byte("half")}, "no paper", "half"},
		{"not told", errors.New("password is hunter2"), "the worker failed", ""},
		{"empty", &a2a.Failure{}, "the worker failed", ""},
		{"not UTF-8", &a2a.Failure{Reason: "a\xffb"}, "a\uFFFDb", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker()
				p := script(t, service(t, a2a.Options{Workers: kinds(w, "k")}), alice)
				p.send(task("t", "k", ""))
				w.started(t).end <- outcome{err: test.err}
				p.want(message{Type: 4, ID: "t", Reason: test.reason, Payload: test.output})
			})
		})
	}
}

func TestAWorkerThatPanicsFailsItsTaskOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		w := a2a.WorkerFunc(func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
			if string(task.Input) == "panic" {
				panic("secret")
			}
			return nil, nil
		})
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k"), Report: func(err error) { told = append(told, err) }}), alice)
		p.send(task("t", "k", "panic"))
		p.want(message{Type: 4, ID: "t", Reason: "the worker failed"})
		p.send(task("u", "k", ""))
		p.want(message{Type: 4, ID: "u", OK: true})
		if len(told) != 1 {
			t.Errorf("reported %q, want the panic", told)
		}
	})
}

// executor is a peer that has a task of ours.
func executor(t *testing.T) (*peer, *a2a.Delivery, string) {
	t.Helper()
	s := service(t, a2a.Options{})
	p := script(t, s, bob)
	d, err := s.Send(t.Context(), p.service, &a2a.Task{Kind: "k"}, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	p.want(message{Type: 2, ID: string(d.ID()), Kind: "k"})
	return p, d, string(d.ID())
}

func TestVector0004And0010EventAfterTerminalResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, id := executor(t)
		p.accept(event(id, "e"), good(id, "out"))
		p.refuse(event(id, "e"), event(id, "e"), event(id, "other"))
		if events, result := receive(t, d); len(events) != 1 || string(result.Output) != "out" {
			t.Errorf("%q, %+v, want the first outcome", events, result)
		}
	})
}

func TestEventThatCrossesTheInitiatorsResultIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, id := executor(t)
		if err := d.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		p.want(message{Type: 4, ID: id, Reason: "enough"})
		p.accept(event(id, "late"), event(id, "later"))
		if _, err := d.Recv(t.Context()); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("Recv after Cancel: %v", err)
		}
		// The Result of the executor crosses, too; after it the rules hold.
		p.accept(good(id, "done"), good(id, "done"))
		p.refuse(event(id, "too late"), good(id, "other"))
	})
}

func TestVector0005EqualDuplicateResultIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, id := executor(t)
		p.accept(good(id, "out"), good(id, "out"), good(id, "out"))
		if events, result := receive(t, d); len(events) != 0 || string(result.Output) != "out" {
			t.Errorf("%q, %+v", events, result)
		}
	})
}

func TestVector0006And0007UnknownTaskIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := script(t, service(t, a2a.Options{}), alice)
		p.refuse(event("t", "e"), good("t", ""), bad("t", "r"))
	})
}

func TestVector0008EqualDuplicateTaskRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k")}), alice)
		p.send(task("t", "k", "in"))
		p.send(task("t", "k", "in")) // before it is stored, perhaps
		r := w.started(t)
		p.accept(task("t", "k", "in"))
		r.progress(t, "one")
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "one"})
		r.finish("out")
		p.want(message{Type: 4, Seq: 1, ID: "t", OK: true, Payload: "out"})
		id := p.send(task("t", "k", "in"))
		p.want(message{Type: 4, MsgID: id, Seq: 1, ID: "t", OK: true, Payload: "out"})
		p.quiet()
		w.idle(t)
	})
}

func TestVector0009ConflictingDuplicateTaskIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k", "l")}), alice)
		p.send(task("t", "k", "in"))
		r := w.started(t)
		p.refuse(task("t", "k", "other"), task("t", "l", "in"))
		r.finish("out")
		p.want(message{Type: 4, ID: "t", OK: true, Payload: "out"})
		p.refuse(task("t", "k", "other"), task("t", "l", "in"))
		p.quiet()
		w.idle(t)
	})
}

func TestVector0011ConflictingResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, id := executor(t)
		p.accept(good(id, "out"))
		p.refuse(bad(id, "no"), good(id, "other"))
		p.accept(good(id, "out"))
		if _, result := receive(t, d); string(result.Output) != "out" {
			t.Errorf("%+v, want the first outcome", result)
		}
	})
}

func TestResultsOfBothEndsCross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k")}), alice)
		p.send(task("t", "k", ""))
		w.started(t).finish("out")
		p.want(message{Type: 4, ID: "t", OK: true, Payload: "out"})
		p.accept(bad("t", "closed"), bad("t", "closed"))
		p.refuse(bad("t", "other"), event("t", "e"))
		p.send(task("t", "k", ""))
		p.want(message{Type: 4, ID: "t", OK: true, Payload: "out"})
	})
}

func TestVector0012MalformedInputFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k"), Validate: func(_ string, input []byte) error {
			switch string(input) {
			case "malformed":
				return errors.New("no object")
			case "panic":
				panic("validator")
			}
			return nil
		}})
		p := script(t, s, alice)
		id := p.send(task("t", "k", "malformed"))
		p.want(message{Type: 4, MsgID: id, ID: "t", Reason: "malformed task input: no object"})
		p.refuse(task("t", "k", "fine"))
		id = p.send(task("t", "k", "malformed"))
		p.want(message{Type: 4, MsgID: id, ID: "t", Reason: "malformed task input: no object"})
		p.send(task("u", "k", "panic"))
		if m := p.next(); m.OK || m.ID != "u" {
			t.Errorf("%+v", m)
		}
		w.idle(t)
		if n := s.Live(); n != 0 {
			t.Errorf("%d tasks are live, want the lifecycle closed", n)
		}
	})
}

func TestVector0013UnsupportedCapabilityFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, s := range map[string]*a2a.Service{"store": service(t, a2a.Options{}), "no store": bare(t)} {
			p := script(t, s, alice)
			reason := "unsupported capability: this endpoint carries out no tasks"
			if name == "store" {
				reason = `unsupported capability: nobody here carries out "unsupported"; there is no kind that this identity may ask for`
			}
			for range 2 {
				id := p.send(task("t", "unsupported", ""))
				p.want(message{Type: 4, MsgID: id, ID: "t", Reason: reason})
			}
			p.quiet()
			if n := s.Live(); n != 0 {
				t.Errorf("%s: %d tasks are live, want the lifecycle closed", name, n)
			}
		}
	})
}

func TestVector0014UnsupportedTypeIsNotListed(t *testing.T) {
	if row, ok := bare(t).Profile().Type(99); ok {
		t.Errorf("type 99 is %v", row)
	}
}

func TestVector0015TasksInterleave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k")}), alice)
		p.send(task("a", "k", ""))
		a := w.started(t)
		p.send(task("b", "k", ""))
		b := w.started(t)
		a.progress(t, "1")
		p.want(message{Type: 3, Seq: 1, ID: "a", Message: "1"})
		b.progress(t, "1")
		p.want(message{Type: 3, Seq: 1, ID: "b", Message: "1"})
		a.finish("a")
		p.want(message{Type: 4, Seq: 1, ID: "a", OK: true, Payload: "a"})
		b.progress(t, "2")
		p.want(message{Type: 3, Seq: 2, ID: "b", Message: "2"})
		b.finish("b")
		p.want(message{Type: 4, Seq: 2, ID: "b", OK: true, Payload: "b"})
	})
}

func TestAPeerMayReportInOneDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k")})
		p := script(t, s, alice)
		p.send(task("t", "k", ""))
		p.send(event("t", "one")) // before the task is stored, perhaps
		p.send(event("t", "two"))
		p.send(good("t", "done"))
		synctest.Wait()
		for _, v := range p.service.Verdicts() {
			if v.Code != profiles.OK {
				t.Errorf("type %d: %v", v.Kind, v.Err)
			}
		}
		p.accept(good("t", "done"))
		p.refuse(event("t", "three"), bad("t", "no"))
		p.quiet()
		p.send(task("t", "k", ""))
		p.want(message{Type: 4, ID: "t", OK: true, Payload: "done"})
	})
}

func TestTheInitiatorsResultStopsTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k")}), alice)
		p.send(task("t", "k", ""))
		r := w.started(t)
		p.accept(bad("t", "enough"))
		if r.ctx.Err() == nil {
			t.Error("the context of the worker did not end")
		}
		if r.event("late", nil) == nil {
			t.Error("an event after the end was stored")
		}
		p.quiet()
		p.refuse(event("t", "e"))
		p.send(task("t", "k", ""), number(a2a.ExtResume, 0))
		p.want(message{Type: 4, ID: "t", Reason: "enough"})
	})
}

func TestAResultEndsOnlyTheDeliveryOfAnA2AOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "a2a/1.0/SendStreamingMessage"
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, kind)}), alice)
		p.send(task("t", kind, ""))
		r := w.started(t)
		time.Sleep(time.Minute)
		p.quiet() // no Event that is not the executor's
		r.progress(t, "1")
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "1"})
		p.accept(bad("t", "closed"), bad("t", "closed"))
		p.refuse(bad("t", "other"), event("t", "e"))
		r.progress(t, "2")
		p.quiet()
		p.send(task("t", kind, ""), number(a2a.ExtResume, 1))
		p.want(message{Type: 3, Seq: 2, ID: "t", Message: "2"})
		r.progress(t, "3")
		p.want(message{Type: 3, Seq: 3, ID: "t", Message: "3"})
		r.finish("")
		p.want(message{Type: 4, Seq: 3, ID: "t", OK: true})
	})
}

func TestATaskIsAcknowledgedAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		p := script(t, service(t, a2a.Options{Workers: kinds(w, "k")}), alice)
		p.send(task("t", "k", ""))
		r := w.started(t)
		time.Sleep(time.Second - time.Millisecond)
		p.quiet()
		time.Sleep(2 * time.Millisecond)
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
		r.progress(t, "one")
		p.want(message{Type: 3, Seq: 2, ID: "t", Message: "one"})
		r.finish("")
		p.want(message{Type: 4, Seq: 2, ID: "t", OK: true})

		p.send(task("u", "k", ""))
		r = w.started(t)
		r.progress(t, "one")
		time.Sleep(time.Minute)
		p.want(message{Type: 3, Seq: 1, ID: "u", Message: "one"})
		p.quiet()
	})
}

func TestADeadlineEndsInAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{
			Deadline: time.Hour, MaxDeadline: 2 * time.Hour,
			Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w}, {Kinds: []string{"short"}, Worker: w, Deadline: time.Minute}},
		})
		p := script(t, s, alice)
		for _, test := range []struct {
			id, kind string
			ms       uint64
			want     time.Duration
		}{
			{"default", "k", 0, time.Hour},
			{"registered", "short", 0, time.Minute},
			{"named", "short", 1500, 1500 * time.Millisecond},
			{"too long", "k", 1 << 62, 2 * time.Hour},
		} {
			ext := number(profiles.ExtDeadline, test.ms)
			p.send(task(test.id, test.kind, ""), ext)
			r := w.started(t)
			if left := time.Until(r.Deadline); left != test.want {
				t.Errorf("%s: the worker has %v, want %v", test.id, left, test.want)
			}
			p.want(message{Type: 3, Seq: 1, ID: test.id, Message: "accepted"})
			time.Sleep(test.want - time.Second - time.Millisecond)
			p.quiet()
			time.Sleep(2 * time.Millisecond)
			p.want(message{Type: 4, Seq: 1, ID: test.id, Reason: "deadline exceeded"})
			synctest.Wait()
			if r.ctx.Err() == nil {
				t.Errorf("%s: the context of the worker did not end", test.id)
			}
		}
	})
}

func TestTasksWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 1, Waiting: 2}}})
		p := script(t, s, alice)
		for _, id := range []string{"a", "b", "c"} {
			p.send(task(id, "k", "input of "+id))
			synctest.Wait()
		}
		if code := p.verdict(task("d", "k", "")); code != profiles.RateLimitExceeded {
			t.Errorf("the fourth: %v, want %v", code, profiles.RateLimitExceeded)
		}
		p.accept(bad("b", "not needed any more")) // gives its place to another
		p.send(task("e", "k", "input of e"))
		for _, id := range []string{"a", "c", "e"} {
			r := w.started(t)
			synctest.Wait()
			w.idle(t)
			if string(r.ID) != id || string(r.Input) != "input of "+id {
				t.Errorf("started %q with %q, want %s", r.ID, r.Input, id)
			}
			r.finish("")
		}
		synctest.Wait()
		p.accept(task("d", "k", "")) // it was refused, not kept
	})
}

func TestSendFailsOnTasksThatNobodyWouldTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		p := script(t, s, bob)
		for _, bad := range []*a2a.Task{{}, {Kind: " "}, {Kind: string(make([]byte, 257))}, {Kind: "k", ID: make([]byte, 257)}, {Kind: "k", ID: []byte{}}} {
			if _, err := s.Send(t.Context(), p.service, bad, a2a.SendOptions{}); err == nil {
				t.Errorf("task %q of kind %q was sent", bad.ID, bad.Kind)
			}
		}
		p.quiet()
	})
}

func TestDeliveryFailsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, id := executor(t)
		p.accept(event(id, "e"))
		p.hangUp()
		if e, err := d.Recv(t.Context()); err != nil || e.Message != "e" {
			t.Errorf("%+v, %v, want what came before", e, err)
		}
		if _, err := d.Recv(t.Context()); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%v, want the cause", err)
		}
	})
}

// closing is the lane of a stream that is being closed.
type closing struct{ profiles.Lane }

func (closing) Send(context.Context, e1.Envelope) error { return profiles.ErrFinished }

func TestAStreamThatIsClosedUnderAnEventIsNoFaultOfTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{Workers: kinds(counting(1), "k"), Report: func(err error) { t.Errorf("reported: %v", err) }})
		profile := *s.Profile()
		handler := profile.Handler
		profile.Handler = profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			on := *req
			on.Lane = closing{req.Lane}
			return handler.Serve(ctx, &on, w)
		})
		x := profiletest.New(t, &profile).Serve(a2a.TypeTask, task("t", "k", "").Append(nil))
		x.Wait()
		synctest.Wait()
	})
}
