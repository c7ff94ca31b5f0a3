package relay

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// bury makes a delivery dead and starts the notice to its publisher. It waits for the
// Store.
func (s *Service) bury(it *item, reason Reason) State {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), leaseMargin)
	defer cancel()
	r, release, err := s.load(ctx, it)
	defer release()
	if err != nil {
		return Retry // the lease expires, and the next attempt repeats this
	}
	publisher, _ := splitID(it.id)
	r.reason, r.attempts, r.died = cmp.Or(reason, s.lapse(it, r)), it.tries, s.opts.Now()
	data := r.append(make([]byte, 0, maxHead+len(r.payload)))
	queue, expires := queueOf(kindDead, publisher), s.opts.Now().Add(s.limits.Load().DeadRetention)
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
}

// DeadPage is a page of dead deliveries in order of death, first those whose publisher has
// not acknowledged the notice. If the publisher acknowledges one between two pages, it may
// be on both; compare delivery_ids when counting.
type DeadPage struct {
	Dead []Dead `json:"dead"`
	Next string `json:"next,omitempty"` // set if there may be more; see DeadParams
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
	Payload    []byte `json:"payload,omitempty"` // empty if too large for any answer
}

// maxDeadHead exceeds the JSON of a Dead without payload, with the page around it.
const maxDeadHead = 4096

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
	s.meet(req.Session)
	identity := req.Session.Peer().Identity
	kind, after, err := parseCursor(p.After)
	if err != nil {
		return nil, err
	}
	page := DeadPage{Dead: []Dead{}}
	for octets, size := 0, 64; kind != 0; {
		full := false
		err := s.opts.Store.Items(ctx, space, queueOf(kind, identity), after, func(n uint64, id string, _ int, data []byte) bool {
			r, err := decodeRecord(data)
			if err != nil {
				return true
			}
			payload := p.Payload && base64.StdEncoding.EncodedLen(len(r.payload)) <= s.opts.MaxAnswer-maxDeadHead
			if payload {
				octets += len(r.payload)
			}
			_, deliveryID := splitID(id)
			d := Dead{
				DeliveryID: []byte(deliveryID), Topic: r.topic, Reason: r.reason, Attempts: r.attempts,
				Taken: r.taken.UnixMilli(), Died: r.died.UnixMilli(), Told: kind == kindTold, Size: len(r.payload),
			}
			if payload {
				d.Payload = append([]byte{}, r.payload...)
			}
			size += d.size()
			if full = len(page.Dead) == p.Limit || (octets > maxDeadOctets || size > s.opts.MaxAnswer) && len(page.Dead) > 0; full {
				return false
			}
			page.Dead = append(page.Dead, d)
			after = n
			return true
		})
		if err != nil {
			return nil, unavailable(err)
		}
		if full {
			page.Next = string(kind) + strconv.FormatUint(after, 36)
			break
		}
		kind, after = following(kind), 0
	}
	return json.Marshal(page)
}

// following returns the kind of queue that is listed next; 0 after the last.
func following(kind byte) byte {
	if kind == kindDead {
		return kindTold
	}
	return 0
}

func parseCursor(text string) (kind byte, after uint64, err error) {
	if text == "" {
		return kindDead, 0, nil
	}
	after, err = strconv.ParseUint(text[1:], 36, 64)
	if kind = text[0]; err != nil || kind != kindDead && kind != kindTold {
		return 0, 0, invalid("", "after: not the next of a page")
	}
	return kind, after, nil
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
