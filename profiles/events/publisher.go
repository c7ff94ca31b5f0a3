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

// Publisher publishes events to a peer, in order. One goroutine at a time may use it.
type Publisher struct {
	lane      profiles.Lane
	sync      profiles.Sync
	open      []profiles.Call // sent and not confirmed
	confirmed uint64
	payload   []byte
	failed    error
	polled    context.Context // an ended context, to check for answers without waiting
}

// NewPublisher returns a Publisher on a separate lane, which it closes. sync
// calls swp.sync on the lane and returns when it is answered.
func NewPublisher(lane profiles.Lane, sync profiles.Sync) *Publisher {
	polled, cancel := context.WithCancel(context.Background())
	cancel()
	return &Publisher{lane: lane, sync: sync, polled: polled}
}

// Publish sends an event. Sync confirms that it was accepted. An error may be about an
// event that was sent before, and is then a *profiles.PeerError.
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
	if len(p.open) > 0 { // a fault of one event often affects all
		if p.failed = refused(p.polled, p.open[0]); p.failed != nil {
			return p.failed
		}
	}
	p.payload = m.Append(p.payload[:0])
	// It is a call, because an EVT_ERR may be the answer.
	call, err := p.lane.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypePublish, Payload: p.payload})
	if err != nil {
		return p.settle(ctx, func(context.Context, profiles.Lane) error { return err })
	}
	p.open = append(p.open, call)
	return nil
}

// Sync waits until the peer has handled every sent event. Nil means that all were accepted,
// and if the peer stores events, stored. After an error Confirmed says how many precede the
// first event that is not confirmed, and the Publisher cannot be used any more. Later
// events may have been accepted, so they are published again, in order and with the same
// event_ids.
//
// A *profiles.UnconfirmedError is about all events since the last call; if it is not Lost,
// the Publisher can be used further.
func (p *Publisher) Sync(ctx context.Context) error {
	if p.failed != nil {
		return p.failed
	}
	return p.settle(ctx, p.sync)
}

// settle ends the calls. A peer that has refused too much ends the connection, so a refusal is
// reported even if sync fails.
func (p *Publisher) settle(ctx context.Context, sync profiles.Sync) error {
	confirmed, err := profiles.Confirm(ctx, p.lane, sync, p.open, refusals.Read)
	p.confirmed += uint64(confirmed)
	for _, call := range p.open {
		call.Close()
	}
	p.open = p.open[:0]
	if unsure, ok := errors.AsType[*profiles.UnconfirmedError](err); !ok || unsure.Lost {
		p.failed = err
	}
	return err
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

// Confirmed is how many events, counted from the first, are confirmed as accepted.
func (p *Publisher) Confirmed() uint64 { return p.confirmed }

// Close gives up unconfirmed events and closes the lane.
func (p *Publisher) Close() {
	for _, call := range p.open {
		call.Close()
	}
	p.open = nil
	_ = p.lane.Close()
}
