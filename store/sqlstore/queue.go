package sqlstore

import (
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/store"
)

// operation is a submitted write.
type operation interface {
	// size returns the octets in memory while the operation waits.
	size() int

	// apply performs the operation within the transaction of a batch. A *failed error means
	// that a statement failed and the transaction is unusable. Any other error is the
	// outcome of this operation alone, which then has written nothing. apply is called
	// again after a rollback.
	apply(w *writer) error

	// done reports the outcome to the caller.
	done(err error)
}

// queue holds submitted operations until the writer takes them.
type queue struct {
	wake chan struct{} // one slot; filled when operations wait
	told sync.Mutex    // held while a done function runs

	mu        sync.Mutex
	waiting   []operation
	count     int // operations waiting or being written
	octets    int // their size
	refused   []refusal
	refusing  bool // a goroutine is calling done functions of refused operations
	closed    bool
	rested    sync.Cond // uses mu; signals that refusing has ended
	maxCount  int
	maxOctets int
	busy      *atomic.Uint64 // counts refused operations
}

type refusal struct {
	op  operation
	err *store.Error
}

// submit never waits. If the queue is full or closed, a separate goroutine reports the
// refusal, because the writer may be waiting for the medium.
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

// take returns the waiting operations, and whether more can come. spare becomes the next
// list.
func (q *queue) take(spare []operation) (ops []operation, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ops = q.waiting
	q.waiting = spare
	return ops, !q.closed
}

// release subtracts completed operations.
func (q *queue) release(count, octets int) {
	q.mu.Lock()
	q.count -= count
	q.octets -= octets
	q.mu.Unlock()
}

// close refuses further operations.
func (q *queue) close() (first bool) {
	q.mu.Lock()
	first = !q.closed
	q.closed = true
	q.mu.Unlock()
	q.poke()
	return first
}

// rest waits until all refusals were reported. A sync.WaitGroup does not allow new refusals
// during the wait.
func (q *queue) rest() {
	q.mu.Lock()
	for q.refusing {
		q.rested.Wait()
	}
	q.mu.Unlock()
}

// load returns the number and the size of operations that wait or are being written.
func (q *queue) load() (count, octets int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count, q.octets
}
