package a2a

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/internal/backoff"
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

// detailQuota is what a store calls the failure for want of room that is its
// owner's own affair. It may pass, but not soon.
const detailQuota = "store_quota"

// kindOf is what an error of a store can be asked for, nil if nothing.
func kindOf(err error) (kind interface {
	StoreDetail() string
	Retryable() bool
}) {
	errors.As(err, &kind)
	return kind
}

// passing reports whether an operation that failed is worth another try.
func passing(err error) bool {
	kind := kindOf(err)
	return kind != nil && kind.Retryable() && kind.StoreDetail() != detailQuota
}

// reasonOf says why a task ends with an error of the store.
func reasonOf(err error) string {
	if kind := kindOf(err); kind != nil && kind.StoreDetail() == detailQuota {
		return reasonQuota
	}
	return reasonLost
}

// storePauses are those before an operation is tried again.
var storePauses = backoff.Exponential{First: 50 * time.Millisecond, Longest: 10 * time.Second}
