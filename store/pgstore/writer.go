package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/gather"
)

// Limits of one transaction. Operations submitted during a commit go into the next one.
const (
	maxBatch       = 1024
	maxBatchOctets = 8 << 20 // of values and names; a larger operation is a batch of its own
)

// Times of the writer.
const (
	heartbeat  = 2 * time.Second        // the longest time between two transactions of a node
	clockStep  = int64(time.Second)     // how late the stored clock may be
	busyPause  = 100 * time.Millisecond // shortest interval of sweeps while clients wait
	settlePace = 50 * time.Millisecond  // shortest interval of attempts to learn the outcome of a commit
	maxRepeats = 10                     // of a transaction that met another one
)

// writer is the only goroutine that writes. It owns the fields below.
type writer struct {
	s      *Store
	config *pgx.ConnConfig
	locked bool      // the name of the node is locked for conn
	conn   *pgx.Conn // nil: not connected
	node   int32
	epoch  int64
	batch  int64 // the last transaction
	now    int64 // time of this transaction on the clock of the store
	used   bool  // the database says that something was written
	using  bool  // this transaction says so

	warned    string // the last warning of the server
	unsettled bool   // the outcome of batch is not known
	committed bool   // batch was committed, which was not known

	rooms rooms
	turns gather.Turns[*op]
	errs  []error // outcomes of a batch

	swept    time.Time // the last look for something to sweep
	sweepNow bool
}

// loop writes until the queue is closed and empty.
func (w *writer) loop() {
	q := w.s.queue
	timer := time.NewTimer(0)
	defer timer.Stop()
	var spare []*op
	for open := true; open || !w.turns.Idle(); {
		if w.turns.Idle() {
			select {
			case <-q.Wake():
			case <-timer.C:
			}
		}
		var ops []*op
		ops, open = q.Take(spare[:0])
		batch := w.turns.Take(ops)
		if len(batch) > 0 {
			if lost, err := w.write(batch); err != nil {
				open = q.GiveUp(lost, &w.turns, &w.s.stats.Counters, err)
			}
			q.Release(batch)
		}
		clear(ops)
		spare = ops[:0]
		timer.Reset(w.idle(len(batch) > 0))
	}
	// The next node that is opened starts with this time.
	if w.conn != nil {
		_ = w.transact(w.s.options.Timeout, func(ctx context.Context) error { return w.pipeline(ctx, nil, true) })
	}
}

// write writes operations in one transaction and reports their outcomes. If the server does not take them, it
// returns the error and the operations whose outcome it has not reported.
func (w *writer) write(ops []*op) (lost []*op, _ error) {
	w.errs = append(w.errs[:0], make([]error, len(ops))...)
	began := time.Now()
	err := w.commit(ops)
	switch {
	case err == nil:
		w.s.stats.Commits.Add(1)
		for i, o := range ops {
			w.errs[i] = o.err
		}
		if told := w.s.options.Committed; told != nil {
			told(time.Since(began), len(ops))
		}
	case len(ops) > 1 && !store.Retryable(w.s.fault(err)), len(ops) > 1 && isStatement(err):
		// One operation broke the transaction. Each one is repeated in its own transaction.
		for i := range ops {
			if _, err := w.write(ops[i : i+1]); err != nil {
				return ops[i:], err
			}
		}
		return nil, nil
	default:
		if err = w.s.fault(err); store.Retryable(err) {
			return ops, err
		}
		for i := range ops {
			w.errs[i] = err
		}
	}
	w.s.stats.Count(err, len(ops))
	w.s.queue.Tell(ops, w.errs)
	return nil, nil
}

// isStatement reports whether an error is of one statement, and not of the server or another
// transaction.
func isStatement(err error) bool {
	switch code := codeOf(err); {
	case code == "" || code == codeFenced:
		return false
	default:
		switch code[:2] {
		case "08", "40", "53", "57", "58", "XX", "25":
			return false
		}
		return true
	}
}

// commit commits operations in one transaction. It repeats a transaction that met another one, and,
// once, one that found its connection broken before it was sent to be committed.
func (w *writer) commit(ops []*op) (err error) {
	if len(ops) == 1 && ops[0].alone != nil {
		return w.transact(0, func(ctx context.Context) error { return ops[0].alone(ctx, w) })
	}
	probe := false
	for _, o := range ops {
		probe = probe || o.probe
	}
	step := w.pipeline
	broken := false
	for n := 0; ; n++ {
		err = w.transact(w.s.options.Timeout, func(ctx context.Context) error { return step(ctx, ops, probe) })
		switch code := codeOf(err); {
		case errors.Is(err, errAsks):
			step = w.oneByOne
		case (code == codeDeadlock || code == codeConflict) && n < maxRepeats:
			time.Sleep(rand.N(time.Duration(n+1) * 5 * time.Millisecond)) //nolint:gosec // no secret
		case errors.Is(err, errBroken) && !broken:
			broken = true
		default:
			return err
		}
	}
}

var (
	// errAsks: an operation needs a decision.
	errAsks = errors.New("pgstore: a limit needs a decision")

	// errBroken: the connection was lost before a transaction was sent to be committed. It has no effect.
	errBroken = errors.New("pgstore: the connection was lost")
)

// transact runs work within a transaction and commits it, or rolls back. work sends the first
// statements, with start. All must be done within a time, unless that is 0.
func (w *writer) transact(within time.Duration, work func(ctx context.Context) error) error {
	if w.s.fenced.Load() {
		return store.ErrFenced
	}
	ctx := context.Background()
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	if err := w.connect(ctx); err != nil {
		return w.failed(err)
	}
	w.now = w.s.clock.Now()
	if err := work(ctx); err != nil {
		return w.failed(w.undo(err))
	}
	if err := w.end(); err != nil {
		return w.failed(err)
	}
	w.used, w.using = w.used || w.using, false
	w.rooms.committed(w.s)
	return nil
}

// failed forgets what a failed transaction has changed in memory.
func (w *writer) failed(err error) error {
	w.rooms.forget()
	w.using = false
	if isFenced(err) && !w.s.fenced.Swap(true) {
		w.s.notice("pgstore: %s: another process has taken over node %q; this one does not write any more", w.s.server.name, w.s.options.Node)
		if w.s.options.Fenced != nil {
			w.s.options.Fenced(w.s.fault(err))
		}
	}
	return err
}

func isFenced(err error) bool { return codeOf(err) == codeFenced || errors.Is(err, store.ErrFenced) }

// undo rolls back after an error, which it returns.
func (w *writer) undo(err error) error {
	if !w.conn.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), w.s.options.Timeout)
		defer cancel()
		if _, failed := w.conn.PgConn().Exec(ctx, "rollback").ReadAll(); failed == nil {
			return err
		}
	}
	w.disconnect()
	if codeOf(err) == "" || codeOf(err)[:2] == "57" {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return err
}

// end commits. If the answer is lost, it learns the outcome from the database.
func (w *writer) end() error {
	w.batch++
	ctx, cancel := context.WithTimeout(context.Background(), w.s.options.Timeout)
	defer cancel()
	w.warned = ""
	results, err := w.conn.PgConn().Exec(ctx, "commit").ReadAll()
	switch {
	case err == nil && (len(results) != 1 || results[0].CommandTag.String() != "COMMIT"):
		w.batch--
		return errors.New("pgstore: the server has rolled back")
	case err == nil && w.warned == "":
		return nil
	case err == nil: // the wait for a synchronous standby was cancelled
		err = errors.New(w.warned)
	case !w.conn.IsClosed(): // the server has answered
		w.batch--
		return w.undo(err)
	}
	w.disconnect()
	w.unsettled = true
	ctx, cancel = context.WithTimeout(context.Background(), w.s.options.Timeout)
	defer cancel()
	for ctx.Err() == nil {
		failed := w.connect(ctx)
		switch {
		case failed == nil && w.committed:
			return nil
		case failed == nil:
			return fmt.Errorf("the transaction was not committed: %w", err)
		case isFenced(failed):
			return failed
		}
		time.Sleep(settlePace)
	}
	return fmt.Errorf("the outcome of the commit is not known: %w", err)
}

// hear notes a warning: the server commits with one where a synchronous standby may not have the commit.
func (w *writer) hear(_ *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		w.warned = n.Message
	}
}

// sweepSoon asks for a sweep after this transaction.
func (w *writer) sweepSoon() { w.sweepNow = true }

const (
	toSweep   = `SELECT to_sweep($1)`
	sweepRows = `SELECT sweep($1, $2, $3)`
)

// Rows of each kind of one sweep.
const (
	idleRows = 256
	busyRows = 64
	roomRows = 1024 // before a limit refuses an operation
)

// idle sweeps some rows and keeps the heartbeat. It returns the time until the next call.
func (w *writer) idle(busy bool) time.Duration {
	pause := heartbeat
	if w.sweepNow {
		pause = 0
		if busy {
			pause = busyPause
		}
	}
	if wait := pause - time.Since(w.swept); wait > 0 {
		return wait
	}
	w.swept, w.sweepNow = time.Now(), false
	if w.s.fenced.Load() {
		return heartbeat
	}
	rows := idleRows
	if busy {
		rows = busyRows
	}
	var n int64
	_ = w.transact(w.s.options.Timeout, func(ctx context.Context) error {
		var due bool
		if !w.locked {
			if err := w.lock(ctx, w.conn); err != nil {
				return err
			}
		}
		err := w.conn.QueryRow(ctx, toSweep, w.now).Scan(&due)
		if err == nil {
			err = w.pipeline(ctx, nil, false)
		}
		if err == nil && due {
			err = w.conn.QueryRow(ctx, sweepRows, w.node, w.now, rows).Scan(&n)
		}
		return err
	})
	w.s.stats.Swept.Add(uint64(n))
	if n >= int64(rows) {
		w.sweepNow = true
		return 0
	}
	return heartbeat
}

// close runs after the goroutine has ended.
func (w *writer) close() error {
	w.disconnect()
	return nil
}
