package events

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// MaxName is the maximum length of the name of a subscription in octets.
const MaxName = 64

// SubscriptionID returns the id of a subscription from the msg_id of its
// EVT_SUBSCRIBE.
func SubscriptionID(msgID []byte) string { return hex.EncodeToString(msgID) }

// subscription is a subscription of a peer. After its confirmation a separate
// goroutine delivers its events.
type subscription struct {
	bus    *Bus
	key    subscriptionKey
	peer   *profiles.Peer // who has subscribed, and may unsubscribe
	asked  string         // the filter as it was sent
	name   string         // in the space of names; empty if it has none
	peers  string         // the same name of the peer itself; empty if no caller was asserted
	from   *origin        // the partner of the events; nil for events of this endpoint
	cursor uint64         // where to start, if resume
	resume bool
	reader reader
	rules  uint64 // Bus.rules when they allowed it

	ctx    context.Context // ends the delivery; its cause is the reason. nil until the table has the subscription
	cancel context.CancelCauseFunc

	msgID []byte
	lane  profiles.Lane
	turn  *turn
	w     profiles.Responder
	gone  func() bool // stops waiting for the peer to disconnect
	stays func() bool // of profiles.OnDraining
}

// Reasons for the regular end of a subscription.
var (
	errUnsubscribed = errors.New("events: unsubscribed")
	errReplaced     = errors.New("events: replaced by a newer subscription")
	errGone         = errors.New("events: the peer is gone")
)

// subscribe serves an EVT_SUBSCRIBE.
func (b *Bus) subscribe(req *profiles.Request) error {
	var m Subscribe
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	req.About("subscribe", string(m.Filter))
	s, err := b.newSubscription(req, string(m.Filter), nil)
	if err != nil {
		return err
	}
	s.asked = string(m.Filter)
	if s.name != "" || s.resume {
		if b.opts.Store == nil {
			return domain(profiles.InvalidProfilePayload, CodeNotDurable, "nothing is stored here, so a subscription has no name and no cursor")
		}
	}
	if err := b.subs.add(s); err != nil {
		return err
	}
	held, w, err := req.HoldLong()
	if err != nil {
		b.subs.remove(s)
		s.cancel(nil)
		b.work.Done()
		return err
	}
	s.hold(held, w)
	go func() { w.Fail(s.run()) }()
	return nil
}

// hold records the exchange of a subscription.
func (s *subscription) hold(req *profiles.Request, w profiles.Responder) {
	s.msgID, s.w = req.MsgID, w
	if s.rules != s.bus.rules.Load() { // they changed before the table had it
		s.review()
	}
	s.gone = context.AfterFunc(w.Context(), func() { s.cancel(errGone) })
	s.stays = profiles.OnDraining(req.Session, func() { s.cancel(errClosed) })
}

// newSubscription reads the request.
func (b *Bus) newSubscription(req *profiles.Request, text string, from *origin) (*subscription, error) {
	filter, err := ParseFilter(text)
	if err != nil {
		return nil, err
	}
	identity := req.Identity()
	s := &subscription{
		bus: b, key: subscriptionKey{req.Session, SubscriptionID(req.MsgID)}, peer: req.Peer(), lane: req.Lane, from: from, rules: b.rules.Load(),
		reader: b.reader(identity, filter),
	}
	if from == nil { // for a partner the rules were asked already
		if denied := s.denied(); denied != nil {
			return nil, denied
		}
	}
	name, named := req.Extensions.Lookup(ExtSubscription)
	if named && (len(name) == 0 || len(name) > MaxName) {
		return nil, invalid(DetailName, "name of %d octets, want 1 to %d", len(name), MaxName)
	}
	if named {
		s.name = s.named(name)
		if link := profiles.Link(identity); link != identity && from == nil {
			s.peers = scoped(link, name)
		}
	}
	if _, s.resume = req.Extensions.Lookup(ExtCursor); s.resume {
		var whole bool
		if s.cursor, whole = req.Extensions.LookupUvarint(ExtCursor); !whole {
			return nil, invalid(DetailCursor, "the cursor is no uvarint")
		}
	}
	if len(s.name) > maxKey {
		return nil, invalid(DetailName, "the name and the identity of the subscriber are too long together")
	}
	return s, nil
}

// denied returns the *Error for a subscription to a type of which no rule lets an event
// through, because nothing would ever come; else nil.
func (s *subscription) denied() *profiles.Error {
	for _, eventType := range s.reader.filter.asked() {
		if s.from != nil {
			eventType = s.from.way.Here(eventType)
		}
		if !may(s.bus.opts.Access, s.reader.rights.identity, "subscribe", eventType) {
			return profiles.Deny(profiles.Errorf(profiles.SecurityPolicy, "events: not allowed to subscribe to %.200s", eventType))
		}
	}
	return nil
}

// review ends the subscriptions that the rules would refuse now.
func (b *Bus) review() {
	b.rules.Add(1)
	for _, s := range b.subs.all() {
		s.review()
	}
}

// review ends the subscription if the rules would refuse it now.
func (s *subscription) review() {
	if denied := s.denied(); denied != nil {
		denied.Domain = true // the peer was allowed to subscribe
		s.cancel(denied)
	}
}

// domain is an ordinary answer of the profile.
func domain(code profiles.Code, answerCode, text string) *profiles.Error {
	return &profiles.Error{Code: code, Detail: answerCode, Text: "events: " + text, Domain: true, Answer: refusals.Answer(answerCode, text, false)}
}

// run confirms the subscription, delivers until it ends and returns the error of Fail.
func (s *subscription) run() error {
	defer s.bus.work.Done()
	err := s.deliver()
	s.bus.subs.remove(s)
	s.gone()
	s.stays()
	s.cancel(nil)
	switch {
	case s.w.Context().Err() != nil, errors.Is(err, errUnsubscribed):
		return nil
	case errors.Is(err, errReplaced):
		_ = s.w.Finish(refusals.Answer(CodeReplaced, "a newer subscription has taken the name over", false)) // fails if the peer has disconnected
		return nil
	case errors.Is(err, errClosed):
		return errEnding
	}
	return err
}

func (s *subscription) deliver() error {
	if s.from != nil {
		return s.follow()
	}
	if err := s.start(); err != nil {
		return err
	}
	s.reader.open()
	defer s.reader.close()
	if err := s.w.Send(s.batch(s.reader.pos, emptyBatch)); err != nil {
		return err
	}
	silence := time.NewTimer(s.bus.opts.Heartbeat)
	defer silence.Stop()
	for {
		next, err := s.next()
		switch {
		case err != nil:
			return err
		case next == nil:
			continue
		}
		silence.Reset(s.bus.opts.Heartbeat)
		select {
		case <-next.arrived:
			s.reader.skip(next)
		case <-silence.C:
			s.reader.skip(next)
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

// cursorSize is the largest size of the extension with a cursor.
const cursorSize = 16

// next sends one batch, if there are events for it. It returns what to wait for before the
// next batch, nil if that is due now. The subscriptions of one stream take turns: while
// one waits for a slow peer, the others hold no buffers.
func (s *subscription) next() (next *waiting, err error) {
	select {
	case s.turn.slot <- struct{}{}:
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
	defer func() { <-s.turn.slot }()
	g := newGather(profiles.Room(s.lane, cursorSize))
	defer g.free(s.bus)
	next, err = s.reader.fill(s.ctx, g)
	if !g.empty() && s.ctx.Err() == nil {
		env := s.batch(g.last, nil)
		env.Payload, env.Tail = g.payload()
		if err := s.send(env); err != nil {
			return nil, err
		}
	}
	return next, err
}

// send waits for a slow peer.
func (s *subscription) send(env e1.Envelope) error {
	profiles.Sending(s.w, &env, false)
	err := s.lane.Send(s.ctx, env)
	if err != nil && s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// named returns the key of a subscriber's name.
func (s *subscription) named(name []byte) string {
	if s.from != nil {
		name = slices.Concat([]byte(s.from.way.Prefix), name)
	}
	return scoped(s.reader.rights.identity, name)
}

// holds reports whether events are stored, so that cursors can be used.
func (s *subscription) holds() bool {
	if s.from != nil {
		return s.from.holds
	}
	return s.bus.opts.Store != nil
}

func (s *subscription) batch(cursor uint64, payload []byte) e1.Envelope {
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeBatch, MsgID: s.msgID, Payload: payload}
	if s.holds() {
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
	if s == nil || !req.Inherit(s.peer) {
		return domain(profiles.NotFound, CodeNotFound, "no such subscription on this connection")
	}
	req.About("unsubscribe", s.asked)
	name, forget := req.Extensions.Lookup(ExtSubscription)
	if forget && s.name != s.named(name) {
		return invalid(DetailName, "the subscription has another name")
	}
	b.subs.remove(s)
	switch {
	case forget && s.from != nil:
		s.from.forget(req.Defer())
	case forget:
		b.forget(s.name, req.Defer())
	}
	s.cancel(errUnsubscribed)
	return nil
}
