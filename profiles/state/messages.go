package state

import (
	"crypto/sha256"
	"fmt"

	"github.com/slimwire/swp/profiles"
)

// IDSize is the length of a state_id in octets.
const IDSize = sha256.Size

// ID is a state_id: the SHA-256 of the blob.
type ID [IDSize]byte

// IDOf returns the state_id of a blob.
func IDOf(blob []byte) ID { return sha256.Sum256(blob) }

// idOf reads a state_id; ok is false for another length.
func idOf(octets []byte) (id ID, ok bool) {
	return id, copy(id[:], octets) == IDSize && len(octets) == IDSize
}

// Check returns an error if m is not a valid state: its id must be the digest of its blob,
// and its parents other states without duplicates. The error is an *profiles.Error of
// InvalidProfilePayload.
func (m *Put) Check() error {
	if err := checkParents(m.ParentIDs, m.StateID); err != nil {
		return err
	}
	if id := IDOf(m.Blob); string(id[:]) != string(m.StateID) {
		return invalid(CodeHashMismatch, "state_id is not the SHA-256 of blob")
	}
	return nil
}

// checkParents returns the fault of a list of parents. The child must not be in the list.
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

// Codes of STATE_ERR, in addition to the names of canonical codes such as
// RATE_LIMIT_EXCEEDED. They are also the details of the errors.
const (
	CodeHashMismatch  = "HASH_MISMATCH"  // state_id is not the digest of blob
	CodeParentMissing = "PARENT_MISSING" // a parent is not stored
	CodeConflict      = "CONFLICT"       // the state is stored with other parents or metadata
	CodeNotFound      = "NOT_FOUND"      // the state is not stored
)

// The details of other errors. Malformed payloads have the details of p1.
const (
	DetailParents = "state_parents" // invalid parent_ids
	DetailKept    = "state_kept"    // this endpoint stores no states
)

func invalid(detail, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: "state: " + fmt.Sprintf(format, args...)}
}
