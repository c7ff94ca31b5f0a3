package relay

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
)

// A consumer of a topic at a partner attaches there through this endpoint. Nothing is
// stored here: the partner has custody of a delivery until the consumer has answered it,
// and only as many deliveries leave the partner as the consumer can take.

// Errand is a call at a partner about a topic, on behalf of a peer.
type Errand struct {
	Identity        string
	Partner, Target string
	Topic           string // local name of the topic
	Passage         profiles.Passage
}

// Way is a prepared call to a partner.
type Way struct {
	Context    context.Context // context for the call; ends with the way
	Session    profiles.Session
	Extensions e1.Extensions // of the call

	// Ended receives the error of the call. again says whether to repeat the call; said is
	// the error for the peer.
	Ended func(err error) (again bool, said error)

	// Close releases the way.
	Close func()
}

// attachPauses are the pauses between attempts to attach at a partner.
var attachPauses = backoff.Exponential{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// attachTime limits the wait for the confirmation of an attachment.
const attachTime = 30 * time.Second

// errNoWay refuses consumers of topics of partners.
var errNoWay = &profiles.Error{
	Code: profiles.InvalidProfilePayload, Domain: true, Text: "relay: consumers attach to topics of a partner at the partner",
}

// follow gives the consumer the deliveries of a topic at a partner, over successive
// sessions, until it detaches.
func (a *attachment) follow(at place) {
	defer a.leave()
	ctx, cancel := context.WithCancel(a.call.Context())
	defer cancel()
	defer context.AfterFunc(a.s.ctx, cancel)()
	go a.beat(ctx)
	retry, confirmed := backoff.Retry{Pauses: attachPauses}, false
	err := retry.Run(ctx, func() (again bool, err error) {
		began := time.Now()
		again, err = a.once(ctx, at, func(places int) error {
			if confirmed {
				return nil
			}
			confirmed = true
			return a.confirm(places)
		})
		if time.Since(began) >= attachPauses.Longest { // one that ends at once is no progress
			retry.Moved()
		}
		return again && confirmed, err
	})
	if ctx.Err() == nil {
		a.fail(err)
	}
}

// beat sends stream items that show that the relay is alive.
func (a *attachment) beat(ctx context.Context) {
	beat := time.NewTicker(a.s.opts.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			_ = a.call.Item([]byte("{}"))
		case <-ctx.Done():
			return
		}
	}
}

// once passes on deliveries over one session to the partner, and reports whether to
// continue on another one.
func (a *attachment) once(ctx context.Context, at place, attached func(places int) error) (again bool, err error) {
	s := a.s
	if s.opts.Across == nil {
		return false, errNoWay
	}
	way, err := s.opts.Across(ctx, &Errand{Identity: a.identity, Partner: at.partner, Target: at.target, Topic: a.topic, Passage: a.call.Passage()})
	if err != nil {
		fault, ok := errors.AsType[*profiles.Error](err)
		return ok && fault.Retryable, err
	}
	defer way.Close()
	c, err := s.consumeAt(way, at.topic, a.places)
	if err != nil {
		return way.Ended(err)
	}
	defer c.Close()
	if err := attached(c.places); err != nil {
		return false, err
	}
	for {
		d, err := c.Recv(way.Context)
		switch {
		case err != nil && way.Context.Err() != nil:
			return true, err
		case err != nil:
			return way.Ended(err)
		}
		if err := a.allowed(); err != nil {
			_ = d.Nack(true, reasonDetached)
			return false, err
		}
		a.hand(d, way.Session.Context())
	}
}

// consumeAt attaches to a topic at a partner. All attachments of a session use one lane.
func (s *Service) consumeAt(way *Way, topic string, places int) (*Consumer, error) {
	ctx, cancel := context.WithTimeout(way.Context, attachTime)
	defer cancel()
	lane, err := s.laneTo(ctx, way.Session)
	if err != nil {
		return nil, err
	}
	c := s.newConsumer(inboxKey{lane.Lane, topic}, lane, places)
	c.apart = true
	if err := c.begin(ctx, places, way.Extensions); err != nil {
		return nil, err
	}
	return c, nil
}

// hand makes an attempt with a delivery of a partner, which is lent. It replaces an earlier
// attempt that the partner has given up. session ends when the partner can no longer be reached.
func (a *attachment) hand(d *Delivery, session context.Context) {
	s := a.s
	at := &attempt{a: a, tries: 1, key: attemptKey{a.call.Session(), string(d.ID)}, publisher: d.Publisher}
	at.settle = func() State { return d.answered(at.how, at.reason) }
	s.mu.Lock()
	for _, old := range s.attempts[at.key] {
		if old.a == a && old.publisher == at.publisher {
			old.cancel()
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(s.ctx)
	gone := context.AfterFunc(session, cancel)
	detached := context.AfterFunc(d.c.ctx, func() { time.AfterFunc(lateTime, cancel) })
	at.ctx, at.cancel = ctx, func() {
		gone()
		detached()
		cancel()
	}
	at.make(func() (profiles.Call, outcome) {
		ttl := d.TTL
		if ttl > 0 {
			ttl = max(ttl-time.Since(d.came), time.Millisecond)
		}
		defer d.giveBack()
		defer d.shed()
		return at.publish(d.Payload, milliseconds(ttl), min(d.Hops, profiles.MaxHops-1))
	})
}

// answered sends the outcome of an attempt to the partner.
func (d *Delivery) answered(how outcome, reason string) State {
	switch {
	case how == processed && d.Ack() == nil:
		return Acked
	case how == refused && d.Nack(false, reason) == nil:
		return DeadState
	}
	_ = d.Nack(true, reason)
	return Retry
}

// lend keeps the octets of the delivery in memory until giveBack.
func (d *Delivery) lend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lent = true
}

// shed releases the octets of a delivery that was handed on. It can still be answered.
func (d *Delivery) shed() {
	d.ID, d.Payload = bytes.Clone(d.ID), nil
	d.mu.Lock()
	attempts := slices.Clone(d.attempts)
	d.mu.Unlock()
	for _, w := range attempts {
		if held, ok := w.(profiles.Shedder); ok {
			held.Shed()
		}
	}
}

func (d *Delivery) giveBack() {
	d.mu.Lock()
	d.lent = false
	dropped := d.dropped
	d.mu.Unlock()
	if dropped {
		d.drop()
	}
}

// drop ends attempts that the partner no longer waits for.
func (d *Delivery) drop() {
	d.mu.Lock()
	if d.dropped = d.lent; d.dropped {
		d.mu.Unlock()
		return
	}
	attempts := d.attempts
	d.attempts = nil
	d.mu.Unlock()
	for _, w := range attempts {
		w.Fail(nil)
	}
}

// sharedLane is the one lane to a partner on which consumers here attach. Over QUIC a
// stream for each would leave none for others.
type sharedLane struct {
	profiles.Lane
	s       *Service
	session profiles.Session
	users   int // guarded by the Service's mu
}

// laneTo returns the lane for consumers of a partner, for one more of them, who closes it.
func (s *Service) laneTo(ctx context.Context, session profiles.Session) (*sharedLane, error) {
	if l := s.sharedLane(session, nil); l != nil {
		return l, nil
	}
	lane, err := session.Open(ctx)
	if err != nil {
		return nil, err
	}
	l := s.sharedLane(session, lane)
	if l.Lane != lane {
		_ = lane.Close() // somebody else was faster
	}
	return l, nil
}

// sharedLane is laneTo with a new lane if none is open.
func (s *Service) sharedLane(session profiles.Session, opened profiles.Lane) *sharedLane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[session]
	if l == nil && opened == nil {
		return nil
	}
	if l == nil {
		l = &sharedLane{Lane: opened, s: s, session: session}
		s.lanes[session] = l
	}
	l.users++
	return l
}

// Close implements profiles.Lane.
func (l *sharedLane) Close() error {
	l.s.mu.Lock()
	l.users--
	last := l.users == 0
	if last {
		delete(l.s.lanes, l.session)
	}
	l.s.mu.Unlock()
	if last {
		return l.Lane.Close()
	}
	return nil
}
