package artifact

import (
	"bytes"
	"crypto/sha256"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypeOffer = 1
	TypeGet   = 2
	TypeChunk = 3
	TypeAck   = 4
	TypeErr   = 5

	members = TypeErr
)

// Bounds on what a message carries, in octets.
const (
	MaxID    = 512  // of an artifact_id
	MaxToken = 1024 // of a resume_token
)

// HashSHA256 is the one hash_alg, which is compared without regard to case.
const HashSHA256 = "sha256"

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed, for a required field that is absent and for what is
// above a bound. Append appends a payload of Size octets and checks nothing.

// Offer announces an artifact.
type Offer struct {
	ArtifactID []byte // required, UTF-8, not blank
	TotalSize  uint64
	HashAlg    []byte // required, UTF-8
	Hash       []byte // required
	Metadata   []byte
}

// Decode reads m from a payload. A hash_alg other than sha256 is refused as one
// that is not supported.
func (m *Offer) Decode(payload []byte) error {
	*m = Offer{}
	body, err := p1.Body(payload, TypeOffer, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.ArtifactID)
		case 2:
			f.Uint64(&m.TotalSize)
		case 3:
			f.Text(&m.HashAlg)
		case 4:
			f.Bytes(&m.Hash)
		case 5:
			f.Bytes(&m.Metadata)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.HashAlg) == 0:
		return p1.Missing("hash_alg")
	case len(m.Hash) == 0:
		return p1.Missing("hash")
	case !bytes.EqualFold(m.HashAlg, []byte(HashSHA256)):
		return refuse(CodeUnsupportedHash, "hash_alg %.32q, want %s", m.HashAlg, HashSHA256)
	case len(m.Hash) != sha256.Size:
		return profiles.Errorf(profiles.InvalidProfilePayload, "artifact: hash: %d octets, want %d", len(m.Hash), sha256.Size)
	}
	return checkID(m.ArtifactID)
}

func (m *Offer) size() int {
	return p1.SizeBytes(1, m.ArtifactID) + p1.SizeUint(2, m.TotalSize) + p1.SizeBytes(3, m.HashAlg) +
		p1.SizeBytes(4, m.Hash) + p1.SizeBytes(5, m.Metadata)
}

// Size returns how many octets Append will add.
func (m *Offer) Size() int { return p1.SizeHeader(TypeOffer, m.size()) }

// Append appends the payload to dst.
func (m *Offer) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeOffer, m.size())
	dst = p1.AppendBytes(dst, 1, m.ArtifactID)
	dst = p1.AppendUint(dst, 2, m.TotalSize)
	dst = p1.AppendBytes(dst, 3, m.HashAlg)
	dst = p1.AppendBytes(dst, 4, m.Hash)
	return p1.AppendBytes(dst, 5, m.Metadata)
}

// Get asks for octets of an artifact.
type Get struct {
	ArtifactID  []byte // required, UTF-8, not blank
	Start       uint64 // the first octet
	End         uint64 // the one after the last, 0: the end of the artifact
	ResumeToken []byte // UTF-8: goes on there instead of at Start
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
		switch f.Num() {
		case 1:
			f.Text(&m.ArtifactID)
		case 2:
			f.Uint64(&m.Start)
		case 3:
			f.Uint64(&m.End)
		case 4:
			f.Text(&m.ResumeToken)
		}
	}
	if f.Err() != nil {
		return f.Err()
	}
	return checkID(m.ArtifactID)
}

func (m *Get) size() int {
	return p1.SizeBytes(1, m.ArtifactID) + p1.SizeUint(2, m.Start) + p1.SizeUint(3, m.End) + p1.SizeBytes(4, m.ResumeToken)
}

// Size returns how many octets Append will add.
func (m *Get) Size() int { return p1.SizeHeader(TypeGet, m.size()) }

// Append appends the payload to dst.
func (m *Get) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeGet, m.size())
	dst = p1.AppendBytes(dst, 1, m.ArtifactID)
	dst = p1.AppendUint(dst, 2, m.Start)
	dst = p1.AppendUint(dst, 3, m.End)
	return p1.AppendBytes(dst, 4, m.ResumeToken)
}

// Chunk is some octets of an artifact.
type Chunk struct {
	ArtifactID  []byte // required, UTF-8, not blank
	ChunkIndex  uint64 // from 0, without gaps
	Offset      uint64 // of the first octet of Data
	Data        []byte
	IsTerminal  bool   // the artifact ends with Data
	ResumeToken []byte // UTF-8: for a Get that goes on after Data
}

// Decode reads m from a payload.
func (m *Chunk) Decode(payload []byte) error {
	*m = Chunk{}
	body, err := p1.Body(payload, TypeChunk, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.ArtifactID)
		case 2:
			f.Uint64(&m.ChunkIndex)
		case 3:
			f.Uint64(&m.Offset)
		case 4:
			f.Bytes(&m.Data)
		case 5:
			f.Bool(&m.IsTerminal)
		case 6:
			f.Text(&m.ResumeToken)
		}
	}
	if f.Err() != nil {
		return f.Err()
	}
	return checkID(m.ArtifactID)
}

func (m *Chunk) size() int {
	return p1.SizeBytes(1, m.ArtifactID) + p1.SizeUint(2, m.ChunkIndex) + p1.SizeUint(3, m.Offset) +
		p1.SizeBytes(4, m.Data) + p1.SizeBool(5, m.IsTerminal) + p1.SizeBytes(6, m.ResumeToken)
}

// Size returns how many octets Append will add.
func (m *Chunk) Size() int { return p1.SizeHeader(TypeChunk, m.size()) }

// Append appends the payload to dst.
func (m *Chunk) Append(dst []byte) []byte {
	return m.appendEnd(append(m.appendHead(dst), m.Data...))
}

// appendHead appends what comes before the octets of Data, appendEnd what comes
// after them.
func (m *Chunk) appendHead(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeChunk, m.size())
	dst = p1.AppendBytes(dst, 1, m.ArtifactID)
	dst = p1.AppendUint(dst, 2, m.ChunkIndex)
	dst = p1.AppendUint(dst, 3, m.Offset)
	if len(m.Data) == 0 {
		return dst
	}
	return p1.AppendHeader(dst, 4, len(m.Data))
}

func (m *Chunk) appendEnd(dst []byte) []byte {
	return p1.AppendBytes(p1.AppendBool(dst, 5, m.IsTerminal), 6, m.ResumeToken)
}

// Ack says that chunks are durable.
type Ack struct {
	ArtifactID []byte // required, UTF-8, not blank
	ChunkIndex uint64 // the last of them
}

// Decode reads m from a payload.
func (m *Ack) Decode(payload []byte) error {
	*m = Ack{}
	body, err := p1.Body(payload, TypeAck, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.ArtifactID)
		case 2:
			f.Uint64(&m.ChunkIndex)
		}
	}
	if f.Err() != nil {
		return f.Err()
	}
	return checkID(m.ArtifactID)
}

func (m *Ack) size() int { return p1.SizeBytes(1, m.ArtifactID) + p1.SizeUint(2, m.ChunkIndex) }

// Size returns how many octets Append will add.
func (m *Ack) Size() int { return p1.SizeHeader(TypeAck, m.size()) }

// Append appends the payload to dst.
func (m *Ack) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeAck, m.size())
	dst = p1.AppendBytes(dst, 1, m.ArtifactID)
	return p1.AppendUint(dst, 2, m.ChunkIndex)
}

// Err refuses a message.
type Err struct {
	Code      []byte // required, UTF-8; see the Code constants
	Message   []byte // UTF-8
	Retryable bool
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
		case 3:
			f.Bool(&m.Retryable)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.Code) == 0:
		return p1.Missing("code")
	}
	return nil
}

func (m *Err) size() int {
	return p1.SizeBytes(1, m.Code) + p1.SizeBytes(2, m.Message) + p1.SizeBool(3, m.Retryable)
}

// Size returns how many octets Append will add.
func (m *Err) Size() int { return p1.SizeHeader(TypeErr, m.size()) }

// Append appends the payload to dst.
func (m *Err) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeErr, m.size())
	dst = p1.AppendBytes(dst, 1, m.Code)
	dst = p1.AppendBytes(dst, 2, m.Message)
	return p1.AppendBool(dst, 3, m.Retryable)
}

// checkID refuses an artifact_id that is blank or too long. Nothing else about it
// has a meaning here.
func checkID(id []byte) error {
	switch {
	case len(bytes.TrimSpace(id)) == 0:
		return p1.Missing("artifact_id")
	case len(id) > MaxID:
		return profiles.Errorf(profiles.InvalidProfilePayload, "artifact: artifact_id: %d octets, want at most %d", len(id), MaxID)
	}
	return nil
}
