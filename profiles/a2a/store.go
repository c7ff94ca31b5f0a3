package a2a

import (
	"errors"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/store"
)

// Store is what a Service needs of durable state: records with compare-and-set
// and expiry, and append-only logs. Every store.Store is one, and package store
// says what the methods promise.
type Store interface {
	store.Records
	store.Logs
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
