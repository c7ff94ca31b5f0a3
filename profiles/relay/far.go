package relay

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// To a partner this endpoint is the publisher of everything that it passes on. The id of a delivery
// there says whose it is, to this endpoint alone, so that the partner's notice of its death
// is kept here, and told to its publisher.

// The id of a delivery at a partner is the tag of its publisher, a seal, and its id here.
const (
	tagSize  = 8
	sealSize = 8
)

// mac is a keyed hash of texts.
func (s *Service) mac(texts ...string) string {
	h := hmac.New(sha256.New, s.opts.Key)
	for _, text := range texts {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text)))) // never fails
		_, _ = h.Write([]byte(text))
	}
	return string(h.Sum(nil))
}

// alias is the name under which deaths at partners are kept for an identity. It is that of
// no peer.
func (s *Service) alias(identity string) string { return "\x00" + s.mac("tag", identity)[:tagSize] }

// idThere is the id, at a partner of an identity, of a delivery of a publisher here: the
// same each time.
func (s *Service) idThere(partner, publisher, id string) []byte {
	tag := s.alias(publisher)[1:]
	return []byte(tag + s.mac("seal", partner, tag, id)[:sealSize] + id)
}

// opened takes an id that idThere has made for a partner apart.
func (s *Service) opened(partner string, there []byte) (alias, id string, ok bool) {
	if len(there) <= tagSize+sealSize {
		return "", "", false
	}
	tag, seal, id := string(there[:tagSize]), there[tagSize:tagSize+sealSize], string(there[tagSize+sealSize:])
	return "\x00" + tag, id, hmac.Equal(seal, []byte(s.mac("seal", partner, tag, id)[:sealSize]))
}

// partner returns the name of the partner of an identity.
func (s *Service) partner(identity string) (name string, ok bool) {
	if s.opts.Partner == nil {
		return "", false
	}
	return s.opts.Partner(identity)
}

// death is the death of a delivery at a partner.
type death struct {
	partner  string // its name
	identity string // and who it is
	there    []byte // the id of the delivery there
	reason   Reason // empty: it has not said
}

// keep keeps the death for the publisher of the delivery, once. It reads the Store and asks
// the partner. The error is retryable.
func (d *death) keep(ctx context.Context, s *Service) error {
	alias, id, ok := s.opened(d.identity, d.there)
	if !ok {
		return errUnknown
	}
	key := itemID(alias, id)
	_, state, _, err := s.opts.Store.Item(ctx, space, key)
	if err != nil {
		return unavailable(err)
	}
	if state != "" {
		return nil
	}
	r, err := d.record(ctx, s)
	if err != nil {
		return err
	}
	if !slices.Contains(Reasons(), r.reason) {
		return nil // nothing is known of it any more
	}
	now := s.opts.Now()
	queue, expires := queueOf(kindDead, alias), now.Add(s.limits.Load().DeadRetention)
	kept := make(chan error, 1)
	s.opts.Store.Add(space, queue, key, "", d.identity, r.append(nil), expires, now, func(r store.AddResult) { kept <- r.Err })
	select {
	case err = <-kept:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return unavailable(err)
	}
	s.expiry.sooner(expires)
	s.due(queue, s.opts.Now())
	return nil
}

// record returns the record of the death, as the partner lists it.
func (d *death) record(ctx context.Context, s *Service) (*record, error) {
	now := s.opts.Now()
	r := &record{topic: d.partner + "/", reason: d.reason, taken: now, died: now}
	link := s.linkTo(d.partner)
	if link == nil {
		return nil, errAsked
	}
	if !link.knows.RPC {
		return r, nil
	}
	listed, err := FindDead(func(params []byte) ([]byte, error) { return s.opts.Call(ctx, link.session, MethodDead, params) }, d.there)
	if err != nil {
		return nil, errAsked
	}
	if listed != nil {
		r.topic += listed.Topic[:min(len(listed.Topic), MaxTopic)]
		r.reason, r.attempts, r.size = listed.Reason, max(0, listed.Attempts), max(0, listed.Size)
		r.taken, r.died, r.refusal = unixMilli(listed.Taken), unixMilli(listed.Died), listed.Refusal.bounded()
	}
	return r, nil
}

// FindDead looks for a dead delivery of this side in the list of swp.relay.dead, which call
// calls. It returns nil if it is not listed.
func FindDead(call func(params []byte) ([]byte, error), id []byte) (*Dead, error) {
	for d, err := range profiles.Pages(func(after string) ([]Dead, string, error) {
		page, err := pageOf(call, DeadParams{After: after, IDs: [][]byte{id}})
		return page.Dead, page.Next, err
	}) {
		switch {
		case err != nil:
			return nil, err
		case string(d.DeliveryID) == string(id):
			return &d, nil
		}
	}
	return nil, nil //nolint:nilnil // it is not listed
}

// pageOf asks for a page with a function that calls swp.relay.dead.
func pageOf(call func(params []byte) ([]byte, error), p DeadParams) (page DeadPage, err error) {
	params, err := json.Marshal(p)
	if err != nil {
		return page, err
	}
	result, err := call(params)
	if err == nil {
		err = json.Unmarshal(result, &page)
	}
	return page, err
}

// mourn serves a notice of a partner: a delivery that was passed on to it is dead.
func (s *Service) mourn(req *profiles.Request, partner string, m *Nack) error {
	d := &death{partner: partner, identity: req.Session.Peer().Identity, there: append([]byte{}, m.DeliveryID...), reason: Reason(m.Reason)}
	return req.Detach(func(ctx context.Context, _ *profiles.Request, w profiles.Responder) error {
		if err := d.keep(ctx, s); err != nil {
			return err
		}
		return w.Finish(statusOf(d.there, DeadState, 1))
	})
}

// greet lets a partner know that this side speaks the profile, so that it tells on this
// session what has died.
func (f *onward) greet() {
	ctx, cancel := f.s.within(attachTime)
	defer cancel()
	_, _ = f.s.opts.Call(ctx, f.session, MethodDead, []byte(`{"limit":1}`)) // what it lists it tells of
}

// linkTo returns the link to a partner, nil while it is away.
func (s *Service) linkTo(partner string) *onward {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[partner]
}

// errAsked answers for a partner that has custody and cannot be asked.
var errAsked = profiles.LinkFault(profiles.DetailLinkDown, "the partner has taken custody of it and cannot be asked now", true, nil)

// standing returns the progress of a delivery of an identity, here or at a partner.
func (s *Service) standing(ctx context.Context, identity, id string) (State, uint32, error) {
	here := itemID(identity, id)
	state, attempts, err := s.stand(ctx, here)
	if s.opts.Behind == nil || err != nil || state != Acked && state != "" {
		return state, attempts, err
	}
	far, n, err := s.stand(ctx, itemID(s.alias(identity), id))
	if err != nil || far != "" {
		return far, n, err
	}
	queue, _, _, err := s.opts.Store.Item(ctx, space, here)
	if err != nil || queue == "" || queue[0] != kindOnward {
		return state, attempts, err
	}
	return s.standThere(ctx, queue[1:], identity, id)
}

// standThere returns how a delivery stands at the partner that has taken custody of it.
func (s *Service) standThere(ctx context.Context, partner, identity, id string) (State, uint32, error) {
	f := s.linkTo(partner)
	if f == nil {
		return "", 0, errAsked
	}
	d := &death{partner: partner, identity: f.session.Peer().Identity}
	d.there = s.idThere(d.identity, identity, id)
	ctx = profiles.WithCaller(ctx, identity)
	state, attempts, err := Ask(ctx, f.session, d.there)
	refused, ok := errors.AsType[*profiles.PeerError](err)
	switch {
	case err == nil && state == DeadState && f.knows.RPC:
		return state, attempts, d.keep(ctx, s) // the partner takes the question for the publisher's
	case err == nil:
		return state, attempts, nil
	case ok && refused.Code == CodeNotFound:
		return Acked, 1, nil // it is forgotten there
	case profiles.Misanswered(err):
		s.wrong(partner, identity, "status", partner, err)
		fault := profiles.Broken(partner, err)
		fault.Answer = refusals.Answer(fault.Code.Alias(), fault.Text, false)
		return "", 0, fault
	}
	return "", 0, errAsked
}

// wrong tells of an answer with which a partner has broken the protocol.
func (s *Service) wrong(partner, identity, operation, name string, err error) {
	if s.opts.Wrong != nil {
		s.opts.Wrong(partner, identity, operation, name, err)
	}
}

// beyond returns what a topic here is called at a target, and whether it is there.
func beyond(target, topic string) (string, bool) {
	if target == "" {
		return topic, true
	}
	return strings.CutPrefix(topic, target+"/")
}
