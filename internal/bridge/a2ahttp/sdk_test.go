package a2ahttp

import (
	"context"
	"encoding/json"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// executor is an agent written with the SDK. It works in steps that the test lets it
// take, until it is cancelled.
type executor struct{ steps chan struct{} }

const needed = "https://example.org/extension"

func (e executor) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		switch text := x.Message.Parts[0].Text(); text {
		case "needs an extension":
			if values, _ := x.ServiceParams.Get("A2A-Extensions"); len(values) == 0 || values[0] != needed {
				yield(nil, sdk.NewError(sdk.ErrExtensionSupportRequired, "offer it"))
				return
			}
			yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(text)), nil)
		case "work":
			if !yield(sdk.NewSubmittedTask(x, x.Message), nil) {
				return
			}
			for range 2 {
				select {
				case <-e.steps:
				case <-ctx.Done():
					return
				}
				if !yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateWorking, nil), nil) {
					return
				}
			}
			yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCompleted, nil), nil)
		default:
			yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(text)), nil)
		}
	}
}

func (executor) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
	}
}

// nothing sends no notifications.
type nothing struct{}

func (nothing) SendPush(context.Context, *sdk.PushConfig, sdk.Event) error { return nil }

func message(text string) string {
	return `{"message":{"messageId":"m-` + text + `","role":"ROLE_USER","parts":[{"text":"` + text + `"}]}}`
}

// follow carries out an operation that streams; each event is sent on.
func (b *back) follow(operation, input string) (events chan string, ended chan error) {
	events, ended = make(chan string, 64), make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(b.t.Context(), patience)
		defer cancel()
		_, err := b.worker(operation).Run(ctx, taskFrom(alice, operation, input), func(_ string, payload []byte) error {
			events <- string(payload)
			return nil
		})
		close(events)
		ended <- err
	}()
	return events, ended
}

func TestAgentsOfTheSDKByEachBinding(t *testing.T) {
	for _, binding := range []Binding{JSONRPC, REST} {
		t.Run(string(binding), func(t *testing.T) { agentOfTheSDK(t, binding) })
	}
}

func agentOfTheSDK(t *testing.T, binding Binding) {
	e := executor{make(chan struct{}, 8)}
	handler := a2asrv.NewHandler(e,
		a2asrv.WithTaskStore(taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{
			Authenticator: func(context.Context) (string, error) { return "swpd", nil }, // all callers are one
		})),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), nothing{}),
		a2asrv.WithExtendedAgentCard(&sdk.AgentCard{Name: "extended", Capabilities: sdk.AgentCapabilities{ExtendedAgentCard: true}}),
	)
	served := a2asrv.NewJSONRPCHandler(handler)
	if binding == REST {
		served = a2asrv.NewRESTHandler(handler)
	}
	server := httptest.NewServer(served)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	b := newBack(t, BackOptions{URL: server.URL, Binding: binding})

	if _, output := b.mustRun(taskFrom(alice, a2abinding.SendMessage, message("hello"))); !strings.Contains(output, `"text":"hello"`) {
		t.Errorf("SendMessage: %s", output)
	}
	_, _, err := b.run(taskFrom(alice, a2abinding.SendMessage, message("needs an extension")))
	if f := failure(t, err); f.Code != a2abinding.CodeNeedsExtension || f.Message == "" {
		t.Errorf("without the extension: %s", octetsOf(err))
	}
	b.mustRun(taskFrom(alice, a2abinding.SendMessage, message("needs an extension"), "a2a-extensions="+needed))

	events, ended := b.follow(a2abinding.SendStreamingMessage, message("work"))
	var first struct{ Task struct{ ID string } }
	if err := json.Unmarshal([]byte(<-events), &first); err != nil || first.Task.ID == "" {
		t.Fatalf("the first event: %v", err)
	}
	id := `{"id":"` + first.Task.ID + `"}`
	about := func(more string) string { return `{"taskId":"` + first.Task.ID + `"` + more + `}` }
	again, endedAgain := b.follow(a2abinding.SubscribeToTask, id)
	<-again // the task as it is
	e.steps <- struct{}{}
	if event := <-events; !strings.Contains(event, "TASK_STATE_WORKING") {
		t.Errorf("a step: %s", event)
	}
	server.CloseClientConnections() // and both go on
	for _, list := range []chan string{events, again} {
		for event := range list {
			if strings.Contains(event, `"task":`) { // taken up
				break
			}
		}
	}
	e.steps <- struct{}{}
	for _, list := range []chan string{events, again} {
		last := ""
		for event := range list {
			last = event
		}
		if !strings.Contains(last, "TASK_STATE_COMPLETED") {
			t.Errorf("the last event: %s", last)
		}
	}
	for _, end := range []chan error{ended, endedAgain} {
		if err := <-end; err != nil {
			t.Errorf("%v %s", err, octetsOf(err))
		}
	}

	if _, output := b.mustRun(taskFrom(alice, a2abinding.GetTask, id)); !strings.Contains(output, "TASK_STATE_COMPLETED") {
		t.Errorf("GetTask: %s", output)
	}
	if _, _, err := b.run(taskFrom(alice, a2abinding.CancelTask, id)); failure(t, err).Code != a2abinding.CodeNotCancelable {
		t.Errorf("CancelTask: %v", err)
	}
	if _, output := b.mustRun(taskFrom(alice, a2abinding.CreatePushConfig, about(`,"id":"c","url":"http://127.0.0.1:1/x"`))); !strings.Contains(output, "127.0.0.1:1") {
		t.Errorf("CreateTaskPushNotificationConfig: %s", output)
	}
	for operation, input := range map[string]string{
		a2abinding.GetPushConfig: about(`,"id":"c"`), a2abinding.ListPushConfigs: about(""),
	} {
		if _, output := b.mustRun(taskFrom(alice, operation, input)); !strings.Contains(output, "127.0.0.1:1") {
			t.Errorf("%s: %s", operation, output)
		}
	}
	if _, output := b.mustRun(taskFrom(alice, a2abinding.DeletePushConfig, about(`,"id":"c"`))); output != "" {
		t.Errorf("DeleteTaskPushNotificationConfig: %q", output)
	}
	if _, output := b.mustRun(taskFrom(alice, a2abinding.GetExtendedAgentCard, `{}`)); !strings.Contains(output, `"extended"`) {
		t.Errorf("GetExtendedAgentCard: %s", output)
	}

	events, ended = b.follow(a2abinding.SendStreamingMessage, message("work"))
	if err := json.Unmarshal([]byte(<-events), &first); err != nil {
		t.Fatal(err)
	}
	if _, output := b.mustRun(taskFrom(alice, a2abinding.CancelTask, `{"id":"`+first.Task.ID+`"}`)); !strings.Contains(output, "TASK_STATE_CANCELED") {
		t.Errorf("CancelTask: %s", output)
	}
	for event := range events {
		if !strings.Contains(event, "TASK_STATE_CANCELED") {
			t.Errorf("after the end: %s", event)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("a stream whose task was cancelled: %v", err)
	}
	for caller, want := range map[string]bool{alice: true, bob: false} {
		if _, output := b.mustRun(taskFrom(caller, a2abinding.ListTasks, `{}`)); strings.Contains(output, first.Task.ID) != want {
			t.Errorf("ListTasks of %s: %s", caller, output)
		}
	}
}
