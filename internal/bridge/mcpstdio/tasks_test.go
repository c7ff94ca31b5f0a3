package mcpstdio_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// task has the child make a task, and returns its id.
func (c *caller) task(id string) string {
	c.t.Helper()
	return decode[struct{ TaskID string }](c.t, c.do(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{%s,"name":"slow"}}`, id, meta))).TaskID
}

// about sends a request about a task.
func (c *caller) about(id, method, task string) string {
	c.t.Helper()
	return c.do(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s,"taskId":%q}}`, id, method, meta, task))
}

func pidOf(task string) (pid int) {
	_, _ = fmt.Sscanf(task, "%d-", &pid)
	return pid
}

func TestATaskAtWorkKeepsItsChild(t *testing.T) {
	for name, cfg := range map[string]mcpstdio.Config{
		"idle": {Idle: 200 * time.Millisecond}, "old": {Lifetime: 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "modern", cfg)
			c := s.dial("alice")
			task := c.task("1")
			time.Sleep(3 * 200 * time.Millisecond) // of the process: there is no virtual time
			if got := c.about("2", "tasks/get", task); !strings.Contains(got, `"working"`) {
				t.Errorf("the task is lost: %s", got)
			}
			if got := c.about("3", "tasks/cancel", task); !strings.Contains(got, `"cancelled"`) {
				t.Errorf("the task is lost: %s", got)
			}
			await(t, func() bool { return s.server.Stats().Children == 0 })
			gone(t, pidOf(task))
			if got := c.about("4", "tasks/get", task); !strings.Contains(got, `the process that had the task has ended`) {
				t.Errorf("after the end of the child: %s", got)
			}
		})
	}
}

// Two requests with one id need two children; the tasks of each stay there.
func TestMessagesAboutATaskGoToItsChild(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 2})
	alice, bob := s.dial("alice"), s.dial("bob")
	held := `{"jsonrpc":"2.0","id":1,"result":"held"}`
	first := alice.start(&mcpmap.Call{Octets: []byte(modern("1", "hold", held))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
	second := bob.task("1") // at the second child
	third := bob.task("2")  // at the first
	one := alice.task("2")  // there too
	if pidOf(one) == pidOf(second) || pidOf(one) != pidOf(third) {
		t.Fatal("the tasks are not at two children")
	}
	alice.do(modern("3", "release", ""))
	<-first
	for id, row := range map[string]struct {
		c    *caller
		task string
	}{"4": {alice, one}, "5": {bob, second}} {
		if got := row.c.about(id, "tasks/get", row.task); !strings.Contains(got, row.task) {
			t.Errorf("task %s: %s", row.task, got)
		}
	}
	// A listen goes to the child that has the tasks.
	listens := bob.start(&mcpmap.Call{Octets: []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":6,"method":"subscriptions/listen","params":{%s,"notifications":{"taskIds":[%q]}}}`, meta, second))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	// Its id is taken there for as long as it listens, which is said.
	if got := bob.about("6", "tasks/get", second); !strings.Contains(got, "ask again with another id") || !strings.Contains(got, `"retryable":true`) {
		t.Errorf("an id in use: %s", got)
	}
	if got := bob.about("7", "tasks/get", second); !strings.Contains(got, second) {
		t.Errorf("task %s: %s", second, got)
	}
	// One child cannot tell of the tasks of another.
	both := fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{%s,"notifications":{"taskIds":[%q,%q]}}}`, meta, second, third)
	if got := bob.do(both); !strings.Contains(got, "the tasks are in different processes of the server") {
		t.Errorf("tasks of two children: %s", got)
	}
	bob.hangUp()
	<-listens
}

func TestATaskOfAChildThatHasEndedIsSaidToBe(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	task := c.task("1")
	crashed := c.do(modern("2", "crash", ""))
	if !strings.Contains(crashed, "error") {
		t.Fatal(crashed)
	}
	await(t, func() bool { return s.server.Stats().Children == 0 })
	if got := c.about("3", "tasks/get", task); !strings.Contains(got, `server \"one\": the process that had the task has ended`) {
		t.Errorf("%s", got)
	}
	want(t, "starts", s.count(mcpstdio.Started), 1)
}

func TestASessionWithATaskAtWorkStays(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{SessionIdle: 200 * time.Millisecond, MaxChildren: 2})
	mallory, alice := s.dial("mallory"), s.dial("alice")
	one := mallory.initialize(mcpmap.Events{})
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","task":{}}}`
	task := decode[struct{ Task struct{ TaskID string } }](t, mallory.in(one, call)).Task.TaskID
	time.Sleep(3 * 200 * time.Millisecond)
	two := mallory.initialize(mcpmap.Events{})
	alice.initialize(mcpmap.Events{}) // in place of the other session of mallory
	about := func(session, method string) string {
		return mallory.in(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{"taskId":%q}}`, method, task))
	}
	if got := about(one, "tasks/get"); !strings.Contains(got, `"working"`) {
		t.Errorf("the task is lost: %s", got)
	}
	if got := about(two, "tasks/get"); !strings.Contains(got, "unknown session") {
		t.Errorf("the other session: %s", got)
	}
	about(one, "tasks/cancel")
	await(t, func() bool { return s.served.Stats().Sessions == 0 && s.server.Stats().Children == 0 })
}

// A server that leaves or is replaced serves the tasks that it has.
func TestRetireWaitsForTasks(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	task := c.task("1")
	retired := s.retire(t.Context())
	if got := c.about("2", "tasks/get", task); !strings.Contains(got, `"working"`) {
		t.Errorf("the task is lost: %s", got)
	}
	select {
	case err := <-retired:
		t.Fatalf("Retire returned %v with a task at work", err)
	default:
	}
	c.about("3", "tasks/cancel", task)
	if err := <-retired; err != nil {
		t.Error(err)
	}
	gone(t, pidOf(task))
}

func TestCloseDoesNotWaitForTasks(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	task := s.dial("alice").task("1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.server.Close(ctx); err != nil {
		t.Error(err)
	}
	gone(t, pidOf(task))
}
