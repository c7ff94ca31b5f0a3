package events

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
)

// hubs are the subscriptions at partners that several subscriptions here share.
type hubs struct {
	mu   sync.Mutex
	open map[hubKey]*hub
}

// hubKey identifies a hub: subscriptions with the same key get the same events from a
// partner.
type hubKey struct{ prefix, filter, caller string }

// hub delivers the events of one subscription at a partner to many here. It ends with its
// last member.
type hub struct {
	s      *hubs
	key    hubKey
	begun  chan struct{} // closed after the partner has confirmed it, or it has ended
	cancel context.CancelFunc

	// Guarded by the mutex of the hubs.
	members map[*member]struct{}
	cursor  uint64 // of the last delivery
	holds   bool   // the partner stores events
	over    error  // why it has ended
}

// member is a subscription here. Its channel is closed when it gets nothing more: it was
// too slow, or the hub has ended.
type member struct {
	in     chan batchThere
	octets atomic.Int64 // in it
	behind bool         // it was too slow
}

// add hands a batch to the member. False: there is no room.
func (m *member) add(b batchThere) bool {
	if waiting := m.octets.Load(); waiting > 0 && waiting+b.size > memberOctets {
		return false
	}
	select {
	case m.in <- b:
		m.octets.Add(b.size)
		return true
	default:
		return false
	}
}

// batchThere is a batch of a partner. It must not be changed.
type batchThere struct {
	events []Record
	size   int64 // of them, in octets
	cursor uint64
}

// Bounds on what waits for a slow subscription before it leaves the hub: batches, and their
// octets, which all members share.
const (
	memberRoom   = 64
	memberOctets = 1 << 20
)

// errBehind makes a subscription leave the hub and continue alone after its cursor.
var errBehind = errors.New("events: behind those who share a subscription")

// join makes a subscription a member of a hub, which is made for its first member and uses
// that member's Way. filter belongs to the key.
func (b *Bus) join(key hubKey, way *profiles.Way, filter *Filter) (*hub, *member) {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	m := &member{in: make(chan batchThere, memberRoom)}
	h := b.hubs.open[key]
	if h == nil {
		h = &hub{s: &b.hubs, key: key, begun: make(chan struct{}), members: make(map[*member]struct{})}
		var ctx context.Context
		ctx, h.cancel = context.WithCancel(b.ctx)
		if b.hubs.open == nil {
			b.hubs.open = make(map[hubKey]*hub)
		}
		b.hubs.open[key] = h
		b.work.Go(func() { h.run(ctx, way, filter) }) // the Bus also waits for the member, so it is not closed yet
	}
	h.members[m] = struct{}{}
	return h, m
}

// leave ends a membership.
func (h *hub) leave(m *member) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	delete(h.members, m)
	if len(h.members) == 0 {
		h.drop()
	}
}

// drop prevents further members. The caller holds mu.
func (h *hub) drop() {
	h.cancel()
	if h.s.open[h.key] == h {
		delete(h.s.open, h.key)
	}
}

// run delivers the events until the subscription ends.
func (h *hub) run(ctx context.Context, way *profiles.Way, filter *Filter) {
	u := upstream{way: way, filter: filter, opts: SubscribeOptions{Filter: h.key.filter}}
	u.opened = func(start uint64) error {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		h.holds = u.holds
		if !u.begun {
			h.cursor = start
			close(h.begun)
		}
		return nil
	}
	u.take = func(d Delivery) error {
		h.deliver(d)
		return nil
	}
	h.end(u.follow(ctx))
}

// deliver passes a delivery to every member. A member that is too slow is removed.
func (h *hub) deliver(d Delivery) {
	b := batchThere{cursor: d.Cursor}
	b.events, b.size = cloneRecords(d.Events)
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.cursor = d.Cursor
	for m := range h.members {
		if !m.add(b) {
			m.behind = true
			delete(h.members, m)
			close(m.in)
		}
	}
	if len(h.members) == 0 {
		h.drop()
	}
}

// end closes the channels of all members.
func (h *hub) end(err error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.over = err
	select {
	case <-h.begun:
	default:
		close(h.begun)
	}
	for m := range h.members {
		close(m.in)
	}
	clear(h.members)
	h.drop()
}

// cloneRecords returns copies of records, and how many octets they have.
func cloneRecords(list []Record) (own []Record, size int64) {
	own = slices.Clone(list)
	for i := range own {
		r := &own[i]
		for _, field := range []*[]byte{&r.EventID, &r.EventType, &r.Severity, &r.MsgID, &r.TaskID, &r.RPCID, &r.Body, &r.octets} {
			*field = bytes.Clone(*field)
			size += int64(len(*field))
		}
	}
	return own, size
}

// followShared delivers the events of a partner as a member of a hub. After errBehind the
// subscription continues alone, after its cursor.
func (s *subscription) followShared(way *profiles.Way) error {
	h, m := s.bus.join(hubKey{way.Prefix, s.from.opts.Filter, way.Caller}, way, s.reader.filter)
	defer h.leave(m)
	select {
	case <-h.begun:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	h.s.mu.Lock()
	err := h.over
	s.cursor, s.from.holds = h.cursor, h.holds
	// Events since it has joined are in its channel, and are not delivered twice.
	first := len(m.in)
	h.s.mu.Unlock()
	if err != nil {
		return err
	}
	for range first {
		m.octets.Add(-(<-m.in).size)
	}
	if err := s.w.Send(s.batch(s.cursor, emptyBatch)); err != nil {
		return err
	}
	s.from.begun = true
	silence := time.NewTicker(s.bus.opts.Heartbeat)
	defer silence.Stop()
	for {
		select {
		case b, ok := <-m.in:
			if !ok {
				return s.parted(h, m)
			}
			m.octets.Add(-b.size)
			if err := s.deliverThere(b.events, b.cursor); err != nil {
				return err
			}
			silence.Reset(s.bus.opts.Heartbeat)
		case <-silence.C:
			if err := s.send(s.batch(s.cursor, emptyBatch)); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// parted returns why a member gets nothing more.
func (s *subscription) parted(h *hub, m *member) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	switch {
	case !m.behind:
		return h.over
	case s.from.holds:
		s.from.mark(s.cursor)
		return errBehind
	}
	return errSlow
}
