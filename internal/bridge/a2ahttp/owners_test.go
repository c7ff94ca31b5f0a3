package a2ahttp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
)

// owning is an agent that begins a task of the id it is sent, and knows all tasks.
func owning(t *testing.T) *agent {
	return newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
		id := "t-" + r.Header.Get("A2a-Extensions")
		switch {
		case strings.Contains(q.body, `"method":"SendStreamingMessage"`):
			begin(w)
			say(w, q, `{"task":{"id":"`+id+`","status":{"state":"TASK_STATE_WORKING"}}}`)
		case strings.Contains(q.body, `"method":"SubscribeToTask"`):
			begin(w)
		case strings.Contains(q.body, `"method":"ListTasks"`):
			answer(w, q, `{"n":1.0, "tasks":[ {"id":"t-a","x":9007199254740993} ,{"id":"t-b"}, {"id":"t-nobody"}, 7,{"id":"t-a" } ],"totalSize":5}`)
		default:
			answer(w, q, `{"task":{"id":"`+id+`"}}`)
		}
	})
}

func TestPR04ATaskOfAnotherCallerIsUnknown(t *testing.T) {
	agent := owning(t)
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	b.mustRun(taskFrom(alice, a2abinding.SendMessage, `{}`, "a2a-extensions=a"))
	b.mustRun(taskFrom(bob, a2abinding.SendStreamingMessage, `{}`, "a2a-extensions=b"))
	before := len(agent.operations())
	naming := map[string]string{
		a2abinding.GetTask: `{"id":%q}`, a2abinding.CancelTask: `{"id":%q}`, a2abinding.SubscribeToTask: `{"id":%q}`,
		a2abinding.CreatePushConfig: `{"taskId":%q,"url":"http://x"}`, a2abinding.GetPushConfig: `{"taskId":%q,"id":"c"}`,
		a2abinding.ListPushConfigs: `{"taskId":%q}`, a2abinding.DeletePushConfig: `{"taskId":%q,"id":"c"}`,
		a2abinding.SendMessage:          `{"message":{"taskId":%q}}`,
		a2abinding.SendStreamingMessage: `{"message":{"referenceTaskIds":["t-a",%q]}}`,
	}
	naming["SendMessage "] = `{"configuration":{"taskPushNotificationConfig":{"taskId":%q}}}`
	for operation, input := range naming {
		operation = strings.TrimSpace(operation)
		_, _, foreign := b.run(taskFrom(alice, operation, fmt.Sprintf(input, "t-b")))
		_, _, unknown := b.run(taskFrom(alice, operation, fmt.Sprintf(input, "t-none")))
		if f := failure(t, foreign); f.Code != a2abinding.CodeTaskNotFound || octetsOf(foreign) != octetsOf(unknown) || foreign.Error() != unknown.Error() {
			t.Errorf("%s: %s, unknown %s", operation, octetsOf(foreign), octetsOf(unknown))
		}
	}
	if n := len(agent.operations()); n != before {
		t.Errorf("the agent was asked %d times about tasks of others", n-before)
	}
	for operation, input := range naming {
		b.mustRun(taskFrom(alice, strings.TrimSpace(operation), fmt.Sprintf(input, "t-a"), "a2a-extensions=a"))
	}
}

func TestPR04ATaskIsItsFirstCallers(t *testing.T) {
	agent := owning(t)
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	b.mustRun(taskFrom(alice, a2abinding.SendMessage, `{}`, "a2a-extensions=a"))
	b.mustRun(taskFrom(bob, a2abinding.SendMessage, `{}`, "a2a-extensions=a")) // an agent that says the same id again
	b.mustRun(taskFrom(alice, a2abinding.GetTask, `{"id":"t-a"}`))
	if _, _, err := b.run(taskFrom(bob, a2abinding.GetTask, `{"id":"t-a"}`)); failure(t, err).Code != a2abinding.CodeTaskNotFound {
		t.Error(err)
	}
}

func TestPR04WhatTwoParsersReadDifferentlyIsRefused(t *testing.T) {
	agent := owning(t)
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	b.mustRun(taskFrom(alice, a2abinding.SendMessage, `{}`, "a2a-extensions=a"))
	before := len(agent.operations())
	for _, row := range [][2]string{
		{a2abinding.GetTask, `{"id":"t-a","id":"t-b"}`},
		{a2abinding.GetTask, `{"id":"t-a","ID":"t-b"}`},
		{a2abinding.GetTask, `{"Id":"t-a"}`},
		{a2abinding.GetTask, `{"id":"t-a","\u0069d":"t-b"}`},
		{a2abinding.GetTask, `{"id":["t-a"]}`},
		{a2abinding.GetTask, `{"id":"\ud800"}`},
		{a2abinding.GetTask, `{"id":"` + strings.Repeat("x", a2ajson.MaxID+1) + `"}`},
		{a2abinding.ListPushConfigs, `{"taskId":"t-a","task_id":"t-b"}`},
		{a2abinding.ListPushConfigs, `{"taskId":"t-a","ta\u017fkId":"t-b"}`},
		{a2abinding.SendMessage, `{"message":{"task_id":"t-b","taskId":"t-a"}}`},
		{a2abinding.SendMessage, `{"message":{},"Message":{"taskId":"t-b"}}`},
		{a2abinding.SendMessage, `{"message":{"referenceTaskIds":"t-b"}}`},
		{a2abinding.SendMessage, `{"message":{"referenceTaskIds":[` + strings.Repeat(`"t-a",`, 64) + `"t-a"]}}`},
		{a2abinding.SendMessage, `{"configuration":{"task_push_notification_config":{},"taskPushNotificationConfig":{"taskId":"t-b"}}}`},
	} {
		if _, _, err := b.run(taskFrom(alice, row[0], row[1])); failure(t, err).Code != a2abinding.CodeInvalidParams {
			t.Errorf("%s %.100s: %v", row[0], row[1], err)
		}
	}
	if n := len(agent.operations()); n != before {
		t.Errorf("%d of them were sent", n-before)
	}
	b.mustRun(taskFrom(alice, a2abinding.GetTask, `{"id":"t-a","identity":"x","i":"d"}`))
	b.mustRun(taskFrom(alice, a2abinding.SendMessage, `{"message":{"taskId":"","referenceTaskIds":null}}`))
}

func TestPR04ListsShowTasksOfTheCallerOnly(t *testing.T) {
	agent := owning(t)
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	b.mustRun(taskFrom(alice, a2abinding.SendMessage, `{}`, "a2a-extensions=a"))
	b.mustRun(taskFrom(bob, a2abinding.SendMessage, `{}`, "a2a-extensions=b"))
	for caller, want := range map[string]string{
		alice:                `{"n":1.0, "tasks":[{"id":"t-a","x":9007199254740993},{"id":"t-a" }],"totalSize":5}`,
		bob:                  `{"n":1.0, "tasks":[{"id":"t-b"}],"totalSize":5}`,
		"spiffe://test/mute": `{"n":1.0, "tasks":[],"totalSize":5}`,
	} {
		if _, output := b.mustRun(taskFrom(caller, a2abinding.ListTasks, `{}`)); output != want {
			t.Errorf("%s is shown %s, want %s", caller, output, want)
		}
	}
}

func TestAnAnswerWaitsForWhoseTaskItIs(t *testing.T) {
	agent := owning(t)
	records := newMemory()
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC, Records: records})
	records.fail = errors.New("full")
	for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
		events, output, err := b.run(taskFrom(alice, operation, `{}`))
		if reason(t, err) != "LINK_LOST" || output != "" || len(events) > 0 || strings.Contains(err.Error(), "full") {
			t.Errorf("%s: %q %s %v", operation, events, output, err)
		}
		if err := <-b.troubles; !errors.Is(err, records.fail) {
			t.Errorf("trouble: %v", err)
		}
	}
}

func TestPR04CallbackURLsAreNeverDialled(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialled := make(chan struct{})
	go func() {
		defer close(dialled)
		if conn, err := ln.Accept(); err == nil {
			t.Error("the URL of a notification was dialled")
			_ = conn.Close()
		}
	}()
	url := "http://" + ln.Addr().String() + "/callback"
	config := `{"taskId":"t-a","id":"c","url":"` + url + `","token":"x", "authentication":{"scheme":"Bearer","credentials":"y"}}`
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, q asked) {
		switch {
		case strings.Contains(q.body, `PushNotificationConfig","params"`):
			answer(w, q, config)
		case strings.Contains(q.body, "Streaming"):
			begin(w)
			say(w, q, `{"task":{"id":"t-a","artifacts":[{"parts":[{"url":"`+url+`"}]}],"status":{"state":"TASK_STATE_COMPLETED"}}}`)
		default:
			answer(w, q, `{"task":{"id":"t-a","metadata":{"pushNotificationConfig":`+config+`}}}`)
		}
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	message := `{"message":{"parts":[{"url":"` + url + `"}]},"configuration":{"taskPushNotificationConfig":{"url":"` + url + `"}}}`
	b.mustRun(taskFrom(alice, a2abinding.SendMessage, message))
	b.mustRun(taskFrom(alice, a2abinding.SendStreamingMessage, message))
	for _, operation := range []string{a2abinding.CreatePushConfig, a2abinding.GetPushConfig} {
		if _, output := b.mustRun(taskFrom(alice, operation, config)); output != config {
			t.Errorf("%s: %s", operation, cmp.Diff(config, output))
		}
	}
	list := agent.operations()
	for _, q := range list {
		if !strings.HasSuffix(q.body, `"params":`+message+`}`) && !strings.HasSuffix(q.body, `"params":`+config+`}`) {
			t.Errorf("sent %s", q.body)
		}
	}
	_ = ln.Close()
	<-dialled
}

func TestPR04ATaskOfOneTenantIsNoneOfAnother(t *testing.T) {
	agent := owning(t)
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	b.mustRun(taskFrom(alice, a2abinding.SendMessage, `{"tenant":"acme"}`, "a2a-extensions=a"))
	b.mustRun(taskFrom(bob, a2abinding.SendStreamingMessage, `{"tenant":"beta"}`, "a2a-extensions=a"))
	before := len(agent.operations())
	for _, row := range [][2]string{{alice, "beta"}, {alice, ""}, {bob, "acme"}, {bob, ""}} {
		for _, operation := range []string{a2abinding.GetTask, a2abinding.SubscribeToTask} {
			_, _, err := b.run(taskFrom(row[0], operation, fmt.Sprintf(`{"id":"t-a","tenant":%q}`, row[1])))
			if failure(t, err).Code != a2abinding.CodeTaskNotFound {
				t.Errorf("%s of %s in %q: %v", operation, row[0], row[1], err)
			}
		}
	}
	if n := len(agent.operations()); n != before {
		t.Errorf("the agent was asked %d times about tasks of others", n-before)
	}
	b.mustRun(taskFrom(alice, a2abinding.GetTask, `{"id":"t-a","tenant":"acme"}`))
	b.mustRun(taskFrom(bob, a2abinding.GetTask, `{"tenant":"beta","id":"t-a"}`))
}

// What was begun and said nothing yet is taken up for its caller only, too.
func TestPR04AStreamThatIsResumedIsTheCallers(t *testing.T) {
	agent := owning(t)
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	b.own(alice, "", "t-a")
	worker := b.worker(a2abinding.SubscribeToTask).(a2a.Resumer)
	_, err := worker.Resume(t.Context(), taskFrom(bob, a2abinding.SubscribeToTask, `{"id":"t-a"}`), nil, nil)
	if failure(t, err).Code != a2abinding.CodeTaskNotFound || len(agent.operations()) > 0 {
		t.Errorf("%v, asked %v", err, agent.operations())
	}
}

func TestAnOperationThatTheCardDoesNotOfferIsRefusedAsTheAgentWould(t *testing.T) {
	const subscribe, push = a2abinding.SubscribeToTask, a2abinding.CreatePushConfig
	naming := map[string]string{
		subscribe: `{"id":"t-none"}`, push: `{"taskId":"t-none","url":"http://x"}`, push + " ": `{"taskId":7}`,
		a2abinding.GetPushConfig: `{"taskId":"t-none","id":"c"}`, a2abinding.ListPushConfigs: `{"taskId":"t-none"}`,
		a2abinding.DeletePushConfig: `{"taskId":"t-none","id":"c"}`,
	}
	for _, row := range []struct {
		card            string
		subscribe, push int // code of the refusal
	}{
		{`{"capabilities":{}}`, a2abinding.CodeUnsupported, a2abinding.CodeNoPush},
		{`{"capabilities":{"pushNotifications":false,"streaming":true}}`, a2abinding.CodeTaskNotFound, a2abinding.CodeNoPush},
		{`{"capabilities":{"push_notifications":true,"streaming":false}}`, a2abinding.CodeUnsupported, a2abinding.CodeTaskNotFound},
		{`{"name":"a card that says nothing of it"}`, a2abinding.CodeTaskNotFound, a2abinding.CodeTaskNotFound},
		{`{"capabilities":7}`, a2abinding.CodeTaskNotFound, a2abinding.CodeTaskNotFound},
		{``, a2abinding.CodeTaskNotFound, a2abinding.CodeTaskNotFound},
	} {
		agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
			switch {
			case r.URL.Path != cardPath:
				answer(w, q, `{"task":{"id":"t-a"}}`)
			case row.card == "":
				http.NotFound(w, r)
			default:
				_, _ = w.Write([]byte(row.card))
			}
		})
		b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
		for operation, input := range naming {
			_, _, err := b.run(taskFrom(alice, strings.TrimSpace(operation), input))
			want := row.push
			switch {
			case operation == subscribe:
				want = row.subscribe
			case operation == push+" " && want == a2abinding.CodeTaskNotFound:
				want = a2abinding.CodeInvalidParams
			}
			if f := failure(t, err); f.Code != want {
				t.Errorf("card %s, %s: %+v, want %d", row.card, operation, f, want)
			}
		}
		if row.card != "" { // a card of the configuration counts before it
			configured, err := agdisc.NewTable(agdisc.Card{AgentID: "agent", Payload: []byte(`{"capabilities":{"streaming":true}}`)})
			if err != nil {
				t.Fatal(err)
			}
			b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC, Told: configured})
			for operation, want := range map[string]int{subscribe: a2abinding.CodeTaskNotFound, push: a2abinding.CodeNoPush} {
				if _, _, err := b.run(taskFrom(alice, operation, naming[operation])); failure(t, err).Code != want {
					t.Errorf("card of the configuration, %s: %v, want %d", operation, err, want)
				}
			}
		}
		b.own(alice, "", "t-a")
		b.mustRun(taskFrom(alice, push, `{"taskId":"t-a"}`)) // the agent decides about the tasks of a caller
	}
}
