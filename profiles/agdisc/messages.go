package agdisc

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypeGet         = 1
	TypeDoc         = 2
	TypeNotModified = 3
	TypeErr         = 4

	members = TypeErr
)

// Bounds on what a message carries, in octets.
const (
	MaxText = 1024    // of an agent_id, a schema_revision or an etag
	MaxCard = 1 << 20 // of a card_payload
)

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed, for a required field that is absent and for what is
// above a bound. Append appends a payload of Size octets and checks nothing.

// Get asks for the card of an agent.
type Get struct {
	AgentID     []byte // required, UTF-8
	IfNoneMatch []byte // UTF-8: the etag of the card that the sender has
}

// Decode reads m from a payload.
func (m *Get) Decode(payload []byte) error {
	*m = Get{}
	if err := decodeTexts(payload, TypeGet, "agent_id", &m.AgentID, &m.IfNoneMatch); err != nil {
		return err
	}
	return bounded(m.AgentID, m.IfNoneMatch)
}

// Size returns how many octets Append will add.
func (m *Get) Size() int { return sizeTexts(TypeGet, m.AgentID, m.IfNoneMatch) }

// Append appends the payload to dst.
func (m *Get) Append(dst []byte) []byte { return appendTexts(dst, TypeGet, m.AgentID, m.IfNoneMatch) }

// Doc is the card of an agent.
type Doc struct {
	AgentID        []byte // required, UTF-8
	SchemaRevision []byte // required, UTF-8
	CardPayload    []byte // required, opaque
	ETag           []byte // UTF-8
	MaxAgeMs       uint64 // 0: to be asked for each time
}

// Decode reads m from a payload.
func (m *Doc) Decode(payload []byte) error {
	*m = Doc{}
	body, err := p1.Body(payload, TypeDoc, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.AgentID)
		case 2:
			f.Text(&m.SchemaRevision)
		case 3:
			f.Bytes(&m.CardPayload)
		case 4:
			f.Text(&m.ETag)
		case 5:
			f.Uint64(&m.MaxAgeMs)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.AgentID) == 0:
		return p1.Missing("agent_id")
	case len(m.SchemaRevision) == 0:
		return p1.Missing("schema_revision")
	case len(m.CardPayload) == 0:
		return p1.Missing("card_payload")
	case len(m.CardPayload) > MaxCard:
		return profiles.Errorf(profiles.InvalidProfilePayload, "agdisc: card_payload: %d octets, want at most %d", len(m.CardPayload), MaxCard)
	}
	return bounded(m.AgentID, m.SchemaRevision, m.ETag)
}

func (m *Doc) size() int {
	return p1.SizeBytes(1, m.AgentID) + p1.SizeBytes(2, m.SchemaRevision) + p1.SizeBytes(3, m.CardPayload) +
		p1.SizeBytes(4, m.ETag) + p1.SizeUint(5, m.MaxAgeMs)
}

// Size returns how many octets Append will add.
func (m *Doc) Size() int { return p1.SizeHeader(TypeDoc, m.size()) }

// Append appends the payload to dst.
func (m *Doc) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeDoc, m.size())
	dst = p1.AppendBytes(dst, 1, m.AgentID)
	dst = p1.AppendBytes(dst, 2, m.SchemaRevision)
	dst = p1.AppendBytes(dst, 3, m.CardPayload)
	dst = p1.AppendBytes(dst, 4, m.ETag)
	return p1.AppendUint(dst, 5, m.MaxAgeMs)
}

// NotModified says that the card is still the one that the sender of the Get
// has.
type NotModified struct {
	AgentID []byte // required, UTF-8
	ETag    []byte // required, UTF-8: the IfNoneMatch of the Get
}

// Decode reads m from a payload.
func (m *NotModified) Decode(payload []byte) error {
	*m = NotModified{}
	if err := decodeTexts(payload, TypeNotModified, "agent_id", &m.AgentID, &m.ETag); err != nil {
		return err
	}
	if len(m.ETag) == 0 {
		return p1.Missing("etag")
	}
	return bounded(m.AgentID, m.ETag)
}

// Size returns how many octets Append will add.
func (m *NotModified) Size() int { return sizeTexts(TypeNotModified, m.AgentID, m.ETag) }

// Append appends the payload to dst.
func (m *NotModified) Append(dst []byte) []byte {
	return appendTexts(dst, TypeNotModified, m.AgentID, m.ETag)
}

// Err says why there is no card.
type Err struct {
	Code    []byte // required, UTF-8; see the Code constants
	Message []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Err) Decode(payload []byte) error {
	*m = Err{}
	return decodeTexts(payload, TypeErr, "code", &m.Code, &m.Message)
}

// Size returns how many octets Append will add.
func (m *Err) Size() int { return sizeTexts(TypeErr, m.Code, m.Message) }

// Append appends the payload to dst.
func (m *Err) Append(dst []byte) []byte { return appendTexts(dst, TypeErr, m.Code, m.Message) }

// decodeTexts reads a message of two strings, the first of which is required.
func decodeTexts(payload []byte, msgType uint64, required string, first, second *[]byte) error {
	body, err := p1.Body(payload, msgType, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(first)
		case 2:
			f.Text(second)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(*first) == 0:
		return p1.Missing(required)
	}
	return nil
}

// bounded refuses texts of more than MaxText octets.
func bounded(texts ...[]byte) error {
	for _, text := range texts {
		if len(text) > MaxText {
			return profiles.Errorf(profiles.InvalidProfilePayload, "agdisc: a text of %d octets, want at most %d", len(text), MaxText)
		}
	}
	return nil
}

func sizeTexts(msgType uint64, first, second []byte) int {
	return p1.SizeHeader(msgType, p1.SizeBytes(1, first)+p1.SizeBytes(2, second))
}

func appendTexts(dst []byte, msgType uint64, first, second []byte) []byte {
	dst = p1.AppendHeader(dst, msgType, p1.SizeBytes(1, first)+p1.SizeBytes(2, second))
	return p1.AppendBytes(p1.AppendBytes(dst, 1, first), 2, second)
}
