package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
)

const (
	addItem = `SELECT status, coalesce(number, 0), ` + gotItem + ` FROM add_item($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
		$13, $14, $15, $16, $17, $18)`
	ackItem  = `SELECT ended FROM ack($1, $2, $3, $4, $5)`
	nackItem = `SELECT ended FROM nack($1, $2, $3, $4, $5)`
	moveItem = `SELECT ended FROM move($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

	gotItem = `coalesce((got).id, ''), coalesce((got).queue, ''), coalesce((got).n, 0), coalesce((got).mark, ''), coalesce((got).owner, ''),
		coalesce((got).done, false), coalesce((got).lease, 0), coalesce((got).tries, 0), coalesce((got).due, 0), coalesce((got).expires, 0),
		coalesce((got).keep, 0), coalesce((got).size, 0), coalesce((got).sum, 0), coalesce((got).place, 0), coalesce((got).body, 0), (got).data`
	leasedItem   = `SELECT ` + gotItem + `, coalesce(next, 0) FROM `
	leaseNext    = leasedItem + `lease($1, $2, $3, $4, $5, $6, $7)`
	leaseExpired = leasedItem + `lease_expired($1, $2, $3, $4)`
	leaseByID    = leasedItem + `lease_item($1, $2, $3, $4, $5)`

	itemColumns = `SELECT id, queue, n, mark, owner, done, lease, tries, due, expires, keep, size, sum, place, body`
	itemByID    = itemColumns + `, ''::bytea FROM item WHERE space = $1 AND id = $2`
	itemData    = itemColumns + `, data FROM item WHERE space = $1 AND id = $2`
	itemsOf     = itemColumns + `, data FROM (
		SELECT *, sum(size) OVER (ORDER BY n) - size AS before FROM (
			SELECT * FROM item WHERE space = $1 AND queue = $2 AND n > $3 AND NOT done ORDER BY n LIMIT $4) page) counted
		WHERE before < $5 ORDER BY n`
	idsAfter = `SELECT id FROM item WHERE space = $1 AND id > $2 ORDER BY id LIMIT $3`
)

// item is a row of the table of items.
type item struct {
	id, queue, mark, owner []byte
	n                      int64
	done                   bool
	lease, tries, due      int64
	expires, keep, size    int64
	sum, place, body       int64
	data                   []byte
}

// columns returns where to read an item to.
func (it *item) columns() []any {
	return []any{
		&it.id, &it.queue, &it.n, &it.mark, &it.owner, &it.done, &it.lease, &it.tries, &it.due, &it.expires, &it.keep, &it.size,
		&it.sum, &it.place, &it.body, &it.data,
	}
}

// mix is the function of schema1.sql.
func (it *item) mix() int64 {
	done := int64(0)
	if it.done {
		done = 1
	}
	return it.n ^ rot(it.lease, 9) ^ rot(it.tries, 18) ^ rot(it.due, 27) ^ rot(it.expires, 36) ^ rot(it.keep, 45) ^ rot(it.size, 54) ^ rot(done, 62)
}

func sumItem(space, id, mark, owner string) int64 {
	return crc(checksum.Item, nil, space, id, mark, owner)
}

func sumPlace(queue string) int64 { return crc(checksum.Line, nil, queue) }

func sumBody(space, id string, data []byte) int64 { return crc(checksum.Body, data, space, id) }

// intactItem returns an error if an item is damaged.
func (s *Store) intactItem(space string, it *item) error {
	if it.sum != sumItem(space, string(it.id), string(it.mark), string(it.owner))^it.mix() || it.place != sumPlace(string(it.queue)) {
		return s.damaged("item %q in space %q", it.id, space)
	}
	return nil
}

// intactData is intactItem for an item with its data.
func (s *Store) intactData(space string, it *item) error {
	if err := s.intactItem(space, it); err != nil {
		return err
	}
	if !it.done && (int64(len(it.data)) != it.size || it.body != sumBody(space, string(it.id), it.data)) {
		return s.damaged("data of item %q in space %q", it.id, space)
	}
	return nil
}

func itemOp(space, id string) *op {
	return &op{
		size: len(space) + len(id), invalid: gather.CheckSizes(space, id, "", "", 0),
		subject: gather.Subject{Kind: gather.Item, Space: space, Name: id}, after: true,
	}
}

// Add implements store.Queues.
func (s *Store) Add(space, queue, id, mark, owner string, data []byte, expires, keep time.Time, done func(store.AddResult)) {
	o := itemOp(space, id)
	o.size += len(queue) + len(mark) + len(owner) + len(data)
	o.owner, o.invalid = owner, gather.CheckItem(space, queue, id, mark, owner, len(data))
	var result store.AddResult
	o.call = func(w *writer, l limits) call {
		room := w.room(place{space, queue}, owner, l)
		return call{addItem, []any{
			w.node, []byte(space), []byte(queue), []byte(id), []byte(mark), []byte(owner), given(data), s.clock.Expiry(expires), s.clock.Expiry(keep),
			sumItem(space, id, mark, owner), sumPlace(queue), sumBody(space, id, data), w.now, l.perOwner, l.open, room.Items, room.Octets, l.kept,
		}}
	}
	o.read = func(rows pgx.Rows) error {
		result = store.AddResult{}
		var status int
		var more int64
		var known item
		if err := one(rows, append([]any{&status, &more}, known.columns()...)...); err != nil {
			return err
		}
		if known.n != 0 {
			if err := s.intactItem(space, &known); err != nil {
				return err
			}
		}
		switch status {
		case written:
			result.Fresh = true
		case differs:
			result.Equal = string(known.mark) == mark
		default:
			o.ask = &ask{
				owner: owner, octets: more, space: space, queue: queue, size: int64(len(data)),
				place: status == asksPlace, remember: status == asksRemember,
			}
		}
		return nil
	}
	o.done = func(err error) {
		if err != nil {
			result = store.AddResult{Err: err}
		}
		done(result)
	}
	s.queue.Submit(o)
}

// ending submits the end of a lease.
func (s *Store) ending(o *op, done func(held bool, err error), c func(w *writer) call) {
	var held bool
	o.call = func(w *writer, _ limits) call { return c(w) }
	o.read = func(rows pgx.Rows) error { return one(rows, &held) }
	o.done = func(err error) { done(err == nil && held, err) }
	s.queue.Submit(o)
}

// Ack implements store.Queues.
func (s *Store) Ack(space, id string, lease uint64, done func(held bool, err error)) {
	s.ending(itemOp(space, id), done, func(w *writer) call {
		return call{ackItem, []any{w.node, []byte(space), []byte(id), int64(lease), w.now}}
	})
}

// Nack implements store.Queues.
func (s *Store) Nack(space, id string, lease uint64, due time.Time, counts bool, done func(held bool, err error)) {
	s.ending(itemOp(space, id), done, func(w *writer) call {
		return call{nackItem, []any{[]byte(space), []byte(id), int64(lease), max(s.clock.Expiry(due), w.now), counts}}
	})
}

// Move implements store.Queues.
func (s *Store) Move(space, id string, lease uint64, queue string, data []byte, expires time.Time,
	done func(held bool, err error),
) {
	o := itemOp(space, id)
	o.size += len(queue) + len(data)
	o.invalid = gather.CheckItem(space, queue, id, "", "", len(data))
	s.ending(o, done, func(w *writer) call {
		return call{moveItem, []any{
			w.node, []byte(space), []byte(id), int64(lease), []byte(queue), given(data), s.clock.Expiry(expires),
			sumPlace(queue), sumBody(space, id, data), w.now,
		}}
	})
}

// inOrder is the number of items up to which a queue is served in its order.
const inOrder = 64

// Lease implements store.Queues. In a long queue each node has its own turns of owners.
func (s *Store) Lease(space, queue string, most int, until time.Time, done func(store.LeaseResult)) {
	o := &op{size: len(space) + len(queue), invalid: gather.CheckSizes(space, queue, "", "", 0)}
	s.leasing(o, space, most, done, func(w *writer) call {
		return call{leaseNext, []any{w.node, []byte(space), []byte(queue), int64(most), s.clock.Expiry(until), w.now, int64(inOrder)}}
	})
}

// LeaseExpired implements store.Queues.
func (s *Store) LeaseExpired(space string, most int, until time.Time, done func(store.LeaseResult)) {
	o := &op{size: len(space), invalid: gather.CheckSizes(space, "", "", "", 0)}
	s.leasing(o, space, most, done, func(w *writer) call {
		return call{leaseExpired, []any{[]byte(space), int64(most), s.clock.Expiry(until), w.now}}
	})
}

// LeaseItem implements store.Queues.
func (s *Store) LeaseItem(space, id string, most int, until time.Time, done func(store.LeaseResult)) {
	o := &op{size: len(space) + len(id), invalid: gather.CheckSizes(space, id, "", "", 0)}
	s.leasing(o, space, most, done, func(w *writer) call {
		return call{leaseByID, []any{[]byte(space), []byte(id), int64(most), s.clock.Expiry(until), w.now}}
	})
}

// leasing submits a lease. A damaged item is leased too, so that it does not keep others from being
// served; its consumer gets the error.
func (s *Store) leasing(o *op, space string, most int, done func(store.LeaseResult), c func(w *writer) call) {
	var result store.LeaseResult
	o.call = func(w *writer, _ limits) call { return c(w) }
	o.read = func(rows pgx.Rows) error {
		var it item
		var next int64
		if err := one(rows, append(it.columns(), &next)...); err != nil {
			return err
		}
		result = store.LeaseResult{Next: s.clock.Time(next)}
		if it.lease == 0 {
			return nil
		}
		check := s.intactData
		if it.size > int64(most) {
			check = s.intactItem
		}
		if o.err = check(space, &it); o.err == nil {
			result = store.LeaseResult{
				Lease: uint64(it.lease), Queue: string(it.queue), ID: string(it.id), Tries: int(it.tries),
				Expired: clock.Expired(it.expires, s.writer.now), Data: it.data,
			}
		}
		return nil
	}
	o.done = func(err error) {
		if err != nil {
			result = store.LeaseResult{Err: err}
		}
		done(result)
	}
	s.queue.Submit(o)
}

// find returns an item; nil if its id is not known.
func (s *Store) find(ctx context.Context, text, space, id string) (*item, error) {
	if err := gather.CheckSizes(space, id, "", "", 0); err != nil {
		return nil, err
	}
	var it item
	found, err := s.row(ctx, call{text, []any{[]byte(space), []byte(id)}}, it.columns()...)
	if err != nil || !found {
		return nil, err
	}
	check := s.intactItem
	if text == itemData {
		check = s.intactData
	}
	if err := check(space, &it); err != nil {
		return nil, err
	}
	if it.done && it.keep <= s.clock.Now() {
		return nil, nil
	}
	return &it, nil
}

// Item implements store.Queues.
func (s *Store) Item(ctx context.Context, space, id string) (queue, state string, tries int, err error) {
	it, err := s.find(ctx, itemByID, space, id)
	if it == nil || err != nil {
		return "", "", 0, err
	}
	state = store.Waiting
	switch {
	case it.done:
		state = store.Done
	case it.lease > 0 && it.due > s.clock.Now():
		state = store.Leased
	}
	return string(it.queue), state, int(it.tries), nil
}

// Data implements store.Queues.
func (s *Store) Data(ctx context.Context, space, id string) ([]byte, error) {
	it, err := s.find(ctx, itemData, space, id)
	if it == nil || err != nil || it.done {
		return nil, err
	}
	return it.data, nil
}

// IDs implements store.Queues.
func (s *Store) IDs(ctx context.Context, space, after string, most int) (ids []string, err error) {
	if err := gather.CheckSizes(space, after, "", "", 0); err != nil {
		return nil, err
	}
	var id []byte
	err = s.rows(ctx, func() error {
		ids = append(ids, string(id))
		return nil
	}, call{idsAfter, []any{[]byte(space), []byte(after), most}}, &id)
	return ids, err
}

// Items implements store.Queues. It reads a page at a time: no connection is held while yield runs.
func (s *Store) Items(ctx context.Context, space, queue string, after uint64,
	yield func(n uint64, id string, tries int, data []byte) bool,
) error {
	if err := gather.CheckSizes(space, queue, "", "", 0); err != nil {
		return err
	}
	for from := int64(min(after, everything)); ; {
		var page []item
		var it item
		err := s.rows(ctx, func() error {
			page = append(page, it)
			return nil
		}, call{itemsOf, []any{[]byte(space), []byte(queue), from, pageRows, pageOctets}}, it.columns()...)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			it := &page[i]
			if err := s.intactData(space, it); err != nil {
				return err
			}
			from = it.n
			if !yield(uint64(it.n), string(it.id), int(it.tries), it.data) {
				return nil
			}
		}
	}
}
