package state

import (
	"context"
	"crypto/sha256"
	"time"
)

// Store is where states and deltas are kept: records with compare-and-set, and
// logs. Package store says what the methods promise.
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
	Drop(space, log string, done func(error))
}

// Where things are in a Store.
const (
	spaceStates = "state"        // the payload of the PUT, by key
	spaceFirst  = "state.first"  // by state_id, the key of the one that was put first
	spaceDeltas = "state.deltas" // the payloads of the DELTAs of a state, by its key
)

// key names a state in a Store: its state_id, and a hash of who owns it. So it
// has one length, whatever an identity is, and those of one state_id lie side by
// side.
type key string

func keyOf(owner string, id ID) key {
	sum := sha256.Sum256([]byte(owner))
	return key(id[:]) + key(sum[:])
}
