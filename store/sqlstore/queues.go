package sqlstore

import (
	"bytes"
	"time"

	"github.com/slimwire/swp/store"
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
	s.queue.submit(&enqueue{
		space: space, queue: queue, id: id, mark: mark, owner: owner, data: data, expires: expires, keep: keep, tell: done,
		invalid: checkItem(space, queue, id, mark, owner, len(data)),
	})
}

func (e *enqueue) size() int {
	return len(e.space) + len(e.queue) + len(e.id) + len(e.mark) + len(e.owner) + len(e.data)
}

func (e *enqueue) done(err error) {
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
	row, err := w.conn.row(itemByID, []byte(e.space), []byte(e.id))
	if err != nil {
		return err
	}
	if row != nil {
		there, err := w.conn.readItem(w.s, row)
		if err != nil {
			return err
		}
		if !there.done || there.keep > w.now {
			e.result.Equal = bytes.Equal(there.mark, []byte(e.mark))
			return nil
		}
		if err := w.removeItem(there); err != nil {
			return err
		}
	}
	payer, err := w.owner(e.owner)
	if err != nil {
		return err
	}
	if err := w.admit(e.space, e.queue, payer, int64(len(e.data))); err != nil {
		return err
	}
	it := &item{
		space: []byte(e.space), id: []byte(e.id), mark: []byte(e.mark), due: w.now,
		expires: w.s.clock.Expiry(e.expires), keep: w.s.clock.Expiry(e.keep), size: int64(len(e.data)),
	}
	more := it.cost(len(e.queue))
	if err := w.makeRoom(payer, more); err != nil {
		return err
	}
	if payer.id == 0 {
		w.number(payer)
	}
	q, err := w.makeLine(e.space, e.queue)
	if err != nil {
		return err
	}
	it.line, it.owner = q.id, payer.id
	if err := w.insertItem(it, e.data); err != nil {
		return err
	}
	w.charge(payer, more)
	w.lines.came(q, payer, it)
	e.result.Fresh = true
	return nil
}

// leaseEnd is a pending Ack, Nack or Move.
type leaseEnd struct {
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
	s.queue.submit(&leaseEnd{
		space: space, id: id, lease: lease, tell: done, then: (*writer).finish, invalid: checkSizes(space, id, "", "", 0),
	})
}

// Nack implements store.Queues.
func (s *Store) Nack(space, id string, lease uint64, due time.Time, counts bool, done func(held bool, err error)) {
	s.queue.submit(&leaseEnd{
		space: space, id: id, lease: lease, tell: done, invalid: checkSizes(space, id, "", "", 0),
		then: func(w *writer, it *item) error {
			it.lease, it.due = 0, max(w.s.clock.Expiry(due), w.now)
			if !counts && it.tries > 0 {
				it.tries--
			}
			w.lines.returned(it)
			return w.updateItem(it)
		},
	})
}

// Move implements store.Queues.
func (s *Store) Move(space, id string, lease uint64, queue string, data []byte, expires time.Time,
	done func(held bool, err error),
) {
	s.queue.submit(&leaseEnd{
		space: space, id: id, lease: lease, tell: done, octets: len(queue) + len(data),
		invalid: checkItem(space, queue, id, "", "", len(data)),
		then: func(w *writer, it *item) error {
			return w.move(it, queue, data, w.s.clock.Expiry(expires))
		},
	})
}

func (t *leaseEnd) size() int { return len(t.space) + len(t.id) + t.octets }

func (t *leaseEnd) done(err error) { t.tell(err == nil && t.held, err) }

func (t *leaseEnd) apply(w *writer) error {
	t.held = false
	if t.invalid != nil {
		return t.invalid
	}
	it, err := w.conn.findItem(w.s, t.space, t.id, w.now)
	if it == nil || err != nil {
		return err
	}
	if it.done || it.lease == 0 || uint64(it.lease) != t.lease {
		return nil
	}
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
	if err := w.updateItem(it); err != nil {
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
	if err := w.insertItem(&next, data); err != nil {
		return err
	}
	w.lines.came(to, payer, &next)
	return nil
}
