package sqlstore

import (
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/store"
)

const (
	selectGarbage  = `SELECT log, through FROM garbage ORDER BY log LIMIT 1`
	deleteGarbage  = `DELETE FROM garbage WHERE log = ?`
	garbageEntries = `SELECT seq, owner, length(id), length(data) FROM entry WHERE log = ? AND seq <= ? ORDER BY seq LIMIT ?`
	deleteEntries  = `DELETE FROM entry WHERE log = ? AND seq <= ?`
	expiredRecords = `SELECT expires, space, key FROM record
		WHERE expires > 0 AND (expires, space, key) > (?, ?, ?) ORDER BY expires, space, key LIMIT ?`
	expiredEntries = `SELECT expires, n FROM entry
		WHERE expires > 0 AND (expires, n) > (?, ?) ORDER BY expires, n LIMIT ?`
	forgottenItems = `SELECT keep, line, n FROM item
		WHERE done = 1 AND (keep, line, n) > (?, ?, ?) ORDER BY keep, line, n LIMIT ?`
	selectEntry = `SELECT seq, id, owner, expires, sum, data, log FROM entry WHERE n = ?`
)

// Pace of the sweep.
const (
	idleRows   = 256                    // rows a transaction, while no client waits
	busyRows   = 64                     // rows a transaction, while clients wait
	busyPause  = 100 * time.Millisecond // shortest interval while clients wait
	roomRows   = 1024                   // rows, before a quota refuses an operation
	sweepRetry = time.Second            // after a failed sweep
)

// sweeper holds the state of the sweep between transactions.
type sweeper struct {
	garbage bool  // cut off entries may exist
	next    int64 // earliest expiry
	ran     time.Time
	wait    time.Time // not before

	// Damaged expired rows are kept, so that readers get the error. The sweep continues
	// after these rows.
	records []driver.Value // expires, space, key
	entries []driver.Value // expires, n
	items   []driver.Value // keep, line, n
}

func newSweeper() sweeper {
	return sweeper{
		garbage: true,
		records: []driver.Value{int64(0), []byte{}, []byte{}},
		entries: []driver.Value{int64(0), int64(0)},
		items:   []driver.Value{int64(0), int64(0), int64(0)},
	}
}

// due records an expiry.
func (w *writer) due(expires int64) {
	if expires != 0 && expires < w.sweeper.next {
		w.sweeper.next = expires
	}
}

// sweepSome sweeps some rows, and returns the time until the next sweep.
func (w *writer) sweepSome(busy bool) time.Duration {
	sw := &w.sweeper
	now := time.Now()
	due := sw.garbage || sw.next <= w.s.clock.now()
	switch {
	case !due:
		return time.Duration(min(sw.next-w.s.clock.now(), int64(time.Minute)))
	case now.Before(sw.wait):
		return sw.wait.Sub(now)
	case busy && now.Sub(sw.ran) < busyPause:
		return busyPause
	}
	sw.ran = now
	rows := idleRows
	if busy {
		rows = busyRows
	}
	if w.transact(func() error { return w.sweep(rows) }) != nil {
		sw.wait = now.Add(sweepRetry)
		return sweepRetry
	}
	return 0
}

// sweep deletes cut off and expired rows, at most limit of each kind.
func (w *writer) sweep(limit int) error {
	if err := w.sweepGarbage(limit); err != nil {
		return err
	}
	w.sweeper.next = everything
	if err := w.sweepRecords(limit); err != nil {
		return err
	}
	if err := w.sweepEntries(limit); err != nil {
		return err
	}
	return w.sweepItems(limit)
}

func (w *writer) sweepGarbage(limit int) error {
	row, err := w.conn.row(selectGarbage)
	if err != nil {
		return err
	}
	w.sweeper.garbage = row != nil
	if row == nil {
		return nil
	}
	log, through := number(row[0]), number(row[1])
	freed := make(map[int64]int64)
	rows, last := 0, int64(0)
	err = w.conn.rows(func(row []driver.Value) bool {
		rows++
		last = number(row[0])
		freed[number(row[1])] += cost(int(number(row[2])), int(number(row[3])))
		return true
	}, garbageEntries, log, through, int64(limit))
	if err != nil {
		return err
	}
	if rows == limit {
		_, err = w.conn.exec(deleteEntries, log, last)
	} else if _, err = w.conn.exec(deleteEntries, log, through); err == nil {
		_, err = w.conn.exec(deleteGarbage, log)
	}
	for id, octets := range freed {
		if err == nil {
			err = ignoreDamage(w.refund(id, octets))
		}
	}
	w.s.stats.swept.Add(uint64(rows))
	return err
}

func (w *writer) sweepRecords(limit int) error {
	return w.sweepExpired(expiredRecords, w.sweeper.records, limit, func(at []driver.Value) error {
		_, err := w.record(octets(at[1]), octets(at[2]))
		return err
	})
}

func (w *writer) sweepEntries(limit int) error {
	return w.sweepExpired(expiredEntries, w.sweeper.entries, limit, func(at []driver.Value) error {
		row, err := w.conn.row(selectEntry, at[1])
		if row == nil || err != nil {
			return err
		}
		g, err := w.logByID(number(row[6]))
		if g == nil || err != nil {
			return err // an entry without a log is garbage
		}
		e, err := w.conn.readEntry(w.s, g, row)
		if err != nil || !expired(e.expires, w.now) {
			return err
		}
		return w.removeEntry(g, e)
	})
}

// sweepItems forgets the ids of done items.
func (w *writer) sweepItems(limit int) error {
	return w.sweepExpired(forgottenItems, w.sweeper.items, limit, func(at []driver.Value) error {
		row, err := w.conn.row(itemByNumber, at[1], at[2])
		if row == nil || err != nil {
			return err
		}
		it, err := w.conn.readItem(w.s, row)
		if err != nil || !it.done || it.keep > w.now {
			return err
		}
		return w.removeItem(it)
	})
}

// sweepExpired removes the rows that an index lists as expired.
func (w *writer) sweepExpired(list string, after []driver.Value, limit int, remove func(at []driver.Value) error) error {
	var due [][]driver.Value
	err := w.conn.rows(func(row []driver.Value) bool {
		if expires := number(row[0]); !expired(expires, w.now) {
			w.due(expires)
			return false
		}
		due = append(due, slices.Clone(row))
		return true
	}, list, append(slices.Clone(after), int64(limit))...)
	if err != nil {
		return err
	}
	for _, at := range due {
		err := remove(at)
		if isFailed(err) {
			return err
		}
		if err != nil {
			copy(after, at)
		}
	}
	if len(due) == limit {
		w.due(w.now)
	}
	w.s.stats.swept.Add(uint64(len(due)))
	return nil
}

func ignoreDamage(err error) error {
	if errors.Is(err, store.ErrDamaged) && !isFailed(err) {
		return nil
	}
	return err
}
