package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/sdl"
)

// SDLListener receives events of A2A-SDL as an agent of an endpoint, over as many connections
// as necessary: those that come while it is connected, and those that the relay has stored.
// Connect, Agent and Heard are required.
type SDLListener struct {
	// Connect makes a connection with profiles. It is called again after each loss.
	Connect func(ctx context.Context, set *all.Set) (*Client, error)
	Agent   string   // agent_id to declare
	To      string   // agent_id of the endpoint, which is asked in its place without SWP
	Trust   SDLTrust // in the events

	// Heard is called with each event for the agent, in clear, one at a time. An event may
	// come more than once. If it returns an error, Listen ends with that error.
	Heard func(*sdl.Envelope) error

	// Ignored is called for an event for another agent, or that is not believed. NoRelay is
	// called with the reason if the endpoint does not let this side read the relay, and Refused
	// if it has refused the envelope by which the agent is declared without SWP. All may be nil.
	Ignored, NoRelay, Refused func(error)

	Count uint64 // events until Listen ends; 0 means no limit

	// Silence is how long the endpoint may take to answer a request for a sign of life;
	// default 10 s.
	Silence time.Duration

	// Attached is called when the endpoint has accepted the agent. Lost is called with the
	// reason why a connection ended and the pause before the next attempt. Both may be nil.
	Attached func(c *Client)
	Lost     func(err error, pause time.Duration)
}

// Listen receives events until ctx ends or Count is reached. Neither is an error.
func (l SDLListener) Listen(ctx context.Context) error {
	l.Silence = cmp.Or(l.Silence, 10*time.Second)
	if l.Ignored == nil {
		l.Ignored = func(error) {}
	}
	life, stop := context.WithCancel(ctx)
	defer stop()
	w := &listener{SDLListener: l, came: make(chan arrival), leave: stop}
	set, err := NewSDL(SDLOptions{Heard: func(e *sdl.Envelope) { w.offer(life, arrival{e, func(bool) {}}) }})
	if err != nil {
		return err
	}
	defer set.Close()
	defer stop() // before set.Close, which waits for events that nobody takes
	w.set = set
	connect := func(ctx context.Context) (*Client, error) { return l.Connect(ctx, set) }
	err = again{connect: connect, silence: l.Silence, lost: l.Lost}.run(life, w.run)
	switch final, ok := errors.AsType[*finalError](err); {
	case ok:
		return final.error
	case ctx.Err() != nil || w.enough():
		return nil
	}
	return err
}

// listener is the state of Listen.
type listener struct {
	SDLListener
	set   *all.Set
	came  chan arrival
	leave context.CancelFunc
	n     uint64
}

func (w *listener) enough() bool { return w.Count > 0 && w.n >= w.Count }

func (w *listener) offer(ctx context.Context, a arrival) {
	select {
	case w.came <- a:
	case <-ctx.Done():
	}
}

// run listens over one connection.
func (w *listener) run(ctx context.Context, c *Client, moved func()) error {
	end, err := w.declare(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	moved()
	if w.Attached != nil {
		w.Attached(c)
	}
	for !w.enough() {
		select {
		case a := <-w.came:
			ours, err := w.hear(a.e)
			a.took(ours)
			if err != nil {
				return &finalError{err}
			}
		case <-c.Context().Done():
			return c.cause()
		case <-ctx.Done():
			return nil
		}
	}
	w.leave() // nobody takes events from here on
	return nil
}

// declare has the endpoint send the events for the agent, also stored ones, until end is called.
func (w *listener) declare(ctx context.Context, c *Client) (end func(), err error) {
	end = func() {}
	if c.way != nil {
		asking, cancel := context.WithTimeout(ctx, w.Silence)
		defer cancel()
		refused, err := c.appear(asking, w.Agent, w.To)
		if refused != nil && w.Refused != nil {
			w.Refused(refused)
		}
		return end, err
	}
	if err := w.set.A2A.Declare(ctx, c.Session, w.Agent, nil); err != nil {
		return end, err
	}
	if err := c.agentTaken(ctx, w.Agent); err != nil {
		return end, err
	}
	stored, err := c.storedSDL(ctx, w.Agent, w.Silence, w.offer, func(error) {})
	switch {
	case err == nil:
		return stored, nil
	case !said(err):
		return end, err
	case w.NoRelay != nil:
		w.NoRelay(err)
	}
	return end, nil
}

// hear passes on an event, and reports whether it is for this agent.
func (w *listener) hear(e *sdl.Envelope) (ours bool, err error) {
	if e.To.AgentID != w.Agent {
		w.Ignored(fmt.Errorf("client: event for %.100q, want %q", e.To.AgentID, w.Agent))
		return false, nil
	}
	opened, err := w.Trust.open(e)
	if err != nil {
		w.Ignored(err)
		return false, nil
	}
	w.n++
	return true, w.Heard(opened)
}
