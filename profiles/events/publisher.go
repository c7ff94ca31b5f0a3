package events

import (
	"context"
	"errors"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// MaxUnconfirmed is how many events a Publisher sends before it has to wait
// for a confirmation.
const MaxUnconfirmed = 1024

// ErrUnconfirmed is returned by Publish when MaxUnconfirmed events wait for
// Sync.
var ErrUnconfirmed = errors.New("events: too many events are unconfirmed, call Sync")

// Publisher publishes events to a peer, in order. It is used by one goroutine
// at a time.
type Publisher struct {
	lane      profiles.Lane
	sync      func(context.Context, profiles.Lane) error
	open      []profiles.Call // sent and not confirmed
	confirmed uint64
	payload   []byte
	failed    error
	polled    context.Context // that has ended, to look for answers and not wait
}

// NewPublisher returns a Publisher on a separate lane, which it closes. sync
// calls swp.sync on the lane and returns when it is answered.
func NewPublisher(lane profiles.Lane, sync func(context.Context, profiles.Lane) error) *Publisher {
	polled, cancel := context.WithCancel(context.Background())
	cancel()
	return &Publisher{lane: lane, sync: sync, polled: polled}
}

// Publish sends an event. That it was accepted is known after Sync. An error may
// be about an event that was sent before, and is then a *profiles.PeerError.
func (p *Publisher) Publish(ctx context.Context, r *Record) error {
	switch {
	case p.failed != nil:
		return p.failed
	case len(p.open) >= MaxUnconfirmed:
		return ErrUnconfirmed
	}
	m := Publish{Event: *r}
	if err := m.Event.Validate(); err != nil {
		return err
	}
	if len(p.open) > 0 { // what is wrong with one is often wrong with all
		if p.failed = refused(p.polled, p.open[0]); p.failed != nil {
			return p.failed
		}
	}
	p.payload = m.Append(p.payload[:0])
	// As a call, because an EVT_ERR may be the answer.
	call, err := p.lane.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypePublish, Payload: p.payload})
	if err != nil {
		p.failed = err
		p.endCalls()
		return p.failed
	}
	p.open = append(p.open, call)
	return nil
}

// Sync waits until the peer has dealt with every event that was sent. Nil means
// that it accepted them, and if it stores events has stored them. Otherwise
// Confirmed says how many came before the first that is not known to be
// accepted, and the Publisher is of no more use: events after that one may have
// been accepted, too, so they are published again, in order and with the
// same event_ids.
func (p *Publisher) Sync(ctx context.Context) error {
	if p.failed != nil {
		return p.failed
	}
	p.failed = p.sync(ctx, p.lane)
	p.endCalls()
	return p.failed
}

// endCalls ends the calls. Refusals come before the answer of swp.sync; without that
// answer nothing is confirmed, but a refusal says more than that it is missing: a
// peer that has refused too much ends the connection.
func (p *Publisher) endCalls() {
	for _, call := range p.open {
		err := refused(p.polled, call)
		switch {
		case p.failed == nil && err == nil:
			p.confirmed++
		case p.failed == nil, errors.As(err, new(*profiles.PeerError)) && !errors.As(p.failed, new(*profiles.PeerError)):
			p.failed = err
		}
		call.Close()
	}
	p.open = p.open[:0]
}

// refused returns why an event was refused, if it was.
func refused(polled context.Context, call profiles.Call) error {
	env, err := call.Recv(polled)
	switch {
	case err == nil:
		return refusals.Read(env)
	case errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

// Confirmed is how many events were accepted for certain, counted from the
// first.
func (p *Publisher) Confirmed() uint64 { return p.confirmed }

// Close gives up what was not confirmed and the lane.
func (p *Publisher) Close() {
	for _, call := range p.open {
		call.Close()
	}
	p.open = nil
	_ = p.lane.Close()
}
