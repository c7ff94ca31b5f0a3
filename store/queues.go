package store

import (
	"context"
	"time"
)

// Queues are items of work. An item waits in one queue until somebody takes it,
// and is kept until who took it says that it is done. Taking is a lease: it
// ends by itself, and then the item waits again.
//
// An id names one item in its space, in any queue. It is remembered as long as
// the item is not done, and at least until the time that Add was given.
//
// Times are reckoned as Records says.
type Queues interface {
	// Add submits an item at the end of a queue. If the space knows its id nothing
	// is written. The owner pays for an item. From expires on, unless that is
	// zero, it has expired; Lease then says so. data must not change until done is
	// called.
	//
	// An engine bounds how many items wait in one queue and how many a space
	// remembers, done ones included, and refuses more with ErrQuota.
	Add(space, queue, id, mark, owner string, data []byte, expires, keep time.Time, done func(AddResult))

	// Bound submits that a queue has a bound of its own in place of the engine's. It
	// holds for what is added later, until the store is closed.
	Bound(space, queue string, most Room, done func(error))

	// Holds returns what a queue with a bound of its own holds that is not done, as of
	// the last commit.
	Holds(space, queue string) Room

	// Lease submits the taking of the item of a queue that has been due longest,
	// until a time. Data of more than most octets does not come with the result:
	// Data returns it.
	Lease(space, queue string, most int, until time.Time, done func(LeaseResult))

	// LeaseExpired is Lease for the items of any queue of a space that have
	// expired. It does not count as a try.
	LeaseExpired(space string, most int, until time.Time, done func(LeaseResult))

	// Ack submits that an item is done. Its data is gone, its id is remembered.
	// held is false if the item is done or was taken again by another consumer
	// since; then nothing is written. The same goes for Nack and Move.
	Ack(space, id string, lease uint64, done func(held bool, err error))

	// Nack submits the end of a lease: the item is due again at a time, zero for
	// now. If counts is false the try is taken back.
	Nack(space, id string, lease uint64, due time.Time, counts bool, done func(held bool, err error))

	// Move submits the end of a lease: the item goes on in another queue, at its
	// end, with other data and another expiry, as one that was never taken. It is
	// not refused for want of room.
	Move(space, id string, lease uint64, queue string, data []byte, expires time.Time,
		done func(held bool, err error))

	// Item returns the queue of an item, how it stands, and how often it was taken.
	// state is empty if the space does not know the id.
	Item(ctx context.Context, space, id string) (queue, state string, tries int, err error)

	// Data returns the data of an item that is not done, or nil.
	Data(ctx context.Context, space, id string) ([]byte, error)

	// Items calls yield with the items of a queue that are not done, in the order
	// in which they came into it, after a number, until yield returns false.
	Items(ctx context.Context, space, queue string, after uint64,
		yield func(n uint64, id string, tries int, data []byte) bool) error
}

// Room is what a queue holds of items that are not done, or may.
type Room struct {
	Items  int64
	Octets int64 // of their data
}

// AddResult is the result of an Add.
type AddResult struct {
	Fresh bool // the item was written; false if the space knows its id
	Equal bool // not Fresh, and the item that is known has the same mark: it is the same item
	Err   error
}

// LeaseResult is the result of a Lease or a LeaseExpired: an item that was taken, or,
// with a Lease of 0, when the next one can be.
type LeaseResult struct {
	Lease   uint64 // the number of the lease, which proves it; 0 if nothing is due
	Queue   string // of the item
	ID      string
	Tries   int    // how often the item was taken, with this Lease, but without LeaseExpired
	Expired bool   // the item has expired; always so with LeaseExpired
	Data    []byte // nil if it has more than most octets; done may keep it

	// Next is when an item becomes due, or with LeaseExpired expires, as known now.
	// It is zero if none will. An item that is added later is due at once. Only a
	// result without an item has it.
	Next time.Time

	Err error
}

// How an item stands.
const (
	Waiting = "waiting" // due, or to be due
	Leased  = "leased"  // taken
	Done    = "done"    // remembered by its id only
)
