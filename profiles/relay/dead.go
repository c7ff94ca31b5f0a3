package relay

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// bury makes a delivery dead and starts the notice to its publisher. It waits for the
// Store.
func (s *Service) bury(it *item, reason Reason) State {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), leaseMargin)
	defer cancel()
	r, release, err := s.load(ctx, "", it)
	defer release()
	if err != nil {
		return Retry // the lease expires, and the next attempt repeats this
	}
	publisher, _ := splitID(it.id)
	r.reason, r.attempts, r.died, r.refusal = cmp.Or(reason, s.lapse(it, r)), it.tries, s.opts.Now(), it.refusal
	data := r.append(make([]byte, 0, maxHead+len(r.payload)))
	queue, expires := queueOf(kindDead, profiles.Link(publisher)), s.opts.Now().Add(s.limits.Load().DeadRetention)
	if !s.conclude(it, func(done func(bool, error)) { s.opts.Store.Move(space, it.id, it.lease, queue, data, expires, done) }) {
		return Retry
	}
	s.dead[r.reason].Add(1)
	s.expiry.sooner(expires)
	s.due(queue, time.Time{})
	return DeadState
}

// lapse returns why an expired delivery is dead.
func (s *Service) lapse(it *item, r *record) Reason {
	switch {
	case r.bound != "":
		return r.bound
	case it.tries == 0:
		return NoConsumer
	}
	return LimitExceeded
}

// forget removes a dead delivery.
func (s *Service) forget(it *item) {
	s.conclude(it, func(done func(bool, error)) { s.opts.Store.Ack(space, it.id, it.lease, done) })
}

// Limits of a page of Dead.
const (
	maxDead       = 256
	maxDeadOctets = 1 << 20 // of payloads; a single larger one is a page of its own
)

// DeadParams request the dead deliveries of the caller, as JSON.
type DeadParams struct {
	After   string `json:"after,omitempty"`   // Next of the previous page
	Limit   int    `json:"limit,omitempty"`   // length of the page; default and maximum 256
	Payload bool   `json:"payload,omitempty"` // include payloads

	IDs [][]byte `json:"delivery_ids,omitempty"` // only these, in a single page
}

// DeadPage is a page of dead deliveries in order of death, first those whose publisher has
// not acknowledged the notice. If the publisher acknowledges one between two pages, it may
// be on both; compare delivery_ids when counting.
type DeadPage struct {
	Dead []Dead `json:"dead"`
	Next string `json:"next,omitempty"` // set if there may be more; see DeadParams

	// Held are the requested ids that are not dead, and that a partner does not
	// accept now.
	Held []Held `json:"held,omitempty"`
}

// Dead is a delivery that is no longer delivered.
type Dead struct {
	DeliveryID []byte `json:"delivery_id"` // base64 in JSON
	Topic      string `json:"topic"`
	Reason     Reason `json:"reason_code"`
	Attempts   int    `json:"attempt_count"`
	Taken      int64  `json:"taken_unix_ms"` // time of custody
	Died       int64  `json:"died_unix_ms"`
	Told       bool   `json:"told"`              // the publisher has answered the notice
	Size       int    `json:"size"`              // octets of the payload
	Payload    []byte `json:"payload,omitempty"` // empty if too large for any answer, or if a partner has it
	Partner    string `json:"partner,omitempty"` // where it died if it was forwarded, or who refused it

	Refusal *Refusal `json:"refusal,omitempty"` // by the partner or an endpoint behind it
}

// Refusal says which endpoint has refused a delivery that was forwarded, and why.
type Refusal struct {
	Code     string `json:"code"`               // of RELAY_ERR
	Message  string `json:"message,omitempty"`  // for people
	Endpoint string `json:"endpoint,omitempty"` // its identity, as it states it; empty: this relay itself could not forward it
}

// Limits of the texts of a Refusal, in octets. Longer ones are cut.
const (
	maxRefusalCode = 64
	maxRefusalText = 256
)

// refusalOf returns the refusal that an error of an attempt at a partner is.
func (f *onward) refusalOf(err error) *Refusal {
	if said, ok := errors.AsType[*profiles.PeerError](err); ok {
		return (&Refusal{said.Code, said.Message, cmp.Or(said.Endpoint, f.session.Peer().Identity)}).bounded()
	}
	fault := profiles.AsError(err)
	return (&Refusal{Code: fault.Code.Alias(), Message: fault.Text}).bounded()
}

// bounded returns a refusal whose texts have at most their limits, nil for nil.
func (r *Refusal) bounded() *Refusal {
	if r == nil {
		return nil
	}
	cut := func(text string, most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }
	return &Refusal{cut(r.Code, maxRefusalCode), cut(strings.TrimPrefix(r.Message, Name+": "), maxRefusalText), cut(r.Endpoint, maxRefusalText)}
}

// maxDeadHead exceeds the JSON of a Dead without payload, with the page around it.
const maxDeadHead = 8192

// size returns the length of a Dead as JSON, with its comma.
func (d *Dead) size() int {
	head := *d
	head.Payload = nil
	text, err := json.Marshal(&head)
	if err != nil {
		return maxDeadHead
	}
	return len(text) + len(`,"payload":""`) + base64.StdEncoding.EncodedLen(len(d.Payload)) + 1
}

// listDead is the RPC method swp.relay.dead: it lists the dead deliveries that the caller
// has published. It reads the Store.
func (s *Service) listDead(ctx context.Context, req *profiles.Request, params []byte, _ func(item []byte) error) ([]byte, error) {
	var p DeadParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	if s.opts.Store == nil {
		return nil, errNoRelay
	}
	if p.Limit <= 0 || p.Limit > maxDead {
		p.Limit = maxDead
	}
	s.meet(req.Session, req.Peer())
	target, err := profiles.TargetOf(req.Extensions)
	if err != nil {
		return nil, err
	}
	l := &listing{s: s, p: &p, target: target, page: DeadPage{Dead: []Dead{}}, size: 64}
	if err := l.list(ctx, req.Session, req.Identity()); err != nil {
		return nil, err
	}
	return json.Marshal(&l.page)
}

// listing is a page of dead deliveries on its way.
type listing struct {
	s      *Service
	p      *DeadParams
	target string // what is listed is behind it

	page         DeadPage
	octets, size int // of payloads, and of all as JSON
}

// shelf is one of the queues in which the dead deliveries of an identity are, beside those
// of other callers of its peer. Its first octet begins cursors.
type shelf struct {
	cursor byte
	kind   byte
	name   string
	owner  string // the publisher in the ids
}

// shelves are all shelves, in the order of a listing.
func (s *Service) shelves(identity string) []shelf {
	alias, peer := s.alias(identity), profiles.Link(identity)
	return []shelf{
		{'d', kindDead, peer, identity}, {'D', kindDead, alias, alias},
		{'k', kindTold, peer, identity}, {'K', kindTold, alias, alias},
	}
}

// list fills the page.
func (l *listing) list(ctx context.Context, session profiles.Session, identity string) error {
	all := l.s.shelves(identity)
	if len(l.p.IDs) > 0 {
		all = all[:2]
		if profiles.For(identity) == "" {
			if err := l.listOfCallers(ctx, identity); err != nil {
				return err
			}
			all = l.s.awayFor(session, all)
		}
		return l.listIDs(ctx, all)
	}
	from, after, err := parseCursor(l.p.After, all)
	if err != nil {
		return err
	}
	for _, shelf := range all[from:] {
		full := false
		err := l.s.opts.Store.Items(ctx, space, queueOf(shelf.kind, shelf.name), after, func(n uint64, id string, _ int, data []byte) bool {
			if owner, _ := splitID(id); owner != shelf.owner {
				after = n
				return true
			}
			full = !l.add(id, shelf.kind, data)
			if !full {
				after = n
			}
			return !full
		})
		if err != nil {
			return unavailable(err)
		}
		if full {
			l.page.Next = string(shelf.cursor) + strconv.FormatUint(after, 36)
			return nil
		}
		after = 0
	}
	return nil
}

// maxLooked limits the dead deliveries among which the ones of the callers of a peer are looked
// for.
const maxLooked = 10_000

// listOfCallers adds what was asked for and belongs to a caller of a peer that asserts none.
// The peer learns of the deaths of its callers, and may not know whose they are.
func (l *listing) listOfCallers(ctx context.Context, peer string) error {
	wanted := make(map[string]bool, len(l.p.IDs))
	for _, id := range l.p.IDs {
		wanted[string(id)] = true
	}
	for _, kind := range []byte{kindDead, kindTold} {
		looked := 0
		err := l.s.opts.Store.Items(ctx, space, queueOf(kind, peer), 0, func(_ uint64, id string, _ int, data []byte) bool {
			looked++
			if owner, deliveryID := splitID(id); owner != peer && wanted[deliveryID] && !l.add(id, kind, data) {
				return false
			}
			return looked < maxLooked
		})
		if err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// awayFor adds the shelves of deliveries that have died at partners, of the callers that
// have used a session.
func (s *Service) awayFor(session profiles.Session, shelves []shelf) []shelf {
	s.mu.Lock()
	publishers := slices.Clone(s.heralding[session])
	s.mu.Unlock()
	for _, publisher := range publishers {
		if profiles.For(publisher) != "" {
			alias := s.alias(publisher)
			shelves = append(shelves, shelf{'D', kindDead, alias, alias})
		}
	}
	return shelves
}

// listIDs fills the page with the requested ids.
func (l *listing) listIDs(ctx context.Context, shelves []shelf) error {
	for _, deliveryID := range l.p.IDs {
		for _, shelf := range shelves {
			id := itemID(shelf.owner, deliveryID)
			queue, _, _, err := l.s.opts.Store.Item(ctx, space, id)
			if err != nil {
				return unavailable(err)
			}
			if queue != "" && queue[0] == kindOnward {
				if err := l.listHeld(ctx, id); err != nil {
					return err
				}
			}
			if queue == "" || live(queue) {
				continue
			}
			data, err := l.s.opts.Store.Data(ctx, space, id)
			if err != nil {
				return unavailable(err)
			}
			if !l.add(id, queue[0], data) {
				return nil
			}
		}
	}
	return nil
}

// add adds a delivery to the page, unless that is full.
func (l *listing) add(id string, kind byte, data []byte) bool {
	r, err := decodeRecord(data)
	if err != nil {
		return true
	}
	topic, ok := beyond(l.target, r.topic)
	if !ok {
		return true
	}
	name, deliveryID := splitID(id)
	d := Dead{
		DeliveryID: []byte(deliveryID), Topic: topic, Reason: r.reason, Attempts: r.attempts,
		Taken: r.taken.UnixMilli(), Died: r.died.UnixMilli(), Told: kind == kindTold, Size: max(len(r.payload), r.size),
	}
	if d.Refusal = r.refusal; d.Refusal != nil || strings.HasPrefix(name, "\x00") {
		d.Partner, _, _ = strings.Cut(r.topic, "/")
	}
	if l.p.Payload && base64.StdEncoding.EncodedLen(len(r.payload)) <= l.s.opts.MaxAnswer-maxDeadHead {
		l.octets += len(r.payload)
		d.Payload = append([]byte{}, r.payload...)
	}
	l.size += d.size()
	if len(l.page.Dead) == l.p.Limit || (l.octets > maxDeadOctets || l.size > l.s.opts.MaxAnswer) && len(l.page.Dead) > 0 {
		return false
	}
	l.page.Dead = append(l.page.Dead, d)
	return true
}

func parseCursor(text string, all []shelf) (from int, after uint64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	after, err = strconv.ParseUint(text[1:], 36, 64)
	from = slices.IndexFunc(all, func(s shelf) bool { return s.cursor == text[0] })
	if err != nil || from < 0 {
		return 0, 0, invalid("", "after: not the next of a page")
	}
	return from, after, nil
}

// maxParams limits the params of the methods, in octets.
const maxParams = 4096

// decodeParams reads the params of a method: JSON, or empty.
func decodeParams(params []byte, into any) error {
	if len(params) > maxParams {
		return invalid(DetailSize, "params: %d octets, want at most %d", len(params), maxParams)
	}
	if len(params) == 0 {
		return nil
	}
	if err := json.Unmarshal(params, into); err != nil {
		fault := invalid("", "params are not the JSON that the method takes")
		fault.Cause = fmt.Errorf("relay: %w", err)
		return fault
	}
	return nil
}

// expiry makes expired deliveries dead, and removes old dead ones.
type expiry struct {
	s     *Service
	alarm chan struct{} // one slot; filled when something may have expired

	// Guarded by mu of the Service.
	next     time.Time // next expiry; zero: none
	stopWait func() bool
}

// maxExpiring limits the expired deliveries that are handled at once.
const maxExpiring = 16

// sooner announces an expiry.
func (e *expiry) sooner(at time.Time) {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.s.closed || !e.next.IsZero() && !at.Before(e.next) {
		return
	}
	if e.stopWait != nil {
		e.stopWait()
	}
	e.next = at
	e.stopWait = e.s.opts.After(max(at.Sub(e.s.opts.Now()), 0), e.ring)
}

func (e *expiry) ring() {
	select {
	case e.alarm <- struct{}{}:
	default:
	}
}

func (e *expiry) stop() {
	if e.s == nil {
		return
	}
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.stopWait != nil {
		e.stopWait()
	}
}

// run works until the Service is closed.
func (e *expiry) run() {
	for {
		select {
		case <-e.s.ctx.Done():
			return
		case <-e.alarm:
			e.work()
		}
	}
}

// work handles all expired deliveries, and sets the next expiry.
func (e *expiry) work() {
	s := e.s
	s.mu.Lock()
	e.next = time.Time{}
	s.mu.Unlock()
	for most := 1; s.ctx.Err() == nil && e.batch(most) == most; most = maxExpiring {
	}
}

// batch handles some expired deliveries, and returns their number.
func (e *expiry) batch(most int) (found int) {
	s := e.s
	answers := make(chan store.LeaseResult, most)
	until := s.opts.Now().Add(leaseMargin)
	for range most {
		s.opts.Store.LeaseExpired(space, inline, until, func(r store.LeaseResult) { answers <- r })
	}
	ended := make(chan struct{}, most)
	for range most {
		switch r := <-answers; {
		case r.Err != nil:
			e.sooner(s.opts.Now().Add(storePauses.Longest))
		case r.Lease == 0:
			if !r.Next.IsZero() {
				e.sooner(r.Next)
			}
		default:
			found++
			go func() {
				e.end(itemOf(r, until))
				ended <- struct{}{}
			}()
		}
	}
	for range found {
		<-ended
	}
	return found
}

func (e *expiry) end(it *item) {
	if !live(it.queue) {
		e.s.forget(it)
		return
	}
	e.s.bury(it, "")
}
