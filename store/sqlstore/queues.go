package sqlstore

import (
	"bytes"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/gather"
)

// enqueue is a pending Add.
type enqueue struct {
	space, queue, id, mark, owner string
	data                          []byte
	expires, keep                 time.Time
	tell                          func(store.AddResult)
	invalid                       error

	result store.AddResult
}

// Add implements store.Queues.
func (s *Store) Add(space, queue, id, mark, owner string, data []byte, expires, keep time.Time, done func(store.AddResult)) {
	s.queue.Submit(&enqueue{
		space: space, queue: queue, id: id, mark: mark, owner: owner, data: data, expires: expires, keep: keep, tell: done,
		invalid: gather.CheckItem(space, queue, id, mark, owner, len(data)),
	})
}

func (e *enqueue) Size() int {
	return len(e.space) + len(e.queue) + len(e.id) + len(e.mark) + len(e.owner) + len(e.data)
}

func (e *enqueue) Owner() string { return e.owner }

func (e *enqueue) Subject() (gather.Subject, bool) {
	return gather.Subject{Kind: gather.Item, Space: e.space, Name: e.id}, true
}

func (e *enqueue) Done(err error) {
	if err != nil {
		e.result = store.AddResult{Err: err}
	}
	e.tell(e.result)
}

func (e *enqueue) apply(w *writer) error {
	e.result = store.AddResult{}
	if e.invalid != nil {
		return e.invalid
	}
	payer, err := w.owner(e.owner)
	if err != nil {
		return err
	}
	it := &item{
		space: []byte(e.space), id: []byte(e.id), mark: []byte(e.mark), due: w.now,
		expires: w.s.clock.Expiry(e.expires), keep: w.s.clock.Expiry(e.keep), size: int64(len(e.data)),
	}
	more := it.cost(len(e.queue))
	// Most ids are new, so the id is looked up only if there is no room or the insertion finds it.
	for looked := payer.id == 0; ; looked = true {
		if looked {
			if known, err := e.find(w); known || err != nil {
				return err
			}
		}
		err := w.admit(e.space, e.queue, payer, it.size)
		if err == nil {
			err = w.makeRoom(payer, more)
		}
		switch {
		case err != nil && !looked && !isFailed(err):
			continue
		case err != nil:
			return err
		}
		if fresh, err := e.insert(w, payer, it); fresh || err != nil {
			return err
		}
		if looked {
			return w.s.damaged("index of item %q in space %q", e.id, e.space)
		}
	}
}

// find looks for the item with the id, and removes it if it is done and not to be remembered any
// more.
func (e *enqueue) find(w *writer) (known bool, err error) {
	row, err := w.conn.row(itemByID, []byte(e.space), []byte(e.id))
	if row == nil || err != nil {
		return false, err
	}
	there, err := w.conn.readItem(w.s, row)
	if err != nil {
		return false, err
	}
	if there.done && there.keep <= w.now {
		return false, w.removeItem(there)
	}
	e.result.Equal = bytes.Equal(there.mark, []byte(e.mark))
	return true, nil
}

// insert adds the item. It returns false if the space knows its id.
func (e *enqueue) insert(w *writer, payer *owner, it *item) (fresh bool, err error) {
	if payer.id == 0 {
		w.number(payer)
	}
	q, err := w.makeLine(e.space, e.queue)
	if err != nil {
		return false, err
	}
	it.line, it.owner = q.id, payer.id
	if fresh, err := w.insertItem(it, e.data); !fresh || err != nil {
		return false, err
	}
	w.charge(payer, it.cost(len(e.queue)))
	w.lines.came(q, payer, it)
	e.result.Fresh = true
	return true, nil
}

// leaseEnd is a pending Ack, Nack or Move.
type leaseEnd struct {
	gather.Unowned
	space, id string
	lease     uint64
	then      func(w *writer, it *item) error
	octets    int
	tell      func(held bool, err error)
	invalid   error

	held bool
}

// Ack implements store.Queues.
func (s *Store) Ack(space, id string, lease uint64, done func(held bool, err error)) {
	s.queue.Submit(&leaseEnd{
		space: space, id: id, lease: lease, tell: done, then: (*writer).finish, invalid: gather.CheckSizes(space, id, "", "", 0),
	})
}

// Nack implements store.Queues.
func (s *Store) Nack(space, id string, lease uint64, due time.Time, counts bool, done func(held bool, err error)) {
	s.queue.Submit(&leaseEnd{
		space: space, id: id, lease: lease, tell: done, invalid: gather.CheckSizes(space, id, "", "", 0),
		then: func(w *writer, it *item) error {
			it.lease, it.due = 0, max(w.s.clock.Expiry(due), w.now)
			if !counts && it.tries > 0 {
				it.tries--
			}
			w.lines.returned(it)
			return w.updateLease(it)
		},
	})
}

// Move implements store.Queues.
func (s *Store) Move(space, id string, lease uint64, queue string, data []byte, expires time.Time,
	done func(held bool, err error),
) {
	s.queue.Submit(&leaseEnd{
		space: space, id: id, lease: lease, tell: done, octets: len(queue) + len(data),
		invalid: gather.CheckItem(space, queue, id, "", "", len(data)),
		then: func(w *writer, it *item) error {
			return w.move(it, queue, data, w.s.clock.Expiry(expires))
		},
	})
}

// leased maps leases to their items: the end of a lease reads no item.
type leased map[int64]*item

// maxLeased limits the items in memory between transactions.
const maxLeased = 4096

func (l leased) begin(it *item) { l[it.lease] = it }

func (l leased) end(lease int64) { delete(l, lease) }

// of returns the item whose lease ends; nil if it has to be read.
func (l leased) of(t *leaseEnd) *item {
	if it := l[int64(t.lease)]; it != nil && string(it.id) == t.id && string(it.space) == t.space {
		return it
	}
	return nil
}

func (t *leaseEnd) Size() int { return len(t.space) + len(t.id) + t.octets }

func (t *leaseEnd) Subject() (gather.Subject, bool) {
	return gather.Subject{Kind: gather.Item, Space: t.space, Name: t.id}, true
}

func (t *leaseEnd) Done(err error) { t.tell(err == nil && t.held, err) }

func (t *leaseEnd) apply(w *writer) error {
	t.held = false
	if t.invalid != nil {
		return t.invalid
	}
	it := w.leased.of(t)
	if it == nil {
		var err error
		it, err = w.conn.findItem(w.s, t.space, t.id, w.now)
		if it == nil || err != nil {
			return err
		}
		if it.done || it.lease == 0 || uint64(it.lease) != t.lease {
			return nil
		}
	}
	w.leased.end(it.lease)
	if err := t.then(w, it); err != nil {
		return err
	}
	t.held = true
	return nil
}

// finish removes an item, except its id if that is to be remembered.
func (w *writer) finish(it *item) error {
	if it.keep <= w.now {
		return w.removeItem(it)
	}
	q, err := w.lineByID(it.line)
	if err != nil {
		return err
	}
	if err := w.refund(it.owner, it.size); err != nil {
		return err
	}
	w.lines.went(q, it, 0)
	it.done, it.lease, it.due, it.expires, it.size = true, 0, 0, 0, 0
	w.due(it.keep)
	if _, err := w.conn.exec(finishItem, w.conn.sumItem(it), it.line, it.n); err != nil {
		return err
	}
	_, err = w.conn.exec(deleteBody, it.n)
	return err
}

// move puts an item at the end of another or the same queue.
func (w *writer) move(it *item, queue string, data []byte, expires int64) error {
	to, err := w.makeLine(string(it.space), queue)
	if err != nil {
		return err
	}
	payer, err := w.ownerByID(it.owner)
	if err != nil {
		return err
	}
	if _, err := w.lineByID(it.line); err != nil {
		return err
	}
	next := *it
	next.line, next.lease, next.tries, next.due, next.expires, next.size = to.id, 0, 0, w.now, expires, int64(len(data))
	w.charge(payer, next.cost(len(queue)))
	if err := w.removeItem(it); err != nil {
		return err
	}
	fresh, err := w.insertItem(&next, data)
	switch {
	case err != nil:
		return err
	case !fresh:
		return w.s.damaged("index of item %q in space %q", it.id, it.space)
	}
	w.lines.came(to, payer, &next)
	return nil
}
