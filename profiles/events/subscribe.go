package events

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// MaxName is how many octets the name of a subscription has at most.
const MaxName = 64

// SubscriptionID returns the id of a subscription from the msg_id of its
// EVT_SUBSCRIBE.
func SubscriptionID(msgID []byte) string { return hex.EncodeToString(msgID) }

// subscription is a subscription of a peer. After its confirmation a separate
// goroutine delivers its events.
type subscription struct {
	bus    *Bus
	key    subscriptionKey
	name   string // in the space of names; empty if it has none
	cursor uint64 // where to start, if resume
	resume bool
	reader reader

	ctx    context.Context // ends when delivery must; its cause says why
	cancel context.CancelCauseFunc

	msgID []byte
	lane  profiles.Lane
	turn  *turn
	w     profiles.Responder
	gone  func() bool // stops watching whether the peer is gone
}

// Why a subscription ends that did not fail.
var (
	errUnsubscribed = errors.New("events: unsubscribed")
	errReplaced     = errors.New("events: replaced by a newer subscription")
	errGone         = errors.New("events: the peer is gone")
)

// subscribe serves an EVT_SUBSCRIBE.
func (b *Bus) subscribe(req *profiles.Request) error {
	s, err := b.newSubscription(req)
	if err != nil {
		return err
	}
	if err := b.subs.add(s); err != nil {
		return err
	}
	held, w, err := req.HoldLong()
	if err != nil {
		b.subs.remove(s)
		b.work.Done()
		return err
	}
	s.msgID, s.w = held.MsgID, w
	s.gone = context.AfterFunc(w.Context(), func() { s.cancel(errGone) })
	go s.run()
	return nil
}

// newSubscription reads what is asked for.
func (b *Bus) newSubscription(req *profiles.Request) (*subscription, error) {
	var m Subscribe
	if err := m.Decode(req.Payload); err != nil {
		return nil, err
	}
	req.About("subscribe", string(m.Filter))
	filter, err := ParseFilter(string(m.Filter))
	if err != nil {
		return nil, err
	}
	identity := req.Session.Peer().Identity
	s := &subscription{
		bus: b, key: subscriptionKey{req.Session, SubscriptionID(req.MsgID)}, lane: req.Lane,
		reader: reader{bus: b, identity: identity, filter: filter, pos: b.tail.end()},
	}
	name, named := req.Extensions.Lookup(ExtSubscription)
	if named && (len(name) == 0 || len(name) > MaxName) {
		return nil, invalid(DetailName, "name of %d octets, want 1 to %d", len(name), MaxName)
	}
	if named {
		s.name = scoped(identity, name)
	}
	if _, s.resume = req.Extensions.Lookup(ExtCursor); s.resume {
		var whole bool
		if s.cursor, whole = req.Extensions.LookupUvarint(ExtCursor); !whole {
			return nil, invalid(DetailCursor, "the cursor is no uvarint")
		}
	}
	if b.opts.Store == nil && (named || s.resume) {
		return nil, domain(profiles.InvalidProfilePayload, CodeNotDurable, "nothing is stored here, so a subscription has no name and no cursor")
	}
	if len(s.name) > maxKey {
		return nil, invalid(DetailName, "the name and the identity of the subscriber are too long together")
	}
	s.ctx, s.cancel = context.WithCancelCause(b.ctx)
	return s, nil
}

// domain is an answer that the profile defines as an ordinary one.
func domain(code profiles.Code, answerCode, text string) *profiles.Error {
	return &profiles.Error{Code: code, Detail: answerCode, Text: "events: " + text, Domain: true, Answer: refusals.Answer(answerCode, text, false)}
}

// run confirms the subscription, delivers until it ends and says how it ended.
func (s *subscription) run() {
	defer s.bus.work.Done()
	err := s.deliver()
	s.bus.subs.remove(s)
	s.gone()
	s.cancel(nil)
	var fault *profiles.Error
	switch {
	case s.w.Context().Err() != nil, errors.Is(err, errUnsubscribed):
		s.w.Fail(nil)
	case errors.Is(err, errReplaced):
		_ = s.w.Finish(refusals.Answer(CodeReplaced, "a newer subscription has taken the name over", false)) // or the peer is gone
	case errors.Is(err, errClosed):
		s.w.Fail(errEnding)
	case errors.As(err, &fault):
		s.w.Fail(fault)
	default:
		s.w.Fail(profiles.AsError(err))
	}
}

func (s *subscription) deliver() error {
	if err := s.start(); err != nil {
		return err
	}
	if err := s.w.Send(s.batch(s.reader.pos, emptyBatch)); err != nil {
		return err
	}
	silence := time.NewTimer(s.bus.opts.Heartbeat)
	defer silence.Stop()
	for {
		changed, err := s.next()
		switch {
		case err != nil:
			return err
		case changed == nil:
			continue
		}
		silence.Reset(s.bus.opts.Heartbeat)
		select {
		case <-changed:
		case <-silence.C:
			if err := s.send(s.batch(s.reader.pos, emptyBatch)); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// emptyBatch is the payload of an EVT_BATCH without records.
var emptyBatch = p1.AppendHeader(nil, TypeBatch, 0)

// next sends one batch, if there is something for it. It returns what to wait
// for before the next one, nil if it is due now. The subscriptions of one stream
// take turns: while one waits for a slow peer the others hold nothing.
func (s *subscription) next() (changed <-chan struct{}, err error) {
	if err := take(s.ctx, s.turn.slot); err != nil {
		return nil, err
	}
	defer func() { <-s.turn.slot }()
	g := newGather()
	defer g.free(s.bus)
	changed, err = s.reader.fill(s.ctx, g)
	if !g.empty() && s.ctx.Err() == nil {
		env := s.batch(g.last, nil)
		env.Payload, env.Tail = g.payload()
		if err := s.send(env); err != nil {
			return nil, err
		}
	}
	return changed, err
}

// send waits while the peer is slow to read.
func (s *subscription) send(env e1.Envelope) error {
	err := s.lane.Send(s.ctx, env)
	if err == nil {
		profiles.Sent(s.w, &env)
	}
	if err != nil && s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

func (s *subscription) batch(cursor uint64, payload []byte) e1.Envelope {
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeBatch, MsgID: s.msgID, Payload: payload}
	if s.bus.opts.Store != nil {
		env.Extensions = e1.AppendExtensionUvarint(nil, ExtCursor, cursor)
	}
	return env
}

// unsubscribe serves an EVT_UNSUBSCRIBE.
func (b *Bus) unsubscribe(req *profiles.Request) error {
	var m Unsubscribe
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	req.About("unsubscribe", "")
	s := b.subs.get(subscriptionKey{req.Session, string(m.SubscriptionID)})
	if s == nil {
		return domain(profiles.NotFound, CodeNotFound, "no such subscription on this connection")
	}
	name, forget := req.Extensions.Lookup(ExtSubscription)
	if forget && s.name != scoped(s.reader.identity, name) {
		return invalid(DetailName, "the subscription has another name")
	}
	b.subs.remove(s)
	s.cancel(errUnsubscribed)
	if forget {
		done := req.Defer()
		b.forget(s.name, done)
	}
	return nil
}
