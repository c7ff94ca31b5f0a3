package a2atransport

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// Protocol is the binding, for a2aclient.WithTransport and for the card of an agent.
const Protocol = sdk.TransportProtocol(a2abinding.URI)

// Client is a transport for the SDK's client, which reaches an agent behind a peer. A
// stream continues over as many sessions as necessary: missed events are sent again, in
// order, each once. It is safe for concurrent use.
type Client struct {
	// Peer is the endpoint in front of the agent, such as a *client.Kept.
	Peer Peer

	// Agent is the agent_id; empty leaves the choice to the peer. A name needs a peer whose
	// swp.info says that it supports names of agents.
	Agent string

	// Patience is how long the peer may be unreachable during an operation. Default 10 s.
	Patience time.Duration
}

// Peer is the endpoint in front of agents. It is safe for concurrent use.
type Peer interface {
	// Tasks returns the connection to the endpoint, the same one as long as it works, and
	// the profile that sends tasks over it. It is called for each operation, and again if
	// its connection ends too early. It fails if the endpoint does not support names of
	// agents and agent is not empty.
	Tasks(ctx context.Context, agent string) (profiles.Session, *a2a.Service, error)
}

// PeerFunc is a function as a Peer.
type PeerFunc func(ctx context.Context, agent string) (profiles.Session, *a2a.Service, error)

// Tasks implements Peer.
func (f PeerFunc) Tasks(ctx context.Context, agent string) (profiles.Session, *a2a.Service, error) {
	return f(ctx, agent)
}

var _ a2aclient.Transport = (*Client)(nil)

// Factory makes a Client for an interface of a card, whose URL is the address of the peer.
// It is for a2aclient.WithTransport(Protocol, …).
type Factory func(ctx context.Context, at *sdk.AgentInterface) (*Client, error)

// Create implements a2aclient.TransportFactory.
func (f Factory) Create(ctx context.Context, _ *sdk.AgentCard, at *sdk.AgentInterface) (a2aclient.Transport, error) {
	return f(ctx, at)
}

// Destroy implements a2aclient.Transport. It does not close the session.
func (t *Client) Destroy() error { return nil }

// left is the reason in the Result by which a client ends a delivery. The agent's task
// continues.
const left = "closed"

// leaveTime bounds how long that Result may take.
const leaveTime = 5 * time.Second

// do carries out an operation. For streams, event is called with each StreamResponse.
func (t *Client) do(ctx context.Context, name string, params a2aclient.ServiceParams, request any, event func([]byte) error) ([]byte, error) {
	input, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("a2atransport: %w", err)
	}
	operation, ok := a2abinding.Named(name)
	if !ok {
		return nil, fmt.Errorf("a2atransport: no operation %q", name)
	}
	task := &a2a.Task{ID: make([]byte, 16), Kind: operation.Kind(), Input: input, Params: paramsOf(params)}
	_, _ = rand.Read(task.ID) // never fails: it ends the program instead
	if deadline, ok := ctx.Deadline(); ok {
		task.Deadline = deadline
	}
	o := a2a.SendOptions{Agent: t.Agent}
	var result *a2a.Result
	retry := backoff.Retry{Pauses: pauses, Patience: cmp.Or(t.Patience, 10*time.Second)}
	err = retry.Run(ctx, func() (again bool, err error) {
		var moved bool
		if result, moved, err = t.once(ctx, task, &o, event); moved {
			retry.Moved()
		}
		return errors.As(err, new(*lostError)), err
	})
	switch {
	case err == nil && result.OK:
		return result.Output, nil
	case err == nil:
		f, _ := a2abinding.OfResult(result)
		return nil, errorOf(f)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, new(*lostError)):
		return nil, errorOf(a2abinding.Own(a2abinding.LinkLost, err.Error()))
	}
	return nil, err
}

var pauses = backoff.Exponential{First: 50 * time.Millisecond, Longest: 2 * time.Second}

// lostError is a failure that a new session may avoid.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	return "a2atransport: the connection to the peer: " + e.cause.Error()
}
func (e *lostError) Unwrap() error { return e.cause }

// once is the part of an operation on one session. It reports whether any answer arrived.
func (t *Client) once(ctx context.Context, task *a2a.Task, o *a2a.SendOptions, event func([]byte) error) (r *a2a.Result, moved bool, err error) {
	session, tasks, err := t.Peer.Tasks(ctx, t.Agent)
	if err != nil {
		if o.Resume {
			err = &lostError{err}
		}
		return nil, false, err
	}
	lost := func(err error) error {
		if ended(session, err) {
			return &lostError{err}
		}
		return err
	}
	d, err := tasks.Send(ctx, session, task, *o)
	if err != nil {
		return nil, false, lost(err)
	}
	defer d.Close()
	o.Resume = true
	for {
		e, err := d.Recv(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return d.Result(), true, nil
		case ctx.Err() != nil:
			leave(session, d)
			return nil, moved, err
		case err != nil:
			return nil, moved, lost(err)
		case e.FirstHeld != 0 || event == nil:
			leave(session, d)
			return nil, moved, errorOf(a2abinding.Own(a2abinding.LinkLost, "events are missing, or came where none belong"))
		}
		moved, o.After = true, e.Seq
		if err := event(e.Payload); err != nil {
			leave(session, d)
			return nil, moved, err
		}
	}
}

// endTime is how long after the failure of an operation the end of its session may be
// detected.
const endTime = time.Second

// ended reports whether an operation failed because its session has ended or ends within
// endTime.
func ended(session profiles.Session, err error) bool {
	if errors.As(err, new(*profiles.Error)) {
		return session.Context().Err() != nil
	}
	select {
	case <-session.Context().Done():
		return true
	case <-time.After(endTime):
		return false
	}
}

// leave tells the peer that the caller has stopped listening.
func leave(session profiles.Session, d *a2a.Delivery) {
	ctx, cancel := context.WithTimeout(session.Context(), leaveTime)
	defer cancel()
	_ = d.Cancel(ctx, left) // if it fails, the peer notices at its next message
}

// paramsOf writes service parameters as the task carries them.
func paramsOf(params a2aclient.ServiceParams) []string {
	var list []string
	for name, values := range params {
		for _, value := range values {
			list = append(list, strings.ToLower(name)+"="+value)
		}
	}
	slices.Sort(list)
	return list
}

// ask is an operation with one answer of type A.
func ask[A any](ctx context.Context, t *Client, name string, params a2aclient.ServiceParams, request any) (*A, error) {
	output, err := t.do(ctx, name, params, request, nil)
	if err != nil {
		return nil, err
	}
	answer := new(A)
	if err := json.Unmarshal(output, answer); err != nil {
		return nil, sdk.NewError(sdk.ErrInvalidAgentResponse, fmt.Sprintf("a2atransport: answer of %s: %v", name, err))
	}
	return answer, nil
}

// errStopped ends a stream whose reader has stopped.
var errStopped = errors.New("a2atransport: the reader has stopped")

// stream is an operation with a stream of events.
func (t *Client) stream(ctx context.Context, name string, params a2aclient.ServiceParams, request any) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		_, err := t.do(ctx, name, params, request, func(payload []byte) error {
			var response sdk.StreamResponse
			if err := json.Unmarshal(payload, &response); err != nil {
				return sdk.NewError(sdk.ErrInvalidAgentResponse, fmt.Sprintf("a2atransport: event of %s: %v", name, err))
			}
			if !yield(response.Event, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}
