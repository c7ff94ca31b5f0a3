package sqlstore

import (
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/clock"
)

const (
	selectGarbage  = `SELECT log, through FROM garbage ORDER BY log LIMIT 1`
	deleteGarbage  = `DELETE FROM garbage WHERE log = ?`
	forgetNames    = `DELETE FROM name WHERE log = ? AND seq <= ?`
	expiredRecords = `SELECT expires, space, key FROM record
		WHERE expires > 0 AND (expires, space, key) > (?, ?, ?) ORDER BY expires, space, key LIMIT ?`
	expiredChunks = `SELECT expires, n FROM chunk
		WHERE expires > 0 AND (expires, n) > (?, ?) ORDER BY expires, n LIMIT ?`
	forgottenItems = `SELECT keep, line, n FROM item
		WHERE done = 1 AND (keep, line, n) > (?, ?, ?) ORDER BY keep, line, n LIMIT ?`
	chunkByNumber = `SELECT n, seq, expires, data, log FROM chunk WHERE n = ?`
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
	chunks  []driver.Value // expires, n
	items   []driver.Value // keep, line, n
}

func newSweeper() sweeper {
	return sweeper{
		garbage: true,
		records: []driver.Value{int64(0), []byte{}, []byte{}},
		chunks:  []driver.Value{int64(0), int64(0)},
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
	due := sw.garbage || sw.next <= w.s.clock.Now()
	switch {
	case !due:
		return time.Duration(min(sw.next-w.s.clock.Now(), int64(time.Minute)))
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
	if err := w.writeChunks(); err != nil {
		return err
	}
	if err := w.sweepGarbage(limit); err != nil {
		return err
	}
	w.sweeper.next = everything
	if err := w.sweepRecords(limit); err != nil {
		return err
	}
	if err := w.sweepChunks(limit); err != nil {
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
	swept, more := 0, true
	for more && swept < limit && err == nil {
		var n int
		n, more, err = w.sweepCut(log, through)
		swept += n
	}
	if err == nil && !more {
		_, err = w.conn.exec(deleteGarbage, log)
	}
	w.s.stats.Swept.Add(uint64(swept))
	return err
}

// sweepCut removes the entries of the first chunk of a log up to a number, and reports whether there
// may be more.
func (w *writer) sweepCut(log, through int64) (swept int, more bool, err error) {
	row, err := w.conn.row(selectChunk, log, int64(0))
	if row == nil || err != nil {
		return 0, false, err
	}
	k := readChunk(row)
	swept, err = w.keepEntries(log, k, func(e *entry) bool { return e.seq > through })
	if k.seq <= through && errors.Is(err, store.ErrDamaged) && !isFailed(err) {
		// Octets of unreadable entries stay counted until the owners are counted again.
		if _, err = w.conn.exec(deleteChunk, k.n); err == nil {
			_, err = w.conn.exec(forgetNames, log, k.seq)
		}
		return swept + 1, true, err
	}
	return swept, k.seq <= through, ignoreDamage(err)
}

func (w *writer) sweepRecords(limit int) error {
	return w.sweepExpired(expiredRecords, w.sweeper.records, limit, func(at []driver.Value) (int, error) {
		_, err := w.record(octets(at[1]), octets(at[2]))
		return 1, err
	})
}

func (w *writer) sweepChunks(limit int) error {
	return w.sweepExpired(expiredChunks, w.sweeper.chunks, limit, func(at []driver.Value) (int, error) {
		row, err := w.conn.row(chunkByNumber, at[1])
		if row == nil || err != nil {
			return 0, err
		}
		g, err := w.logByID(number(row[4]))
		if g == nil || err != nil {
			return 0, err // a chunk without a log is garbage
		}
		k, all := readChunk(row), true
		err = w.conn.eachEntry(w.s, g, k, 0, func(e *entry) bool {
			all = all && clock.Expired(e.expires, w.now)
			return all
		})
		if err == nil && !all {
			err = w.s.damaged("expiry of the entries up to %d of log %q in space %q", k.seq, g.name, g.space)
		}
		if err == nil && k.seq > g.kept {
			err = w.updateLog(g)
		}
		if err != nil {
			return 0, err
		}
		return w.keepEntries(g.id, k, func(*entry) bool { return false })
	})
}

// sweepItems forgets the ids of done items.
func (w *writer) sweepItems(limit int) error {
	return w.sweepExpired(forgottenItems, w.sweeper.items, limit, func(at []driver.Value) (int, error) {
		row, err := w.conn.row(itemByNumber, at[1], at[2])
		if row == nil || err != nil {
			return 1, err
		}
		it, err := w.conn.readItem(w.s, row)
		if err != nil || !it.done || it.keep > w.now {
			return 1, err
		}
		return 1, w.removeItem(it)
	})
}

// sweepExpired removes the rows that an index lists as expired, until remove has counted limit.
func (w *writer) sweepExpired(list string, after []driver.Value, limit int, remove func(at []driver.Value) (int, error)) error {
	var due [][]driver.Value
	err := w.conn.rows(func(row []driver.Value) bool {
		if expires := number(row[0]); !clock.Expired(expires, w.now) {
			w.due(expires)
			return false
		}
		due = append(due, slices.Clone(row))
		return true
	}, list, append(slices.Clone(after), int64(limit))...)
	if err != nil {
		return err
	}
	swept := 0
	for _, at := range due {
		n, err := remove(at)
		if isFailed(err) {
			return err
		}
		if err != nil {
			copy(after, at)
		}
		if swept += n; swept >= limit {
			break
		}
	}
	if max(len(due), swept) >= limit {
		w.due(w.now)
	}
	w.s.stats.Swept.Add(uint64(swept))
	return nil
}

func ignoreDamage(err error) error {
	if errors.Is(err, store.ErrDamaged) && !isFailed(err) {
		return nil
	}
	return err
}
