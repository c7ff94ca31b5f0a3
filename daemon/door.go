package daemon

import (
	"errors"
	"time"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// passage is a way in memory: sessions over pipes between two endpoints of this process.
type passage struct {
	near *endpoint.Endpoint // of those who come
	far  *endpoint.Endpoint
}

func newPassage(near, far endpoint.Options) (*passage, error) {
	inner, err := endpoint.New(far)
	if err != nil {
		return nil, err
	}
	near.Observer = endpoint.Discard // the other end tells
	outer, err := endpoint.New(near)
	if err != nil {
		return nil, err // nothing runs in the other one yet
	}
	return &passage{near: outer, far: inner}, nil
}

// pass opens a pipe, and has opened look at its far end before anything is said.
func (p *passage) pass(from, to string, opened func(transport.Conn)) (near, far *endpoint.Session) {
	a, b := transport.NewPipe(transport.PipeOptions{A: from, B: to})
	opened(b)
	far = p.far.Attach(b)
	return p.near.Attach(a), far
}

// end ends all sessions. Nobody is let in any more.
func (p *passage) end() {
	if p != nil {
		_ = p.near.Close()
		_ = p.far.Close()
	}
}

// door is the way to this endpoint for those who act inside this process: callers over
// HTTP, teams, and A2A-SDL for a peer. Each has sessions of its own over pipes, so that
// rules, limits, hints, the audit trail and the metrics see it as they see every peer. A
// nil door lets nobody in and has nothing to end.
type door struct {
	*passage // nil until the door is open
	d        *daemon
	set      *all.Set    // profiles of the near ends
	pipes    connections // this endpoint's ends
	most     int         // exchanges under way over a pipe
}

// A pipe is never idle: what is open over it would end with it. What costs a peer its
// connection must not cost the other programs of a caller theirs.
const (
	pipeIdle   = 365 * 24 * time.Hour
	pipeBudget = 1_000_000 // refusals a minute
)

var errNotServing = errors.New("daemon: not serving yet")

// newDoor makes a door that is closed still. The options are those of the near ends.
func newDoor(d *daemon, o all.Options) (*door, error) {
	o.Version = d.opts.Version
	set, err := all.New(o)
	if err != nil {
		return nil, err
	}
	return &door{d: d, set: set}, nil
}

// open lets in those who come from now on, each with at most so many exchanges under way
// over a pipe. The profiles of this endpoint are there. No partner is looked for behind
// a pipe, whosever identity it has.
func (r *door) open(exchanges int) error {
	r.most = exchanges
	far := r.bounded(r.d.endpointOptions(false))
	far.InFlightOf = nil
	var err error
	r.passage, err = newPassage(endpoint.Options{
		Registry: r.set.Registry, Tracer: endpoint.ContextFunc(r.set.Carriers.Attach),
		FrameLimit: far.FrameLimit, Envelope: far.Envelope, Bounds: far.Bounds,
	}, far)
	return err
}

// bounded returns options with the bounds of a pipe.
func (r *door) bounded(o endpoint.Options) endpoint.Options {
	b := &o.Bounds
	b.InFlight, b.LongExchanges = r.most, r.most
	b.Idle, b.LongIdle, b.ErrorBudget, b.PaceBudget = pipeIdle, pipeIdle, pipeBudget, pipeBudget
	return o
}

// limit has pipes that come from now on be bound by other limits.
func (r *door) limit(o endpoint.Options) error {
	if r == nil || r.passage == nil {
		return nil
	}
	o = r.bounded(o)
	near := endpoint.Options{FrameLimit: o.FrameLimit, Envelope: o.Envelope, Bounds: o.Bounds}
	return errors.Join(r.far.SetLimits(o), r.near.SetLimits(near))
}

// pass opens a pipe for an identity, unless the rules deny it, and returns the session at
// its near end.
func (r *door) pass(identity string) (*endpoint.Session, error) {
	if r.passage == nil {
		return nil, errNotServing
	}
	if r.d.guard.Denied(identity) {
		return nil, errDenied
	}
	s, _ := r.passage.pass(identity, r.d.credentials.identity(), r.pipes.add)
	return s, nil
}

// recheck closes the pipes of those who are not let in any more: the rules deny them, or
// gone says why. A nil gone says nothing of anybody.
func (r *door) recheck(gone func(identity string) error) (kept, closed int) {
	if r == nil {
		return 0, 0
	}
	for _, conn := range r.pipes.list() {
		var why error
		switch identity := conn.Peer().Identity; {
		case r.d.guard.Denied(identity):
			why = errDenied
		case gone != nil:
			why = gone(identity)
		}
		if why == nil {
			kept++
			continue
		}
		r.d.hangUp(conn, reasonDenied, why)
		closed++
	}
	return kept, closed
}

// end ends all sessions. Nobody is let in any more.
func (r *door) end() {
	if r != nil {
		r.passage.end()
	}
}

// close gives back the rest, once nobody uses the profiles of the near ends.
func (r *door) close() {
	if r != nil {
		r.set.Close()
	}
}
