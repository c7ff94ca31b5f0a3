package events

import (
	"context"
	"encoding/binary"

	"github.com/slimwire/swp/profiles"
)

// Named is the stored cursor of a named subscription.
type Named struct {
	Owner  string // identity
	Name   string
	Cursor uint64 // the last event that was delivered
	Behind uint64 // stored events after it
}

// Named calls yield with the named subscriptions after a place, in the order of places, until yield returns
// false.
func (b *Bus) Named(ctx context.Context, after string, yield func(place string, n *Named) bool) error {
	if b.opts.Store == nil {
		return nil
	}
	first, last, err := b.opts.Store.Span(ctx, spaceLog, logName)
	if err != nil {
		return err
	}
	return b.opts.Store.Scan(ctx, spaceNames, "", after, func(key string, _ uint64, value []byte) bool {
		owner, name, ok := splitScoped(key)
		cursor, n := binary.Uvarint(value)
		if !ok || n <= 0 {
			return true // damaged
		}
		d := &Named{Owner: owner, Name: name, Cursor: cursor}
		if from := max(cursor+1, first); from <= last {
			d.Behind = last + 1 - from
		}
		return yield(key, d)
	})
}

// splitScoped is the inverse of scoped.
func splitScoped(key string) (identity, name string, ok bool) {
	n, size := binary.Uvarint([]byte(key[:min(len(key), binary.MaxVarintLen64)]))
	if size <= 0 || n > uint64(len(key)-size) {
		return "", "", false
	}
	return key[size : size+int(n)], key[size+int(n):], true
}

// ForgetNamed removes the cursor of a named subscription of an identity: the next subscription with the name
// begins at the end. A connected subscription goes on. It waits for the Store. Without the subscription it fails.
func (b *Bus) ForgetNamed(ctx context.Context, owner, name string) error {
	if b.opts.Store == nil {
		return errNoName
	}
	key := scoped(owner, name)
	switch version, _, err := b.opts.Store.Get(ctx, spaceNames, key); {
	case err != nil:
		return profiles.Unavailable(err)
	case version == 0:
		return errNoName
	}
	done := make(chan error, 1)
	b.forget(key, func(err error) { done <- err })
	return <-done
}

var errNoName = profiles.Errorf(profiles.NotFound, "events: there is no such named subscription")
