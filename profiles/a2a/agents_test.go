package a2a_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/profiletest"
)

func handshake(agent string, kinds ...string) *a2a.HandshakeBody {
	m := &a2a.HandshakeBody{AgentID: []byte(agent)}
	for _, kind := range kinds {
		m.Capabilities = append(m.Capabilities, []byte(kind))
	}
	return m
}

func instance(name string) e1.Extensions { return param(a2a.ExtParam, "instance="+name) }

// given returns the Task that an agent got, and its task_id there.
func (p *peer) given(kind, input string) (message, string) {
	p.t.Helper()
	m := p.next()
	if m.Type != a2a.TypeTask || m.Kind != kind || m.Payload != input {
		p.t.Fatalf("%+v, want a task of kind %s with %q", m, kind, input)
	}
	return m, m.ID
}

func TestATaskIsPassedOnToAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := service(t, a2a.Options{})
		client, agent := bare(t), service(t, a2a.Options{Workers: kinds(counting(3), "count")})
		session, _ := connect(t, alice, client, "spiffe://test/server", server)
		toServer, _ := connect(t, bob, agent, "spiffe://test/server", server)
		if err := agent.Declare(t.Context(), toServer, "counter", []string{"count"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d, err := client.Send(t.Context(), session, &a2a.Task{Kind: "count", Input: []byte("in")}, a2a.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		events, result := receive(t, d)
		if diff := cmp.Diff(numbered(0, 3), events); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(&a2a.Result{OK: true, Output: []byte("in"), Last: 3}, result); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheForwardedTaskSaysWhatTheInitiatorSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{})
		p, agent := script(t, s, alice), script(t, s, bob)
		agent.send(handshake("a", "k"))
		synctest.Wait()
		p.send(task("t", "k", "input"), param(a2a.ExtParam, "a=1"), param(a2a.ExtAgent, "a"),
			param(a2a.ExtParam, "b=2"), number(profiles.ExtHops, 3), number(profiles.ExtDeadline, 60_000))
		m, id := agent.given("k", "input")
		if id == "t" || len(id) != 16 {
			t.Errorf("task_id %x, want a random one of 16 octets", id)
		}
		var params []string
		for typ, value := range m.Ext.All() {
			if typ == a2a.ExtParam {
				params = append(params, string(value))
			}
		}
		hops, _ := m.Ext.LookupUvarint(profiles.ExtHops)
		left, _ := m.Ext.LookupUvarint(profiles.ExtDeadline)
		if diff := cmp.Diff([]string{"a=1", "b=2"}, params); diff != "" || hops != 4 || left != 60_000 {
			t.Errorf("%d hops, %d ms left, %s", hops, left, diff)
		}
		for _, ext := range []uint64{a2a.ExtAgent, a2a.ExtResume} {
			if _, ok := m.Ext.Lookup(ext); ok {
				t.Errorf("extension %d is on the task", ext)
			}
		}
		// Their numbers are the executor's affair; the initiator gets ours.
		time.Sleep(time.Second)
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
		agent.accept(event(id, "accepted"))
		agent.send(event(id, "one"), number(a2a.ExtSequence, 1))
		agent.send(event(id, "one"), number(a2a.ExtSequence, 1))
		agent.send(event(id, "two"), number(a2a.ExtSequence, 2))
		agent.accept(good(id, "out"), good(id, "out"))
		agent.refuse(event(id, "three"), bad(id, "no"))
		p.want(
			message{Type: 3, Seq: 2, ID: "t", Message: "one"},
			message{Type: 3, Seq: 3, ID: "t", Message: "two"},
			message{Type: 4, Seq: 3, ID: "t", OK: true, Payload: "out"},
		)
		p.quiet()
		agent.quiet()
	})
}

func TestAcceptedIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		server, agent := service(t, a2a.Options{}), service(t, a2a.Options{Workers: kinds(w, "k")})
		p := script(t, server, alice)
		toServer, _ := connect(t, bob, agent, "spiffe://test/server", server)
		if err := agent.Declare(t.Context(), toServer, "a", []string{"k"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.send(task("t", "k", ""))
		r := w.started(t)
		time.Sleep(time.Minute)
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
		r.progress(t, "one")
		p.want(message{Type: 3, Seq: 2, ID: "t", Message: "one"})
		r.finish("")
		p.want(message{Type: 4, Seq: 2, ID: "t", OK: true})
		p.quiet()
	})
}

func TestTL11AnAgentIDBelongsToOneIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{
			Access: allow(func(_, _, operation, name string) bool { return operation != "handshake" || name != "denied" }),
			MayUse: func(identity, agentID string) bool { return agentID != "bob's" || identity == bob },
		})
		p, q := script(t, s, alice), script(t, s, bob)
		for _, test := range []struct {
			who   *peer
			agent string
			want  profiles.Code
		}{
			{p, "denied", profiles.SecurityPolicy},
			{p, "bob's", profiles.SecurityPolicy},
			{q, "bob's", profiles.OK},
			{p, "a", profiles.OK},
			{q, "a", profiles.SecurityPolicy},
			{p, "a", profiles.OK},
		} {
			if code := test.who.verdict(handshake(test.agent, "k")); code != test.want {
				t.Errorf("agent %s: %v, want %v", test.agent, code, test.want)
			}
		}
		if agents := s.Agents(); len(agents) != 2 || agents[0].Identity != alice || agents[1].Identity != bob {
			t.Errorf("%+v", agents)
		}
		// The name stays its owner's while its tasks may still wait for it.
		p.hangUp()
		if code := q.verdict(handshake("a", "k")); code != profiles.SecurityPolicy {
			t.Errorf("the name was taken over at once: %v", code)
		}
		time.Sleep(time.Minute)
		if code := q.verdict(handshake("a", "k")); code != profiles.OK {
			t.Errorf("the name is never free: %v", code)
		}
	})
}

// allow is an Access.
type allow func(identity, profile, operation, name string) bool

func (f allow) Allowed(identity, profile, operation, name string) bool {
	return f(identity, profile, operation, name)
}

func TestADeniedKindEndsInAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k"), Access: allow(func(identity, profile, operation, name string) bool {
			return profile == "a2a" && operation == "task" && name == "k" && identity == bob
		})})
		p, q := script(t, s, alice), script(t, s, bob)
		id := p.send(task("t", "k", ""))
		p.want(message{Type: 4, MsgID: id, ID: "t", Reason: "denied"})
		q.send(task("t", "k", ""))
		w.started(t).finish("")
		q.want(message{Type: 4, ID: "t", OK: true})
		w.idle(t)
	})
}

func TestPR04ATaskOfSomebodyElseIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "k")})
		p, q, agent := script(t, s, alice), script(t, s, bob), script(t, s, carol)
		agent.accept(handshake("a", "remote"))
		p.send(task("running", "k", "secret"))
		r := w.started(t)
		p.send(task("over", "k", "secret"))
		w.started(t).finish("out")
		p.want(message{Type: 4, ID: "over", OK: true, Payload: "out"})
		p.send(task("given", "remote", "secret"))
		_, given := agent.given("remote", "secret")

		for _, id := range []string{"running", "over", "given", given, "nothing"} {
			var texts []string
			for _, b := range []body{event(id, "e"), good(id, ""), bad(id, "cancel")} {
				q.refuse(b)
				v := q.service.Verdicts()
				texts = append(texts, v[len(v)-1].Err.Error())
			}
			if texts[0] != texts[1] || texts[1] != texts[2] || strings.Contains(texts[0], id) {
				t.Errorf("task %q: refused with %q, want the same text for all", id, texts)
			}
			msg := q.send(task(id, "k", "secret"), number(a2a.ExtResume, 1))
			q.want(message{Type: 4, MsgID: msg, ID: id, Reason: "the task is unknown, or no longer known"})
		}
		// The same task_id is a task of its own.
		q.send(task("running", "k", "other"))
		other := w.started(t)
		if string(other.Input) != "other" || other.Peer != bob {
			t.Errorf("%+v", other.Task)
		}
		q.accept(bad("running", "enough"))
		if r.ctx.Err() != nil || other.ctx.Err() == nil {
			t.Error("a result ended the task of another identity")
		}
		r.progress(t, "on")
		p.want(message{Type: 3, Seq: 1, ID: "running", Message: "on"})
		q.quiet()
		agent.quiet()
	})
}

func TestAnAgentIsChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "local")})
		p, q, r := script(t, s, alice), script(t, s, bob), script(t, s, bob)
		q.send(handshake("a", "k", "local"))
		r.send(handshake("b", "k"))
		synctest.Wait()
		for i, want := range []*peer{q, r, q, r} {
			p.send(task(fmt.Sprint(i), "k", ""))
			want.given("k", "")
		}
		p.send(task("named", "k", ""), param(a2a.ExtAgent, "b"))
		r.given("k", "")
		p.send(task("next", "k", ""))
		q.given("k", "")
		// Only who was meant may have it.
		id := p.send(task("other", "k", ""), param(a2a.ExtAgent, "c"))
		p.want(message{Type: 4, MsgID: id, ID: "other", Reason: `unsupported capability: no agent and no partner is called "c" here; this identity may ask for k, local`})
		id = p.send(task("unable", "x", ""), param(a2a.ExtAgent, "b"))
		p.want(message{Type: 4, MsgID: id, ID: "unable", Reason: `unsupported capability: nobody here carries out "x" as agent "b"; this identity may ask for k, local`})
		p.send(task("here", "local", ""))
		w.started(t)
		p.send(task("there", "local", ""), param(a2a.ExtAgent, "a"))
		q.given("local", "")
		w.idle(t)
		q.quiet()
		r.quiet()
	})
}

func TestAHopLimitEndsALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		s := service(t, a2a.Options{Workers: kinds(w, "local")})
		p, agent := script(t, s, alice), script(t, s, bob)
		agent.send(handshake("a", "k"))
		synctest.Wait()
		p.send(task("t", "k", ""), number(profiles.ExtHops, profiles.MaxHops-1))
		agent.given("k", "")
		const reason = "the task has passed too many endpoints"
		p.send(task("u", "k", ""), number(profiles.ExtHops, profiles.MaxHops))
		p.want(message{Type: 4, ID: "u", Reason: reason})
		p.send(task("v", "local", ""), number(profiles.ExtHops, profiles.MaxHops))
		w.started(t).finish("")
		p.want(message{Type: 4, ID: "v", OK: true})
		p.send(task("w", "local", ""), number(profiles.ExtHops, profiles.MaxHops+1))
		p.want(message{Type: 4, ID: "w", Reason: reason})
	})
}

func TestALostAgentThatComesBackGoesOn(t *testing.T) {
	for k := range 5 {
		t.Run(fmt.Sprintf("after %d events", k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker()
				server, agent := service(t, a2a.Options{}), service(t, a2a.Options{Workers: kinds(w, "k")})
				p := script(t, server, alice)
				x, y := connect(t, bob, agent, "spiffe://test/server", server)
				if err := agent.Declare(t.Context(), x, "a", []string{"k"}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				p.send(task("t", "k", ""))
				r := w.started(t)
				for i := range k {
					r.progress(t, fmt.Sprint(i+1))
					p.want(message{Type: 3, Seq: uint64(i + 1), ID: "t", Message: fmt.Sprint(i + 1)})
				}
				hangUp(x, y)
				for i := k; i < 5; i++ {
					r.progress(t, fmt.Sprint(i+1))
				}
				if k%2 == 0 {
					r.finish("out")
				}
				time.Sleep(500 * time.Millisecond)
				p.quiet()
				x, _ = connect(t, bob, agent, "spiffe://test/server", server)
				if err := agent.Declare(t.Context(), x, "a", []string{"k"}); err != nil {
					t.Fatal(err)
				}
				if k%2 != 0 {
					r.finish("out")
				}
				for i := k; i < 5; i++ {
					p.want(message{Type: 3, Seq: uint64(i + 1), ID: "t", Message: fmt.Sprint(i + 1)})
				}
				p.want(message{Type: 4, Seq: 5, ID: "t", OK: true, Payload: "out"})
				p.quiet()
				w.idle(t)
			})
		})
	}
}

func TestALostAgentIsWaitedFor(t *testing.T) {
	for _, test := range []struct {
		name string
		back string // instance, "-" if it does not come back
		ext  e1.Extensions
		want message
	}{
		{"another process", "2", instance("1"), message{Type: 4, ID: "t", Reason: "the worker was restarted"}},
		{"no instance then", "1", nil, message{Type: 4, ID: "t", Reason: "the worker was restarted"}},
		{"no instance now", "", instance("1"), message{Type: 4, ID: "t", Reason: "the worker was restarted"}},
		{"no instance at all", "", nil, message{Type: 4, ID: "t", Reason: "the worker was restarted"}},
		{"never", "-", instance("1"), message{Type: 4, ID: "t", Seq: 1, Reason: "the worker did not come back"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := service(t, a2a.Options{})
				p, q := script(t, s, alice), script(t, s, bob)
				q.send(handshake("a", "k"), test.ext)
				synctest.Wait()
				p.send(task("t", "k", ""))
				q.given("k", "")
				q.hangUp()
				p.quiet()
				r := script(t, s, bob)
				switch test.back {
				case "-":
					time.Sleep(2 * time.Second)
					p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
					time.Sleep(58*time.Second - time.Millisecond)
					p.quiet()
					time.Sleep(2 * time.Millisecond)
				case "":
					r.send(handshake("a", "k"))
				default:
					r.send(handshake("a", "k"), instance(test.back))
				}
				p.want(test.want)
				p.quiet()
				r.quiet()
			})
		})
	}
}

func TestATaskWaitsForAnAgentThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		s := service(t, a2a.Options{Store: d.open(t)})
		p, q := script(t, s, alice), script(t, s, bob)
		q.send(handshake("a", "k"), instance("1"))
		synctest.Wait()
		q.hangUp()
		synctest.Wait() // or the task is given to it, and lost with it
		p.send(task("t", "k", "input"))
		p.send(task("u", "other", ""))
		p.want(message{Type: 4, ID: "u", Reason: `unsupported capability: nobody here carries out "other"; this identity may ask for k`})
		time.Sleep(30 * time.Second)
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
		q = script(t, s, bob)
		q.send(handshake("a", "k"), instance("2")) // it has not begun: anyone may have it
		_, id := q.given("k", "input")
		time.Sleep(time.Minute)
		p.quiet()
		q.accept(good(id, "out"))
		p.want(message{Type: 4, Seq: 1, ID: "t", OK: true, Payload: "out"})
		q.hangUp()
		synctest.Wait()

		p.send(task("v", "k", ""))
		time.Sleep(time.Minute + time.Millisecond)
		p.want(message{Type: 3, Seq: 1, ID: "v", Message: "accepted"}, message{Type: 4, Seq: 1, ID: "v", Reason: "the worker did not come back"})
	})
}

func TestARepeatedHandshakeLeavesTasksAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{})
		p, q := script(t, s, alice), script(t, s, bob)
		q.send(handshake("a", "k"), instance("1"))
		synctest.Wait()
		p.send(task("t", "k", ""))
		_, id := q.given("k", "")
		q.send(event(id, "e"), number(a2a.ExtSequence, 1))
		q.send(handshake("a", "l"), instance("1"))
		p.want(message{Type: 3, Seq: 1, ID: "t", Message: "e"})
		q.quiet()
		// On another session the same process has it sent again.
		r := script(t, s, bob)
		r.send(handshake("a", "k"), instance("1"))
		m, again := r.given("k", "")
		if after, ok := m.Ext.LookupUvarint(a2a.ExtResume); again != id || after != 1 || !ok {
			t.Errorf("task %x after %d, want %x after 1", again, after, id)
		}
		r.accept(good(id, "out"))
		p.want(message{Type: 4, Seq: 1, ID: "t", OK: true, Payload: "out"})
		if agents := s.Agents(); len(agents) != 1 || !agents[0].Online || agents[0].Tasks != 0 {
			t.Errorf("%+v", agents)
		}
	})
}

func TestAnotherProcessOnTheSameSessionKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{})
		p, q := script(t, s, alice), script(t, s, bob)
		q.send(handshake("a", "k"), instance("1"))
		synctest.Wait()
		p.send(task("t", "k", ""))
		q.given("k", "")
		q.send(handshake("a", "k"), instance("2")) // a front, behind which a process was replaced
		p.want(message{Type: 4, ID: "t", Reason: "the worker was restarted"})
	})
}

func TestTheInitiatorsResultReachesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker()
		server, agent := service(t, a2a.Options{}), service(t, a2a.Options{Workers: kinds(w, "k")})
		p := script(t, server, alice)
		x, _ := connect(t, bob, agent, "spiffe://test/server", server)
		if err := agent.Declare(t.Context(), x, "a", []string{"k"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, test := range []struct {
			id  string
			end func()
		}{
			{"cancel", func() { p.accept(bad("cancel", "enough")) }},
			{"done", func() { p.accept(good("done", "enough")) }},
			{"deadline", func() { time.Sleep(2 * time.Second) }},
		} {
			p.send(task(test.id, "k", ""), number(profiles.ExtDeadline, 2000))
			r := w.started(t)
			test.end()
			synctest.Wait()
			if r.ctx.Err() == nil {
				t.Errorf("%s: the worker of the agent goes on", test.id)
			}
		}
		if n := agent.Live() + server.Live(); n != 0 {
			t.Errorf("%d tasks are live", n)
		}
	})
}

func TestAgentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{Agents: 3, AgentsPerSession: 2})
		p, q := script(t, s, alice), script(t, s, alice)
		want := func(who *peer, agent string, want profiles.Code) {
			t.Helper()
			if code := who.verdict(handshake(agent)); code != want {
				t.Errorf("agent %s: %v, want %v", agent, code, want)
			}
		}
		want(p, "a", profiles.OK)
		want(p, "b", profiles.OK)
		want(p, "c", profiles.RateLimitExceeded)
		want(q, "c", profiles.OK)
		want(q, "d", profiles.RateLimitExceeded)
		want(q, "a", profiles.OK) // moves
		want(p, "b", profiles.OK)
		want(p, "d", profiles.RateLimitExceeded)
		q.hangUp()
		synctest.Wait()
		want(p, "d", profiles.OK) // in place of one that is away
		if n := len(s.Agents()); n != 3 {
			t.Errorf("%d agents", n)
		}
	})
}

func TestDeclareIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		p := script(t, s, bob)
		if err := s.Declare(t.Context(), p.service, "a", []string{"k"}); err != nil {
			t.Fatal(err)
		}
		first := p.next()
		if first.Type != a2a.TypeHandshake || first.ID != "a" {
			t.Fatalf("%+v", first)
		}
		if value, ok := first.Ext.Lookup(a2a.ExtParam); !ok || !strings.HasPrefix(string(value), "instance=") || len(value) != 9+32 {
			t.Errorf("instance %q", value)
		}
		if err := s.Declare(t.Context(), p.service, "a", []string{"k", "l"}); err != nil {
			t.Fatal(err)
		}
		second := p.next()
		time.Sleep(2*time.Minute - time.Millisecond)
		p.quiet()
		time.Sleep(2 * time.Millisecond)
		if m := p.next(); string(m.Raw) != string(second.Raw) || string(m.Ext) != string(first.Ext) {
			t.Errorf("repeated as %+v, want %+v", m, second)
		}
		p.quiet()
		p.hangUp()
		time.Sleep(time.Hour)
		if err := s.Declare(t.Context(), p.service, " ", nil); err == nil {
			t.Error("a blank agent_id was sent")
		}
	})
}

func TestRS08TasksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{Workers: kinds(newWorker(), "k"), Tasks: 8})
		p, q := script(t, s, alice), script(t, s, bob)
		for i, want := range []profiles.Code{0, 0, 0, 0, 0, 0, 0, profiles.RateLimitExceeded, profiles.RateLimitExceeded} {
			if code := p.verdict(task(fmt.Sprint(i), "k", "")); code != want {
				t.Errorf("task %d: %v, want %v", i, code, want)
			}
		}
		for i, want := range []profiles.Code{0, profiles.RateLimitExceeded} {
			if code := q.verdict(task(fmt.Sprint(i), "k", "")); code != want {
				t.Errorf("task %d: %v, want %v", i, code, want)
			}
		}
		if n := s.Live(); n != 8 {
			t.Errorf("%d tasks are live", n)
		}
		p.accept(task("0", "k", "")) // not a new one
		p.accept(bad("0", "enough"))
		q.accept(task("1", "k", ""))
	})
}

func TestEventsOfATaskAreBounded(t *testing.T) {
	for _, opts := range []a2a.Options{{Events: 3}, {EventBytes: 30}} {
		synctest.Test(t, func(t *testing.T) {
			opts := opts
			opts.Workers = kinds(counting(4), "k")
			p := script(t, service(t, opts), alice)
			p.send(task("t", "k", ""))
			for range 3 {
				p.next()
			}
			p.want(message{Type: 4, Seq: 3, ID: "t", Reason: "the task has too many events"})
		})
	}
}

// agentAtWork returns the run of a task that an agent does for the peer, beside the store of the
// server and its end of the session of the agent.
func agentAtWork(t *testing.T) (*memory, *peer, *run, *profiletest.Session) {
	t.Helper()
	m, w := newDisk().open(t), newWorker()
	server, agent := service(t, a2a.Options{Store: m}), service(t, a2a.Options{Workers: kinds(w, "k")})
	p := script(t, server, alice)
	toServer, ofServer := connect(t, bob, agent, "spiffe://test/server", server)
	if err := agent.Declare(t.Context(), toServer, "a", []string{"k"}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	p.send(task("t", "k", ""))
	return m, p, w.started(t), ofServer
}

// An agent may be faster than the store for long. Refusals would use up what its
// connection is allowed of them, and behind that of a partner is everybody.
func TestRS08AnAgentThatIsFasterThanTheStoreIsNotRefused(t *testing.T) {
	const events = 300
	for _, payload := range []int{1, 16 << 10} {
		synctest.Test(t, func(t *testing.T) {
			m, p, r, ofServer := agentAtWork(t)
			m.gate <- struct{}{}
			for i := range events {
				if err := r.event(fmt.Sprint(i), make([]byte, payload)); err != nil {
					t.Fatal(err)
				}
			}
			r.finish("out")
			synctest.Wait()
			<-m.gate
			for i := 0; ; {
				got := p.next()
				if got.Message == "accepted" {
					continue
				}
				if got.Type == a2a.TypeResult {
					if i != events || !got.OK || got.Payload != "out" {
						t.Errorf("%d events, then %v %q %s", i, got.OK, got.Payload, got.Reason)
					}
					break
				}
				if got.Message != fmt.Sprint(i) {
					t.Fatalf("event %q, want %d", got.Message, i)
				}
				i++
			}
			for _, v := range ofServer.Verdicts() {
				if v.Code != profiles.OK {
					t.Fatalf("a message of type %d was refused: %v", v.Kind, v.Code)
				}
			}
		})
	}
}

func TestEventsThatComeDuringAWriteAreStoredByTheNext(t *testing.T) {
	const events = 40
	synctest.Test(t, func(t *testing.T) {
		m, p, r, _ := agentAtWork(t)
		synctest.Wait()
		m.gate <- struct{}{}
		before := m.operations()
		for i := range events {
			if err := r.event(fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		<-m.gate
		synctest.Wait()
		if writes := m.operations() - before; writes != 2 {
			t.Errorf("%d operations of the store for %d events, want 2", writes, events)
		}
		r.finish("out")
		for i := range events {
			if got := p.next(); got.Message != fmt.Sprint(i) {
				t.Fatalf("message %d: %+v", i, got)
			}
		}
		if got := p.next(); got.Type != a2a.TypeResult || got.Payload != "out" {
			t.Fatalf("%+v", got)
		}
	})
}

func TestATaskWaitsAfterARestartForTheAgentThatDeclaredItsKind(t *testing.T) {
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprintf("back %v", back), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk()
				s, err := a2a.New(a2a.Options{Store: d.open(t)})
				if err != nil {
					t.Fatal(err)
				}
				agent := script(t, s, bob)
				agent.send(handshake("a", "k", "dropped"))
				agent.send(handshake("a", "k"))
				synctest.Wait()
				agent.hangUp()
				s.Close()

				s = service(t, a2a.Options{Store: d.open(t)})
				p := script(t, s, alice)
				id := p.send(task("x", "dropped", ""))
				p.want(message{Type: 4, MsgID: id, ID: "x", Reason: `unsupported capability: nobody here carries out "dropped"; this identity may ask for k`})
				p.send(task("t", "k", ""))
				p.quiet()
				if !back {
					p.want(message{Type: 3, Seq: 1, ID: "t", Message: "accepted"})
					p.want(message{Type: 4, Seq: 1, ID: "t", Reason: "the worker did not come back"})
					return
				}
				agent = script(t, s, bob)
				agent.send(handshake("a", "k"))
				agent.given("k", "")
			})
		})
	}
}
