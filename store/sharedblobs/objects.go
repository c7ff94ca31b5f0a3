package sharedblobs

import (
	"context"
	"io"
	"time"
)

// Objects is where octets are: whole objects with keys, for all processes. Bucket and
// Directory are the two kinds. It is safe for concurrent use. A missing object is
// fs.ErrNotExist; every other error means that the objects cannot be reached, or that no
// room is left.
//
// A key consists of lower-case letters, digits and slashes.
type Objects interface {
	// Put stores an object, and replaces an existing one of the key in one step. The object is
	// durable when it returns. octets are not kept.
	Put(ctx context.Context, key string, octets []byte) error

	// Create is Put of an object whose key does not exist. made is false if it does.
	Create(ctx context.Context, key string, octets []byte) (made bool, err error)

	// ReadAt reads len(p) octets of an object, as io.ReaderAt does.
	ReadAt(ctx context.Context, key string, p []byte, at int64) (n int, err error)

	// Delete removes objects. Missing ones are ignored.
	Delete(ctx context.Context, keys ...string) error

	// List calls yield with the keys that begin with prefix, and with the time on the clock
	// of the medium when each object was written, until yield returns false. A prefix ends
	// with a slash. Objects that come or go during the list may be missed.
	List(ctx context.Context, prefix string, yield func(key string, written time.Time) bool) error

	// String names the place for messages. It has no secret.
	String() string

	// Close releases connections.
	io.Closer
}

// reader reads one object as an io.ReaderAt.
type reader struct {
	ctx     context.Context
	objects Objects
	key     string
}

func (r reader) ReadAt(p []byte, at int64) (int, error) {
	return r.objects.ReadAt(r.ctx, r.key, p, at)
}
