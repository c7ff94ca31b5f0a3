package sqlstore

import (
	"sync/atomic"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/gather"
)

// heldItems counts the unfinished items of a queue.
const heldItems = `SELECT count(*), coalesce(sum(size), 0) FROM item INDEXED BY item_due WHERE line = ? AND done = 0`

// room is the limit of one queue and its usage. The writer owns it; readers see a copy as
// of the last commit.
type room struct {
	most          store.Room
	held, settled store.Room // now, and as of the last commit
	known         bool       // the limit was committed
	shown         struct{ items, octets atomic.Int64 }
}

// count adds items of the given size to the usage.
func (r *room) count(items, octets int64) {
	r.held.Items += items
	r.held.Octets += items * octets
}

// rooms holds the queues with separate limits.
type rooms map[logName]*room

// markCommitted marks the usage as committed and publishes it to readers.
func (all rooms) markCommitted(s *Store) {
	for name, r := range all {
		if !r.known {
			r.known = true
			s.rooms.Store(name, r)
		}
		if r.settled = r.held; r.shown.items.Load() != r.held.Items || r.shown.octets.Load() != r.held.Octets {
			r.shown.items.Store(r.held.Items)
			r.shown.octets.Store(r.held.Octets)
		}
	}
}

// forget discards uncommitted usage.
func (all rooms) forget() {
	for name, r := range all {
		if r.held = r.settled; !r.known {
			delete(all, name)
		}
	}
}

// bound is a pending Bound.
type bound struct {
	gather.Unowned
	name    logName
	most    store.Room
	tell    func(error)
	invalid error
}

// Bound implements store.Queues.
func (s *Store) Bound(space, queue string, most store.Room, done func(error)) {
	s.queue.Submit(&bound{name: logName{space, queue}, most: most, tell: done, invalid: gather.CheckSizes(space, queue, "", "", 0)})
}

func (b *bound) Size() int      { return len(b.name.space) + len(b.name.name) }
func (b *bound) Done(err error) { b.tell(err) }

func (b *bound) apply(w *writer) error {
	if b.invalid != nil {
		return b.invalid
	}
	r := w.lines.rooms[b.name]
	if r == nil {
		q, err := w.line(b.name.space, b.name.name)
		if err != nil {
			return err
		}
		r = new(room)
		if q != nil {
			row, err := w.conn.row(heldItems, q.id)
			if err != nil {
				return err
			}
			r.held = store.Room{Items: number(row[0]), Octets: number(row[1])}
			q.room = r
		}
		w.lines.rooms[b.name] = r
	}
	r.most = b.most
	return nil
}

// Holds implements store.Queues.
func (s *Store) Holds(space, queue string) store.Room {
	if found, ok := s.rooms.Load(logName{space, queue}); ok {
		r := found.(*room)
		return store.Room{Items: r.shown.items.Load(), Octets: r.shown.octets.Load()}
	}
	return store.Room{}
}
