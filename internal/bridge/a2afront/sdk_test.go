package a2afront_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/profiles/a2a"
)

const sdkCard = `{"name":"weather","description":"d","version":"1","capabilities":{"streaming":true,"pushNotifications":true,"extendedAgentCard":true},` +
	`"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[],` +
	`"supportedInterfaces":[{"url":"https://nowhere.invalid","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`

// scripted is an agent with one task, t-1.
func scripted(_ context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	const task = `{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_WORKING"}}`
	input := string(t.Input)
	o, _ := a2abinding.OfKind(t.Kind)
	switch o.Name {
	case a2abinding.SendMessage:
		return []byte(`{"message":{"messageId":"m-2","role":"ROLE_AGENT","parts":[{"text":"sunny"}]}}`), nil
	case a2abinding.SendStreamingMessage, a2abinding.SubscribeToTask:
		for _, octets := range []string{
			`{"task":` + task + `}`,
			`{"artifactUpdate":{"taskId":"t-1","contextId":"c-1","artifact":{"artifactId":"a-1","parts":[{"text":"sunny"}]}}}`,
			`{"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"}}}`,
		} {
			if err := event("", []byte(octets)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case a2abinding.ListTasks:
		return []byte(`{"tasks":[` + task + `],"totalSize":1,"pageSize":50,"nextPageToken":""}`), nil
	case a2abinding.CreatePushConfig, a2abinding.GetPushConfig:
		return []byte(`{"taskId":"t-1","id":"p-1","url":"https://x.example/"}`), nil
	case a2abinding.ListPushConfigs:
		return []byte(`{"configs":[{"taskId":"t-1","id":"p-1","url":"https://x.example/"}]}`), nil
	case a2abinding.DeletePushConfig:
		return nil, nil
	case a2abinding.GetExtendedAgentCard:
		return []byte(strings.Replace(sdkCard, `"name":"weather"`, `"name":"extended"`, 1)), nil
	}
	if !strings.Contains(input, `"t-1"`) {
		return nil, a2abinding.Fail(a2abinding.CodeTaskNotFound, "task not found").Result()
	}
	return []byte(task), nil
}

// TestTheClientOfTheSDKNeedsNothingElse has the official client find the card and do
// all eleven operations, by both bindings.
func TestTheClientOfTheSDKNeedsNothingElse(t *testing.T) {
	b := newBench(t, sdkCard, a2a.Options{}, a2afront.Options{}, scripted)
	ctx := t.Context()
	card, err := agentcard.NewResolver(http.DefaultClient).Resolve(ctx, b.server.URL+"/a2a/weather")
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON} {
		t.Run(string(binding), func(t *testing.T) {
			c, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []sdk.TransportProtocol{binding}}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Destroy() }()
			message := &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("weather?"))}
			said, err := c.SendMessage(ctx, message)
			if m, ok := said.(*sdk.Message); err != nil || !ok || m.ID != "m-2" {
				t.Errorf("SendMessage: %v, %v", said, err)
			}
			var got []string
			for event, err := range c.SendStreamingMessage(ctx, message) {
				got = append(got, kindOf(event, err))
			}
			for event, err := range c.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: "t-1"}) {
				got = append(got, kindOf(event, err))
			}
			if diff := cmp.Diff([]string{"task", "artifact", "status", "task", "artifact", "status"}, got); diff != "" {
				t.Error(diff)
			}
			if task, err := c.GetTask(ctx, &sdk.GetTaskRequest{ID: "t-1"}); err != nil || task.ID != "t-1" {
				t.Errorf("GetTask: %v, %v", task, err)
			}
			if task, err := c.CancelTask(ctx, &sdk.CancelTaskRequest{ID: "t-1"}); err != nil || task.ID != "t-1" {
				t.Errorf("CancelTask: %v, %v", task, err)
			}
			if _, err := c.GetTask(ctx, &sdk.GetTaskRequest{ID: "t-2"}); !errors.Is(err, sdk.ErrTaskNotFound) {
				t.Errorf("GetTask of an unknown one: %v", err)
			}
			if list, err := c.ListTasks(ctx, &sdk.ListTasksRequest{PageSize: 50}); err != nil || len(list.Tasks) != 1 {
				t.Errorf("ListTasks: %v, %v", list, err)
			}
			if p, err := c.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: "t-1", URL: "https://x.example/"}); err != nil || p.ID != "p-1" {
				t.Errorf("CreateTaskPushConfig: %v, %v", p, err)
			}
			if p, err := c.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: "t-1", ID: "p-1"}); err != nil || p.ID != "p-1" {
				t.Errorf("GetTaskPushConfig: %v, %v", p, err)
			}
			if list, err := c.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: "t-1"}); err != nil || len(list) != 1 {
				t.Errorf("ListTaskPushConfigs: %v, %v", list, err)
			}
			if err := c.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: "t-1", ID: "p-1"}); err != nil {
				t.Errorf("DeleteTaskPushConfig: %v", err)
			}
			if card, err := c.GetExtendedAgentCard(ctx, &sdk.GetExtendedAgentCardRequest{}); err != nil || card.Name != "extended" {
				t.Errorf("GetExtendedAgentCard: %v, %v", card, err)
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

func kindOf(event sdk.Event, err error) string {
	switch event.(type) {
	case *sdk.Task:
		return "task"
	case *sdk.TaskArtifactUpdateEvent:
		return "artifact"
	case *sdk.TaskStatusUpdateEvent:
		return "status"
	}
	return err.Error()
}
