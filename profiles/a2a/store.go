package a2a

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/store"
)

// Store is the durable state that a Service needs: records with compare-and-set and expiry,
// and append-only logs. Every store.Store implements it; package store documents the
// methods.
type Store interface {
	store.Records
	store.Logs
}

// passing reports whether a failed operation can be tried again soon. An exhausted quota of
// the owner may be temporary, but not for short.
func passing(err error) bool {
	return store.Retryable(err) && !errors.Is(err, store.ErrQuota)
}

// reasonOf returns the reason of a Result for an error of the store.
func reasonOf(err error) string {
	if errors.Is(err, store.ErrQuota) {
		return reasonQuota
	}
	return reasonLost
}

// storePauses are the pauses between two tries of an operation.
var storePauses = backoff.Exponential{First: 50 * time.Millisecond, Longest: 10 * time.Second}

// retry calls do until it succeeds, an error is permanent or ctx ends, and returns the last
// error. failed is called with the first error; it may be nil.
func retry(ctx context.Context, do func() error, failed func(error)) error {
	for n := 0; ; n++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if n == 0 && failed != nil {
			failed(err)
		}
		if !passing(err) {
			return err
		}
		_ = backoff.Wait(ctx, storePauses.After(n))
	}
}

// retry is retry until the end of the task. A permanent error ends the task.
func (t *task) retry(do func() error) error {
	err := retry(t.ctx, do, func(err error) { t.s.report(t, err) })
	if err != nil && t.ctx.Err() == nil {
		t.fail(reasonOf(err))
	}
	return err
}

// retryLater calls f after a pause, because an operation of the store has failed for the
// n-th time, from 0.
func (t *task) retryLater(n int, err error, f func()) {
	if n == 0 {
		t.s.report(t, err)
	}
	t.s.later(storePauses.After(n), f)
}

// put stores a record of the task and waits for the result, at most until Close of the
// Service.
func (t *task) put(space string, version uint64, value []byte) store.PutResult {
	done := make(chan store.PutResult, 1)
	t.s.opts.Store.Put(space, t.run, version, t.Owner, value, t.Expires, func(r store.PutResult) { done <- r })
	select {
	case r := <-done:
		return r
	case <-t.s.ctx.Done():
		return store.PutResult{Err: errClosed}
	}
}

// readRequest reads a request from the store, or returns nil.
func readRequest(ctx context.Context, store Store, key string) (*request, error) {
	version, value, err := store.Get(ctx, spaceRequest, key)
	if err != nil || version == 0 {
		return nil, err
	}
	return decodeRequest(value)
}
