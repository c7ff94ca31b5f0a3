// Package store is the durable state that profiles need, and nothing more:
// records with compare-and-set and expiry, append-only logs with deduplication
// and cursors, and work queues.
//
// An engine keeps what it acknowledged: the done function of an operation is
// called without an error only after the operation has reached the durability
// that the engine promises (see Durability). Each operation is atomic on one
// item. What spans items is written so that a crash between two operations is
// harmless.
//
// Writing never waits. Operations are submitted and take effect in the order of
// submission; their done functions are called in that order, too, one at a time,
// on a goroutine of the engine and never before the submitting call has left the
// store: a caller may submit while it holds a lock that done takes. A done
// function must not block: the next commit waits for it. It may submit. Engines
// group concurrent submissions into one commit, so that many acknowledgements
// share one fsync.
//
// A full queue refuses with ErrBusy, a closed store with ErrClosed; such a
// refusal may overtake what was submitted before, because the medium may be what
// that waits for. An operation that failed with ErrUnavailable has not taken
// effect, but may turn out to have after a crash: who submits it again recognises
// that by the version or the id.
//
// A profile needs one of the interfaces or several, and an engine has them all. A
// result of several parts comes to done as one struct, by value: its Err says
// whether the operation failed, and if it did the other fields are zero. Package
// storetest holds the contract as a test that every engine passes.
package store

import (
	"context"
	"io"
	"time"
)

// Store is an engine. It is safe for concurrent use.
type Store interface {
	Records
	Logs
	Queues

	// Check reports whether the store can take a write now, by writing. It is
	// what readiness asks.
	Check(ctx context.Context) error

	// Close commits what was submitted and closes the store. Later operations
	// fail with ErrClosed.
	io.Closer
}

// Limits of names. Names are opaque octets: no character has a meaning, no
// name widens what another one can reach.
const (
	MaxSpace = 64      // octets of a space
	MaxName  = 1024    // octets of a key, of the name of a log or a queue, and of an id
	MaxOwner = 1024    // octets of an owner
	MaxValue = 8 << 20 // octets of a value
)

// Records are values under a key, each with a version and an expiry, from which
// on a record is as if it were not there.
//
// Expiry, here and in Logs, is reckoned on a clock of the engine that never goes
// back and does not follow jumps of the wall clock. A time that carries a
// monotonic reading, as time.Now().Add does, is safe from such jumps as well.
type Records interface {
	// Put submits a write of one record if its version is was; 0 means that the
	// record must not exist. The owner pays for it out of its quota; a record
	// keeps the owner it was made with. A zero expires means never. value must
	// not change until done is called. If the version is another, nothing is
	// written.
	Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(PutResult))

	// Delete submits the removal of one record if its version is was; 0 means
	// whatever it is, a damaged one too. Removing an absent record succeeds for
	// any was. removed is false if the version is another.
	Delete(space, key string, was uint64, done func(removed bool, err error))

	// Get returns a record: version 0 means that there is none. It sees every
	// write whose done was called before.
	Get(ctx context.Context, space, key string) (version uint64, value []byte, err error)

	// Scan calls yield with the records of a space whose key begins with prefix
	// and is greater than after, in the order of their octets, until yield
	// returns false. Records written during the scan may be missed. A damaged
	// record ends the scan with ErrDamaged, after yield was called with those
	// before.
	Scan(ctx context.Context, space, prefix, after string,
		yield func(key string, version uint64, value []byte) bool) error
}

// PutResult is the result of a Put.
type PutResult struct {
	Wrote   bool   // false if the version was another
	Version uint64 // the new one, larger than every earlier one of the key; if not Wrote the one that is there, 0 if there is no record
	Current []byte // the value that is there, nil if Wrote or if there is no record; done may keep it
	Err     error
}

// Logs are sequences of entries. A log begins with its first entry and is
// numbered from 1 without gaps; numbers are never used again, also after
// entries have expired or were trimmed.
type Logs interface {
	// Append submits an entry at the end of a log. A non-empty id is
	// remembered as long as the entry is kept: if the log has an entry of that
	// id nothing is written. The owner pays for it. data must not change until
	// done is called.
	Append(space, log, id, owner string, data []byte, expires time.Time, done func(AppendResult))

	// Read calls yield with the entries of a log after a number, in order,
	// until yield returns false. It sees every entry whose done was called
	// before. data is valid until yield returns. A damaged entry ends the
	// reading with ErrDamaged.
	Read(ctx context.Context, space, log string, after uint64,
		yield func(seq uint64, id string, data []byte) bool) error

	// Span returns the number of the first entry that is held and of the last
	// one that was ever appended. first is last+1 where nothing is held, and
	// both follow from 0 for a log that was never written.
	Span(ctx context.Context, space, log string) (first, last uint64, err error)

	// Trim submits the removal of the entries up to a number. The numbers stay
	// used.
	Trim(space, log string, through uint64, done func(error))

	// Drop submits the removal of a log with everything known of it: it begins
	// again with number 1.
	Drop(space, log string, done func(error))
}

// AppendResult is the result of an Append to a log.
type AppendResult struct {
	Seq   uint64 // the number of the entry, or of the entry that has the id
	Fresh bool   // the entry was written; false if the log has one of its id
	Equal bool   // not Fresh, and the entry that has the id has the same data
	Err   error
}

// Durability is what an acknowledgement promises.
type Durability string

// The levels of durability.
const (
	Power   Durability = "power"   // fsync before the acknowledgement: survives a power cut
	Process Durability = "process" // survives the end of the process, not of the machine
)
