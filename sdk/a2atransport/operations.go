package a2atransport

import (
	"context"
	"fmt"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// SendMessage implements a2aclient.Transport.
func (t *Client) SendMessage(ctx context.Context, params a2aclient.ServiceParams, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	answer, err := ask[sdk.StreamResponse](ctx, t, a2abinding.SendMessage, params, req)
	if err != nil {
		return nil, err
	}
	result, ok := answer.Event.(sdk.SendMessageResult)
	if !ok {
		return nil, sdk.NewError(sdk.ErrInvalidAgentResponse, fmt.Sprintf("a2atransport: answer of %s: neither a message nor a task: %T", a2abinding.SendMessage, answer.Event))
	}
	return result, nil
}

// SendStreamingMessage implements a2aclient.Transport.
func (t *Client) SendStreamingMessage(ctx context.Context, params a2aclient.ServiceParams, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return t.stream(ctx, a2abinding.SendStreamingMessage, params, req)
}

// SubscribeToTask implements a2aclient.Transport.
func (t *Client) SubscribeToTask(ctx context.Context, params a2aclient.ServiceParams, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return t.stream(ctx, a2abinding.SubscribeToTask, params, req)
}

// GetTask implements a2aclient.Transport.
func (t *Client) GetTask(ctx context.Context, params a2aclient.ServiceParams, req *sdk.GetTaskRequest) (*sdk.Task, error) {
	return ask[sdk.Task](ctx, t, a2abinding.GetTask, params, req)
}

// ListTasks implements a2aclient.Transport.
func (t *Client) ListTasks(ctx context.Context, params a2aclient.ServiceParams, req *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	return ask[sdk.ListTasksResponse](ctx, t, a2abinding.ListTasks, params, req)
}

// CancelTask implements a2aclient.Transport.
func (t *Client) CancelTask(ctx context.Context, params a2aclient.ServiceParams, req *sdk.CancelTaskRequest) (*sdk.Task, error) {
	return ask[sdk.Task](ctx, t, a2abinding.CancelTask, params, req)
}

// CreateTaskPushConfig implements a2aclient.Transport.
func (t *Client) CreateTaskPushConfig(ctx context.Context, params a2aclient.ServiceParams, req *sdk.PushConfig) (*sdk.PushConfig, error) {
	return ask[sdk.PushConfig](ctx, t, a2abinding.CreatePushConfig, params, req)
}

// GetTaskPushConfig implements a2aclient.Transport.
func (t *Client) GetTaskPushConfig(ctx context.Context, params a2aclient.ServiceParams, req *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	return ask[sdk.PushConfig](ctx, t, a2abinding.GetPushConfig, params, req)
}

// ListTaskPushConfigs implements a2aclient.Transport.
func (t *Client) ListTaskPushConfigs(ctx context.Context, params a2aclient.ServiceParams, req *sdk.ListTaskPushConfigRequest) ([]*sdk.PushConfig, error) {
	answer, err := ask[sdk.ListTaskPushConfigResponse](ctx, t, a2abinding.ListPushConfigs, params, req)
	if err != nil {
		return nil, err
	}
	return answer.Configs, nil
}

// DeleteTaskPushConfig implements a2aclient.Transport.
func (t *Client) DeleteTaskPushConfig(ctx context.Context, params a2aclient.ServiceParams, req *sdk.DeleteTaskPushConfigRequest) error {
	_, err := t.do(ctx, a2abinding.DeletePushConfig, params, req, nil)
	return err
}

// GetExtendedAgentCard implements a2aclient.Transport.
func (t *Client) GetExtendedAgentCard(ctx context.Context, params a2aclient.ServiceParams, req *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	return ask[sdk.AgentCard](ctx, t, a2abinding.GetExtendedAgentCard, params, req)
}
