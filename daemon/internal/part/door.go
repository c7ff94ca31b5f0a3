package part

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Passage connects two endpoints of this process by sessions over pipes.
type Passage struct {
	near *endpoint.Endpoint // of the callers
	far  *endpoint.Endpoint

	offers, asks profiles.Offer // what the far and the near ends serve
}

// paid is a budget that is never spent.
const paid = 1 << 50

// NewPassage makes a Passage between two endpoints with these options, but Memory. What passes is paid
// for by its sender, who holds it until it is answered: a second payment from the same budget would
// wait for the first. The bounds of each connection remain.
func NewPassage(near, far endpoint.Options) (*Passage, error) {
	near.Memory = memory.New(paid)
	far.Memory = near.Memory
	inner, err := endpoint.New(far)
	if err != nil {
		return nil, err
	}
	near.Observer = endpoint.Discard // the far end reports the same events
	outer, err := endpoint.New(near)
	if err != nil {
		return nil, err // the near endpoint has no sessions yet
	}
	return &Passage{near: outer, far: inner, offers: far.Registry.Offer(), asks: near.Registry.Offer()}, nil
}

// Pass opens a pipe. It calls opened with the far end before any message.
func (p *Passage) Pass(from, to string, opened func(transport.Conn)) (near, far *endpoint.Session) {
	a, b := transport.NewPipe(transport.PipeOptions{A: from, B: to})
	opened(b)
	near, far = p.near.AttachFor(a, from), p.far.Attach(b)
	near.Known().Learn(p.offers)
	far.Known().Learn(p.asks)
	return near, far
}

// End ends all sessions, and refuses new ones.
func (p *Passage) End() {
	if p != nil {
		_ = p.near.Close()
		_ = p.far.Close()
	}
}

// Inside reports whether a peer is the other end of a pipe, in this process.
func Inside(peer *profiles.Peer) bool { return peer.Transport == transport.OverPipe }

// Door is the entrance to this endpoint for callers inside this process: HTTP callers,
// teams, and A2A-SDL on behalf of a peer. Each has separate sessions over pipes, so that
// rules, limits, hints, the audit trail and the metrics treat it like every peer. A nil
// Door admits nobody and needs no Close.
type Door struct {
	to      DoorOptions
	passage *Passage     // nil until the door is open
	set     *all.Set     // profiles of the near ends
	pipes   Connections  // this endpoint's ends
	most    atomic.Int64 // exchanges in flight over a pipe
}

// DoorOptions configure doors.
type DoorOptions struct {
	Version string        // of the program
	Self    func() string // identity of this endpoint

	// Endpoints makes the options of the far ends.
	Endpoints interface {
		Options(errorFrames bool) endpoint.Options
	}

	// Keeper decides about admission.
	Keeper interface {
		// Deny returns why an identity is not admitted; nil if it is.
		Deny(identity string) error

		// HangUp closes a connection whose peer is no longer admitted.
		HangUp(conn transport.Conn, why error)
	}
}

// PipeIdle is the idle timeout of a pipe. It is never reached, because the open exchanges
// of a pipe would end with it.
const PipeIdle = 365 * 24 * time.Hour

// pipeBudget is the error budget of a pipe in refusals a minute. It is large, because one
// faulty program of a caller must not disconnect the caller's other programs.
const pipeBudget = 1_000_000

var errNotServing = errors.New("not serving yet")

// NewDoor makes a closed door. near configures the profiles of the near ends.
func NewDoor(to DoorOptions, near all.Options) (*Door, error) {
	near.Version = to.Version
	set, err := all.New(near)
	if err != nil {
		return nil, err
	}
	return &Door{to: to, set: set}, nil
}

// Profiles returns the profiles of the near ends.
func (d *Door) Profiles() *all.Set { return d.set }

// Open opens the door; see SetExchanges. The profiles of this endpoint must exist. The
// session of a pipe never becomes the link of a partner, even if its identity is a
// partner's.
func (d *Door) Open(exchanges int) error {
	d.SetExchanges(exchanges)
	far := bounded(d.to.Endpoints.Options(false))
	far.InFlightOf, far.LongOf = d.mostOf, d.mostOf
	var err error
	d.passage, err = NewPassage(endpoint.Options{
		Registry: d.set.Registry, Tracer: endpoint.ContextFunc(d.set.Carriers.Attach),
		FrameLimit: far.FrameLimit, Envelope: far.Envelope, Bounds: far.Bounds, InFlightOf: d.mostOf, LongOf: d.mostOf,
	}, far)
	return err
}

// SetExchanges changes how many exchanges each pipe may have in flight, also for pipes that
// are open.
func (d *Door) SetExchanges(most int) {
	if d != nil {
		d.most.Store(int64(most))
	}
}

func (d *Door) mostOf(string) int { return int(d.most.Load()) }

// bounded returns options with the bounds of a pipe.
func bounded(o endpoint.Options) endpoint.Options {
	b := &o.Bounds
	b.Idle, b.LongIdle, b.ErrorBudget, b.PaceBudget = PipeIdle, PipeIdle, pipeBudget, pipeBudget
	return o
}

// setLimits changes the limits for new pipes.
func (d *Door) setLimits(o endpoint.Options) error {
	if d == nil || d.passage == nil {
		return nil
	}
	o = bounded(o)
	near := endpoint.Options{FrameLimit: o.FrameLimit, Envelope: o.Envelope, Bounds: o.Bounds}
	return errors.Join(d.passage.far.SetLimits(o), d.passage.near.SetLimits(near))
}

// Pass opens a pipe for an identity, unless the rules deny it, and returns the session at
// its near end.
func (d *Door) Pass(identity string) (*endpoint.Session, error) {
	near, _, err := d.Ends(identity)
	return near, err
}

// Ends is Pass, and returns the session at the far end, too: the one that the profiles of this
// endpoint see.
func (d *Door) Ends(identity string) (near, far *endpoint.Session, err error) {
	if d.passage == nil {
		return nil, nil, errNotServing
	}
	if err := d.to.Keeper.Deny(identity); err != nil {
		return nil, nil, err
	}
	near, far = d.passage.Pass(identity, d.to.Self(), d.pipes.add)
	if err := d.to.Keeper.Deny(identity); err != nil { // by rules that came before the pipe was listed
		near.Close(profiles.SecurityPolicy)
		return nil, nil, err
	}
	return near, far, nil
}

// Serves reports whether the near end of a pipe of an identity can be used again: it is open, and
// the rules let the identity in. The pipe of one that they have just denied may not have ended.
func (d *Door) Serves(identity string, near profiles.Session) bool {
	return near.Context().Err() == nil && d.to.Keeper.Deny(identity) == nil
}

// Recheck closes the pipes of identities that are no longer admitted.
func (d *Door) Recheck() (kept, closed int) {
	if d == nil {
		return 0, 0
	}
	for _, conn := range d.pipes.List() {
		why := d.to.Keeper.Deny(conn.Peer().Identity)
		if why == nil {
			kept++
			continue
		}
		d.to.Keeper.HangUp(conn, why)
		closed++
	}
	return kept, closed
}

// Shutdown drains the near ends.
func (d *Door) Shutdown(ctx context.Context) error { return d.passage.near.Shutdown(ctx) }

// End ends all sessions, and refuses new ones.
func (d *Door) End() {
	if d != nil {
		d.passage.End()
	}
}

// Close releases the rest after the profiles of the near ends are unused.
func (d *Door) Close() {
	if d != nil {
		d.set.Close()
	}
}
