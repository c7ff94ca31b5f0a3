// Package store defines the durable state that profiles need: records with compare-and-set
// and expiry, append-only logs with deduplication and cursors, and work queues.
//
// An engine calls the done function of an operation without an error only after the
// operation has reached the promised durability (see Durability). Each operation is atomic
// on one item. Changes that span items are ordered so that a crash between two operations
// is harmless.
//
// Writes never wait. Operations take effect in the order of submission. Their done
// functions are called in that order, one at a time, on a goroutine of the engine, and
// never before the submitting call has returned. So a caller may submit while it holds a
// lock that done takes. A done function must not block, because the next commit waits for
// it. It may submit. Engines combine concurrent submissions into one commit, so that many
// acknowledgements share one fsync.
//
// A full queue refuses with ErrBusy, or with ErrShare an owner within its share of the queue;
// a closed store refuses with ErrClosed. Such a refusal may overtake earlier submissions,
// because these may be waiting for the medium. An operation
// that failed with ErrUnavailable has not taken effect, but may have after a crash; a
// caller that repeats it recognises this by the version or the id. All operations fail with it
// that were submitted before its failure was known, so that none takes effect before an earlier one.
//
// A profile needs one or more of the interfaces; an engine implements all. done gets a
// result with several parts as one struct, by value: its Err says whether the operation
// failed, and if so the other fields are zero. Package storetest tests the contract of an
// engine.
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

	// Check reports whether the store can be written now, by writing. Readiness uses it.
	Check(ctx context.Context) error

	// Close commits the submitted operations and closes the store. Later operations fail
	// with ErrClosed.
	io.Closer
}

// Limits of names. Names are opaque octets without special characters.
const (
	MaxSpace = 64      // octets of a space
	MaxName  = 1024    // octets of a key, of the name of a log or a queue, and of an id
	MaxOwner = 1024    // octets of an owner
	MaxValue = 8 << 20 // octets of a value
)

// Scanner lists records.
type Scanner interface {
	// Scan calls yield with the records of a space whose key begins with prefix and is
	// greater than after, in order of the octets of the keys, until yield returns false. It
	// may miss records written during the scan. value is valid until yield returns. A
	// damaged record ends the scan with ErrDamaged after the records before it.
	Scan(ctx context.Context, space, prefix, after string,
		yield func(key string, version uint64, value []byte) bool) error
}

// Records are values with a key, a version and an expiry. An expired record counts as
// missing.
//
// Expiry, here and in Logs, uses a clock of the engine that never goes back and does not
// follow jumps of the wall clock. A time with a monotonic reading, as from time.Now().Add,
// is not affected by such jumps either.
type Records interface {
	Scanner

	// Put submits a write of a record if its version is was; 0 means that the record must
	// not exist. The record counts against the quota of the owner that created it. A zero
	// expires means never. value must not change until done is called. Nothing is written
	// if the version differs.
	Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(PutResult))

	// Delete submits the removal of a record if its version is was; 0 means any version,
	// and also removes a damaged record. Removing a missing record succeeds for any was.
	// removed is false if the version differs.
	Delete(space, key string, was uint64, done func(removed bool, err error))

	// Get returns a record; version 0 means that it does not exist. It sees every write
	// whose done was called before.
	Get(ctx context.Context, space, key string) (version uint64, value []byte, err error)
}

// PutResult is the result of a Put.
type PutResult struct {
	Wrote   bool   // false if the version differed
	Version uint64 // if Wrote the new one, larger than every earlier one of the key; else the current one, 0 if there is no record
	Current []byte // the current value, nil if Wrote or if there is no record; done may keep it
	Err     error
}

// Reader reads logs.
type Reader interface {
	// Read calls yield with the entries of a log after a number, in order, until yield
	// returns false. It sees every entry whose done was called before. data is valid until
	// yield returns. A damaged entry ends the read with ErrDamaged.
	Read(ctx context.Context, space, log string, after uint64,
		yield func(seq uint64, id string, data []byte) bool) error

	// Span returns the numbers of the first stored entry and of the last entry ever
	// appended. first is last+1 if nothing is stored; last is 0 for a log that was never
	// written.
	Span(ctx context.Context, space, log string) (first, last uint64, err error)
}

// Logs are sequences of entries. A log starts with its first entry and is numbered from 1
// without gaps. A number is never reused, even after its entry has expired or was trimmed.
type Logs interface {
	Reader

	// Append submits an entry at the end of a log. A non-empty id is remembered while its
	// entry is stored: if the log has an entry with this id, nothing is written. The entry
	// counts against the quota of the owner. data must not change until done is called.
	Append(space, log, id, owner string, data []byte, expires time.Time, done func(AppendResult))

	// AppendAll submits several entries at the end of a log. All are written, or none; otherwise
	// it is Append of each, in order.
	AppendAll(space, log, owner string, entries []Entry, expires time.Time, done func(AppendAllResult))

	// Trim submits the removal of the entries up to a number. The numbers are not reused.
	Trim(space, log string, through uint64, done func(error))

	// Drop submits the removal of a log and of its numbering, which restarts at 1.
	Drop(space, log string, done func(error))
}

// Entry is an entry of a log. Data must not change until it is stored.
type Entry struct {
	ID   string
	Data []byte
}

// AppendAllResult is the result of an AppendAll.
type AppendAllResult struct {
	Seqs []uint64 // the numbers of the entries, or of those that have their ids; done may keep them
	Err  error
}

// AppendResult is the result of an Append to a log.
type AppendResult struct {
	Seq   uint64 // the number of the entry, or of the entry that has the id
	Fresh bool   // the entry was written; false if the log has an entry with its id
	Equal bool   // not Fresh, and the existing entry has the same data
	Err   error
}

// Durability is the durability of an acknowledgement.
type Durability string

// The levels of durability.
const (
	Power   Durability = "power"   // fsync before the acknowledgement: survives a power cut
	Process Durability = "process" // survives the end of the process, not of the machine
)

// Stats are figures of an engine for metrics. Counters start when it is opened.
type Stats struct {
	Used         int64  // octets that count against quotas
	FileSize     int64  // octets of the database; of the embedded engine with its log, and 0 in memory
	Queued       int    // operations that wait or are being written
	QueuedOctets int    // their size
	Queues       int    // work queues with unfinished items
	Items        int    // unfinished items
	Commits      uint64 // transactions, each with one fsync at Power
	Operations   uint64 // completed operations
	Failed       uint64 // operations that failed because of the medium
	Refused      uint64 // operations refused because the queue was full
	Swept        uint64 // expired or cut off rows that were deleted
	Damaged      uint64 // times that damage was found
}
