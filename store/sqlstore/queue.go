package sqlstore

import (
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/store"
)

// operation is a write that was submitted.
type operation interface {
	// size is how many octets it holds while it waits.
	size() int

	// apply does it within the transaction of a batch. It returns a *failed if
	// a statement failed, after which the transaction is not usable; any other
	// error is the outcome of this operation, which then has written nothing.
	// It may be called again, if the transaction before was rolled back.
	apply(w *writer) error

	// done tells the caller.
	done(err error)
}

// queue holds what is submitted until the writer takes it.
type queue struct {
	wake chan struct{} // one slot: there is something to do
	told sync.Mutex    // held while done functions run: one at a time

	mu        sync.Mutex
	waiting   []operation
	count     int // operations waiting or being written
	octets    int // and their size
	refused   []refusal
	refusing  bool // a goroutine calls their done functions
	closed    bool
	rested    sync.Cond // of mu: refusing has ended
	maxCount  int
	maxOctets int
	busy      *atomic.Uint64 // counts what was refused
}

type refusal struct {
	op  operation
	err *store.Error
}

// submit never waits. If the queue is full or closed, a separate goroutine
// reports that, because the writer may be waiting for the medium.
func (q *queue) submit(op operation) {
	size := op.size()
	q.mu.Lock()
	var refuse *store.Error
	switch {
	case q.closed:
		refuse = store.ErrClosed
	case q.count >= q.maxCount || q.count > 0 && q.octets+size > q.maxOctets:
		refuse = store.ErrBusy
		q.busy.Add(1)
	}
	if refuse != nil {
		q.refused = append(q.refused, refusal{op, refuse})
		if !q.refusing {
			q.refusing = true
			go q.refuse()
		}
		q.mu.Unlock()
		return
	}
	q.count++
	q.octets += size
	q.waiting = append(q.waiting, op)
	q.mu.Unlock()
	q.poke()
}

func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) refuse() {
	for {
		q.mu.Lock()
		refused := q.refused
		q.refused = nil
		q.refusing = len(refused) > 0
		if len(refused) == 0 {
			q.rested.Broadcast()
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		q.told.Lock()
		for _, r := range refused {
			r.op.done(r.err)
		}
		q.told.Unlock()
	}
}

// take returns the waiting operations, and whether more may come. spare becomes
// the next list.
func (q *queue) take(spare []operation) (ops []operation, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ops = q.waiting
	q.waiting = spare
	return ops, !q.closed
}

// release makes room after operations are done.
func (q *queue) release(count, octets int) {
	q.mu.Lock()
	q.count -= count
	q.octets -= octets
	q.mu.Unlock()
}

// close refuses what comes from now on.
func (q *queue) close() (first bool) {
	q.mu.Lock()
	first = !q.closed
	q.closed = true
	q.mu.Unlock()
	q.poke()
	return first
}

// rest waits until all that was refused so far has been told. A WaitGroup would
// not do: refusals may come while it waits.
func (q *queue) rest() {
	q.mu.Lock()
	for q.refusing {
		q.rested.Wait()
	}
	q.mu.Unlock()
}

// load returns how much waits or is being written.
func (q *queue) load() (count, octets int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count, q.octets
}
