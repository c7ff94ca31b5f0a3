package mcpstdio_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// cancel cancels a request of a session, or of none.
func (c *caller) cancel(session, id string) {
	c.t.Helper()
	if err := c.client.Notify(c.t.Context(), "", session, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)); err != nil {
		c.t.Fatal(err)
	}
}

// listen opens a subscription, about tasks if there are any, and waits for the acknowledgement.
func (c *caller) listen(id string, tasks ...string) <-chan outcome {
	c.t.Helper()
	open := make(chan bool, 1)
	ended := c.start(&mcpmap.Call{
		Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{%s,"notifications":{"taskIds":[%s]}}}`, id, meta, quoted(tasks)),
		Events: mcpmap.Events{Notification: func([]byte) { open <- true }},
	})
	select {
	case <-open:
	case out := <-ended:
		c.t.Fatalf("subscription %s: %v %s", id, out.err, out.octets)
	}
	return ended
}

func quoted(list []string) string {
	for i, text := range list {
		list[i] = quote(text)
	}
	return strings.Join(list, ",")
}

// A server does not answer what was cancelled, and may have nothing to say for long.
func TestGW02ACancelledRequestDoesNotEndTheWorkOfOthers(t *testing.T) {
	for name, cancelled := range map[string]func(*caller){
		"cancelled": func(c *caller) {
			c.start(&mcpmap.Call{Octets: []byte(modern("5", "silent", ""))})
			await(c.t, func() bool { return c.inFlight() == 2 })
			c.cancel("", "5")
		},
		"hung up": func(c *caller) {
			c.start(&mcpmap.Call{Octets: []byte(modern("5", "silent", ""))})
			await(c.t, func() bool { return c.inFlight() == 2 })
			c.hangUp()
		},
		"subscription": func(c *caller) {
			ended := c.listen("5")
			c.cancel("", "5")
			<-ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "modern", mcpstdio.Impatient(mcpstdio.Config{MaxShared: 1}, 50*time.Millisecond, time.Minute))
			alice, bob := s.dial("alice"), s.dial("bob")
			task := alice.task("1")
			held := `{"jsonrpc":"2.0","id":2,"result":"held"}`
			call := alice.start(&mcpmap.Call{Octets: []byte(modern("2", "hold", held))})
			await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
			bob.inFlight = func() int { return s.server.Stats().InFlight }
			cancelled(bob)
			await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
			time.Sleep(8 * 50 * time.Millisecond) // of the process: there is no virtual time
			if got := alice.about("3", "tasks/get", task); !strings.Contains(got, `"working"`) {
				t.Errorf("the task is lost: %s", got)
			}
			alice.do(modern("4", "release", ""))
			want(t, "the call of another", (<-call).octets, held)
			want(t, "starts", s.count(mcpstdio.Started), 1)
		})
	}
}

func TestGW02ACancelledRequestDoesNotEndItsSession(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Impatient(mcpstdio.Config{}, 50*time.Millisecond, 50*time.Millisecond))
	c := s.dial("alice")
	session := c.initialize(mcpmap.Events{})
	held := `{"jsonrpc":"2.0","id":1,"result":"held"}`
	call := c.start(&mcpmap.Call{Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"hold","params":` + quote(held) + `}`)})
	await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
	c.start(&mcpmap.Call{Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":2,"method":"silent"}`)})
	await(t, func() bool { return s.server.Stats().InFlight == 2 && s.server.Stats().Waiting == 0 })
	c.cancel(session, "2")
	await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
	time.Sleep(8 * 50 * time.Millisecond)
	c.in(session, `{"jsonrpc":"2.0","id":3,"method":"release"}`)
	want(t, "the other call", (<-call).octets, held)
}

// A child that leaves a question without a word is stuck: nothing is lost if it has no other work.
func TestGW02AChildThatAnswersNothingIsReplaced(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Impatient(mcpstdio.Config{Grace: time.Second}, 50*time.Millisecond, 50*time.Millisecond))
	c := s.dial("alice")
	c.start(&mcpmap.Call{Octets: []byte(modern("1", "stuck", ""))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
	c.cancel("", "1")
	await(t, func() bool { return s.count(mcpstdio.Exited) == 1 })
	want(t, "why", fmt.Sprint(s.reasons()), "[mcpstdio: the child answers no question]")
	decode[int](t, c.do(modern("2", "pid", "")))
}

// With a task it stays, but gets nothing new.
func TestGW02AStuckChildWithATaskGetsNothingNew(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Impatient(mcpstdio.Config{MaxShared: 2}, 50*time.Millisecond, 50*time.Millisecond))
	c := s.dial("alice")
	stuck := pidOf(c.task("1"))
	c.start(&mcpmap.Call{Octets: []byte(modern("2", "stuck", ""))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
	c.cancel("", "2")
	another := make(chan outcome, 1024)
	for n := 3; ; n++ { // until it is noticed that the child is stuck
		answer := c.start(&mcpmap.Call{Octets: []byte(modern(fmt.Sprint(n), "pid", ""))})
		go func() { another <- <-answer }()
		select {
		case out := <-another:
			if decode[int](t, out.octets) == stuck {
				t.Error("it answers")
			}
		case <-time.After(100 * time.Millisecond):
			continue
		}
		break
	}
	want(t, "children", s.server.Stats().Children, 2)
	want(t, "ends", s.count(mcpstdio.Exited), 0)
}

// A call that had its whole time without a word of the child, and a question without one: then its tasks are lost already.
func TestGW02AStuckChildIsReplacedWhenACallHadItsWholeTime(t *testing.T) {
	for _, mode := range []string{"modern", "legacy"} {
		t.Run(mode, func(t *testing.T) {
			cfg := mcpstdio.Config{Timeouts: mcpmap.Timeouts{Tools: map[string]time.Duration{"stuck": 300 * time.Millisecond}}}
			s := serve(t, mode, mcpstdio.Impatient(cfg, time.Minute, 50*time.Millisecond))
			c := s.dial("alice")
			session, stuck := "", fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{%s,"name":"stuck"}}`, meta)
			if mode == "modern" {
				c.task("1")
			} else {
				session, stuck = c.initialize(mcpmap.Events{}), `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"stuck"}}`
			}
			if got := c.in(session, stuck); !strings.Contains(got, "the server did not answer in time") {
				t.Errorf("answer %s", got)
			}
			await(t, func() bool { return s.count(mcpstdio.Exited) == 1 })
			want(t, "why", fmt.Sprint(s.reasons()), "[mcpstdio: the child answers no question]")
		})
	}
}

// Else a stuck child with a task would keep a place for as long as the task is remembered, if all clients give up early.
func TestGW02AStuckChildWithATaskIsReplacedAfterTheTimeOfACall(t *testing.T) {
	cfg := mcpstdio.Config{MaxShared: 1, Timeouts: mcpmap.Timeouts{Each: 5 * time.Second}}
	s := serve(t, "modern", mcpstdio.Impatient(cfg, 50*time.Millisecond, 50*time.Millisecond))
	c := s.dial("alice")
	await(t, func() bool { return strings.Contains(c.do(modern("0", "pid", "")), `"result"`) })
	c.task("1")
	c.start(&mcpmap.Call{Octets: []byte(modern("2", "stuck", ""))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
	c.cancel("", "2")
	await(t, func() bool { return s.count(mcpstdio.Exited) == 1 })
	want(t, "why", fmt.Sprint(s.reasons()), "[mcpstdio: the child answers no question]")
	await(t, func() bool { return strings.Contains(c.do(modern("3", "pid", "")), `"result"`) })
}

// A call at a child that works on something else, and speaks, or answers the question, is no reason.
func TestGW02AChildThatAnswersAQuestionStaysWhenACallHadItsWholeTime(t *testing.T) {
	cfg := mcpstdio.Config{MaxShared: 1, Timeouts: mcpmap.Timeouts{Tools: map[string]time.Duration{"silent": 100 * time.Millisecond}}}
	s := serve(t, "modern", mcpstdio.Impatient(cfg, time.Minute, time.Minute))
	c := s.dial("alice")
	task := c.task("1")
	if got := c.do(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{%s,"name":"silent"}}`, meta)); !strings.Contains(got, "the server did not answer in time") {
		t.Errorf("answer %s", got)
	}
	if got := c.about("3", "tasks/get", task); !strings.Contains(got, `"working"`) {
		t.Errorf("the task is lost: %s", got)
	}
	want(t, "dropped", s.server.Stats().Dropped, 0)
	want(t, "starts", s.count(mcpstdio.Started), 1)
}

const engaged = "another request at the same process of the server has the id or the progress token of this request"

// A request about a task can go to one child only. It waits for nobody whose end it does not know.
func TestGW04ARequestAboutATaskDoesNotWaitForTheIDOfAnotherCaller(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 1})
	alice, bob := s.dial("alice"), s.dial("bob")
	task := alice.task("1")
	held := `{"jsonrpc":"2.0","id":4,"result":"held"}`
	call := bob.start(&mcpmap.Call{Octets: []byte(modern("4", "hold", held))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		if got := alice.about("4", method, task); !strings.Contains(got, engaged) || !strings.Contains(got, `"retryable":true`) {
			t.Errorf("%s with an id in use: %s", method, got)
		}
	}
	if got := alice.about("5", "tasks/get", task); !strings.Contains(got, `"working"`) {
		t.Errorf("with another id: %s", got)
	}
	alice.do(modern("6", "release", ""))
	want(t, "the call of bob", (<-call).octets, held)
	if got := alice.about("4", "tasks/get", task); !strings.Contains(got, `"working"`) {
		t.Errorf("when the id is free: %s", got)
	}
}

// While there are processes, the calls of others are kept away from that of a task, whichever came first.
func TestGW04TheCallsOfOthersGoToAnotherChildThanATask(t *testing.T) {
	const tasks = `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"name":"slow"}}`
	for name, first := range map[string]bool{"the task is first": true, "the call is first": false} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "modern", mcpstdio.Config{MaxShared: 2})
			alice, bob := s.dial("alice"), s.dial("bob")
			var task string
			mine := func() {
				task = decode[struct{ TaskID string }](t, alice.do(fmt.Sprintf(tasks, "1"))).TaskID
			}
			if first {
				mine()
			}
			var calls []<-chan outcome
			for id := 2; id < 5; id++ {
				calls = append(calls, bob.start(&mcpmap.Call{Octets: []byte(modern(fmt.Sprint(id), "hold", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"held"}`, id)))}))
			}
			await(t, func() bool { return s.server.Stats().InFlight == 3 && s.server.Stats().Waiting == 0 })
			if !first {
				mine()
			}
			for id := 2; id < 5; id++ {
				if got := alice.about(fmt.Sprint(id), "tasks/get", task); !strings.Contains(got, `"working"`) {
					t.Errorf("with id %d: %s", id, got)
				}
			}
			bob.do(modern("9", "release", ""))
			for _, call := range calls {
				<-call
			}
			want(t, "children", s.server.Stats().Children, 2)
		})
	}
}

// Requests with one id, at as many children as there are, do not take that id at the child of a task.
func TestGW04ACallerWhoRepeatsAnIDDoesNotTakeItAtTheChildOfATask(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 3})
	alice, bob, carol := s.dial("alice"), s.dial("bob"), s.dial("carol")
	task := alice.task("1")
	for range 3 {
		bob.start(&mcpmap.Call{Octets: []byte(modern("4", "silent", ""))})
	}
	await(t, func() bool { return s.server.Stats().InFlight == 3 && s.server.Stats().Waiting == 1 })
	if got := alice.about("4", "tasks/get", task); !strings.Contains(got, `"working"`) {
		t.Errorf("the id is taken: %s", got)
	}
	decode[int](t, carol.do(modern("4", "pid", ""))) // for another caller the child of the task is better than none
}

func TestTheIDOfAClosedSubscriptionIsFree(t *testing.T) {
	for _, who := range []string{"alice", "bob"} {
		t.Run("of "+who, func(t *testing.T) {
			s := serve(t, "modern", mcpstdio.Config{MaxShared: 1})
			alice := s.dial("alice")
			task := alice.task("1")
			c := alice
			if who == "bob" {
				c = s.dial("bob")
				c.listen("2")
			} else {
				c.listen("2", task)
			}
			if got := alice.about("2", "tasks/get", task); !strings.Contains(got, engaged) {
				t.Errorf("while it is open: %s", got)
			}
			c.cancel("", "2")
			await(t, func() bool { return s.server.Stats().InFlight == 0 && s.server.Stats().Waiting == 0 })
			again := alice.listen("2", task)
			alice.cancel("", "2")
			<-again
			if got := alice.about("2", "tasks/get", task); !strings.Contains(got, `"working"`) {
				t.Errorf("another request: %s", got)
			}
			want(t, "starts", s.count(mcpstdio.Started), 1)
		})
	}
}

// A child that does not answer a question does not free the id; that is said within seconds.
func TestTheIDOfAClosedSubscriptionIsNotAwaitedForLong(t *testing.T) {
	s := serve(t, "modern once", mcpstdio.Config{MaxShared: 1})
	c := s.dial("alice")
	task := c.task("1")
	ended := c.listen("2", task)
	c.cancel("", "2")
	<-ended
	if got := c.about("2", "tasks/get", task); !strings.Contains(got, engaged) {
		t.Errorf("an id that is not free: %s", got)
	}
	if got := c.about("3", "tasks/get", task); !strings.Contains(got, `"working"`) {
		t.Errorf("with another id: %s", got)
	}
}

// A request that only subscriptions keep from all children could wait for ever.
func TestGW04ARequestDoesNotWaitForTheEndOfASubscription(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 2})
	alice, bob := s.dial("alice"), s.dial("bob")
	bob.listen("1")
	decode[int](t, alice.do(modern("1", "pid", "")))
	bob.listen("1.0") // at the second child
	if got := alice.do(modern("1", "pid", "")); !strings.Contains(got, engaged) {
		t.Errorf("with the id of two subscriptions: %s", got)
	}
	decode[int](t, alice.do(modern("2", "pid", "")))
}
