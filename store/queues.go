package store

import (
	"context"
	"time"
)

// Queues are work queues. An item waits in one queue until a consumer leases it, and is
// stored until the consumer acknowledges it. A lease ends by itself; then the item waits
// again.
//
// An id identifies one item in its space, in any queue. It is remembered until the item is
// done, and at least until the time given to Add.
//
// The clock is the one described at Records.
type Queues interface {
	// Add submits an item at the end of a queue. If the space knows its id, nothing is
	// written. The item counts against the quota of its owner. From expires on, unless
	// zero, the item has expired; Lease then says so. data must not change until done is
	// called.
	//
	// An engine limits the items that wait in one queue and the ids that a space remembers,
	// including those of done items, and refuses more with ErrQuota. Owners share the room in
	// a queue: the item of an owner within its share is refused with ErrShare.
	Add(space, queue, id, mark, owner string, data []byte, expires, keep time.Time, done func(AddResult))

	// Bound gives a queue its own limit instead of the engine's. It applies to
	// later Adds, until the store is closed.
	Bound(space, queue string, most Room, done func(error))

	// Holds returns the unfinished items of a queue with its own limit, as of the last
	// commit.
	Holds(space, queue string) Room

	// Lease submits the lease, until a time, of an item of a queue: of the owner in turn, the
	// item that has been due longest. A short queue may be served in its own order. Data of more
	// than most octets is not in the result; use Data.
	Lease(space, queue string, most int, until time.Time, done func(LeaseResult))

	// LeaseExpired leases an expired item of any queue of a space. It does not count as a
	// try.
	LeaseExpired(space string, most int, until time.Time, done func(LeaseResult))

	// LeaseItem submits the lease, until a time, of the item with an id, due or not. It does
	// not count as a try. The result has no lease if the item is done, leased or not known.
	LeaseItem(space, id string, most int, until time.Time, done func(LeaseResult))

	// Ack submits that an item is done: its data is deleted and its id remembered. held is
	// false, and nothing is written, if the item is done or another consumer has leased it
	// since. The same holds for Nack and Move.
	Ack(space, id string, lease uint64, done func(held bool, err error))

	// Nack submits the end of a lease: the item is due again at a time, zero for now. If
	// counts is false, the try is not counted.
	Nack(space, id string, lease uint64, due time.Time, counts bool, done func(held bool, err error))

	// Move submits the end of a lease and puts the item at the end of another queue, with
	// new data and a new expiry and without tries. Limits of the queue do not apply.
	Move(space, id string, lease uint64, queue string, data []byte, expires time.Time,
		done func(held bool, err error))

	// Item returns the queue of an item, its state, and the number of tries. state is empty
	// if the space does not know the id.
	Item(ctx context.Context, space, id string) (queue, state string, tries int, err error)

	// IDs returns the first ids of a space after one, in the order of their octets, and at most
	// most. Ids of done and of damaged items are among them.
	IDs(ctx context.Context, space, after string, most int) ([]string, error)

	// Data returns the data of an unfinished item, or nil.
	Data(ctx context.Context, space, id string) ([]byte, error)

	// Items calls yield with the unfinished items of a queue whose number is greater than
	// after, in queue order, until yield returns false.
	Items(ctx context.Context, space, queue string, after uint64,
		yield func(n uint64, id string, tries int, data []byte) bool) error
}

// Room is an amount of unfinished items: the content or the limit of a queue.
type Room struct {
	Items  int64
	Octets int64 // octets of their data
}

// AddResult is the result of an Add.
type AddResult struct {
	Fresh bool // the item was written; false if the space knows its id
	Equal bool // not Fresh, and the known item has the same mark
	Err   error
}

// LeaseResult is the result of a Lease or a LeaseExpired: a leased item, or, if Lease is 0,
// the time at which the next one is due.
type LeaseResult struct {
	Lease   uint64 // the number that identifies the lease; 0 if nothing is due
	Queue   string // of the item
	ID      string
	Tries   int    // how often the item was leased, including this Lease, excluding LeaseExpired and LeaseItem
	Expired bool   // the item has expired; always true with LeaseExpired
	Data    []byte // nil if longer than most octets; done may keep it

	// Next is the time at which the next known item is due, or, for LeaseExpired, expires,
	// or zero. An item that is added later is due at once. Next is set only
	// in a result without an item.
	Next time.Time

	Err error
}

// States of an item.
const (
	Waiting = "waiting" // due now or later
	Leased  = "leased"  // taken
	Done    = "done"    // only the id is remembered
)
