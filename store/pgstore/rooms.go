package pgstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/gather"
	"github.com/slimwire/swp/store/internal/quota"
)

// place is the name of a queue.
type place struct{ space, queue string }

// rooms has the queues with separate limits. Each node has its limits; the content of a queue is the
// same for all nodes.
type rooms struct {
	limit map[place]store.Room
	next  map[place]store.Room // of this transaction
	held  map[place]store.Room
	asked []place // of the last count
}

// most returns the limit of a queue, and whether it is its own.
func (r *rooms) most(b *quota.Bounds, of place) (most store.Room, own bool) {
	if most, own = r.next[of]; own {
		return most, true
	}
	if most, own = r.limit[of]; own {
		return most, true
	}
	return b.RoomOf(), false
}

const countRooms = `SELECT coalesce(sum(c.items), 0)::bigint, coalesce(sum(c.octets), 0)::bigint
	FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS u (space, queue, i)
	LEFT JOIN counts c ON c.kind = 2 AND c.space = u.space AND c.name = u.queue GROUP BY u.i ORDER BY u.i`

// count returns the statement that counts what the queues hold; none without such queues.
func (r *rooms) count() call {
	r.asked = r.asked[:0]
	var spaces, queues [][]byte
	for _, of := range []map[place]store.Room{r.limit, r.next} {
		for p := range of {
			r.asked = append(r.asked, p)
			spaces, queues = append(spaces, []byte(p.space)), append(queues, []byte(p.queue))
		}
	}
	if len(r.asked) == 0 {
		return call{}
	}
	return call{countRooms, []any{spaces, queues}}
}

// counted reads the result of count.
func (r *rooms) counted(rows pgx.Rows) error {
	r.held = make(map[place]store.Room, len(r.asked))
	var held store.Room
	_, err := pgx.ForEachRow(rows, []any{&held.Items, &held.Octets}, func() error {
		r.held[r.asked[len(r.held)]] = held
		return nil
	})
	return err
}

// committed publishes what the queues hold.
func (r *rooms) committed(s *Store) {
	for p, most := range r.next {
		if r.limit == nil {
			r.limit = make(map[place]store.Room)
		}
		r.limit[p] = most
	}
	clear(r.next)
	for p, held := range r.held {
		s.rooms.Store(p, held)
	}
	clear(r.held)
}

// forget discards limits that were not committed.
func (r *rooms) forget() {
	clear(r.next)
	clear(r.held)
}

// Bound implements store.Queues. The limit is of this node: each node has to give it.
func (s *Store) Bound(space, queue string, most store.Room, done func(error)) {
	o := &op{size: len(space) + len(queue), invalid: gather.CheckSizes(space, queue, "", "", 0), done: done}
	o.call = func(w *writer, _ limits) call {
		if w.rooms.next == nil {
			w.rooms.next = make(map[place]store.Room)
		}
		w.rooms.next[place{space, queue}] = most
		return call{}
	}
	s.queue.Submit(o)
}

// Holds implements store.Queues. What another node has changed is seen with the next transaction of
// this one.
func (s *Store) Holds(space, queue string) store.Room {
	if held, ok := s.rooms.Load(place{space, queue}); ok {
		return held.(store.Room)
	}
	return store.Room{}
}
