package sqlstore

import (
	"errors"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
)

// Limits of one transaction. Operations submitted during a commit go into the next one.
const (
	maxBatch       = 1024    // operations
	maxBatchOctets = 8 << 20 // of values and names; a larger operation is a batch of its own
)

// writer is the only goroutine that writes. It owns the fields below.
type writer struct {
	s    *Store
	conn *conn

	state  state
	now    int64 // time of this transaction on the clock of the store
	owners owners
	logs   logs
	lines  lines
	leased leased
	turns  gather.Turns[operation]

	sweeper      sweeper
	checkpointer checkpointer
	errs         []error // outcomes of a batch
	refused      int     // octets of the last failed batch; 0 after as many were written
}

// state is the row that each transaction writes.
type state struct {
	commits  int64
	versions int64
	ids      int64
	clock    int64
}

const (
	insertState = `INSERT INTO state (id, commits, versions, ids, clock, sum) VALUES (1, 0, 0, 0, 0, 0)`
	selectState = `SELECT commits, versions, ids, clock, sum FROM state WHERE id = 1`
	updateState = `UPDATE state SET commits = ?, versions = ?, ids = ?, clock = ?, sum = ? WHERE id = 1`
)

func (c *conn) sumState(s state) int64 {
	return c.sum(checksum.State, []int64{s.commits, s.versions, s.ids, s.clock}, nil)
}

func (c *conn) writeState(s state) error {
	_, err := c.exec(updateState, s.commits, s.versions, s.ids, s.clock, c.sumState(s))
	return err
}

// load reads the cached state.
func (w *writer) load() (err error) {
	if w.state, err = w.conn.readState(w.s); err != nil {
		return err
	}
	if w.owners.settled, err = w.countOwners(); err != nil {
		return err
	}
	w.owners.total = w.owners.settled
	if err = w.countLines(); err != nil {
		return err
	}
	w.s.clock = clock.New(w.s.options.Now, w.state.clock)
	return nil
}

// loop writes until the queue is closed and empty.
func (w *writer) loop() {
	q := w.s.queue
	timer := time.NewTimer(0)
	defer timer.Stop()
	var spare []operation
	for open := true; open || !w.turns.Idle(); {
		if w.turns.Idle() {
			select {
			case <-q.Wake():
			case <-timer.C:
			}
		}
		var ops []operation
		ops, open = q.Take(spare[:0])
		batch := w.turns.Take(ops)
		if len(batch) > 0 {
			if lost, err := w.batch(batch); err != nil {
				open = q.GiveUp(lost, &w.turns, &w.s.stats.Counters, err)
			}
			q.Release(batch)
			w.checkpointer.step(w)
		}
		clear(ops)
		spare = ops[:0]
		timer.Reset(w.sweepSome(len(batch) > 0))
		w.checkpointer.step(w)
	}
}

// batch writes operations in one transaction and reports their outcomes. If the medium does not take them, it returns
// its error and the operations whose outcome it has not reported.
func (w *writer) batch(ops []operation) (lost []operation, _ error) {
	w.errs = append(w.errs[:0], make([]error, len(ops))...)
	began := time.Now()
	err := w.transact(func() error {
		for i, op := range ops {
			err := op.apply(w)
			if isFailed(err) {
				return err
			}
			w.errs[i] = err
		}
		return nil
	})
	switch {
	case err == nil:
		if told := w.s.options.Committed; told != nil {
			told(time.Since(began), len(ops))
		}
	case len(ops) > 1 && !errors.Is(err, store.ErrUnavailable):
		// One operation broke the transaction. Each one is repeated in its own transaction.
		for i := range ops {
			if _, err := w.batch(ops[i : i+1]); err != nil {
				return ops[i:], err
			}
		}
		return nil, nil
	default:
		err = w.s.asDamage(err)
		for i := range w.errs {
			w.errs[i] = err
		}
	}
	w.noteRoom(ops, err)
	if errors.Is(err, store.ErrUnavailable) {
		return ops, err
	}
	w.s.stats.Count(err, len(ops))
	w.s.queue.Tell(ops, w.errs)
	return nil, nil
}

// noteRoom records the size of a failed batch until as much was written.
func (w *writer) noteRoom(ops []operation, err error) {
	octets, probed := 0, false
	for i, op := range ops {
		octets += op.Size()
		if _, is := op.(probe); is && w.errs[i] == nil {
			probed = true
		}
	}
	switch {
	case errors.Is(err, store.ErrUnavailable):
		w.refused = max(w.refused, min(max(octets, minRefused), maxRefused))
	case err == nil && (probed || octets >= w.refused):
		w.refused = 0
	}
}

func isFailed(err error) bool {
	var f *failed
	return err != nil && errors.As(err, &f)
}

// transact runs work within a transaction and commits it, or rolls back.
//
// After a crash a failed commit may turn out to be complete: the outcome of an
// unacknowledged operation is unknown. A repeated operation is recognised by its version or
// id.
func (w *writer) transact(work func() error) error {
	if w.s.file == "" {
		// A store in memory has one connection, which readers use too.
		<-w.s.readers
		defer func() { w.s.readers <- w.conn }()
	} else if w.conn == nil {
		if err := w.reconnect(); err != nil {
			return err
		}
	}
	before := w.state
	w.now = w.s.clock.Now()
	_, err := w.conn.exec("BEGIN IMMEDIATE")
	began := err == nil
	if began {
		err = work()
	}
	if err == nil {
		err = w.seal()
	}
	if err == nil {
		_, err = w.conn.exec("COMMIT")
	}
	if err == nil {
		w.committed()
		return nil
	}
	w.state = before
	w.owners.forget()
	w.logs.forget()
	w.lines.forget()
	clear(w.leased)
	w.sweeper.garbage, w.sweeper.next = true, 0
	if began {
		_, rolledBack := w.conn.exec("ROLLBACK")
		// An error of another kind means that SQLite has already rolled back.
		began = rolledBack == nil || !errors.Is(rolledBack, store.ErrUnavailable)
	}
	if !began && w.s.file != "" {
		_ = w.conn.close()
		w.conn = nil
	}
	w.checkpointer.urgent = true // a shorter log may free the missing space
	return err
}

// reconnect opens the database again after a failure.
func (w *writer) reconnect() error {
	c, err := w.s.connectWriter()
	if err != nil {
		return err
	}
	st, err := c.readState(w.s)
	if err == nil && st.commits < w.state.commits {
		err = w.s.damaged("ends with transaction %d, but %d are acknowledged", st.commits, w.state.commits)
	}
	if err != nil {
		_ = c.close()
		return err
	}
	w.conn, w.state = c, st
	w.checkpointer.reset()
	return nil
}

// seal writes the chunks of logs, and the changed rows of queues, owners and the store.
func (w *writer) seal() error {
	if err := w.writeChunks(); err != nil {
		return err
	}
	if err := w.writeOwners(); err != nil {
		return err
	}
	if err := w.writeLines(); err != nil {
		return err
	}
	w.state.commits++
	w.state.clock = w.now
	return w.conn.writeState(w.state)
}

// committed records a transaction before its acknowledgements.
func (w *writer) committed() {
	w.owners.settled = w.owners.total
	if w.owners.total < w.s.bounds.Load().Quota/2 {
		w.owners.shares = nil
	}
	w.logs.markCommitted()
	w.lines.markCommitted(w.s)
	if len(w.leased) > maxLeased {
		clear(w.leased)
	}
	w.s.stats.show(w.lines.settled)
	w.s.stats.used.Store(w.owners.total)
	w.s.stats.Commits.Add(1)
	if w.s.file == "" {
		return
	}
	if err := w.s.mark.write(w.state.commits, w.s.options.Durability); err != nil {
		w.s.notice("sqlstore: %s: %v", markName, err)
	}
}

// close runs after the goroutine has ended.
func (w *writer) close() error {
	w.checkpointer.stop(w)
	if w.conn == nil {
		return nil
	}
	return w.conn.close()
}
