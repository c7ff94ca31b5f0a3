package pgstore

import (
	"context"
	"math"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/quota"
)

// limits are up to where the database lets an operation add without a decision. To decide, the
// shares of all owners are needed, which package fair knows.
type limits struct {
	perOwner, open int64      // octets of the owner, and of all
	room           store.Room // of the queue
	kept           int64      // items of the space
}

const unlimited = math.MaxInt64

// limits returns the limits of an operation, except the one of its queue.
func (w *writer) limits(o *op) limits {
	b := w.s.bounds.Load()
	l := limits{perOwner: b.QuotaPerOwner, open: quota.Open(o.owner, b.Quota), kept: quota.Open(o.owner, int64(b.Remembered)), room: store.Room{Items: -1}}
	if o.owner == "" {
		l.perOwner = unlimited
	}
	return l
}

// maxAsks limits the decisions for one operation: each of three, once more after a sweep.
const maxAsks = 8

// ask is a limit that needs a decision.
type ask struct {
	owner        string
	octets       int64 // more
	space, queue string
	size         int64 // octets of the item
	place        bool  // in the queue
	remember     bool  // in the space
}

const (
	usedOctets = `SELECT coalesce(sum(octets) FILTER (WHERE kind = 0), 0)::bigint, coalesce(sum(octets) FILTER (WHERE kind = 1), 0)::bigint, used_by($2)
		FROM counts WHERE space = '' AND (kind = 0 AND name = '' OR kind = 1 AND name = $1)`
	sharesOfOctets = `SELECT name, sum(octets)::bigint FROM counts WHERE kind = 1 AND space = '' GROUP BY name`
	sharesOfQueue  = `SELECT owner, sum(items)::bigint, sum(octets)::bigint FROM holdings WHERE space = $1 AND queue = $2 GROUP BY owner`
	sharesOfSpace  = `SELECT owner, sum(kept)::bigint FROM holdings WHERE space = $1 GROUP BY owner`
)

// decide raises the limit, or returns why not.
func (a *ask) decide(ctx context.Context, w *writer, l *limits) (refused, err error) {
	b := w.s.bounds.Load()
	raised := *l
	defer func() {
		if refused == nil && err == nil {
			*l = raised
		}
	}()
	switch {
	case a.place:
		var items, octets fair.Shares
		if err := w.shares(ctx, sharesOfQueue, []any{[]byte(a.space), []byte(a.queue)}, &items, &octets); err != nil {
			return nil, err
		}
		most, own := w.rooms.most(b, place{a.space, a.queue})
		now := store.Room{Items: int64(items.Used()), Octets: int64(octets.Used())}
		if own && now.Items == 0 {
			refused = quota.Exceeds(a.queue, most, now, a.size)
		} else {
			refused = quota.Crowded(a.queue, a.owner, most, now, a.size, &items, &octets)
		}
		raised.room = store.Room{Items: unlimited, Octets: unlimited}
	case a.remember:
		var kept fair.Shares
		if err := w.shares(ctx, sharesOfSpace, []any{[]byte(a.space)}, &kept, nil); err != nil {
			return nil, err
		}
		refused = b.Forgetful(a.space, a.owner, int64(kept.Used()), &kept)
		raised.kept = unlimited
	default:
		var now quota.Use
		if err := w.conn.QueryRow(ctx, usedOctets, []byte(a.owner), []byte(fair.PeerOf(a.owner))).Scan(&now.All, &now.Owner, &now.Peer); err != nil {
			return nil, err
		}
		refused, err = b.Refuse(a.owner, now, a.octets, func() (*fair.Shares, error) {
			all := new(fair.Shares)
			return all, w.shares(ctx, sharesOfOctets, nil, all, nil)
		})
		raised.perOwner, raised.open = unlimited, unlimited
	}
	return refused, err
}

// shares reads the use of owners: a name and one or two numbers.
func (w *writer) shares(ctx context.Context, text string, args []any, first, second *fair.Shares) error {
	rows, err := w.conn.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name []byte
		var n [2]int64
		to := []any{&name, &n[0]}
		if second != nil {
			to = append(to, &n[1])
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		first.Force(string(name), int(n[0]))
		if second != nil {
			second.Force(string(name), int(n[1]))
		}
	}
	return rows.Err()
}

// room returns up to where a queue is filled without a decision.
func (w *writer) room(of place, owner string, l limits) store.Room {
	if l.room.Items >= 0 {
		return l.room
	}
	most, _ := w.rooms.most(w.s.bounds.Load(), of)
	return store.Room{Items: quota.Open(owner, most.Items), Octets: quota.Open(owner, most.Octets)}
}
