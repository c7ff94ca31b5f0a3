package a2atransport

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

// Kinds returns the kinds of all operations of A2A, for an a2a.Registration. The caller
// may keep it.
func Kinds() []string { return a2abinding.Kinds() }

// NewWorker returns a Worker that carries out the operations of A2A with a request handler
// of the SDK. Register it for Kinds. The handler gets the identity of the peer as the
// authenticated user of its call context, and the service parameters. It is safe for
// concurrent use if the handler is.
func NewWorker(handler a2asrv.RequestHandler) a2a.Worker {
	return a2a.WorkerFunc(func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		operation, ok := a2abinding.OfKind(t.Kind)
		if !ok {
			return nil, a2abinding.Fail(a2abinding.CodeUnknownMethod, "no operation of A2A "+a2abinding.Version).Result()
		}
		params := make(map[string][]string)
		for _, p := range t.Params {
			name, value, _ := strings.Cut(p, "=")
			params[name] = append(params[name], value)
		}
		if !speaks(params[a2abinding.ParamVersion]) {
			return nil, a2abinding.Fail(a2abinding.CodeVersion, "A2A-Version is not "+a2abinding.Version).Result()
		}
		ctx, call := a2asrv.NewCallContext(ctx, a2asrv.NewServiceParams(params))
		call.User = a2asrv.NewAuthenticatedUser(t.Peer, nil)
		output, err := serve[operation.Name](ctx, handler, t.Input, func(payload []byte) error { return event("", payload) })
		if err != nil {
			return nil, failureOf(err).Result()
		}
		return output, nil
	})
}

// speaks reports whether this side supports one of the requested versions. No version means
// 0.3.
func speaks(versions []string) bool {
	return len(versions) == 1 && (versions[0] == a2abinding.Version || strings.HasPrefix(versions[0], a2abinding.Version+"."))
}

// handled carries out one operation.
type handled func(ctx context.Context, h a2asrv.RequestHandler, input []byte, event func([]byte) error) ([]byte, error)

var serve = map[string]handled{
	a2abinding.SendMessage:          answering(sendMessage),
	a2abinding.SendStreamingMessage: streaming(a2asrv.RequestHandler.SendStreamingMessage),
	a2abinding.GetTask:              answering(a2asrv.RequestHandler.GetTask),
	a2abinding.ListTasks:            answering(a2asrv.RequestHandler.ListTasks),
	a2abinding.CancelTask:           answering(a2asrv.RequestHandler.CancelTask),
	a2abinding.SubscribeToTask:      streaming(a2asrv.RequestHandler.SubscribeToTask),
	a2abinding.CreatePushConfig:     answering(a2asrv.RequestHandler.CreateTaskPushConfig),
	a2abinding.GetPushConfig:        answering(a2asrv.RequestHandler.GetTaskPushConfig),
	a2abinding.ListPushConfigs:      answering(a2asrv.RequestHandler.ListTaskPushConfigs),
	a2abinding.DeletePushConfig:     deletePushConfig,
	a2abinding.GetExtendedAgentCard: answering(a2asrv.RequestHandler.GetExtendedAgentCard),
}

// sendMessage converts the answer to its wire form.
//
//nolint:revive // the arguments of a method expression
func sendMessage(h a2asrv.RequestHandler, ctx context.Context, req *sdk.SendMessageRequest) (*sdk.StreamResponse, error) {
	answer, err := h.SendMessage(ctx, req)
	if err != nil {
		return nil, err
	}
	return &sdk.StreamResponse{Event: answer}, nil
}

func deletePushConfig(ctx context.Context, h a2asrv.RequestHandler, input []byte, _ func([]byte) error) ([]byte, error) {
	req, err := decoded[sdk.DeleteTaskPushConfigRequest](input)
	if err != nil {
		return nil, err
	}
	return nil, h.DeleteTaskPushConfig(ctx, req)
}

// answering is an operation with one answer.
func answering[Q, A any](call func(a2asrv.RequestHandler, context.Context, *Q) (*A, error)) handled {
	return func(ctx context.Context, h a2asrv.RequestHandler, input []byte, _ func([]byte) error) ([]byte, error) {
		req, err := decoded[Q](input)
		if err != nil {
			return nil, err
		}
		answer, err := call(h, ctx, req)
		if err != nil {
			return nil, err
		}
		return json.Marshal(answer)
	}
}

// streaming is an operation with a stream of events.
func streaming[Q any](call func(a2asrv.RequestHandler, context.Context, *Q) iter.Seq2[sdk.Event, error]) handled {
	return func(ctx context.Context, h a2asrv.RequestHandler, input []byte, event func([]byte) error) ([]byte, error) {
		req, err := decoded[Q](input)
		if err != nil {
			return nil, err
		}
		for e, err := range call(h, ctx, req) {
			if err != nil {
				return nil, err
			}
			payload, err := json.Marshal(sdk.StreamResponse{Event: e})
			if err != nil {
				return nil, err
			}
			if err := event(payload); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// decoded reads a request.
func decoded[Q any](input []byte) (*Q, error) {
	req := new(Q)
	if err := json.Unmarshal(input, req); err != nil {
		return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, err.Error())
	}
	return req, nil
}
