package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// CheckAgent makes sure that the peer honours the name of an agent: one that
// ignores it could give the task to another agent.
func (c *Client) CheckAgent(ctx context.Context, agent string) error {
	if agent == "" {
		return nil
	}
	honoured, err := c.honours(ctx, a2a.ProfileID, a2a.ExtAgent)
	if err == nil && !honoured {
		err = &finalError{fmt.Errorf("%s does not say that it tells agents apart, so a task for %q could reach another one; leave the agent out", c.address, agent)}
	}
	return err
}

// A2A is both ends of profile 2 on this connection.
func (c *Client) A2A() *a2a.Service { return c.set.A2A }

// Dialer reconnects. Its errors are those of Dial.
type Dialer func(ctx context.Context) (*Client, error)

// FollowOptions say which task is followed, and how. Task and Event are required.
type FollowOptions struct {
	Task  *a2a.Task // as it is sent
	Agent string    // that it is meant for; empty leaves the choice to the peer

	// Resume says that the task may have been sent before: it goes on after the
	// Event of a number, and the first connection, too, may take Patience.
	Resume bool
	After  uint64

	// Patience is how long the peer may be gone. Default 10 s.
	Patience time.Duration

	// Sent is called when the task has gone out for the first time, so that the
	// peer may have accepted it even if Follow fails. It may be nil.
	Sent func()

	// Event gets each Event, in order, once. An error ends the following, and is
	// its error.
	Event func(*a2a.Event) error

	// Lost is told of each connection that ended too early, and how long it is
	// until the next one is tried. It may be nil.
	Lost func(err error, pause time.Duration)
}

// TaskResult is how a task that was followed has ended.
type TaskResult struct {
	a2a.Result

	// Refused is the code by which an endpoint refused the task, OK if its agent ended
	// it, and By the endpoint.
	Refused profiles.Code
	By      Author
}

// Follow sends a task and stays with it over as many connections as it takes,
// until its Result. The task goes on at the peer even if Follow fails.
func Follow(ctx context.Context, dial Dialer, o FollowOptions) (*TaskResult, error) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	kept := Keep(KeepOptions{Dial: dial, Timeout: o.Patience})
	defer kept.Close()
	defer kept.Watch()()
	f := follower{o: o, kept: kept, resume: o.Resume, after: o.After}
	r := reconnecting{pauses: pauses, patience: o.Patience, lost: o.Lost}
	var result *TaskResult
	err := r.run(ctx, func() (again bool, err error) {
		began := time.Now()
		f.heard = false
		result, err = f.once(ctx)
		if f.heard || time.Since(began) > o.Patience {
			r.moved()
		}
		return f.resume && mayPass(err, nil), err
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
	resume bool   // it may have been sent
	after  uint64 // number of the last Event that was handed over
	heard  bool   // something came on this connection
	taken  bool   // the peer has acknowledged the task
}

// once follows the task over one connection.
func (f *follower) once(ctx context.Context) (*TaskResult, error) {
	c, err := f.kept.one(ctx)
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
		f.heard, f.taken, unheard = true, true, ctx
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
		t.Refused, t.By = code, authorOf(c.Session.Peer().Identity, r.Endpoint, f.o.Agent)
	}
	return t
}

var errUnacknowledged = errors.New("client: the peer does not say that it has taken the task in; it may have refused it, for which A2A has no answer")

// acknowledged returns a context for the first answer. A task is acknowledged by
// an Event or its Result, within a second of being stored; but those of A2A 1.0
// may be silent.
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
