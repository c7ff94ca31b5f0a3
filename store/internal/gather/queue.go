// Package gather is the front of an engine that writes with one goroutine: it holds what callers
// submit until the writer takes it, bounds it, puts it in order for transactions, and reports
// outcomes.
package gather

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
)

// Operation is a submitted write.
type Operation interface {
	// Size returns the octets in memory while the operation waits.
	Size() int

	// Owner returns the owner of the data, or "".
	Owner() string

	// Subject returns what the operation changes, and whether it must come after all that
	// wait for the same. The zero Subject means none.
	Subject() (s Subject, after bool)

	// Done reports the outcome to the caller.
	Done(err error)
}

// Subject is what an operation changes: a record, a log or an item.
type Subject struct {
	Kind        Kind
	Space, Name string
}

// Kind is the kind of a Subject.
type Kind byte

// Kinds of subjects.
const (
	Record Kind = iota + 1
	Log
	Item
)

// Unowned is for operations without an owner and a subject.
type Unowned struct{}

// Owner implements Operation.
func (Unowned) Owner() string { return "" }

// Subject implements Operation.
func (Unowned) Subject() (Subject, bool) { return Subject{}, false }

// Queue holds submitted operations until the writer takes them. It is safe for concurrent use.
type Queue[O Operation] struct {
	wake    chan struct{} // one slot; filled when operations wait
	told    sync.Mutex    // held while a Done runs
	refusal atomic.Uint64 // counts refused operations

	mu       sync.Mutex
	waiting  []O
	count    fair.Shares // operations waiting or being written, by owner
	octets   fair.Shares // their size
	refused  []refusal[O]
	refusing bool // a goroutine is calling Done of refused operations
	closed   bool
	rested   sync.Cond // uses mu; signals that refusing has ended
}

type refusal[O Operation] struct {
	op  O
	err *store.Error
}

// NewQueue returns a Queue of so many operations and octets. A single operation of any size is
// accepted.
func NewQueue[O Operation](operations, octets int) *Queue[O] {
	q := &Queue[O]{wake: make(chan struct{}, 1), count: fair.NewShares(operations), octets: fair.NewShares(octets)}
	q.rested.L = &q.mu
	return q
}

// Submit never waits. If the queue is full or closed, a separate goroutine reports the
// refusal, because the writer may be waiting for the medium.
func (q *Queue[O]) Submit(op O) {
	size := op.Size()
	q.mu.Lock()
	owner := op.Owner()
	refuse := q.refuses(owner, size)
	if refuse != nil {
		q.refused = append(q.refused, refusal[O]{op, refuse})
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

// refuses returns why an operation cannot wait; nil if it can. The endpoint itself, owner "",
// has no share: it may use all that is left. The caller holds mu.
func (q *Queue[O]) refuses(owner string, size int) *store.Error {
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
	q.refusal.Add(1)
	if owner == "" || count == fair.Above || octets == fair.Above {
		return store.ErrBusy
	}
	return store.ErrShare
}

func (q *Queue[O]) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue[O]) refuse() {
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
			r.op.Done(r.err)
		}
		q.told.Unlock()
	}
}

// Wake has a value after operations were submitted or the queue was closed.
func (q *Queue[O]) Wake() <-chan struct{} { return q.wake }

// Take returns the waiting operations, and whether more can come. spare becomes the next
// list.
func (q *Queue[O]) Take(spare []O) (ops []O, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ops = q.waiting
	q.waiting = spare
	return ops, !q.closed
}

// GiveUp counts and reports the error of a transaction that the medium has lost for its operations, whose
// outcomes were not told yet, and for all that waits, in turns too: a caller that does not wait for each
// outcome expects that nothing behind a lost operation is done. Operations submitted after the first of these
// outcomes was told are not given up. GiveUp releases those that waited, and returns whether more can come.
func (q *Queue[O]) GiveUp(lost []O, turns *Turns[O], counters *Counters, err error) (open bool) {
	more, open := q.Take(nil)
	waited := append(turns.rest(), more...)
	ops := slices.Concat(lost, waited)
	counters.Count(err, len(ops))
	q.Tell(ops, slices.Repeat([]error{err}, len(ops)))
	q.Release(waited)
	return open
}

// Tell reports the outcomes of operations, in order.
func (q *Queue[O]) Tell(ops []O, errs []error) {
	q.told.Lock()
	defer q.told.Unlock()
	for i, op := range ops {
		op.Done(errs[i])
	}
}

// Release subtracts completed operations.
func (q *Queue[O]) Release(ops []O) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, op := range ops {
		owner := op.Owner()
		q.count.Give(owner, 1)
		q.octets.Give(owner, op.Size())
	}
}

// Close refuses further operations. first is false if the queue was closed before.
func (q *Queue[O]) Close() (first bool) {
	q.mu.Lock()
	first = !q.closed
	q.closed = true
	q.mu.Unlock()
	q.poke()
	return first
}

// Rest waits until all refusals were reported. A sync.WaitGroup does not allow new refusals
// during the wait.
func (q *Queue[O]) Rest() {
	q.mu.Lock()
	for q.refusing {
		q.rested.Wait()
	}
	q.mu.Unlock()
}

// Load returns the number and the size of operations that wait or are being written.
func (q *Queue[O]) Load() (count, octets int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count.Used(), q.octets.Used()
}

// Pool returns whose operations wait.
func (q *Queue[O]) Pool() fair.Pool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count.Pool("store writes")
}
