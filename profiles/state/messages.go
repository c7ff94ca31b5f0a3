package state

import (
	"crypto/sha256"
	"fmt"

	"github.com/slimwire/swp/profiles"
)

// IDSize is how many octets a state_id has.
const IDSize = sha256.Size

// ID is a state_id: the SHA-256 of the blob.
type ID [IDSize]byte

// IDOf returns the state_id of a blob.
func IDOf(blob []byte) ID { return sha256.Sum256(blob) }

// idOf reads a state_id. Another length names no state.
func idOf(octets []byte) (id ID, ok bool) {
	return id, copy(id[:], octets) == IDSize && len(octets) == IDSize
}

// Check reports whether m is a state: its id is the digest of its blob, and its
// parents are other states, none of them twice. The error is an *profiles.Error
// of InvalidProfilePayload.
func (m *Put) Check() error {
	if err := checkParents(m.ParentIDs, m.StateID); err != nil {
		return err
	}
	if id := IDOf(m.Blob); string(id[:]) != string(m.StateID) {
		return invalid(CodeHashMismatch, "state_id is not the SHA-256 of blob")
	}
	return nil
}

// checkParents says what is wrong with a list of parents, whose child may not be
// among them.
func checkParents(parents [][]byte, child []byte) error {
	seen := make(map[ID]bool, len(parents))
	for _, octets := range parents {
		id, ok := idOf(octets)
		switch {
		case !ok:
			return invalid(DetailParents, "parent_ids: %d octets, want %d", len(octets), IDSize)
		case string(octets) == string(child):
			return invalid(DetailParents, "parent_ids: a state is its own parent")
		case seen[id]:
			return invalid(DetailParents, "parent_ids: %x is there twice", octets)
		}
		seen[id] = true
	}
	return nil
}

// Codes of STATE_ERR, beside the names of canonical codes such as
// RATE_LIMIT_EXCEEDED. They are also the details of the errors.
const (
	CodeHashMismatch  = "HASH_MISMATCH"  // state_id is not the digest of blob
	CodeParentMissing = "PARENT_MISSING" // a parent is not stored
	CodeConflict      = "CONFLICT"       // the state is stored with other parents or metadata
	CodeNotFound      = "NOT_FOUND"      // the state is not stored
)

// The details of other errors. Those of payloads that are malformed are p1's.
const (
	DetailParents = "state_parents" // parent_ids cannot be those of a state
	DetailKept    = "state_kept"    // this endpoint keeps no states
)

func invalid(detail, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: "state: " + fmt.Sprintf(format, args...)}
}
