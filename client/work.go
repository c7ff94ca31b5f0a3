package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
)

// WorkOptions configure Work. Agent, Registration and Store are required.
type WorkOptions struct {
	Agent        string           // agent_id to declare
	Registration a2a.Registration // the kinds of tasks and the worker for them
	Store        a2a.Store        // of its tasks; a store in memory forgets them at the end
	Card         []byte           // of the agent; nil: it has none

	// Declares is what the agent declares for the policy hints of others, see
	// policyhint.ParseDeclaration. May be empty: then it gets no task under a MUST.
	Declares string

	// Drain is how much time tasks have after the end of ctx. Default 30 s. Closing Abort
	// ends that time at once.
	Drain time.Duration
	Abort <-chan struct{}

	// Connected is called for each connection. Lost is called when one ended or could not
	// be made, with the pause before the next attempt. Draining is called once, with the
	// number of unfinished tasks. Each may be nil.
	Connected func(c *Client)
	Lost      func(err error, pause time.Duration)
	Draining  func(tasks int)

	// Report is a2a.Options.Report.
	Report func(error)
}

const (
	// cardAge is how long peers may cache the card of a worker.
	cardAge = time.Minute

	// answerTime is how long a worker waits for a sign of life.
	answerTime = 10 * time.Second

	// steady is the life of a connection after which the next pause is short.
	steady = 10 * time.Second

	// takenTime is how long a peer may take to list an agent before the agent counts as
	// refused.
	takenTime = time.Second

	// drainPeriod is how often a draining worker checks whether its tasks have ended.
	drainPeriod = 20 * time.Millisecond
)

// workerPauses are the pauses before a worker dials again.
var workerPauses = backoff.Exponential{First: pauses.First, Longest: 30 * time.Second}

var (
	errDrained = errors.New("client: all tasks have ended")

	// ErrTasksLeft is the error of Work if tasks had not ended in time.
	ErrTasksLeft = errors.New("client: stopped before all tasks had ended")
)

// Work carries out tasks as an agent of the peer that connect reaches, over as many
// connections as necessary. When ctx ends, it accepts no new tasks and waits for the
// unfinished ones. It fails at once if the first connection fails or the peer refuses the
// agent. A task continues when its connection ends.
func Work(ctx context.Context, connect func(context.Context, *all.Set) (*Client, error), o WorkOptions) error {
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	var cards agdisc.Options
	if o.Card != nil {
		table, err := agdisc.NewTable(agdisc.Card{AgentID: o.Agent, Payload: o.Card, MaxAge: cardAge})
		if err != nil {
			return err
		}
		cards.Sources = []agdisc.Source{table}
	}
	set, err := all.New(all.Options{AGDISC: cards, A2A: a2a.Options{
		Store: o.Store, Workers: []a2a.Registration{o.Registration}, Report: o.Report, Declares: o.Declares,
	}})
	if err != nil {
		return err
	}
	defer set.Close()
	kept := Keep(KeepOptions{
		Dial:    func(ctx context.Context) (*Client, error) { return connect(ctx, set) },
		Timeout: answerTime,
	})
	defer kept.Close()
	defer kept.Watch()()
	w := &work{o: o, set: set, kept: kept}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	first, err := w.dial(life)
	if err != nil {
		return err
	}
	var draining sync.WaitGroup
	defer draining.Wait()
	draining.Go(func() {
		select {
		case <-ctx.Done():
			end(w.drain())
		case <-life.Done():
		}
	})
	w.serve(life, first)
	if err := context.Cause(life); !errors.Is(err, errDrained) {
		return err
	}
	return nil
}

// work is the state of Work.
type work struct {
	o    WorkOptions
	set  *all.Set
	kept *Kept

	mu       sync.Mutex // held while an agent is declared, so that the last declaration stays
	current  *Client
	draining bool
}

// dial connects and declares the agent.
func (w *work) dial(ctx context.Context) (*Client, error) {
	c, err := w.kept.one(ctx, true)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.current = c
	err = w.declare(ctx)
	w.mu.Unlock()
	if err == nil {
		err = c.agentTaken(ctx, w.o.Agent)
	}
	if err != nil {
		err = c.Explain(err)
		c.Close()
		return nil, err
	}
	if w.o.Connected != nil {
		w.o.Connected(c)
	}
	return c, nil
}

// declare tells the peer which tasks it may send here. The caller holds mu.
func (w *work) declare(ctx context.Context) error {
	kinds := w.o.Registration.Kinds
	if w.draining {
		kinds = nil
	}
	return w.set.A2A.Declare(ctx, w.current.Session, w.o.Agent, kinds)
}

// agentTaken returns an error if the peer has refused a declared agent. A refused Handshake
// has no answer, but the list of agents marks those of the asker. A peer without that list,
// or without RPC, is assumed to have accepted.
func (c *Client) agentTaken(ctx context.Context, agent string) error {
	if c.mute.Load() {
		return c.Context().Err()
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	// On QUIC the list may overtake the Handshake.
	began := time.Now()
	for n := 0; ; n++ {
		own := false
		if _, err := c.Agents(ctx, func(e agdisc.Entry) bool {
			own = own || e.Own && e.AgentID == agent
			return e.AgentID < agent
		}); own || err != nil {
			return c.Context().Err()
		}
		if time.Since(began) > takenTime {
			return c.refusedAgent(agent)
		}
		if err := backoff.Wait(ctx, pauses.After(n)); err != nil {
			return err
		}
	}
}

// refusedAgent returns the error that ends a worker or a SLIPListener.
func (c *Client) refusedAgent(agent string) error {
	return &AnswerError{
		Text: fmt.Sprintf("this identity may not be agent %q there: access.agents and access.rules of the server decide, and whether another identity has that name", agent),
		Code: profiles.SecurityPolicy.String(), By: Author{Endpoint: c.Peer().Identity},
	}
}

// serve keeps a connection until life ends.
func (w *work) serve(life context.Context, c *Client) {
	r := backoff.Retry{Pauses: workerPauses, Lost: w.o.Lost}
	_ = r.Run(life, func() (again bool, err error) { // it runs until life ends
		if c == nil {
			if c, err = w.dial(life); err != nil {
				return true, err
			}
		}
		began := time.Now()
		select {
		case <-c.Context().Done():
		case <-life.Done():
			if errors.Is(context.Cause(life), errDrained) {
				c.Finish() // the last Results may be in flight
			} else {
				c.Close()
			}
			return false, nil
		}
		if time.Since(began) > steady {
			r.Moved()
		}
		err = c.Explain(context.Cause(c.Context()))
		c.Close()
		c = nil
		return true, err
	})
}

// drain accepts no new tasks and waits for the unfinished ones. The error is errDrained if
// all have ended.
func (w *work) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), w.o.Drain)
	defer cancel()
	w.mu.Lock()
	w.draining = true
	// If this fails, the connection is lost; on the next one no agent is declared.
	_ = w.declare(ctx)
	w.mu.Unlock()
	if w.o.Draining != nil {
		w.o.Draining(w.set.A2A.Live())
	}
	tick := time.NewTicker(drainPeriod)
	defer tick.Stop()
	for w.set.A2A.Live() > 0 {
		select {
		case <-tick.C:
		case <-w.o.Abort:
			return ErrTasksLeft
		case <-ctx.Done():
			return ErrTasksLeft
		}
	}
	return errDrained
}
