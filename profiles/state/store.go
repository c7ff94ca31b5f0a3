package state

import (
	"crypto/sha256"

	"github.com/slimwire/swp/store"
)

// Store is where states and deltas are kept: records with compare-and-set, and
// logs. Package store says what the methods promise.
type Store interface {
	store.Records
	store.Logs
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
