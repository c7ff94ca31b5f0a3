// Package e1 reads and writes E1 envelopes, the body of every SWP frame.
//
//	version uvarint | profile_id uvarint | msg_type uvarint | flags uvarint |
//	ts_unix_ms uvarint | msg_id bytes | extensions bytes | payload bytes
//
// where uvarint is unsigned LEB128 of at most 10 octets and bytes is a uvarint
// length and that many octets. All eight fields are always present, in this
// order, and nothing follows.
//
// An Envelope is a view: its slices alias the decoded octets. Nothing here
// allocates except Clone and the errors.
//
// Specification: SWP Core §3.
package e1

import (
	"encoding/binary"
	"slices"
)

// Version is the Core version that this package reads and writes.
const Version = 1

// Limits of SWP Core §4. A zero field means its default.
type Limits struct {
	MaxPayload    int // MAX_PAYLOAD_BYTES, default DefaultMaxPayload
	MaxExtensions int // MAX_EXT_BYTES, default DefaultMaxExtensions
	MinMsgID      int // default DefaultMinMsgID
	MaxMsgID      int // default DefaultMaxMsgID
}

// Default limits, in octets.
const (
	DefaultMaxPayload    = 8<<20 - 8<<10
	DefaultMaxExtensions = 4096
	DefaultMinMsgID      = 8
	DefaultMaxMsgID      = 64
)

// WithDefaults returns l with the default in place of each zero.
func (l Limits) WithDefaults() Limits {
	if l.MaxPayload == 0 {
		l.MaxPayload = DefaultMaxPayload
	}
	if l.MaxExtensions == 0 {
		l.MaxExtensions = DefaultMaxExtensions
	}
	if l.MinMsgID == 0 {
		l.MinMsgID = DefaultMinMsgID
	}
	if l.MaxMsgID == 0 {
		l.MaxMsgID = DefaultMaxMsgID
	}
	return l
}

// Envelope is one E1 envelope. After Decode the slices are windows into the
// decoded octets and live as long as those do.
type Envelope struct {
	Version    uint64
	ProfileID  uint64
	MsgType    uint64
	Flags      uint64 // no bit is assigned; a relay forwards the value unchanged
	Timestamp  uint64 // ts_unix_ms, milliseconds since the Unix epoch; 0 = not available
	MsgID      []byte
	Extensions Extensions
	Payload    []byte

	// Tail is the end of the payload: on the wire it follows Payload. It allows to send a
	// large opaque value from its own memory. Decode leaves it nil.
	Tail []byte
}

// Decode reads the envelope in body. The slices of e alias body. Their capacity is limited,
// so an append copies.
//
// Decode makes the checks that need no profile (SWP Core §5, rows 5 to 13), in this order:
// the version first, because another version may have another layout; every uvarint and
// length; the size of the extension block, then its entries; the size of the payload; the
// absence of trailing octets. Validate makes the remaining checks. limits must have no zero
// fields (see WithDefaults).
//
// The error is an *Error. After an error e holds the fields before the fault, for logs and
// error reports only; the others are zero.
func (e *Envelope) Decode(body []byte, limits *Limits) error {
	*e = Envelope{}
	d := decoder{rest: body}
	// In almost every message the first four fields have one octet each. One comparison
	// detects this case.
	if len(body) >= 4 && body[0] == Version && binary.LittleEndian.Uint32(body)&0x80808080 == 0 {
		e.Version, e.ProfileID, e.MsgType, e.Flags = Version, uint64(body[1]), uint64(body[2]), uint64(body[3])
		d.rest = body[4:]
	} else {
		if e.Version = d.uvarint(FieldVersion); d.err == nil && e.Version != Version {
			return &Error{Field: FieldVersion, Err: ErrVersion, Value: e.Version, Bound: Version}
		}
		e.ProfileID = d.uvarint(FieldProfileID)
		e.MsgType = d.uvarint(FieldMsgType)
		e.Flags = d.uvarint(FieldFlags)
	}
	e.Timestamp = d.uvarint(FieldTimestamp)
	e.MsgID = d.bytes(FieldMsgID)
	e.Extensions = d.bytes(FieldExtensions)
	if d.err == nil && len(e.Extensions) > 0 {
		d.err = e.Extensions.check(limits.MaxExtensions)
	}
	e.Payload = d.bytes(FieldPayload)
	switch {
	case d.err != nil:
		return d.err
	case len(e.Payload) > limits.MaxPayload:
		return tooLarge(FieldPayload, ErrPayloadTooLarge, len(e.Payload), limits.MaxPayload)
	case len(d.rest) > 0:
		return &Error{Field: FieldPayload, Err: ErrTrailing, Value: uint64(len(d.rest))}
	}
	return nil
}

// Validate checks the invariants that come after the profile is known (SWP
// Core §5, rows 15 to 18): msg_type is not 0 and msg_id has an allowed length.
// The error is an *Error. limits must have no zero fields.
func (e *Envelope) Validate(limits *Limits) error {
	if e.MsgType == 0 {
		return &Error{Field: FieldMsgType, Err: ErrMsgType}
	}
	if n := len(e.MsgID); n < limits.MinMsgID || n > limits.MaxMsgID {
		return &Error{Field: FieldMsgID, Err: ErrMsgID, Value: uint64(n),
			Min: uint64(limits.MinMsgID), Bound: uint64(limits.MaxMsgID)}
	}
	return nil
}

// Size returns how many octets Append will add.
func (e *Envelope) Size() int {
	return e.HeadSize() + len(e.Payload) + len(e.Tail)
}

// HeadSize returns how many octets AppendHead will add.
func (e *Envelope) HeadSize() int {
	return SizeUvarint(e.Version) + SizeUvarint(e.ProfileID) + SizeUvarint(e.MsgType) +
		SizeUvarint(e.Flags) + SizeUvarint(e.Timestamp) +
		SizeBytes(len(e.MsgID)) + SizeBytes(len(e.Extensions)) + SizeUvarint(uint64(len(e.Payload)+len(e.Tail)))
}

// Append appends the envelope to dst. Integers are written in their shortest
// form. It checks nothing: e is encoded as given.
func (e *Envelope) Append(dst []byte) []byte {
	return append(append(e.AppendHead(dst), e.Payload...), e.Tail...)
}

// AppendHead appends all fields except the octets of the payload; its length comes last. A
// large payload can then be written from its own memory instead of being copied.
func (e *Envelope) AppendHead(dst []byte) []byte {
	dst = AppendUvarint(dst, e.Version)
	dst = AppendUvarint(dst, e.ProfileID)
	dst = AppendUvarint(dst, e.MsgType)
	dst = AppendUvarint(dst, e.Flags)
	dst = AppendUvarint(dst, e.Timestamp)
	dst = AppendBytes(dst, e.MsgID)
	dst = AppendBytes(dst, e.Extensions)
	return AppendUvarint(dst, uint64(len(e.Payload)+len(e.Tail)))
}

// Joined returns e, or, if it has a Tail, a copy whose Payload includes it. A reader of a payload that is
// about to be sent calls it first.
func (e *Envelope) Joined() *Envelope {
	if len(e.Tail) == 0 {
		return e
	}
	c := *e
	c.Payload, c.Tail = slices.Concat(e.Payload, e.Tail), nil
	return &c
}

// Clone returns a copy that shares no memory with e. Its Payload includes the
// octets of Tail.
func (e *Envelope) Clone() Envelope {
	c := *e
	c.MsgID = slices.Clone(e.MsgID)
	c.Extensions = slices.Clone(e.Extensions)
	if c.Payload, c.Tail = slices.Clone(e.Payload), nil; len(e.Tail) > 0 {
		c.Payload = append(c.Payload, e.Tail...)
	}
	return c
}
