package events

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/slimwire/swp/store"
)

// Store stores events and the cursors of named subscriptions: a log with deduplication and
// cursors, and records with compare-and-set. Package store documents the methods. This
// package relies on done functions being called in the order of submission, by one
// goroutine.
type Store interface {
	store.Records
	store.Logs
}

// Where things are in a Store.
const (
	spaceLog   = "events"       // one log of all producers, so that a cursor is one number
	logName    = "events"       //
	spaceNames = "events.names" // the cursor of each named subscription, as a uvarint
)

// Types returns the event_types of the last stored events that begin with a prefix, each once,
// in the order of the events. It looks at most events.
func Types(ctx context.Context, in store.Reader, prefix string, most int) (types []string, err error) {
	_, last, err := in.Span(ctx, spaceLog, logName)
	if err != nil || last == 0 {
		return nil, err
	}
	var fault error
	seen := make(map[string]bool)
	err = in.Read(ctx, spaceLog, logName, last-min(last, uint64(most)), func(_ uint64, _ string, data []byte) bool {
		var r Record
		if fault = r.stored(data); fault != nil {
			return false
		}
		if kind := string(r.EventType); strings.HasPrefix(kind, prefix) && !seen[kind] {
			seen[kind] = true
			types = append(types, kind)
		}
		return ctx.Err() == nil
	})
	return types, errors.Join(err, fault)
}

// scoped returns a name in the space of an identity. The identity comes first, with its
// length, so that no name can collide with one of another identity.
func scoped[T ~string | ~[]byte](identity string, name T) string {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(identity)))
	var key strings.Builder
	key.Grow(n + len(identity) + len(name))
	_, _ = key.Write(length[:n])
	_, _ = key.WriteString(identity)
	_, _ = key.WriteString(string(name))
	return key.String()
}

// maxKey is how long a name in a Store may be.
const maxKey = 1024
