package relay

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// publish handles a RELAY_PUBLISH: from a relay for a consumer on this side, or from a
// publisher.
func (s *Service) publish(ctx context.Context, req *profiles.Request) error {
	var m Publish
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	publisher, named := req.Extensions.Lookup(ExtPublisher)
	if named {
		if c := s.inboxes.find(req.Lane, m.Topic, itemID(string(publisher), m.DeliveryID)); c != nil {
			return c.arrive(req, &m, string(publisher))
		}
	}
	target, err := profiles.TargetOf(req.Extensions)
	if err != nil {
		return err
	}
	topic, at, err := s.placeOf(target, m.Topic)
	if err != nil {
		return err
	}
	m.Topic = topic
	req.About("publish", string(topic))
	identity := req.Identity()
	hops, _, err := profiles.Uvarint(req.Extensions, profiles.ExtHops)
	switch {
	case err != nil:
		return err
	case named && string(publisher) != identity:
		return &profiles.Error{Code: profiles.SecurityPolicy, Detail: DetailPublisher, Text: "relay: the publisher is another than the peer"}
	case s.opts.Store == nil:
		return errNoRelay
	case !s.opts.Access.Allowed(identity, "relay", "publish", string(m.Topic)):
		return errDenied
	case s.owned(identity, at):
		req.Forbid(s.opts.Access, Name, "publish", string(topic), errOwned.Detail)
		return errOwned
	case at.partner != "" && s.opts.Carries != nil:
		if err := s.opts.Carries(at.partner); err != nil {
			return err
		}
	}
	id, ttl, err := s.admit(&m, identity, hops)
	if err != nil {
		return err
	}
	var under conditions
	if at.partner != "" {
		if under, err = s.conditionsOf(ctx, string(topic)); err != nil {
			return err
		}
	}
	held, w, err := req.Hold()
	if err != nil {
		return err
	}
	if err := m.Decode(held.Payload); err != nil { // decoded again from the copy
		w.Fail(err)
		return nil
	}
	m.Topic = topic
	c := &custody{s, w, held, id, m.DeliveryID, string(topic)}
	s.take(&m, at.target, under, identity, id, ttl, hops, c.stored)
	return nil
}

// owned reports whether a topic belongs to a profile that an identity would speak for.
func (s *Service) owned(identity string, at place) bool {
	_, isEndpoint := s.partner(identity)
	isEndpoint = isEndpoint || s.opts.Self != nil && identity == s.opts.Self()
	return slices.ContainsFunc(s.opts.Owned, func(o Owned) bool {
		return strings.HasPrefix(at.topic, o.Prefix) && !(o.Endpoints && isEndpoint && at.partner == "")
	})
}

// act is the publication of a delivery. One that a relay hands to a consumer of this side is
// what the consumer has asked for.
func (s *Service) act(req *profiles.Request) (profiles.Act, error) {
	switch req.MsgType {
	case TypePublish:
	case TypeStatus:
		return profiles.Act{Operation: "status"}, nil
	default:
		return profiles.Act{Ends: true}, nil
	}
	var m Publish
	if err := m.Decode(req.Payload); err != nil {
		return profiles.Act{}, err
	}
	publisher, named := req.Extensions.Lookup(ExtPublisher)
	if named && s.inboxes.find(req.Lane, m.Topic, itemID(string(publisher), m.DeliveryID)) != nil {
		return profiles.Act{Operation: "publish", Name: string(m.Topic), Free: true}, nil
	}
	target, err := profiles.TargetOf(req.Extensions)
	if err != nil {
		return profiles.Act{}, err
	}
	topic, _, err := s.placeOf(target, m.Topic)
	return profiles.Act{Operation: "publish", Name: string(topic), Ruled: true}, err
}

// admit validates a delivery for storage and delivery, and returns its id and lifetime.
func (s *Service) admit(m *Publish, identity string, hops uint64) (id string, ttl time.Duration, err error) {
	most := s.limits.Load().MaxPayload
	switch {
	case s.opts.Store == nil:
		return "", 0, errNoRelay
	case hops >= profiles.MaxHops:
		return "", 0, invalid(DetailHops, "%d hops, want less than %d", hops, profiles.MaxHops)
	case most > 0 && len(m.Payload) > most:
		return "", 0, invalid(DetailSize, "payload: %d octets, want at most %d", len(m.Payload), most)
	case s.ctx.Err() != nil:
		return "", 0, errEnding
	}
	id = itemID(identity, m.DeliveryID)
	if len(id) > maxKey {
		return "", 0, invalid(DetailSize, "delivery_id and the identity of its publisher are too long together")
	}
	if _, _, ok := s.behind(string(m.Topic)); ok && len(m.DeliveryID)+tagSize+sealSize > MaxDeliveryID {
		return "", 0, invalid(DetailSize, "delivery_id: %d octets, want at most %d for a topic of a partner", len(m.DeliveryID), MaxDeliveryID-tagSize-sealSize)
	}
	ttl = s.ttl(m.TTL)
	return id, ttl, s.fits(m, identity, ttl, hops)
}

// take submits a delivery to the Store and passes the result to stored. target is the
// destination behind a partner.
func (s *Service) take(m *Publish, target string, under conditions, identity, id string, ttl time.Duration, hops uint64, stored func(store.AddResult)) {
	now := s.opts.Now()
	r := record{hops: hops, taken: now, topic: string(m.Topic), target: target, conditions: under, payload: m.Payload}
	life := s.limits.Load().Retention
	if ttl > 0 {
		life, r.bound, r.ttl = ttl, TTLExpired, ttl
	}
	data := r.append(make([]byte, 0, maxHead+len(m.Payload)))
	expires := now.Add(life)
	queue := s.queue(m.Topic)
	s.opts.Store.Add(space, queue, id, markOf(m.Topic, m.Payload), identity, data, expires, now.Add(s.remembered(identity, queue)),
		func(r store.AddResult) {
			if r.Fresh {
				s.expiry.sooner(expires)
				s.taken.Add(1)
			}
			stored(r)
			if r.Fresh {
				s.due(queue, time.Time{})
			}
		})
}

// remembered returns how long the id of a delivery is remembered.
func (s *Service) remembered(identity, queue string) time.Duration {
	o := s.limits.Load()
	if _, ok := s.partner(identity); ok || queue[0] == kindOnward {
		return max(o.Window, o.Retention)
	}
	return o.Window
}

// ttl returns the lifetime of a delivery; 0 if Retention ends it anyway.
func (s *Service) ttl(ms uint64) time.Duration {
	if ttl := ttlOf(ms, s.limits.Load().TTL); ttl <= s.limits.Load().Retention {
		return ttl
	}
	return 0
}

// ttlOf returns the lifetime of a delivery; 0 means as long as it is stored. A value beyond
// the range of a duration counts as unlimited.
func ttlOf(ms uint64, def time.Duration) time.Duration {
	switch {
	case ms == 0:
		return def
	case ms > math.MaxInt64/uint64(time.Millisecond):
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// custody is a RELAY_PUBLISH that waits for the Store.
type custody struct {
	s          *Service
	w          profiles.Responder
	req        *profiles.Request
	id         string
	deliveryID []byte
	topic      string
}

// stored answers the publisher. If the answer is lost, the publisher asks again.
func (c *custody) stored(r store.AddResult) {
	s := c.s
	switch {
	case r.Err != nil:
		c.w.Fail(s.notTaken(c.topic, r.Err))
	case r.Fresh:
		m := Ack{DeliveryID: c.deliveryID}
		_ = c.w.Finish(e1.Envelope{MsgType: TypeAck, Payload: m.Append(make([]byte, 0, m.Size()))})
	case !r.Equal:
		c.w.Fail(errConflict)
	default:
		s.mu.Lock()
		spawned := s.spawn(c.known)
		s.mu.Unlock()
		if !spawned {
			c.w.Fail(errEnding)
		}
	}
}

// known answers a repeated publication. It reads the Store.
func (c *custody) known() {
	_, attempts, err := c.s.stand(c.s.ctx, c.id)
	if err != nil {
		c.w.Fail(unavailable(err))
		return
	}
	_ = c.w.Finish(statusOf(c.deliveryID, Duplicate, max(attempts, 1)))
}

// Publication is a delivery to publish.
type Publication struct {
	ID      []byte // delivery_id; required, at most MaxDeliveryID octets
	Topic   string // required, at most MaxTopic octets of UTF-8
	Payload []byte

	// TTL is the lifetime of the delivery from custody, in milliseconds on the wire. Zero:
	// the default of the relay.
	TTL time.Duration

	// Hops is the number of endpoints that the delivery has passed; see Forward.
	Hops uint64
}

// Receipt is the answer of a relay to a publication.
type Receipt struct {
	// Duplicate says that the relay had the delivery already. Attempts then is the number
	// of the attempt that is due, in progress, or was the last.
	Duplicate bool
	Attempts  uint32
}

// Send publishes to a relay and returns when the relay has custody: the relay is then
// responsible for the delivery. The error is a *profiles.PeerError if the relay refused, an
// *profiles.Error if either side refused the message, or the error of the context; in the last
// case the relay may have the delivery, and Send can be repeated. Callers on one lane share
// a stream.
func Send(ctx context.Context, on profiles.Caller, p *Publication) (Receipt, error) {
	wait, err := Submit(ctx, on, p)
	if err != nil {
		return Receipt{}, err
	}
	return wait(ctx)
}

// Submit is Send without waiting: it returns when the message is sent, and wait returns the
// result of Send. Call wait once. Submissions of one goroutine on one lane arrive in order.
func Submit(ctx context.Context, on profiles.Caller, p *Publication) (wait func(context.Context) (Receipt, error), err error) {
	m := Publish{DeliveryID: p.ID, Topic: []byte(p.Topic), Payload: p.Payload, TTL: milliseconds(p.TTL)}
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypePublish, Payload: m.Append(make([]byte, 0, m.Size()))}
	if err := m.Decode(env.Payload); err != nil {
		return nil, err
	}
	if p.Hops > 0 {
		env.Extensions = e1.AppendExtensionUvarint(nil, profiles.ExtHops, p.Hops)
	}
	call, err := on.Call(ctx, env)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (r Receipt, err error) {
		err = answered(ctx, call, p.ID, func(answer *e1.Envelope, m *Status) bool {
			switch {
			case answer.MsgType == TypeAck:
				return true
			case answer.MsgType == TypeStatus && State(m.State) == Duplicate:
				r = Receipt{Duplicate: true, Attempts: m.Attempts}
				return true
			}
			return false
		})
		return r, err
	}, nil
}

// milliseconds rounds up, because 0 would mean unlimited.
func milliseconds(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((d-1)/time.Millisecond) + 1
}

// Ask asks a relay for the state of a delivery of this side, and for the number of the
// attempt that is due, in progress, or was the last. Errors are those of Send; for an
// unknown delivery the relay answers CodeNotFound.
func Ask(ctx context.Context, on profiles.Caller, id []byte) (State, uint32, error) {
	m := Status{DeliveryID: id}
	if err := checkID(id); err != nil {
		return "", 0, err
	}
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeStatus, Payload: m.Append(make([]byte, 0, m.Size()))}
	call, err := on.Call(ctx, env)
	if err != nil {
		return "", 0, err
	}
	var state State
	var attempts uint32
	err = answered(ctx, call, id, func(answer *e1.Envelope, m *Status) bool {
		state, attempts = State(m.State), m.Attempts
		return answer.MsgType == TypeStatus && slices.Contains([]State{Queued, Retry, Acked, DeadState, Duplicate}, state)
	})
	return state, attempts, err
}

// answered waits for the answer to a message about a delivery. take reports whether an
// answer is acceptable.
func answered(ctx context.Context, call profiles.Call, id []byte, take func(*e1.Envelope, *Status) bool) error {
	defer call.Close()
	answer, err := call.Recv(ctx)
	if err != nil {
		return err
	}
	if answer.MsgType == TypeErr {
		return refusals.Read(answer)
	}
	got, err := deliveryID(answer)
	if err != nil {
		return err
	}
	var m Status
	if answer.MsgType == TypeStatus {
		if err := m.Decode(answer.Payload); err != nil {
			return err
		}
	}
	if string(got) != string(id) || !take(answer, &m) {
		return invalid("", "msg_type %d for delivery %.64q is no answer", answer.MsgType, got)
	}
	return nil
}
