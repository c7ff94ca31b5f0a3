package sqlstore

import (
	"errors"
	"time"

	"github.com/slimwire/swp/store"
)

// Bounds of one transaction. What is submitted while one is committed goes into
// the next.
const (
	maxBatch       = 1024    // operations
	maxBatchOctets = 8 << 20 // of values and names; a single larger one is a batch of its own
)

// writer is the one goroutine that writes. It owns what is below.
type writer struct {
	s    *Store
	conn *conn

	state  state
	now    int64 // the clock of the store in this transaction
	owners owners
	logs   logs

	sweeper sweeper
	errs    []error // outcomes of a batch
}

// state is the row that every transaction writes.
type state struct {
	commits  int64
	versions int64
	ids      int64
	clock    int64
}

const (
	selectState = `SELECT commits, versions, ids, clock, sum FROM state WHERE id = 1`
	updateState = `UPDATE state SET commits = ?, versions = ?, ids = ?, clock = ?, sum = ? WHERE id = 1`
)

// loop writes until the queue is closed and empty.
func (w *writer) loop() {
	q := &w.s.queue
	timer := time.NewTimer(0)
	defer timer.Stop()
	var spare []operation
	for open := true; open; {
		select {
		case <-q.wake:
		case <-timer.C:
		}
		var ops []operation
		ops, open = q.take(spare[:0])
		w.drain(ops)
		clear(ops)
		spare = ops[:0]
		timer.Reset(w.sweepSome(len(ops) > 0))
	}
	w.s.closed = w.close()
}

// drain writes operations in as many transactions as their bounds ask for.
func (w *writer) drain(ops []operation) {
	for len(ops) > 0 {
		n, octets := 0, 0
		for n < len(ops) && n < maxBatch {
			size := ops[n].size()
			if n > 0 && octets+size > maxBatchOctets {
				break
			}
			octets += size
			n++
		}
		w.batch(ops[:n])
		w.s.queue.release(n, octets)
		ops = ops[n:]
	}
}

// batch writes operations in one transaction and tells their callers.
func (w *writer) batch(ops []operation) {
	w.errs = append(w.errs[:0], make([]error, len(ops))...)
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
	case len(ops) > 1 && !errors.Is(err, store.ErrUnavailable):
		// One of them can not be done. The others shall not suffer from it.
		for i := range ops {
			w.batch(ops[i : i+1])
		}
		return
	default:
		for i := range w.errs {
			w.errs[i] = err
		}
	}
	q := &w.s.queue
	q.told.Lock()
	for i, op := range ops {
		op.done(w.errs[i])
	}
	q.told.Unlock()
}

func isFailed(err error) bool {
	var f *failed
	return err != nil && errors.As(err, &f)
}

// transact runs work within a transaction and commits it, or takes everything
// back.
func (w *writer) transact(work func() error) (err error) {
	if w.s.file == "" {
		// In memory there is one connection, which readers use, too.
		<-w.s.readers
		defer func() { w.s.readers <- w.conn }()
	}
	w.now = w.s.clock.now()
	before := w.state
	if _, err = w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err = work(); err == nil {
		err = w.seal()
	}
	if err == nil {
		_, err = w.conn.exec("COMMIT")
	}
	if err != nil {
		w.state = before
		w.owners.forget()
		w.logs.forget()
		w.sweeper.garbage, w.sweeper.next = true, 0
		_, _ = w.conn.exec("ROLLBACK")
	}
	if err == nil {
		w.owners.settled = w.owners.total
	}
	return err
}

func (w *writer) close() error {
	if w.s.file == "" {
		<-w.s.readers
		w.s.readers <- nil
	}
	return w.conn.close()
}

// seal writes what a transaction has gathered.
func (w *writer) seal() error {
	if err := w.writeOwners(); err != nil {
		return err
	}
	w.state.commits++
	w.state.clock = w.now
	s := w.state
	_, err := w.conn.exec(updateState, s.commits, s.versions, s.ids, s.clock,
		w.conn.sum(sumState, []int64{s.commits, s.versions, s.ids, s.clock}, nil))
	return err
}
