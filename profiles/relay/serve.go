package relay

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// service is the handler of the profile.
type service Service

// Serve handles one message.
func (h *service) Serve(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	s := (*Service)(h)
	if req.Unsolicited {
		return check(req.MsgType, req.Payload) // a valid one is counted and dropped
	}
	// Deferred, because a message that was sent before a notice is not its answer.
	defer s.meet(req.Session, req.Peer())
	switch req.MsgType {
	case TypePublish:
		return s.publish(ctx, req)
	case TypeAck:
		return s.ack(req)
	case TypeNack:
		return s.nack(req, w)
	}
	return s.status(req)
}

// lifecycle returns the delivery_id of a message that hands over a delivery.
func lifecycle(env *e1.Envelope) []byte {
	var m Publish
	if env.MsgType != TypePublish || m.Decode(env.Payload) != nil {
		return nil
	}
	return m.DeliveryID
}

// unavailable converts an error of the Store for a peer. The text for a used-up quota
// names the limit of a topic too.
func unavailable(err error) error { return noRoom(err, "the topic is full", "relay.waiting") }

// noRoom is unavailable with another possible cause of a used-up quota: what describes it,
// and key is the configuration key of its limit.
func noRoom(err error, what, key string) error {
	fault := profiles.Unavailable(err)
	if fault.Detail == "store_quota" {
		full := *fault
		full.Text = "relay: no room: " + what + ", or this identity or this endpoint keeps as much as it may; " +
			"its operator can raise " + key + ", relay.remembered or quota"
		return &full
	}
	return fault
}

// notTaken converts an error of the Store for a publisher.
func (s *Service) notTaken(topic string, err error) error {
	if partner, _, ok := s.behind(topic); ok {
		return noRoom(err, "as much waits for partner "+partner+" as may", "partners."+partner+".queue")
	}
	return unavailable(err)
}

// ack handles a RELAY_ACK with a new msg_id. It is ignored for a delivery that this session
// does not have.
func (s *Service) ack(req *profiles.Request) error {
	var m Ack
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	req.About("ack", "")
	if a := s.attemptOf(req, m.DeliveryID); a != nil {
		a.answer(processed, nil)
	}
	return nil
}

// nack handles a RELAY_NACK with a new msg_id: from a consumer for one of its deliveries,
// or from a relay for a dead one.
func (s *Service) nack(req *profiles.Request, w profiles.Responder) error {
	var m Nack
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	req.About("nack", "")
	a := s.attemptOf(req, m.DeliveryID)
	if a == nil {
		return s.notice(req, w, &m)
	}
	held, answer, err := req.Hold()
	if err != nil {
		return err
	}
	how := refused
	if m.Retryable {
		how = failed
	}
	attempts := uint32(a.tries)
	if !a.answer(how, func(state State) {
		if state == Retry {
			attempts++
		}
		_ = finishStatus(answer, held, state, attempts) // an error means that the sender is gone
	}) {
		answer.Fail(errUnknown)
	}
	return nil
}

// finishStatus answers any message that begins with a delivery_id; only RELAY_ERR does not.
func finishStatus(w profiles.Responder, req *profiles.Request, state State, attempts uint32) error {
	id, err := deliveryID(&req.Envelope)
	if err != nil {
		return err
	}
	return w.Finish(statusOf(id, state, attempts))
}

func statusOf(id []byte, state State, attempts uint32) e1.Envelope {
	m := Status{DeliveryID: id, State: []byte(state), Attempts: attempts}
	return e1.Envelope{MsgType: TypeStatus, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// deliveryID returns the delivery_id of a message.
func deliveryID(env *e1.Envelope) ([]byte, error) {
	switch env.MsgType {
	case TypePublish:
		var m Publish
		err := m.Decode(env.Payload)
		return m.DeliveryID, err
	case TypeAck:
		var m Ack
		err := m.Decode(env.Payload)
		return m.DeliveryID, err
	case TypeNack:
		var m Nack
		err := m.Decode(env.Payload)
		return m.DeliveryID, err
	}
	var m Status
	err := m.Decode(env.Payload)
	return m.DeliveryID, err
}

// status handles a RELAY_STATUS that asks for the state of a delivery of the sender. It
// reads the delivery_id only.
func (s *Service) status(req *profiles.Request) error {
	var m Status
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	if s.opts.Store == nil {
		return errNoRelay
	}
	req.About("status", "")
	identity, id := req.Identity(), string(m.DeliveryID)
	for _, name := range []string{identity, s.alias(identity)} {
		s.asked(itemID(name, id))
	}
	return req.Detach(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		state, attempts, err := s.standing(ctx, identity, id)
		if err != nil {
			return unavailable(err)
		}
		if state == "" {
			return errUnknown
		}
		return finishStatus(w, req, state, attempts)
	})
}

// stand returns the state of a delivery, and the number of the attempt that is due, in
// progress, or was the last. state is empty for an unknown delivery.
func (s *Service) stand(ctx context.Context, id string) (state State, attempts uint32, err error) {
	if len(id) > maxKey {
		return "", 0, nil
	}
	queue, how, tries, err := s.opts.Store.Item(ctx, space, id)
	if err != nil || how == "" {
		return "", 0, err
	}
	switch {
	case how == store.Done && live(queue):
		return Acked, atLeastOne(tries), nil
	case how == store.Done:
		return DeadState, 1, nil // removed; only its id is remembered
	case queue != "" && !live(queue):
		r, release, err := s.load(ctx, "", &item{id: id})
		defer release()
		if err != nil {
			return "", 0, err
		}
		return DeadState, atLeastOne(r.attempts), nil
	case how != store.Leased:
		tries++ // the next one
	}
	if tries > 1 {
		return Retry, atLeastOne(min(tries, s.limits.Load().MaxAttempts)), nil
	}
	return Queued, 1, nil
}

func atLeastOne(n int) uint32 { return uint32(max(1, min(n, 1<<31-1))) }
