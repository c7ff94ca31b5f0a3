package state

import (
	"crypto/sha256"
	"fmt"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypePut   = 1
	TypeGet   = 2
	TypeDelta = 3
	TypeErr   = 4

	members = TypeErr
)

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed. Append appends a payload of Size octets and checks
// nothing. Whether a state is one is another question, see Check.

// Put is a state, to be stored or as the answer to a Get.
type Put struct {
	StateID   []byte // required
	Blob      []byte // required
	ParentIDs [][]byte
	Metadata  []byte
}

// Decode reads m from a payload.
func (m *Put) Decode(payload []byte) error {
	*m = Put{ParentIDs: m.ParentIDs[:0]}
	body, err := counted(payload, TypePut)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.StateID)
		case 2:
			f.Bytes(&m.Blob)
		case 3:
			parent(&f, &m.ParentIDs)
		case 4:
			f.Bytes(&m.Metadata)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.StateID) == 0:
		return p1.Missing("state_id")
	case len(m.Blob) == 0:
		return p1.Missing("blob")
	}
	return nil
}

func (m *Put) size() int {
	return p1.SizeBytes(1, m.StateID) + p1.SizeBytes(2, m.Blob) + sizeParents(m.ParentIDs) + p1.SizeBytes(4, m.Metadata)
}

// Size returns how many octets Append will add.
func (m *Put) Size() int { return p1.SizeHeader(TypePut, m.size()) }

// Append appends the payload to dst.
func (m *Put) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypePut, m.size())
	dst = p1.AppendBytes(dst, 1, m.StateID)
	dst = p1.AppendBytes(dst, 2, m.Blob)
	dst = appendParents(dst, m.ParentIDs)
	return p1.AppendBytes(dst, 4, m.Metadata)
}

// Get asks for a state.
type Get struct {
	StateID []byte // required
}

// Decode reads m from a payload.
func (m *Get) Decode(payload []byte) error {
	*m = Get{}
	body, err := p1.Body(payload, TypeGet, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		if f.Num() == 1 {
			f.Bytes(&m.StateID)
		}
	}
	if f.Err() == nil && len(m.StateID) == 0 {
		return p1.Missing("state_id")
	}
	return f.Err()
}

func (m *Get) size() int { return p1.SizeBytes(1, m.StateID) }

// Size returns how many octets Append will add.
func (m *Get) Size() int { return p1.SizeHeader(TypeGet, m.size()) }

// Append appends the payload to dst.
func (m *Get) Append(dst []byte) []byte {
	return p1.AppendBytes(p1.AppendHeader(dst, TypeGet, m.size()), 1, m.StateID)
}

// Delta adds a change to a state that is stored.
type Delta struct {
	StateID   []byte // required: the state that it changes
	Delta     []byte // required
	ParentIDs [][]byte
}

// Decode reads m from a payload.
func (m *Delta) Decode(payload []byte) error {
	*m = Delta{ParentIDs: m.ParentIDs[:0]}
	body, err := counted(payload, TypeDelta)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.StateID)
		case 2:
			f.Bytes(&m.Delta)
		case 3:
			parent(&f, &m.ParentIDs)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.StateID) == 0:
		return p1.Missing("state_id")
	case len(m.Delta) == 0:
		return p1.Missing("delta")
	}
	return nil
}

func (m *Delta) size() int {
	return p1.SizeBytes(1, m.StateID) + p1.SizeBytes(2, m.Delta) + sizeParents(m.ParentIDs)
}

// Size returns how many octets Append will add.
func (m *Delta) Size() int { return p1.SizeHeader(TypeDelta, m.size()) }

// Append appends the payload to dst.
func (m *Delta) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeDelta, m.size())
	dst = p1.AppendBytes(dst, 1, m.StateID)
	dst = p1.AppendBytes(dst, 2, m.Delta)
	return appendParents(dst, m.ParentIDs)
}

// Err says why another message was refused.
type Err struct {
	Code    []byte // required, UTF-8; see the Code constants
	Message []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Err) Decode(payload []byte) error {
	*m = Err{}
	body, err := p1.Body(payload, TypeErr, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.Code)
		case 2:
			f.Text(&m.Message)
		}
	}
	if f.Err() == nil && len(m.Code) == 0 {
		return p1.Missing("code")
	}
	return f.Err()
}

func (m *Err) size() int { return p1.SizeBytes(1, m.Code) + p1.SizeBytes(2, m.Message) }

// Size returns how many octets Append will add.
func (m *Err) Size() int { return p1.SizeHeader(TypeErr, m.size()) }

// Append appends the payload to dst.
func (m *Err) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeErr, m.size())
	return p1.AppendBytes(p1.AppendBytes(dst, 1, m.Code), 2, m.Message)
}

// counted returns the body of a message with parents, of which there are no more
// than MaxParents: they are counted before anything is made of them.
func counted(payload []byte, msgType uint64) ([]byte, error) {
	body, err := p1.Body(payload, msgType, members)
	if err != nil {
		return nil, err
	}
	return body, p1.Check(body, p1.Limit{Field: 3, Max: MaxParents})
}

// parent reads an element of parent_ids, which may be empty.
func parent(f *p1.Fields, list *[][]byte) {
	var id []byte
	f.Bytes(&id)
	*list = append(*list, id)
}

func sizeParents(ids [][]byte) (n int) {
	for _, id := range ids {
		n += p1.SizeHeader(3, len(id))
	}
	return n
}

func appendParents(dst []byte, ids [][]byte) []byte {
	for _, id := range ids {
		dst = append(p1.AppendHeader(dst, 3, len(id)), id...)
	}
	return dst
}

// Bounds of a state.
const (
	// MaxParents is how many states one is made from.
	MaxParents = 64

	// IDSize is how many octets a state_id has.
	IDSize = sha256.Size
)

// ID is a state_id: the SHA-256 of the blob.
type ID [IDSize]byte

// IDOf returns the state_id of a blob.
func IDOf(blob []byte) ID { return sha256.Sum256(blob) }

// idOf reads a state_id. What has another length names nothing.
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
	DetailParents = "STATE_PARENTS" // parent_ids can not be those of a state
	DetailKept    = "STATE_KEPT"    // this endpoint keeps no states
)

func invalid(detail, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: "state: " + fmt.Sprintf(format, args...)}
}
