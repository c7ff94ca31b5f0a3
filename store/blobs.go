package store

import (
	"context"
	"io"
	"time"
)

// Blobs are large octet strings, kept apart from the log that commits small
// ones. An engine needs no more memory for a large one than for a small one.
//
// A blob begins as a part, which grows at its end and which nobody reads. When
// it is sealed it takes the place of the blob of its name, in one step. Until
// then, and if it never is, the blob that is there stays as it is: a name has at
// most one part and one blob.
//
// Submitting, done functions and failures are as package store says, but that
// only operations on one name are in the order of their submission, and done
// functions of different names may run at the same time. A submission may
// follow one that is not done: an Append may follow its Begin at once. If that
// fails, it fails as well.
//
// Octets count against their owner's quota when they are appended, not when
// they are announced. Quotas of Blobs are their own.
type Blobs interface {
	// Begin submits the creation of the part of a name; there must be none. It is
	// refused with ErrQuota if there is no room now for a note and size octets;
	// nothing is set aside for them.
	//
	// tag is kept in memory, and Part, Blob and Scan return it. note is kept
	// beside the octets, see Note. They must not change until done is called. A
	// part that gets nothing for the time of idle is discarded.
	//
	// made is false if there is a part; that one stays as it is.
	Begin(name, owner string, size uint64, tag, note []byte, idle time.Duration, done func(made bool, err error))

	// Append submits octets at the end of a part, which must be at. mark, a number
	// of the caller, replaces that of the previous Append and is durable with the
	// octets. data must not change until done is called.
	//
	// wrote is false if there is no part, or its end is elsewhere. A part that
	// failed to grow has the octets and the mark that it had.
	Append(name string, at, mark uint64, data []byte, done func(wrote bool, err error))

	// Seal submits the end of a part: the SHA-256 of the octets as they are on the
	// medium is computed, and if it is sum the part becomes the blob of its name.
	// Otherwise it is discarded, and sealed is false. sealed is also false if
	// there is no part. A blob that is sealed with keep other than zero is removed
	// after that time.
	Seal(name string, sum [32]byte, keep time.Duration, done func(sealed bool, err error))

	// Discard submits the end of a part, with all it has. There may be none.
	Discard(name string, done func(error))

	// Remove submits the removal of the blob of a name if its version is was; 0
	// means whatever it is. Removing what is not there succeeds. removed is false
	// if the version is another.
	Remove(name string, was uint64, done func(removed bool, err error))

	// Part returns the durable state of a part, without waiting: how many octets,
	// the mark that came with the last of them, and its tag, which must not be
	// changed. ok is false if there is none.
	Part(name string) (held, mark uint64, tag []byte, ok bool)

	// Blob returns what is known of a blob, without waiting. The version is larger
	// than that of every blob sealed before. mark is the one of its last Append. A
	// blob that was found to be damaged is as if it were not there.
	Blob(name string) (version, size, mark uint64, tag []byte, ok bool)

	// ReadAt fills p with octets of a blob, as far as it has them from at on.
	// Octets that do not match their checksum are not returned: the error is
	// ErrDamaged. found is false if the blob is gone or has another version.
	ReadAt(ctx context.Context, name string, version uint64, p []byte, at uint64) (n int, found bool, err error)

	// Note returns the note of a blob. found is as in ReadAt.
	Note(ctx context.Context, name string, version uint64) (note []byte, found bool, err error)

	// Scan calls yield with the blobs whose name begins with prefix and is greater
	// than after, in the order of the octets of their names, until yield returns
	// false. Blobs sealed or removed during the scan may be missed.
	Scan(ctx context.Context, prefix, after string, yield func(BlobInfo) bool) error

	// Check reports whether a blob can be written now, by writing, and reports
	// damage found so far. It is what readiness asks.
	Check(ctx context.Context) error

	// Close ends what was submitted, and closes. Later operations fail with
	// ErrClosed.
	io.Closer
}

// BlobInfo is what Scan tells of a blob.
type BlobInfo struct {
	Name    string
	Version uint64
	Size    uint64 // octets
	Sealed  time.Time
	Tag     []byte // must not be changed
}

// Limits of Blobs. Names and owners have those of the other interfaces, and a name
// is not empty.
const (
	MaxTag  = 256     // octets of a tag
	MaxNote = 1 << 20 // octets of a note
)
