package events

import (
	"context"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// SubscribeOptions select the events of a Subscription. The zero value selects every event
// from now on.
type SubscribeOptions struct {
	Filter string  // see ParseFilter
	Name   string  // of a durable subscription, at most MaxName octets
	After  *uint64 // a cursor; nil: after the stored one of Name, or from now on
}

// Subscription is a subscription at a peer. One goroutine at a time may use it.
type Subscription struct {
	lane  profiles.Lane
	call  profiles.Call
	name  string
	id    string
	batch Batch
	first *Delivery // the Delivery of the confirmation, until it is received
	start uint64
	holds bool // the peer has cursors
	over  bool // the peer has ended it
	done  bool // Close was called
}

// Open subscribes at a peer, on a separate lane, and returns when the peer has
// confirmed it. The caller closes the Subscription. The error is a *profiles.PeerError
// if the peer refused, an *profiles.Error if either side refused a message, or the
// context's.
func Open(ctx context.Context, session profiles.Session, opts SubscribeOptions) (*Subscription, error) {
	lane, err := session.Open(ctx)
	if err != nil {
		return nil, err
	}
	m := Subscribe{Filter: []byte(opts.Filter)}
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeSubscribe, Payload: m.Append(nil)}
	if opts.Name != "" {
		env.Extensions = e1.AppendExtension(env.Extensions, ExtSubscription, []byte(opts.Name))
	}
	if opts.After != nil {
		env.Extensions = e1.AppendExtensionUvarint(env.Extensions, ExtCursor, *opts.After)
	}
	call, err := lane.Call(ctx, env)
	if err != nil {
		_ = lane.Close()
		return nil, err
	}
	s := &Subscription{lane: lane, call: call, name: opts.Name, id: SubscriptionID(call.MsgID())}
	first, err := s.Recv(ctx)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.start = first.Cursor
	if len(first.Events) > 0 {
		s.first = &first
	}
	return s, nil
}

// ID is the subscription_id.
func (s *Subscription) ID() string { return s.id }

// Start is the cursor after which delivery began, 0 if the peer stores no events. If it is
// greater than the requested one, the events in between are no longer stored there.
func (s *Subscription) Start() uint64 { return s.start }

// Durable reports whether the peer stores events, so that another subscription can start at
// its cursors.
func (s *Subscription) Durable() bool { return s.holds }

// Recv waits for events and returns them. A Delivery without events is a sign of life. The
// errors are those of Open; after any of them except that of ctx there are no more events.
// An *profiles.Error of RateLimitExceeded means that the caller was too slow: the endpoint
// queues a limited number of deliveries per call, because a connection does not wait for
// one of its users. Another subscription can continue after the last cursor.
func (s *Subscription) Recv(ctx context.Context) (Delivery, error) {
	if d := s.first; d != nil {
		s.first = nil
		return *d, nil
	}
	env, err := s.call.Recv(ctx)
	if err != nil {
		return Delivery{}, err
	}
	if env.MsgType == TypeErr {
		s.over = true
		return Delivery{}, refusals.Read(env)
	}
	if err := s.batch.Decode(env.Payload); err != nil {
		return Delivery{}, err
	}
	cursor, holds, err := profiles.Uvarint(env.Extensions, ExtCursor)
	if err != nil {
		return Delivery{}, err
	}
	s.holds = holds
	return Delivery{s.batch.Events, cursor}, nil
}

// closeWait bounds how long Close and Forget wait for a slow peer.
const closeWait = time.Second

// Close ends the subscription. A name keeps its stored cursor. A second call does nothing.
func (s *Subscription) Close() { _ = s.end(nil, nil) }

// Forget is Close, and asks the peer to delete the name. The answer of a later swp.sync on
// the same stream confirms it.
func (s *Subscription) Forget() { _ = s.ForgetAnd(nil) }

// ForgetAnd is Forget that returns after the peer has deleted the name: sync calls swp.sync
// on a lane. If sync is nil, it does not wait.
func (s *Subscription) ForgetAnd(sync func(context.Context, profiles.Lane) error) error {
	return s.end(e1.AppendExtension(nil, ExtSubscription, []byte(s.name)), sync)
}

func (s *Subscription) end(ext e1.Extensions, sync func(context.Context, profiles.Lane) error) (err error) {
	if s.done {
		return nil
	}
	s.done = true
	if !s.over {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		m := Unsubscribe{SubscriptionID: []byte(s.id)}
		// If it cannot be sent, the connection has ended, and the subscription with it.
		err = s.lane.Send(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeUnsubscribe, Extensions: ext, Payload: m.Append(nil)})
		if err == nil && sync != nil {
			err = sync(ctx, s.lane)
		}
	}
	s.call.Close()
	_ = s.lane.Close()
	return err
}
