package relay

import (
	"context"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// noticesAtOnce limits the unanswered notices on a session.
const noticesAtOnce = 4

// herald sends the notices about dead deliveries to a publisher on one session.
type herald struct {
	s    *Service
	key  heraldKey
	seat *seat
}

// heraldKey is a session, and the owner of the deliveries in its notices: dead here, or at a partner.
type heraldKey struct {
	session   profiles.Session
	publisher string
	there     bool
}

// meet records that a session uses this profile, on behalf of a caller if one was asserted.
// The peer is told of the dead deliveries of all its callers; of those that died at a
// partner, after the caller has used the session.
func (s *Service) meet(session profiles.Session, from *profiles.Peer) {
	if s.opts.Store == nil {
		return
	}
	s.notifySession(heraldKey{session, profiles.Link(from.Identity), false})
	if s.opts.Behind != nil {
		s.notifySession(heraldKey{session, from.Identity, true})
	}
}

// maxHeralds limits the queues of which one session is told.
const maxHeralds = 1024

// notifySession starts the notices to a session, once, up to a bound.
func (s *Service) notifySession(key heraldKey) {
	session := key.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heralds[key] != nil || len(s.heralding[session]) >= maxHeralds || s.closed || session.Context().Err() != nil {
		return
	}
	name := key.publisher
	if key.there {
		name = s.alias(name)
	}
	h := &herald{s: s, key: key}
	s.heralds[key] = h
	s.heralding[session] = append(s.heralding[session], key.publisher)
	h.seat = s.sit(queueOf(kindDead, name), noticesAtOnce, h.give)
	context.AfterFunc(session.Context(), h.leave)
}

func (h *herald) leave() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.seat.leave()
	delete(h.s.heralds, h.key)
	delete(h.s.heralding, h.key.session) // all of them leave
}

// give accepts a leased dead delivery. The caller holds mu.
func (h *herald) give(it *item) {
	if !h.s.spawn(func() { h.run(it) }) {
		h.s.giveBack(it)
	}
}

// run sends one notice, and stores that the publisher has acknowledged it.
func (h *herald) run(it *item) {
	s := h.s
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.seat.add(1)
	}()
	switch {
	case it.expired:
		s.forget(it)
	case h.notify(it):
		s.keepNoticed(it)
	case h.key.session.Context().Err() != nil, s.ctx.Err() != nil:
		s.retry(it, time.Time{}, false)
	default:
		s.retry(it, s.opts.Now().Add(s.backoff(it.tries)), true)
	}
}

// notify sends the notice, and reports whether the publisher has answered it.
func (h *herald) notify(it *item) bool {
	s := h.s
	ctx, cancel := s.within(s.limits.Load().AckTimeout)
	defer cancel()
	r, release, err := s.load(ctx, "", it)
	release()
	if err != nil {
		return false
	}
	_, deliveryID := splitID(it.id)
	m := Nack{DeliveryID: []byte(deliveryID), Reason: []byte(r.reason)}
	known := make(chan struct{}) // made before sending, because the publisher may ask at once
	s.mu.Lock()
	s.notices[it.id] = func() {
		delete(s.notices, it.id)
		close(known)
		cancel()
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.notices, it.id)
	}()
	call, err := h.key.session.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeNack, Payload: m.Append(make([]byte, 0, m.Size()))})
	if err == nil {
		defer call.Close()
		if env, err := call.Recv(ctx); err == nil && env.MsgType == TypeStatus {
			var m Status
			return m.Decode(env.Payload) == nil && string(m.DeliveryID) == deliveryID
		}
	}
	select {
	case <-known:
		return true
	default:
		return false
	}
}

// asked ends a notice in progress, because its publisher asks for the state of the
// delivery.
func (s *Service) asked(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered := s.notices[id]; answered != nil {
		answered()
	}
}

// keepNoticed stores a dead delivery whose publisher has acknowledged the notice.
func (s *Service) keepNoticed(it *item) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), leaseMargin)
	defer cancel()
	r, release, err := s.load(ctx, "", it)
	defer release()
	if err != nil {
		return // the notice is repeated
	}
	publisher, _ := splitID(it.id)
	data := r.append(make([]byte, 0, maxHead+len(r.payload)))
	queue, expires := queueOf(kindTold, profiles.Link(publisher)), s.opts.Now().Add(s.limits.Load().DeadRetention)
	if s.conclude(it, func(done func(bool, error)) { s.opts.Store.Move(space, it.id, it.lease, queue, data, expires, done) }) {
		s.expiry.sooner(expires)
	}
}

// Notice is the message of a relay about a dead delivery.
type Notice struct {
	DeliveryID []byte
	Reason     Reason
}

// notice handles a RELAY_NACK with which a relay gives up a delivery of this side.
func (s *Service) notice(req *profiles.Request, w profiles.Responder, m *Nack) error {
	if name, ok := s.partner(req.Session.Peer().Identity); ok && !m.Retryable && s.opts.Store != nil {
		return s.mourn(req, name, m)
	}
	if s.opts.Notice == nil || m.Retryable {
		return errUnknown
	}
	n := Notice{DeliveryID: append([]byte{}, m.DeliveryID...), Reason: Reason(m.Reason)}
	if !s.opts.Notice(req.Session.Peer(), n) {
		return errUnknown
	}
	return w.Finish(statusOf(m.DeliveryID, DeadState, 1))
}
