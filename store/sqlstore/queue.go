package sqlstore

import (
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/internal/fair"
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

	mu       sync.Mutex
	waiting  []operation
	count    fair.Shares // operations waiting or being written, by owner
	octets   fair.Shares // their size
	refused  []refusal
	refusing bool // a goroutine is calling done functions of refused operations
	closed   bool
	rested   sync.Cond      // uses mu; signals that refusing has ended
	busy     *atomic.Uint64 // counts refused operations
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
	owner := ownerOf(op)
	refuse := q.refusal(owner, size)
	if refuse != nil {
		q.refused = append(q.refused, refusal{op, refuse})
		if !q.refusing {
			q.refusing = true
			go q.refuse()
		}
		q.mu.Unlock()
		return
	}
	q.count.Force(owner, 1)
	q.octets.Force(owner, size)
	q.waiting = append(q.waiting, op)
	q.mu.Unlock()
	q.poke()
}

// refusal returns why an operation cannot wait; nil if it can. The endpoint itself, owner "",
// has no share: it may use all that is left. The caller holds mu.
func (q *queue) refusal(owner string, size int) *store.Error {
	count, octets := q.count.Ask(owner, 1), q.octets.Ask(owner, size)
	switch {
	case q.closed:
		return store.ErrClosed
	case q.count.Used() == 0: // not even too large an operation would ever find more room
		return nil
	case owner == "" && q.count.Used() < q.count.Capacity() && q.octets.Used()+size <= q.octets.Capacity():
		return nil
	case owner != "" && count == fair.Taken && octets == fair.Taken:
		return nil
	}
	q.busy.Add(1)
	if owner == "" || count == fair.Above || octets == fair.Above {
		return store.ErrBusy
	}
	return store.ErrShare
}

// ownerOf returns the owner of the data of an operation, or "".
func ownerOf(op operation) string {
	switch op := op.(type) {
	case *put:
		return op.owner
	case *add:
		return op.owner
	case *enqueue:
		return op.owner
	}
	return ""
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
func (q *queue) release(ops []operation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, op := range ops {
		owner := ownerOf(op)
		q.count.Give(owner, 1)
		q.octets.Give(owner, op.size())
	}
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
	return q.count.Used(), q.octets.Used()
}
