package relay

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Deliveries for topics of a partner (partner/topic) wait in one queue, and are published
// to the partner while there is a session to it. Custody ends here with the ACK of the
// partner, which stores the delivery from then on.

// onwardPlaces limits the deliveries in flight to a partner.
const onwardPlaces = 64

// onward publishes deliveries to a partner over one session.
type onward struct {
	s       *Service
	partner string
	session profiles.Session
	knows   Knows

	// Guarded by mu of the Service.
	seat    *seat
	outbox  []*item
	running bool
	over    bool
	held    map[string]*Refusal // why the partner does not accept deliveries now, by topic
}

// Bound limits the deliveries that wait for a partner, by number and by octets; a delivery
// counts its payload, its topic and about 50 octets. Deliveries above the limit are refused
// as retryable. It applies to later deliveries. done is called when the Store has the
// limit.
func (s *Service) Bound(partner string, messages, octets int64, done func(error)) {
	if s.opts.Store == nil {
		done(nil)
		return
	}
	s.opts.Store.Bound(space, queueOf(kindOnward, partner), store.Room{Items: messages, Octets: octets}, done)
}

// Waiting returns the number and octets of the deliveries that wait for a partner, if Bound
// was called for the partner.
func (s *Service) Waiting(partner string) (messages, octets int64) {
	if s.opts.Store == nil {
		return 0, 0
	}
	held := s.opts.Store.Holds(space, queueOf(kindOnward, partner))
	return held.Items, held.Octets
}

// behind returns the partner of a topic, and the topic there.
func (s *Service) behind(topic string) (partner, rest string, ok bool) {
	if s.opts.Behind == nil {
		return "", "", false
	}
	return s.opts.Behind(topic)
}

// place is the destination of a topic.
type place struct {
	partner string // empty: the topic is local
	target  string // target behind the partner (extension 52)
	topic   string // there
}

// placeOf returns the local name of the topic of a message, and its destination.
func (s *Service) placeOf(target string, topic []byte) (full []byte, at place, err error) {
	if target == "" {
		at.topic = string(topic)
		if partner, rest, ok := s.behind(at.topic); ok {
			at.partner, at.topic = partner, rest
		}
		return topic, at, nil
	}
	full = []byte(target + "/" + string(topic))
	first, rest, _ := strings.Cut(target, "/")
	if _, _, ok := s.behind(string(full)); !ok {
		return nil, at, &profiles.Error{
			Code: profiles.NotFound, Detail: "partner_unknown", Domain: true, Text: "relay: there is no partner " + first,
			Answer: refusals.Answer(CodeNotFound, "there is no partner "+first, false),
		}
	}
	return full, place{first, rest, string(topic)}, checkTopic(full)
}

// queue returns the queue for deliveries of a topic.
func (s *Service) queue(topic []byte) string {
	if partner, _, ok := s.behind(string(topic)); ok {
		return queueOf(kindOnward, partner)
	}
	return queueOf(kindTopic, topic)
}

// live reports whether a queue holds deliveries that are not dead.
func live(queue string) bool {
	return queue != "" && (queue[0] == kindTopic || queue[0] == kindOnward)
}

// Knows says which features a partner supports.
type Knows struct {
	RPC     bool // profile 12
	Targets bool // extension 52
}

// Reached publishes the deliveries for a partner on a session to it, which replaces the
// previous one.
func (s *Service) Reached(partner string, session profiles.Session, knows Knows) {
	if s.opts.Store == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.links[partner]
	if s.closed || session.Context().Err() != nil || old != nil && old.session == session {
		return
	}
	if old != nil {
		old.left()
	}
	f := &onward{s: s, partner: partner, session: session, knows: knows}
	s.links[partner] = f
	f.seat = s.sit(queueOf(kindOnward, partner), onwardPlaces, f.give)
	if knows.RPC && s.opts.Call != nil {
		s.spawn(f.greet)
	}
	context.AfterFunc(session.Context(), f.leave)
}

// NoPartner stops publishing to a partner. Its deliveries wait for the next Reached, or
// expire.
func (s *Service) NoPartner(partner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.links[partner]; f != nil {
		f.left()
	}
}

func (f *onward) leave() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.left()
}

// left is leave for callers that hold mu. Deliveries without an answer are sent again.
func (f *onward) left() {
	if f.over {
		return
	}
	f.over = true
	f.seat.leave()
	if f.s.links[f.partner] == f {
		delete(f.s.links, f.partner)
	}
	for _, it := range f.outbox {
		f.s.giveBack(it)
	}
	f.outbox = nil
}

// give accepts a leased delivery. The caller holds mu.
func (f *onward) give(it *item) {
	f.outbox = append(f.outbox, it)
	if !f.running {
		f.running = f.s.spawn(f.run)
	}
	if !f.running {
		f.left()
	}
}

func (f *onward) pop() *item {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if len(f.outbox) == 0 {
		f.running = false
		return nil
	}
	it := f.outbox[0]
	f.outbox = f.outbox[1:]
	return it
}

// run publishes deliveries in the order of custody.
func (f *onward) run() {
	var lane profiles.Lane
	for it := f.pop(); it != nil; it = f.pop() {
		var err error
		if lane == nil {
			lane, err = f.session.Open(f.s.ctx)
		}
		if err != nil {
			lane = nil
			f.endAttempt(it, err)
			continue
		}
		f.publish(it, lane)
	}
	if lane != nil {
		_ = lane.Close()
	}
}

// publish sends one delivery. It does not wait for the answer.
func (f *onward) publish(it *item, lane profiles.Lane) {
	s := f.s
	if how := overdue; it.expired || s.denied(it) {
		if !it.expired {
			how = denied
		}
		s.endLease(it, how)
		f.free()
		return
	}
	ctx, cancel := s.within(it.until.Sub(s.opts.Now()) - leaseMargin)
	r, release, err := s.load(ctx, f.session.Peer().Identity, it)
	if err != nil {
		release()
		cancel()
		s.endLease(it, unread)
		f.free()
		return
	}
	publisher, id := splitID(it.id)
	ctx = profiles.WithCaller(ctx, publisher)
	p := Publication{
		ID: s.idThere(f.session.Peer().Identity, publisher, id), Topic: r.there(f.partner), Payload: r.payload, TTL: s.leftOf(r), Hops: r.hops + 1,
	}
	it.data = nil
	topic := r.topic
	within, err := s.under(ctx, publisher, r)
	var wait func(context.Context) (Receipt, error)
	if err == nil {
		wait, err = f.submit(within, lane, &p, r.target)
	}
	release()
	if err != nil {
		cancel()
		f.hold(topic, err)
		f.endAttempt(it, err)
		return
	}
	s.work.Go(func() {
		defer cancel()
		_, err := wait(ctx)
		if profiles.Misanswered(err) {
			err = f.wrong(publisher, topic, err)
		}
		f.report(publisher, topic, err)
		f.hold(topic, err)
		f.endAttempt(it, err)
	})
}

// there returns the topic at the end of the target, or at the partner.
func (r *record) there(partner string) string {
	if r.target != "" {
		partner += "/" + r.target
	}
	return strings.TrimPrefix(r.topic, partner+"/")
}

// submit is Submit with a target behind the partner.
func (f *onward) submit(ctx context.Context, lane profiles.Lane, p *Publication, target string) (func(context.Context) (Receipt, error), error) {
	switch {
	case target == "":
		return Submit(ctx, lane, p)
	case !f.knows.Targets:
		return nil, errTargets
	}
	return Submit(ctx, profiles.Beyond(lane, target), p)
}

// errTargets is the error for a delivery with a target that the partner would ignore.
var errTargets = &profiles.Error{Code: profiles.Internal, Detail: "partner_extension", Text: "relay: the partner does not know of extension 52, targets"}

// wrong tells of an answer by which the partner has broken the protocol. It says nothing of
// whether the partner has taken custody.
func (f *onward) wrong(publisher, topic string, err error) error {
	f.s.wrong(f.partner, publisher, "publish", topic, err)
	return &profiles.Error{Code: profiles.Internal, Detail: "partner_wrong", Retryable: true, Domain: true, Cause: err}
}

// report tells of a delivery that the partner has refused for good.
func (f *onward) report(publisher, topic string, err error) {
	if said, ok := errors.AsType[*profiles.PeerError](err); ok && !said.Retryable() && f.s.opts.Refused != nil {
		f.s.opts.Refused(f.partner, publisher, topic, *f.refusalOf(err))
	}
}

// leftOf returns the remaining lifetime of a delivery, at least a millisecond.
func (s *Service) leftOf(r *record) time.Duration {
	if ms := r.left(s.opts.Now()); ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return max(r.taken.Add(s.limits.Load().Retention).Sub(s.opts.Now()), time.Millisecond)
}

// endAttempt ends the lease of a delivery after an attempt; a nil error means that the
// partner has custody. If the partner is away, silent or has no room, the attempt does not
// count.
func (f *onward) endAttempt(it *item, err error) {
	s := f.s
	switch {
	case err == nil:
		s.endLease(it, processed)
	case f.refuses(err):
		it.refusal = f.refusalOf(err)
		s.endLease(it, refused)
	case f.session.Context().Err() != nil:
		s.retry(it, time.Time{}, false)
	default:
		s.retry(it, s.opts.Now().Add(s.backoff(onwardPause)), false)
	}
	f.free()
}

// refuses reports whether an error means that a retry is useless.
func (f *onward) refuses(err error) bool {
	if said, ok := errors.AsType[*profiles.PeerError](err); ok {
		return !said.Retryable()
	}
	fault, ok := errors.AsType[*profiles.Error](err)
	return ok && !fault.Retryable && !fault.Pace && f.session.Context().Err() == nil
}

// onwardPause selects the pause after a partner had no room or did not answer: that after
// the attempt of this number.
const onwardPause = 3

func (f *onward) free() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.seat.add(1)
}
