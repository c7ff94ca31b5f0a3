package a2ahttp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

// methods returns what an agent was asked by JSON-RPC, in order.
func (a *agent) methods() (list []string) {
	for _, q := range a.asked() {
		_, rest, _ := strings.Cut(q.body, `"method":"`)
		method, _, _ := strings.Cut(rest, `"`)
		list = append(list, method)
	}
	return list
}

const (
	began    = `{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`
	snapshot = `{"task":{ "id":"t","status":{"state":"TASK_STATE_WORKING"},"n":1.0}}`
	ended    = `{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`
)

func TestAKilledStreamIsTakenUpAgain(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, q asked) {
		begin(w)
		if strings.Contains(q.body, "SubscribeToTask") {
			say(w, q, snapshot)
			say(w, q, ended)
			return
		}
		say(w, q, began)
		kill(w)
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	events, _ := b.mustRun(taskFrom(alice, a2abinding.SendStreamingMessage, `{"tenant":"acme"}`))
	if diff := cmp.Diff([]string{began, snapshot, ended}, events); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"SendStreamingMessage", "SubscribeToTask"}, agent.methods()); diff != "" {
		t.Error(diff)
	}
	if q := agent.asked()[1]; !strings.HasSuffix(q.body, `"params":{"id":"t","tenant":"acme"}}`) {
		t.Errorf("taken up with %s", q.body)
	}
}

func TestAStreamThatEndsUnseenEndsWithTheTask(t *testing.T) {
	const task = `{"id":"t", "status":{"state":"TASK_STATE_FAILED"},"n":9007199254740993}`
	for _, state := range []string{"ended", "unknown", "going on"} {
		t.Run(state, func(t *testing.T) {
			agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, q asked) {
				switch {
				case strings.Contains(q.body, "SendStreaming"):
					begin(w)
					say(w, q, began)
					kill(w)
				case strings.Contains(q.body, "GetTask") && state == "ended":
					answer(w, q, task)
				case strings.Contains(q.body, "GetTask") && state == "going on":
					answer(w, q, strings.ReplaceAll(task, "FAILED", "WORKING"))
				default:
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"error":{"code":-32001,"message":"no"}}`, q.id)
				}
			})
			b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
			events, _, err := b.run(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`))
			switch {
			case state == "ended":
				if diff := cmp.Diff([]string{began, `{"task":` + task + `}`}, events); err != nil || diff != "" {
					t.Errorf("%v, %s", err, diff)
				}
			case reason(t, err) != "LINK_LOST":
				t.Errorf("%s", octetsOf(err))
			}
		})
	}
}

// An agent that died in the middle of a stream may have done anything. That there is
// no way to it would be read as that nothing was done.
func TestAStreamWhoseAgentIsGoneIsLost(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
		begin(w)
		say(w, q, began)
		if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
			_ = server.Close()
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
		events, _, err := b.run(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`))
		if diff := cmp.Diff([]string{began}, events); diff != "" || reason(t, err) != "LINK_LOST" {
			t.Errorf("%v %s", err, diff)
		}
	})
}

func TestAStreamThatNamesNoTaskIsLost(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) {
		begin(w)
		kill(w)
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	if _, _, err := b.run(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`)); reason(t, err) != "LINK_LOST" {
		t.Error(err)
	}
	if n := len(agent.asked()); n != 1 {
		t.Errorf("a message was sent %d times", n)
	}
}

func TestAMessageIsSentOnce(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) { kill(w) })
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	if _, _, err := b.run(taskFrom(alice, a2abinding.SendMessage, `{}`)); reason(t, err) != "LINK_LOST" {
		t.Error(err)
	}
	if n := len(agent.asked()); n != 1 {
		t.Errorf("a message was sent %d times", n)
	}
}

func TestLeavingClosesTheStreamAndCancelsNothing(t *testing.T) {
	closed := make(chan struct{})
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
		begin(w)
		say(w, q, began)
		<-r.Context().Done()
		close(closed)
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	ctx, leave := context.WithCancel(t.Context())
	_, err := b.worker(a2abinding.SendStreamingMessage).Run(ctx, taskFrom(alice, a2abinding.SendStreamingMessage, `{}`), func(string, []byte) error {
		leave()
		return nil
	})
	if err == nil {
		t.Error("it ended well")
	}
	<-closed
	if diff := cmp.Diff([]string{"SendStreamingMessage"}, agent.methods()); diff != "" {
		t.Error(diff)
	}
}

func TestStreamsOfAnEarlierProcessAreTakenUp(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, q asked) {
		begin(w)
		say(w, q, snapshot)
		say(w, q, ended)
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	resume := func(task *a2a.Task, last string) (events []string, err error) {
		w, ok := b.worker(a2abinding.SendStreamingMessage).(a2a.Resumer)
		if !ok {
			t.Fatal("streams cannot be resumed")
		}
		_, err = w.Resume(t.Context(), task, []byte(last), func(_ string, payload []byte) error {
			events = append(events, string(payload))
			return nil
		})
		return events, err
	}
	send := taskFrom(alice, a2abinding.SendStreamingMessage, `{}`)
	for _, row := range []struct {
		name string
		task *a2a.Task
		last string
		want []string
	}{
		{"in the middle", send, `{"artifactUpdate":{"taskId":"t"}}`, []string{snapshot, ended}},
		{"a subscription", taskFrom(alice, a2abinding.SubscribeToTask, `{"id":"t"}`), "", []string{snapshot, ended}},
		{"at its end", send, ended, nil},
		{"after a message", send, `{"message":{"taskId":"t"}}`, nil},
	} {
		events, err := resume(row.task, row.last)
		if diff := cmp.Diff(row.want, events); err != nil || diff != "" {
			t.Errorf("%s: %v %s", row.name, err, diff)
		}
	}
	before := len(agent.asked())
	if _, err := resume(send, ""); reason(t, err) != "LINK_LOST" || len(agent.asked()) != before {
		t.Errorf("without a task: %v", err)
	}
	if _, ok := b.worker(a2abinding.SendMessage).(a2a.Resumer); ok {
		t.Error("a message would be sent again")
	}
}

func TestAnEventThatIsNotTakenEndsTheStream(t *testing.T) {
	closed := make(chan struct{})
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
		begin(w)
		say(w, q, began)
		<-r.Context().Done()
		close(closed)
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	var taken atomic.Int32
	_, err := b.worker(a2abinding.SendStreamingMessage).Run(t.Context(), taskFrom(alice, a2abinding.SendStreamingMessage, `{}`), func(string, []byte) error {
		taken.Add(1)
		return context.DeadlineExceeded
	})
	if err == nil || taken.Load() != 1 {
		t.Errorf("%v after %d events", err, taken.Load())
	}
	<-closed
}
