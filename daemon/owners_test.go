package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

// remembers is an agent that begins a task for each message, and takes everyone for
// whom it was begun.
func remembers() a2a.WorkerFunc {
	var begun atomic.Int64
	return func(_ context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		var about struct{ ID string }
		_ = json.Unmarshal(t.Input, &about)
		switch o, _ := a2abinding.OfKind(t.Kind); o.Name {
		case a2abinding.SendMessage:
			return fmt.Appendf(nil, `{"task":{"id":"t%d"}}`, begun.Add(1)), nil
		case a2abinding.SendStreamingMessage:
			return nil, event("", fmt.Appendf(nil, `{"task":{"id":"t%d"}}`, begun.Add(1)))
		case a2abinding.SubscribeToTask:
			return nil, event("", fmt.Appendf(nil, `{"task":{"id":%q}}`, about.ID))
		case a2abinding.ListTasks:
			return []byte(`{"tasks":[{"id":"t1"},{"id":"t2"},{"id":"t3"}]}`), nil
		}
		return fmt.Appendf(nil, `{"id":%q}`, about.ID), nil
	}
}

// An agent that has declared itself over a session, here or at a partner, sees this
// endpoint and not its callers.
func TestPR04CallersDoNotReachEachOthersTasksOfAnAgentOverASession(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", ""), open(t, "a", httpYAML)
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	a.agent("near", remembers(), a2abinding.Kinds()...)
	b.agent("far", remembers(), a2abinding.Kinds()...)
	for _, agent := range []string{"near", "b/far"} {
		url := a.front() + "/a2a/" + agent
		ask := func(alice bool, method, params string) string {
			t.Helper()
			headers := []string{version}
			if alice {
				headers = append(headers, "Authorization: Bearer secret-a")
			}
			_, _, got := post(t, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), headers...)
			return got
		}
		for _, alice := range []bool{true, false} {
			if got := ask(alice, "SendMessage", `{"message":{}}`); !strings.Contains(got, `"task"`) {
				t.Fatalf("%s: %s", agent, got)
			}
		}
		if got := ask(false, "SendStreamingMessage", `{"message":{}}`); !strings.Contains(got, `"t3"`) {
			t.Fatalf("%s: %s", agent, got)
		}
		for id, owner := range map[string]bool{"t1": true, "t2": false, "t3": false} {
			for _, alice := range []bool{true, false} {
				for _, method := range []string{"GetTask", "CancelTask", "SubscribeToTask"} {
					got := ask(alice, method, fmt.Sprintf(`{"id":%q}`, id))
					if alice == owner != strings.Contains(got, `{"id":"`+id+`"}`) {
						t.Errorf("%s: %s of %s for alice %v: %s", agent, method, id, alice, got)
					}
					unknown := ask(alice, method, `{"id":"none"}`)
					if alice != owner && got != unknown {
						t.Errorf("%s: %s of %s: %s, of none: %s", agent, method, id, got, unknown)
					}
				}
			}
		}
		for alice, want := range map[bool]string{true: `[{"id":"t1"}]`, false: `[{"id":"t2"},{"id":"t3"}]`} {
			if got := ask(alice, "ListTasks", `{}`); !strings.Contains(got, `"tasks":`+want) {
				t.Errorf("%s: listed for alice %v: %s", agent, alice, got)
			}
		}
	}
}

func TestAnOperationForAPartnerThatIsAwayFails(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", ""), open(t, "a", httpYAML)
	a.trusting("b", b)
	began := time.Now()
	for i := range 2 {
		status, _, got := post(t, a.front()+"/a2a/b/far/message:send", `{"message":{}}`, version)
		if status != 503 || !strings.Contains(got, "LINK_LOST") || !strings.Contains(got, "the partner cannot be reached now") {
			t.Errorf("%d: %d %s", i, status, got)
		}
	}
	if took := time.Since(began); took > 30*time.Second { // an agent is waited for twice as long
		t.Errorf("it took %v", took)
	}
}
