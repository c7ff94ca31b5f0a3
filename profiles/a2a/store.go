package a2a

import (
	"context"
	"time"
)

// Store is what a Service needs of durable state: records with compare-and-set
// and expiry, and append-only logs. Every store.Store is one, and package store
// says what the methods promise.
type Store interface {
	Put(space, key string, was uint64, owner string, value []byte, expires time.Time,
		done func(wrote bool, version uint64, current []byte, err error))
	Delete(space, key string, was uint64, done func(removed bool, err error))
	Get(ctx context.Context, space, key string) (version uint64, value []byte, err error)
	Scan(ctx context.Context, space, prefix, after string,
		yield func(key string, version uint64, value []byte) bool) error

	Append(space, log, id, owner string, data []byte, expires time.Time,
		done func(seq uint64, fresh, equal bool, err error))
	Read(ctx context.Context, space, log string, after uint64,
		yield func(seq uint64, id string, data []byte) bool) error
	Span(ctx context.Context, space, log string) (first, last uint64, err error)
}
