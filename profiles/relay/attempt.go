package relay

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// attempt is one delivery to a consumer, until it is answered.
type attempt struct {
	a         *attachment
	tries     int // including this one
	key       attemptKey
	publisher string
	ctx       context.Context
	cancel    context.CancelFunc

	// Guarded by mu of the Service.
	behind bool // an earlier attempt of the attachment has ended unanswered, or the attachment is over
	over   bool // the outcome is known
	how    outcome
	reason string      // of a NACK
	told   func(State) // is called with the resulting state of the delivery; may be nil

	// settle stores the outcome where the delivery is stored, and returns the resulting
	// state.
	settle func() State
}

// attemptKey finds attempts by the fields in the answer of a consumer.
type attemptKey struct {
	session    profiles.Session
	deliveryID string
}

// deliver makes an attempt. It waits while the consumer reads slowly, but not for the
// answer.
func (a *attachment) deliver(it *item) {
	s := a.s
	publisher, deliveryID := splitID(it.id)
	at := &attempt{a: a, tries: it.tries, key: attemptKey{a.call.Session(), deliveryID}, publisher: publisher}
	at.settle = func() State { return s.endLease(it, at.how) }
	at.ctx, at.cancel = s.within(it.until.Sub(s.opts.Now()) - leaseMargin)
	at.make(func() (profiles.Call, outcome) { return at.send(it) })
}

// make makes an attempt with send and starts the wait for its answer.
func (at *attempt) make(send func() (profiles.Call, outcome)) {
	s := at.a.s
	s.mu.Lock()
	s.attempts[at.key] = append(s.attempts[at.key], at)
	at.a.open = append(at.a.open, at)
	at.behind = at.a.over
	s.mu.Unlock()
	var call profiles.Call
	how := unanswered
	if !at.behind {
		call, how = send()
	}
	if call == nil {
		at.answer(how, nil)
	}
	s.work.Go(func() { at.run(call) }) // Close waits for this goroutine too
}

// send sends a delivery that is stored here. Without a call, the outcome has the reason.
func (at *attempt) send(it *item) (profiles.Call, outcome) {
	s := at.a.s
	switch {
	case it.expired:
		return nil, overdue
	case s.denied(it):
		return nil, denied
	case it.tries > s.limits.Load().MaxAttempts: // the process ended during the last attempt
		it.tries = s.limits.Load().MaxAttempts
		return nil, failed
	}
	r, release, err := s.load(at.ctx, at.a.identity, it)
	defer release()
	switch {
	case err == nil:
	case at.ctx.Err() != nil:
		return nil, unmade
	default:
		return nil, unread
	}
	it.data = nil // frees memory; a repetition reads it again
	return at.publish(r.payload, r.left(s.opts.Now()), r.hops)
}

// publish sends a delivery to the consumer.
func (at *attempt) publish(payload []byte, ttl, hops uint64) (profiles.Call, outcome) {
	m := Publish{DeliveryID: []byte(at.key.deliveryID), Topic: []byte(at.a.named), Payload: payload, TTL: ttl}
	call, err := at.a.call.Lane().Call(at.ctx, e1.Envelope{
		ProfileID: ProfileID, MsgType: TypePublish, Extensions: passage(at.publisher, hops), Payload: m.Append(make([]byte, 0, m.Size())),
	})
	if err != nil {
		return nil, unanswered
	}
	return call, unanswered
}

// passage returns the extensions of a delivery: its publisher, and the number of endpoints
// it has passed.
func passage(publisher string, hops uint64) e1.Extensions {
	ext := e1.AppendExtension(nil, ExtPublisher, []byte(publisher))
	return e1.AppendExtensionUvarint(ext, profiles.ExtHops, hops+1)
}

// fits refuses a message that no attempt could deliver: a delivery has fields and
// extensions that the message of the publisher did not have. It assumes the longest
// additions of the endpoint to an envelope.
func (s *Service) fits(m *Publish, publisher string, ttl time.Duration, hops uint64) error {
	d := Publish{DeliveryID: m.DeliveryID, Topic: m.Topic, Payload: m.Payload, TTL: milliseconds(ttl)}
	limits := &s.opts.Envelope
	env := e1.Envelope{
		Version: e1.Version, ProfileID: ProfileID, MsgType: TypePublish, Flags: math.MaxUint64, Timestamp: math.MaxUint64,
		MsgID: make([]byte, limits.MaxMsgID), Extensions: passage(publisher, hops),
	}
	payload := d.Size()
	size := env.HeadSize() - e1.SizeBytes(0) + e1.SizeBytes(payload)
	switch {
	case payload > limits.MaxPayload:
		return invalid(DetailSize, "as a delivery it has %d octets, want at most %d", payload, limits.MaxPayload)
	case len(env.Extensions) > limits.MaxExtensions:
		return invalid(DetailSize, "as a delivery it has extensions of %d octets, want at most %d", len(env.Extensions), limits.MaxExtensions)
	case size > s.opts.FrameLimit:
		return invalid(DetailSize, "as a delivery it is a frame of %d octets, want at most %d", size, s.opts.FrameLimit)
	}
	return nil
}

// left returns the ttl_ms of a delivery that is made now: at least 1, and at most the whole
// ttl even if the clock has jumped.
func (r *record) left(now time.Time) uint64 {
	if r.bound == "" {
		return 0
	}
	return milliseconds(min(max(r.ttl-now.Sub(r.taken), time.Millisecond), r.ttl))
}

// run waits for the answer and stores the outcome.
func (at *attempt) run(call profiles.Call) {
	silent, lost := false, false
	if call != nil {
		env, err := call.Recv(at.ctx)
		how := unanswered
		if err == nil {
			how = at.read(env)
		}
		_, refused := errors.AsType[*profiles.Error](err)
		lost = err != nil && !refused && at.ctx.Err() == nil
		silent = at.answer(how, nil) && err != nil
		call.Close()
	}
	at.cancel()
	s := at.a.s
	s.mu.Lock()
	if lost { // no answer can come any more, and the next delivery would fail for that alone
		at.a.left()
		defer at.a.call.Leave()
	}
	at.a.seat.silent = silent
	list := slices.DeleteFunc(s.attempts[at.key], func(other *attempt) bool { return other == at })
	if s.attempts[at.key] = list; len(list) == 0 {
		delete(s.attempts, at.key)
	}
	at.blame()
	at.a.free()
	s.mu.Unlock()
	state := at.settle()
	if at.told != nil {
		at.told(state)
	}
}

// blame removes the attempt from those that its consumer holds, and decides whether it has
// failed if it is unanswered. A consumer that leaves or is silent has worked on the first
// delivery that it holds, if it works in order: that attempt has failed. Those behind it were
// not made, so that the fault of a consumer or of its connection is charged to one delivery
// and not to all. The end of this process is the fault of none. The caller holds mu.
func (at *attempt) blame() {
	a := at.a
	first := len(a.open) > 0 && a.open[0] == at
	a.open = slices.DeleteFunc(a.open, func(other *attempt) bool { return other == at })
	if at.how != unanswered {
		return
	}
	at.reason = reasonDetached // a partner that has custody decides in the same way
	switch {
	case !first || at.behind || a.s.ctx.Err() != nil:
		at.how = unmade
	default:
		at.how = failed
		for _, other := range a.open {
			other.behind = true
		}
	}
}

// read returns the outcome in an answer.
func (at *attempt) read(env *e1.Envelope) outcome {
	if env.MsgType == TypeErr {
		return failed
	}
	if id, err := deliveryID(env); err != nil || string(id) != at.key.deliveryID {
		return failed
	}
	switch env.MsgType {
	case TypeAck:
		return processed
	case TypeNack:
		var m Nack
		if m.Decode(env.Payload) != nil {
			return failed
		}
		switch at.reason = string(m.Reason); {
		case !m.Retryable:
			return refused
		case at.reason == reasonDetached:
			return unanswered
		}
	case TypeStatus:
		// A consumer that is a relay answers so if it has the delivery already.
		var m Status
		if m.Decode(env.Payload) == nil && (State(m.State) == Duplicate || State(m.State) == Acked) {
			return processed
		}
	}
	return failed
}

// answer ends the attempt once, and reports whether this was the first answer.
func (at *attempt) answer(how outcome, told func(State)) bool {
	s := at.a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.over {
		return false
	}
	at.over, at.how, at.told = true, how, told
	at.cancel()
	return true
}

// attemptOf returns the attempt that a message with a new msg_id refers to; nil if this
// session has none or several.
func (s *Service) attemptOf(req *profiles.Request, deliveryID []byte) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.attempts[attemptKey{req.Session, string(deliveryID)}]
	publisher, named := req.Extensions.Lookup(ExtPublisher)
	var found *attempt
	for _, at := range list {
		if named && at.publisher != string(publisher) {
			continue
		}
		if found != nil && found.publisher != at.publisher {
			return nil
		}
		found = at
	}
	return found
}
