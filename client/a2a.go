package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// CheckAgent returns an error if the peer ignores the name of an agent: such a peer could
// give the task to another agent.
func (c *Client) CheckAgent(ctx context.Context, agent string) error {
	if agent == "" {
		return nil
	}
	honoured, err := c.honours(ctx, a2a.ProfileID, a2a.ExtAgent)
	if err == nil && !honoured {
		err = &finalError{fmt.Errorf("%s does not support names of agents, so a task for %q could reach another agent; leave the agent out", c.address, agent)}
	}
	return err
}

// A2A returns both ends of profile 2 on this connection.
func (c *Client) A2A() *a2a.Service { return c.set.A2A }

// Dialer makes a connection. Its errors are those of Dial.
type Dialer func(ctx context.Context) (*Client, error)

// FollowOptions say which task is followed, and how. Task and Event are required.
type FollowOptions struct {
	Task  *a2a.Task // the task to send
	Agent string    // the agent for the task; empty leaves the choice to the peer

	// Resume says that the task may have been sent before. Following then continues after
	// the Event with number After, and the first connection may take Patience, too.
	Resume bool
	After  uint64

	// Patience is how long the peer may be unreachable. Default 10 s.
	Patience time.Duration

	// Sent is called after the task has been sent for the first time: the peer may then
	// have accepted it, even if Follow fails. It may be nil.
	Sent func()

	// Event is called once for each Event, in order. If it returns an error, Follow ends
	// with that error.
	Event func(*a2a.Event) error

	// Lost is called for each connection that ended too early, with the pause before the
	// next attempt. It may be nil.
	Lost func(err error, pause time.Duration)
}

// TaskResult says how a followed task has ended.
type TaskResult struct {
	a2a.Result

	// Refused is the code with which an endpoint refused the task, and By that endpoint.
	// Refused is OK if the agent ended the task.
	Refused profiles.Code
	By      Author
}

// Follow sends a task and receives its Events until its Result, over as many connections as
// necessary. If Follow fails, the task continues at the peer.
func Follow(ctx context.Context, dial Dialer, o FollowOptions) (*TaskResult, error) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	kept := Keep(KeepOptions{Dial: dial, Timeout: o.Patience})
	defer kept.Close()
	defer kept.Watch()()
	f := follower{o: o, kept: kept, resume: o.Resume, met: o.Resume, after: o.After}
	r := backoff.Retry{Pauses: pauses, Patience: o.Patience, Lost: o.Lost}
	var result *TaskResult
	err := r.Run(ctx, func() (again bool, err error) {
		began := time.Now()
		f.heard = false
		result, err = f.once(ctx)
		if f.heard || time.Since(began) > o.Patience {
			r.Moved()
		}
		return f.resume && mayPass(err, nil) && (f.met || !refusedSide(err)), err
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}

// follower is the state of Follow.
type follower struct {
	o      FollowOptions
	kept   *Kept
	resume bool   // the task may have been sent before
	after  uint64 // number of the last Event that was handed over
	heard  bool   // a message arrived on this connection
	met    bool   // a message arrived on any connection
	taken  bool   // the peer has acknowledged the task
}

// once follows the task over one connection.
func (f *follower) once(ctx context.Context) (*TaskResult, error) {
	c, err := f.kept.one(ctx, f.o.Agent != "")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := f.checkAgent(ctx, c); err != nil {
		return nil, err
	}
	d, err := c.A2A().Send(ctx, c.Session, f.o.Task, a2a.SendOptions{Agent: f.o.Agent, Resume: f.resume, After: f.after})
	if err != nil {
		return nil, c.Explain(err)
	}
	defer d.Close()
	if !f.resume && f.o.Sent != nil {
		f.o.Sent()
	}
	f.resume = true
	unheard, cancel := f.acknowledged(ctx)
	defer cancel()
	for {
		event, err := d.Recv(unheard)
		switch {
		case unheard.Err() != nil && ctx.Err() == nil:
			return nil, &finalError{context.Cause(unheard)}
		case errors.Is(err, io.EOF):
			return f.ended(c, d.Result()), nil
		case err != nil:
			return nil, c.Explain(err)
		}
		f.heard, f.met, f.taken, unheard = true, true, true, ctx
		if err := f.o.Event(event); err != nil {
			return nil, &finalError{err}
		}
		if event.Seq > 0 {
			f.after = event.Seq
		}
	}
}

func (f *follower) ended(c *Client, r *a2a.Result) *TaskResult {
	t := &TaskResult{Result: *r}
	if code, refused := a2a.RefusalCode(r.Reason); refused && !r.OK && r.Endpoint != "" {
		t.Refused, t.By = code, c.author(r.Endpoint, f.about())
	}
	return t
}

// about returns the name of the agent, with the kind if the agent may be a partner alone.
func (f *follower) about() string {
	if strings.Contains(f.o.Agent, "/") {
		return f.o.Agent
	}
	return strings.TrimPrefix(f.o.Agent+"/"+f.o.Task.Kind, "/")
}

var errUnacknowledged = errors.New("client: the peer has not acknowledged the task; it may have refused it, for which A2A has no answer")

// acknowledged returns a context for the first answer. An Event or the Result acknowledges
// a task, within a second after the task was stored. Tasks of A2A 1.0 may have no early
// answer, so they have no such limit.
func (f *follower) acknowledged(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.taken || f.after > 0 || strings.HasPrefix(f.o.Task.Kind, "a2a/1.0/") {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, f.o.Patience, errUnacknowledged)
}

func (f *follower) checkAgent(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithTimeout(ctx, f.o.Patience)
	defer cancel()
	return c.CheckAgent(ctx, f.o.Agent)
}
