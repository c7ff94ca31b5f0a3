package relay

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slimwire/swp/profiles"
)

// AttachParams are the params of swp.relay.attach, as JSON.
type AttachParams struct {
	Topic       string `json:"topic"`                   // literal text
	MaxInFlight int    `json:"max_in_flight,omitempty"` // unanswered deliveries at once; default 16
}

// Attached is the first stream item of swp.relay.attach, as JSON. Later items have the same
// content and only show that the relay is alive.
type Attached struct {
	Topic       string `json:"topic"`
	MaxInFlight int    `json:"max_in_flight"` // as granted by the relay
}

const defaultInFlight = 16

// account holds the attachments of one identity. Guarded by mu of the Service. It assumes
// one process: the limits of an identity count the attachments here only.
type account struct {
	attachments map[*attachment]struct{}
}

// attachment is a consumer of a topic.
type attachment struct {
	s        *Service
	call     profiles.Pending
	identity string
	topic    string // here
	at       place  // of the topic
	named    string // topic as given by the consumer
	places   int
	ready    chan struct{} // one slot; filled when outbox is not empty

	// Guarded by mu of the Service.
	seat   *seat
	stays  func() bool // of profiles.OnDraining
	outbox []*item
	open   []*attempt // those without an outcome, in the order of their deliveries
	over   bool

	checked time.Time // time of the last check of Access; used by run only
}

// attach is the RPC method swp.relay.attach: the caller receives the deliveries of a topic
// while its call is open. It does not wait.
func (s *Service) attach(call profiles.Pending, params []byte) error {
	var p AttachParams
	if err := decodeParams(params, &p); err != nil {
		return err
	}
	switch {
	case s.opts.Store == nil:
		return errNoRelay
	case !utf8.ValidString(p.Topic): // encoding/json has replaced invalid UTF-8
		return invalid("", "topic: not UTF-8")
	case p.MaxInFlight < 0:
		return invalid("", "max_in_flight: %d is negative", p.MaxInFlight)
	case p.MaxInFlight == 0:
		p.MaxInFlight = defaultInFlight
	}
	if err := checkTopic([]byte(p.Topic)); err != nil {
		return err
	}
	topic, at, err := s.placeOf(call.Target(), []byte(p.Topic))
	if err != nil {
		return err
	}
	a := &attachment{
		s: s, call: call, identity: call.Peer().Identity, topic: string(topic), at: at, named: p.Topic, seat: new(seat),
		places: min(p.MaxInFlight, s.limits.Load().MaxInFlight), ready: make(chan struct{}, 1),
	}
	call.About("relay", "consume", a.topic)
	switch {
	case !profiles.Allowed(call, s.opts.Access, a.identity, "relay", "consume", a.topic):
		return errDenied
	case !profiles.Allowed(call, hearing{a}, a.identity, "relay", "consume", a.topic):
		return errAgent
	}
	profiles.Learn(call.Session(), profiles.Offer{Profiles: []uint64{ProfileID}}) // it asks for deliveries
	s.meet(call.Session(), call.Peer())
	far := at.partner != ""
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved.Bound(s.limits.Load().InFlight)
	switch {
	case s.draining:
		return errEnding
	case s.reserved.Exceeds(a.identity, a.places, s.limits.Load().IdentityInFlight, profiles.Asserters(s.opts.Access)):
		return profiles.Busy(DetailBound, "relay: too many consumers of this identity")
	}
	if fault := s.reserved.Ask(a.identity, a.places).Refuse(errConsumers); fault != nil {
		return fault
	}
	if !far {
		if err := a.confirm(a.places); err != nil {
			return err
		}
	}
	a.stays = profiles.OnDraining(call.Session(), func() { a.fail(errEnding) })
	s.account(a.identity).attachments[a] = struct{}{}
	s.reserved.Force(a.identity, a.places)
	if far {
		s.work.Go(func() { a.follow(at) })
		return nil
	}
	a.seat = s.sit(queueOf(kindTopic, a.topic), a.places, a.give)
	s.work.Go(a.run)
	return nil
}

var errConsumers = profiles.Busy(DetailBound, "relay: too many consumers")

// confirm tells the consumer that it is attached.
func (a *attachment) confirm(places int) error {
	confirmation, err := json.Marshal(Attached{Topic: a.named, MaxInFlight: places})
	if err != nil {
		return err
	}
	return a.call.Item(confirmation)
}

// account returns the account of an identity. The caller holds mu.
func (s *Service) account(identity string) *account {
	a := s.accounts[identity]
	if a == nil {
		a = &account{attachments: make(map[*attachment]struct{})}
		s.accounts[identity] = a
	}
	return a
}

func (s *Service) tidyAccount(identity string) {
	if a := s.accounts[identity]; a != nil && len(a.attachments) == 0 {
		delete(s.accounts, identity)
	}
}

// give accepts a leased delivery. The caller holds mu.
func (a *attachment) give(it *item) {
	a.outbox = append(a.outbox, it)
	select {
	case a.ready <- struct{}{}:
	default:
	}
}

// fail ends the attachment with an error.
func (a *attachment) fail(err error) {
	a.leave()
	a.call.Fail(err)
}

// leave ends the attachment: it makes no more deliveries and gives back unsent ones.
// Deliveries in flight may still be answered.
func (a *attachment) leave() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.left()
}

// free frees a place, unless the consumer is about to leave: leasing a delivery and giving
// it back would move it behind others. The caller holds mu.
func (a *attachment) free() {
	if a.call.Context().Err() != nil {
		a.left()
	}
	a.seat.add(1)
}

// left is leave for callers that hold mu.
func (a *attachment) left() {
	s := a.s
	if a.over {
		return
	}
	a.over = true
	a.stays()
	a.seat.leave()
	delete(s.accounts[a.identity].attachments, a)
	s.reserved.Give(a.identity, a.places)
	s.tidyAccount(a.identity)
	for _, it := range a.outbox {
		s.giveBack(it)
	}
	a.outbox = nil
}

// hearing is the part of Access that decides about topics of other profiles: a consumer needs
// the right to the agent_id in the topic.
type hearing struct{ *attachment }

func (h hearing) Allowed(identity, _, _, _ string) bool {
	for _, o := range h.s.opts.Owned {
		if agentID, ok := strings.CutPrefix(h.at.topic, o.Prefix); ok && !h.s.opts.MayUse(identity, agentID) {
			return false
		}
	}
	return true
}

// allowed checks Access, at most once a second.
func (a *attachment) allowed() error {
	now := time.Now()
	if !a.checked.IsZero() && now.Sub(a.checked) < time.Second {
		return nil
	}
	a.checked = now
	switch {
	case !a.s.opts.Access.Allowed(a.identity, "relay", "consume", a.topic):
		return errDenied
	case !hearing{a}.Allowed(a.identity, "relay", "consume", a.topic):
		return errAgent
	}
	return nil
}

// run sends deliveries in order until the consumer is gone.
func (a *attachment) run() {
	s := a.s
	defer a.leave()
	beat := time.NewTicker(s.opts.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-a.call.Context().Done():
			return
		case <-s.ctx.Done():
			return
		case <-beat.C:
			if a.call.Item([]byte("{}")) != nil {
				return
			}
			continue
		case <-a.ready:
		}
		for it := a.pop(); it != nil; it = a.pop() {
			if a.call.Context().Err() != nil {
				s.endLease(it, unmade)
				return
			}
			if err := a.allowed(); err != nil {
				s.endLease(it, unmade)
				a.fail(err)
				return
			}
			a.deliver(it)
		}
	}
}

func (a *attachment) pop() *item {
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(a.outbox) == 0 {
		return nil
	}
	it := a.outbox[0]
	a.outbox = a.outbox[1:]
	return it
}
