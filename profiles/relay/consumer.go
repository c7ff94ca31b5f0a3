package relay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Stream is the part of an RPC call that Consume needs. Package rpc implements it.
type Stream interface {
	Recv(ctx context.Context) ([]byte, error)
	Close()
}

// Consumer receives the deliveries of a topic from a relay. It is safe for concurrent use.
type Consumer struct {
	s      *Service
	lane   profiles.Lane
	key    inboxKey
	apart  bool // each attempt becomes a Delivery of its own
	stream Stream
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	ready  chan struct{} // one slot

	mu     sync.Mutex
	places int
	queue  []*Delivery
	open   map[string]*Delivery // unanswered deliveries, by the id of the item
	err    error                // reason why the call has ended
}

// Delivery is a delivery to be processed. Its fields may be read until it is answered. It
// is safe for concurrent use.
type Delivery struct {
	Publisher string // identity
	ID        []byte // delivery_id, unique per publisher
	Topic     string
	Payload   []byte
	TTL       time.Duration // remaining time; 0: unknown
	Hops      uint64        // endpoints it has passed

	c    *Consumer
	id   string
	came time.Time

	mu sync.Mutex

	// The first attempt, whose request the fields alias, and the last one, which receives
	// the answer. Empty after the answer.
	attempts []profiles.Responder

	lent, dropped bool // see lend
}

// maxGranted limits the unanswered deliveries that a relay may choose.
const maxGranted = 1 << 16

// inboxKey identifies the deliveries for a consumer.
type inboxKey struct {
	lane  profiles.Lane
	topic string
}

// inboxes are the consumers of this side.
type inboxes struct {
	mu   sync.Mutex
	open map[inboxKey][]*Consumer
}

// find returns the consumer for a delivery, or nil: the one that has it already, otherwise
// the one with most room. A delivery does not say which of several consumers of its topic
// on its lane it is for.
func (b *inboxes) find(lane profiles.Lane, topic []byte, id string) (best *Consumer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := math.MinInt
	for _, c := range b.open[inboxKey{lane, string(topic)}] {
		has, room := c.room(id)
		if has {
			return c
		}
		if room > most {
			best, most = c, room
		}
	}
	return best
}

// room reports whether the consumer has the delivery, and how many more it can take.
func (c *Consumer) room(id string) (has bool, more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if more = c.places - len(c.open); c.ctx.Err() != nil {
		more -= 1 << 30
	}
	return c.open[id] != nil, more
}

func (b *inboxes) close() {
	b.mu.Lock()
	all := make([]*Consumer, 0, len(b.open))
	for _, list := range b.open {
		all = append(all, list...)
	}
	b.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// How long a Consumer still answers on its lane after the end of its call: deliveries in
// flight, and deliveries in processing.
const (
	graceTime = time.Second
	lateTime  = time.Minute
)

var (
	errTaken  = errors.New("relay: this topic is consumed on this connection already")
	errNoOpen = errors.New("relay: Options.Open is not set")
)

// Consume attaches to a topic at a relay on a separate lane, and returns after the
// confirmation of the relay. With maxInFlight 0 the relay chooses the number of unanswered
// deliveries. The caller must close the Consumer. Errors come from the RPC call.
func (s *Service) Consume(ctx context.Context, session profiles.Session, topic string, maxInFlight int) (*Consumer, error) {
	if s.opts.Open == nil {
		return nil, errNoOpen
	}
	lane, err := session.Open(ctx)
	if err != nil {
		return nil, err
	}
	c := s.newConsumer(inboxKey{profiles.Near(lane), topic}, lane, maxInFlight)
	if err := c.begin(ctx, maxInFlight, nil); err != nil {
		return nil, err
	}
	return c, nil
}

func (s *Service) newConsumer(key inboxKey, lane profiles.Lane, maxInFlight int) *Consumer {
	c := &Consumer{
		s: s, key: key, lane: lane, done: make(chan struct{}), ready: make(chan struct{}, 1),
		places: maxInFlight, open: make(map[string]*Delivery),
	}
	if maxInFlight <= 0 { // until the relay has said it
		c.places = s.limits.Load().MaxInFlight
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	return c
}

// begin attaches, or closes the lane on failure.
func (c *Consumer) begin(ctx context.Context, maxInFlight int, ext e1.Extensions) error {
	params, err := json.Marshal(AttachParams{Topic: c.key.topic, MaxInFlight: maxInFlight})
	if err == nil {
		err = c.enter()
	}
	if err == nil {
		err = c.attach(ctx, params, maxInFlight, ext)
	}
	if err != nil {
		c.cancel()
		c.retire()
		return err
	}
	go c.run()
	return nil
}

func (c *Consumer) attach(ctx context.Context, params []byte, maxInFlight int, ext e1.Extensions) error {
	var err error
	if c.stream, err = c.s.opts.Open(ctx, c.lane, MethodAttach, params, ext); err != nil {
		return err
	}
	first, err := c.stream.Recv(ctx)
	if err != nil {
		c.stream.Close()
		return err
	}
	var confirmed Attached
	err = json.Unmarshal(first, &confirmed)
	if n := confirmed.MaxInFlight; err != nil || n < 1 || n > maxGranted || maxInFlight > 0 && n > maxInFlight {
		c.stream.Close()
		return invalid("", "%s is confirmed by %.100q", MethodAttach, first)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places = confirmed.MaxInFlight
	return nil
}

// enter routes deliveries of the lane and the topic to this consumer. Two consumers of one
// topic on one lane are allowed only if each attempt is a separate Delivery.
func (c *Consumer) enter() error {
	b := &c.s.inboxes
	b.mu.Lock()
	defer b.mu.Unlock()
	if !c.apart && slices.ContainsFunc(b.open[c.key], func(other *Consumer) bool { return other.ctx.Err() == nil }) {
		return errTaken
	}
	b.open[c.key] = append(b.open[c.key], c)
	return nil
}

func (c *Consumer) leave() {
	b := &c.s.inboxes
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.DeleteFunc(b.open[c.key], func(other *Consumer) bool { return other == c })
	if b.open[c.key] = list; len(list) == 0 {
		delete(b.open, c.key)
	}
}

// run waits for the end of the call.
func (c *Consumer) run() {
	defer close(c.done)
	for {
		if _, err := c.stream.Recv(c.ctx); err != nil {
			if c.ctx.Err() != nil {
				err = profiles.ErrFinished
			}
			c.stream.Close()
			c.end(err)
			return
		}
	}
}

// end gives back deliveries that were not received.
func (c *Consumer) end(err error) {
	c.cancel()
	c.mu.Lock()
	c.err = err
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, d := range queue {
		_ = d.Nack(true, reasonDetached) // on failure the relay has noticed the end itself
	}
	c.wake()
	time.AfterFunc(graceTime, func() {
		c.mu.Lock()
		unanswered := len(c.open) > 0
		c.mu.Unlock()
		if unanswered {
			time.AfterFunc(lateTime, c.retire)
			return
		}
		c.retire()
	})
}

// retire closes the lane.
func (c *Consumer) retire() {
	c.leave()
	_ = c.lane.Close()
}

// reasonDetached is the reason_code for deliveries after the consumer has left.
const reasonDetached = "detached"

func (c *Consumer) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Close detaches. Received deliveries may still be answered for a minute. Further calls
// have no effect.
func (c *Consumer) Close() {
	c.cancel()
	<-c.done
}

// Recv returns the next delivery, which the caller must answer with Ack or Nack. After the
// end of the call it returns the reason; after Close, profiles.ErrFinished.
func (c *Consumer) Recv(ctx context.Context) (*Delivery, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			d := c.queue[0]
			if c.queue = c.queue[1:]; len(c.queue) > 0 {
				c.wake()
			}
			if c.apart { // a newer attempt must not drop it before it was handed on
				d.lend()
			}
			c.mu.Unlock()
			return d, nil
		}
		err := c.err
		c.mu.Unlock()
		if err != nil {
			c.wake() // for the next call of Recv
			return nil, err
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// arrive handles a RELAY_PUBLISH of the relay. A further attempt of a delivery in
// processing gets the same answer later.
func (c *Consumer) arrive(req *profiles.Request, m *Publish, publisher string) error {
	id := itemID(publisher, m.DeliveryID)
	hops, _, err := profiles.Uvarint(req.Extensions, profiles.ExtHops)
	if err != nil {
		return err
	}
	c.mu.Lock()
	full := len(c.open) >= 2*c.places && c.open[id] == nil
	c.mu.Unlock()
	if full {
		return profiles.Busy(DetailInbox, "relay: more deliveries than were asked for")
	}
	held, w, err := req.Hold()
	if err != nil {
		return err
	}
	if err := m.Decode(held.Payload); err != nil { // decoded again from the copy
		w.Fail(err)
		return nil
	}
	d := &Delivery{
		Publisher: publisher, ID: m.DeliveryID, Topic: c.key.topic, Payload: m.Payload, TTL: ttlOf(m.TTL, 0), Hops: hops,
		c: c, id: id, came: time.Now(), attempts: []profiles.Responder{w},
	}
	c.mu.Lock()
	ended, old := c.err != nil, c.open[id]
	merged := !ended && !c.apart && old != nil && old.again(w)
	if !ended && !merged {
		c.queue = slices.DeleteFunc(c.queue, func(other *Delivery) bool { return other == old })
		c.open[id] = d
		c.queue = append(c.queue, d)
		c.wake()
	}
	c.mu.Unlock()
	switch {
	case ended:
		_ = d.Nack(true, reasonDetached)
	case old != nil && !merged:
		old.drop()
	}
	return nil
}

// again attaches a newer attempt to the delivery, for the answer. It returns false if the
// delivery was answered already.
func (d *Delivery) again(w profiles.Responder) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch len(d.attempts) {
	case 0:
		return false
	case 2:
		d.attempts[1].Fail(nil)
		d.attempts[1] = w
	default:
		d.attempts = append(d.attempts, w)
	}
	return true
}

// Ack reports that the delivery is processed. A nil error means that the answer was queued;
// if it does not reach the relay, the delivery is repeated.
func (d *Delivery) Ack() error {
	m := Ack{DeliveryID: d.ID}
	return d.finish(TypeAck, m.Append(make([]byte, 0, m.Size())))
}

// Nack reports that the delivery was not processed, whether to retry, and the reason, a
// word for the log of the relay.
func (d *Delivery) Nack(retryable bool, reason string) error {
	m := Nack{DeliveryID: d.ID, Retryable: retryable, Reason: []byte(reason)}
	return d.finish(TypeNack, m.Append(make([]byte, 0, m.Size())))
}

func (d *Delivery) finish(msgType uint64, payload []byte) error {
	d.mu.Lock()
	attempts := d.attempts
	d.attempts = nil
	d.mu.Unlock()
	if len(attempts) == 0 {
		return profiles.ErrFinished
	}
	c := d.c
	c.mu.Lock()
	if c.open[d.id] == d {
		delete(c.open, d.id)
	}
	c.mu.Unlock()
	err := attempts[len(attempts)-1].Finish(e1.Envelope{MsgType: msgType, Payload: payload})
	if len(attempts) > 1 {
		attempts[0].Fail(nil)
	}
	return err
}

// Forward returns a delivery as a publication for another relay. Its id is derived from the
// publisher and the delivery_id: for that relay all forwarded deliveries have the same
// publisher. It is the same each time.
func Forward(d *Delivery) Publication {
	h := sha256.New()
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(d.Publisher)))) // never fails
	_, _ = h.Write([]byte(d.Publisher))
	_, _ = h.Write(d.ID)
	return Publication{ID: h.Sum(nil), Topic: d.Topic, Payload: d.Payload, TTL: d.TTL, Hops: d.Hops}
}
