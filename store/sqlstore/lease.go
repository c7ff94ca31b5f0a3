package sqlstore

import (
	"cmp"
	"database/sql/driver"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
)

const (
	dueItems = `SELECT ` + itemColumns + ` FROM item
		WHERE line = ? AND done = 0 AND due <= ? ORDER BY due, n LIMIT `
	dueItemsOf = `SELECT ` + itemColumns + ` FROM item INDEXED BY item_due
		WHERE line = ? AND done = 0 AND (due, n) > (?, ?) AND due <= ? AND owner = ? ORDER BY due, n LIMIT `
	nextDue      = `SELECT due FROM item WHERE line = ? AND done = 0 ORDER BY due LIMIT 1`
	expiredItems = `SELECT ` + itemColumns + ` FROM item
		WHERE space = ? AND expires > 0 AND expires <= ? AND (lease = 0 OR due <= ?) ORDER BY expires LIMIT `
	nextExpiry = `SELECT expires FROM item WHERE space = ? AND expires > 0 AND expires > ? ORDER BY expires LIMIT 1`
	nextReturn = `SELECT min(due) FROM item WHERE space = ? AND expires > 0 AND expires <= ? AND lease > 0`
)

// How many items are read to find one: several after a damaged one, and for leases that follow one
// of the same transaction. The number is part of the statement text, because SQLite compiles a
// statement with a bound LIMIT again each time.
const (
	first   = "1"
	several = "16"
)

// lease is a pending Lease, LeaseExpired or LeaseItem.
type lease struct {
	gather.Unowned
	space, queue string
	lapsed       bool   // LeaseExpired
	id           string // LeaseItem
	most         int
	until        time.Time
	tell         func(store.LeaseResult)
	invalid      error

	item *item    // nil: nothing is due
	was  position // of the item
	name []byte
	data []byte
	next time.Time
	gone bool // the item has expired
}

// Lease implements store.Queues.
func (s *Store) Lease(space, queue string, most int, until time.Time, done func(store.LeaseResult)) {
	s.queue.Submit(&lease{
		space: space, queue: queue, most: most, until: until, tell: done, invalid: gather.CheckSizes(space, queue, "", "", 0),
	})
}

// LeaseExpired implements store.Queues.
func (s *Store) LeaseExpired(space string, most int, until time.Time, done func(store.LeaseResult)) {
	s.queue.Submit(&lease{
		space: space, lapsed: true, most: most, until: until, tell: done, invalid: gather.CheckSizes(space, "", "", "", 0),
	})
}

// LeaseItem implements store.Queues.
func (s *Store) LeaseItem(space, id string, most int, until time.Time, done func(store.LeaseResult)) {
	s.queue.Submit(&lease{
		space: space, id: id, most: most, until: until, tell: done, invalid: gather.CheckSizes(space, id, "", "", 0),
	})
}

func (l *lease) Size() int { return len(l.space) + len(l.queue) + len(l.id) }

// tries reports whether the lease counts as a try, as the next item of a queue does.
func (l *lease) tries() bool { return !l.lapsed && l.id == "" }

func (l *lease) Done(err error) {
	switch {
	case err != nil:
		l.tell(store.LeaseResult{Err: err})
	case l.item == nil:
		l.tell(store.LeaseResult{Next: l.next})
	default:
		queue := l.queue
		if !l.tries() {
			queue = string(l.name)
		}
		l.tell(store.LeaseResult{
			Lease: uint64(l.item.lease), Queue: queue, ID: string(l.item.id), Tries: int(l.item.tries), Expired: l.gone, Data: l.data,
		})
	}
}

func (l *lease) apply(w *writer) error {
	l.item, l.data, l.next = nil, nil, time.Time{}
	switch {
	case l.invalid != nil:
		return l.invalid
	case l.id != "":
		return l.byID(w)
	case l.lapsed:
		if w.lines.space([]byte(l.space)).total == 0 {
			return nil
		}
		found, err := l.find(w, new(ahead), expiredItems, []byte(l.space), w.now, w.now)
		if found || err != nil {
			return err
		}
		return l.look(w,
			query{nextExpiry, []driver.Value{[]byte(l.space), w.now}},
			query{nextReturn, []driver.Value{[]byte(l.space), w.now}})
	}
	q, err := w.line(l.space, l.queue)
	if q == nil || q.live == 0 || err != nil {
		return err
	}
	found, err := l.inTurn(w, q)
	if !found && err == nil {
		found, err = l.find(w, w.lines.ahead(q, 0), dueItems, q.id, w.now)
	}
	if found || err != nil {
		return err
	}
	return l.look(w, query{nextDue, []driver.Value{q.id}})
}

// inOrder is the number of items up to which a queue is served in its order.
const inOrder = 64

// inTurn takes the first item that is due of the owner in turn, of a queue that is longer than
// inOrder.
func (l *lease) inTurn(w *writer, q *line) (found bool, err error) {
	if q.live <= inOrder {
		return false, nil
	}
	h, err := w.heldOf(q)
	if err != nil {
		return false, err
	}
	for range h.turns.Len() {
		name, _ := h.turns.Pop(nil)
		from := h.from[name]
		if h.items.Of(name) == 0 {
			delete(h.from, name)
			delete(h.names, from.owner)
			continue
		}
		h.turns.Push(name, name)
		found, err = l.find(w, w.lines.ahead(q, from.owner), dueItemsOf, q.id, from.due, from.n, w.now, from.owner)
		switch {
		case err != nil:
			return false, err
		case found:
			h.from[name] = l.was
			return true, nil
		}
		h.from[name] = position{from.owner, w.now - 1, everything}
	}
	return false, nil
}

// ahead has the next items of a list, read by an earlier lease of this transaction.
type ahead struct {
	items []*item
	limit string // of the next reading
}

// find takes the first undamaged item of a list.
func (l *lease) find(w *writer, list *ahead, query string, args ...driver.Value) (found bool, err error) {
	for read := ""; ; {
		var fault error
		for len(list.items) > 0 {
			it := list.items[0]
			list.items = list.items[1:]
			l.data, fault = nil, nil
			if it.size <= int64(l.most) {
				l.data, fault = w.conn.readBody(w.s, it)
			}
			if fault == nil {
				return true, l.take(w, it)
			}
			if isFailed(fault) {
				return false, fault
			}
		}
		if read == several && fault != nil {
			return false, fault
		}
		read = cmp.Or(list.limit, first)
		list.limit = several
		rows := 0
		err = w.conn.rows(func(row []driver.Value) bool {
			rows++
			it, damage := w.conn.readItem(w.s, row)
			if damage == nil {
				list.items = append(list.items, it)
			}
			fault = cmp.Or(fault, damage)
			return true
		}, query+read, args...)
		switch {
		case err != nil:
			return false, err
		case rows == 0:
			return false, nil
		case len(list.items) == 0 && read == several:
			return false, fault
		}
	}
}

// byID takes the item with the id, unless it is done or leased.
func (l *lease) byID(w *writer) error {
	it, err := w.conn.findItem(w.s, l.space, l.id, w.now)
	if it == nil || err != nil || it.done || it.lease > 0 && it.due > w.now {
		return err
	}
	if it.size <= int64(l.most) {
		if l.data, err = w.conn.readBody(w.s, it); err != nil {
			return err
		}
	}
	return l.take(w, it)
}

func (l *lease) take(w *writer, it *item) error {
	if !l.tries() {
		q, err := w.lineByID(it.line)
		if err != nil {
			return err
		}
		l.name = q.name
		w.lines.lookAgain()
	} else {
		it.tries++
	}
	l.gone = clock.Expired(it.expires, w.now)
	w.state.versions++
	w.leased.end(it.lease)
	l.was = position{it.owner, it.due, it.n}
	it.lease, it.due = w.state.versions, w.s.clock.Expiry(l.until)
	l.item = it
	w.leased.begin(it)
	return w.updateLease(it)
}

// query is a statement and its arguments.
type query struct {
	text string
	args []driver.Value
}

// look sets the time at which the next item is due: the earliest result of the queries.
func (l *lease) look(w *writer, queries ...query) error {
	next := int64(0)
	for _, q := range queries {
		row, err := w.conn.row(q.text, q.args...)
		if err != nil {
			return err
		}
		if row == nil {
			continue
		}
		if at := number(row[0]); at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	l.next = w.s.clock.Time(next)
	return nil
}
