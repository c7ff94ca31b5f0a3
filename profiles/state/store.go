package state

import (
	"crypto/sha256"

	"github.com/slimwire/swp/store"
)

// Store stores states and deltas: records with compare-and-set, and logs. Package store
// documents the methods.
type Store interface {
	store.Records
	store.Logs
}

// Where things are in a Store.
const (
	spaceStates = "state"        // the payload of the PUT, by key
	spaceFirst  = "state.first"  // by state_id, the key of the state that was put first
	spaceDeltas = "state.deltas" // the payloads of the DELTAs of a state, by its key
)

// key names a state in a Store: its state_id, and a hash of its owner. So it has a fixed
// length, and keys with the same state_id are adjacent.
type key string

func keyOf(owner string, id ID) key {
	sum := sha256.Sum256([]byte(owner))
	return key(id[:]) + key(sum[:])
}
