package store

import (
	"context"
	"io"
	"time"
)

// Blobs are large octet strings, stored apart from the log that commits small values. An
// engine needs no more memory for a large blob than for a small one.
//
// A blob starts as a part. Appends extend a part, and readers do not see it. Sealing
// replaces the blob of the name by the part in one step. Until then the existing blob stays
// unchanged: a name has at most one part and one blob.
//
// Submission, done functions and failures follow package store, with one difference: only
// operations on the same name are ordered, and done functions of different names may run
// concurrently. An operation may be submitted before the previous one is done, for example
// an Append right after its Begin. If the Begin fails, the Append fails too.
//
// Octets count against the quota of their owner when they are appended, not when they are
// announced. Blobs have separate quotas.
type Blobs interface {
	// Begin submits the creation of the part of a name; the name must not have one. It is
	// refused with ErrQuota if there is no room now for the note and size octets. It does
	// not reserve the room.
	//
	// tag is kept in memory; Part, Blob and Scan return it. note is stored with the octets,
	// see Note. Neither may change until done is called. A part without an Append for the
	// duration idle is discarded.
	//
	// made is false if there is a part already, which stays unchanged.
	Begin(name, owner string, size uint64, tag, note []byte, idle time.Duration, done func(made bool, err error))

	// Append submits octets at position at, which must be the end of the part. mark is a
	// number of the caller; it replaces the mark of the previous Append and becomes durable
	// with the octets. data must not change until done is called.
	//
	// wrote is false if there is no part or its end is not at. A failed Append changes
	// neither the octets nor the mark.
	Append(name string, at, mark uint64, data []byte, done func(wrote bool, err error))

	// Seal turns the part into the blob of its name if the SHA-256 of the octets on the
	// medium equals sum. Otherwise the part is discarded and sealed is false. sealed is
	// also false if there is no part. A non-zero keep is the lifetime of the blob.
	Seal(name string, sum [32]byte, keep time.Duration, done func(sealed bool, err error))

	// Discard submits the removal of the part of a name. removed is false without one.
	Discard(name string, done func(removed bool, err error))

	// Remove submits the removal of the blob of a name if its version is was; 0 means any
	// version, and also removes a damaged blob. removed is false if there is no such blob.
	Remove(name string, was uint64, done func(removed bool, err error))

	// Part returns the durable state of a part. found is false without one. An engine of several
	// processes waits for a record until ctx ends, and returns an error if it cannot read it.
	Part(ctx context.Context, name string) (p PartInfo, found bool, err error)

	// Blob returns the metadata of a blob, and waits like Part. A blob known to be damaged is
	// reported as missing.
	Blob(ctx context.Context, name string) (b BlobInfo, found bool, err error)

	// ReadAt reads octets of a blob from position at into p, up to the end of the blob.
	// Octets with a wrong checksum are not returned: the error is ErrDamaged. found is
	// false if the blob is gone or has another version.
	ReadAt(ctx context.Context, name string, version uint64, p []byte, at uint64) (n int, found bool, err error)

	// Note returns the note of a blob. found is as in ReadAt.
	Note(ctx context.Context, name string, version uint64) (note []byte, found bool, err error)

	// Scan calls yield with the blobs whose name begins with prefix and is greater
	// than after, in the order of the octets of their names, until yield returns
	// false. Blobs sealed or removed during the scan may be missed.
	Scan(ctx context.Context, prefix, after string, yield func(BlobInfo) bool) error

	// Check reports whether a blob can be written now, by writing, and reports damage found
	// so far. Readiness uses it.
	Check(ctx context.Context) error

	// Close completes the submitted operations and closes the store. Later operations fail
	// with ErrClosed.
	io.Closer
}

// PartInfo is the state of a part.
type PartInfo struct {
	Held uint64 // octets
	Mark uint64 // of the last Append
	Tag  []byte // must not be modified
}

// BlobInfo is the metadata of a blob.
type BlobInfo struct {
	Name    string
	Version uint64 // larger than the version of every blob sealed before
	Size    uint64 // octets
	Mark    uint64 // of the last Append
	Sealed  time.Time
	Tag     []byte // must not be modified
}

// Limits of Blobs. Names and owners have the limits of the other interfaces; a name
// must not be empty.
const (
	MaxTag  = 256     // octets of a tag
	MaxNote = 1 << 20 // octets of a note
)
