package part

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Passage is a way in memory: sessions over pipes between two endpoints of this process.
type Passage struct {
	near *endpoint.Endpoint // of those who come
	far  *endpoint.Endpoint
}

// NewPassage makes a way between two endpoints with these options.
func NewPassage(near, far endpoint.Options) (*Passage, error) {
	inner, err := endpoint.New(far)
	if err != nil {
		return nil, err
	}
	near.Observer = endpoint.Discard // the other end tells
	outer, err := endpoint.New(near)
	if err != nil {
		return nil, err // nothing runs in the other one yet
	}
	return &Passage{near: outer, far: inner}, nil
}

// Pass opens a pipe, and has opened look at its far end before anything is said.
func (p *Passage) Pass(from, to string, opened func(transport.Conn)) (near, far *endpoint.Session) {
	a, b := transport.NewPipe(transport.PipeOptions{A: from, B: to})
	opened(b)
	far = p.far.Attach(b)
	return p.near.Attach(a), far
}

// End ends all sessions. Nobody is let in any more.
func (p *Passage) End() {
	if p != nil {
		_ = p.near.Close()
		_ = p.far.Close()
	}
}

// Door is the way to this endpoint for those who act inside this process: callers over
// HTTP, teams, and A2A-SDL for a peer. Each has sessions of its own over pipes, so that
// rules, limits, hints, the audit trail and the metrics see it as they see every peer. A
// nil Door lets nobody in and has nothing to end.
type Door struct {
	to      DoorOptions
	passage *Passage    // nil until the door is open
	set     *all.Set    // profiles of the near ends
	pipes   Connections // this endpoint's ends
	most    int         // exchanges under way over a pipe
}

// DoorOptions say where doors lead to.
type DoorOptions struct {
	Version string        // of the program
	Self    func() string // identity of this endpoint

	// Endpoints makes the options of the far ends.
	Endpoints interface {
		Options(errorFrames bool) endpoint.Options
	}

	// Keeper says who is let in.
	Keeper interface {
		// Deny says why an identity is not let in; nil if it is.
		Deny(identity string) error

		// HangUp closes a connection whose peer is not let in any more.
		HangUp(conn transport.Conn, why error)
	}
}

// A pipe is never idle: what is open over it would end with it. What costs a peer its
// connection must not cost the other programs of a caller theirs.
const (
	pipeIdle   = 365 * 24 * time.Hour
	pipeBudget = 1_000_000 // refusals a minute
)

var errNotServing = errors.New("daemon: not serving yet")

// NewDoor makes a door that is closed still. near configures the profiles of the near ends.
func NewDoor(to DoorOptions, near all.Options) (*Door, error) {
	near.Version = to.Version
	set, err := all.New(near)
	if err != nil {
		return nil, err
	}
	return &Door{to: to, set: set}, nil
}

// Profiles are those of the near ends.
func (d *Door) Profiles() *all.Set { return d.set }

// Open lets in those who come from now on, each with at most so many exchanges under way
// over a pipe. The profiles of this endpoint are there. No partner is looked for behind
// a pipe, whosever identity it has.
func (d *Door) Open(exchanges int) error {
	d.most = exchanges
	far := d.bounded(d.to.Endpoints.Options(false))
	far.InFlightOf = nil
	var err error
	d.passage, err = NewPassage(endpoint.Options{
		Registry: d.set.Registry, Tracer: endpoint.ContextFunc(d.set.Carriers.Attach),
		FrameLimit: far.FrameLimit, Envelope: far.Envelope, Bounds: far.Bounds,
	}, far)
	return err
}

// bounded returns options with the bounds of a pipe.
func (d *Door) bounded(o endpoint.Options) endpoint.Options {
	b := &o.Bounds
	b.InFlight, b.LongExchanges = d.most, d.most
	b.Idle, b.LongIdle, b.ErrorBudget, b.PaceBudget = pipeIdle, pipeIdle, pipeBudget, pipeBudget
	return o
}

// setLimits has pipes that come from now on be bound by other limits.
func (d *Door) setLimits(o endpoint.Options) error {
	if d == nil || d.passage == nil {
		return nil
	}
	o = d.bounded(o)
	near := endpoint.Options{FrameLimit: o.FrameLimit, Envelope: o.Envelope, Bounds: o.Bounds}
	return errors.Join(d.passage.far.SetLimits(o), d.passage.near.SetLimits(near))
}

// Pass opens a pipe for an identity, unless the rules deny it, and returns the session at
// its near end.
func (d *Door) Pass(identity string) (*endpoint.Session, error) {
	if d.passage == nil {
		return nil, errNotServing
	}
	if err := d.to.Keeper.Deny(identity); err != nil {
		return nil, err
	}
	s, _ := d.passage.Pass(identity, d.to.Self(), d.pipes.Add)
	return s, nil
}

// Recheck closes the pipes of those who are not let in any more: the rules deny them, or
// gone says why. A nil gone says nothing of anybody.
func (d *Door) Recheck(gone func(identity string) error) (kept, closed int) {
	if d == nil {
		return 0, 0
	}
	for _, conn := range d.pipes.List() {
		identity := conn.Peer().Identity
		why := d.to.Keeper.Deny(identity)
		if why == nil && gone != nil {
			why = gone(identity)
		}
		if why == nil {
			kept++
			continue
		}
		d.to.Keeper.HangUp(conn, why)
		closed++
	}
	return kept, closed
}

// Shutdown ends the near ends in order.
func (d *Door) Shutdown(ctx context.Context) error { return d.passage.near.Shutdown(ctx) }

// End ends all sessions. Nobody is let in any more.
func (d *Door) End() {
	if d != nil {
		d.passage.End()
	}
}

// Close gives back the rest, once nobody uses the profiles of the near ends.
func (d *Door) Close() {
	if d != nil {
		d.set.Close()
	}
}
