package e1

import (
	"errors"
	"fmt"
)

// The faults of an envelope. An *Error wraps exactly one of them.
var (
	ErrUvarintTruncated = errors.New("uvarint ends early")
	ErrUvarintTooLong   = errors.New("uvarint longer than 10 octets")
	ErrUvarintOverflow  = errors.New("uvarint overflows 64 bits")

	ErrTruncated = errors.New("length exceeds the octets that follow")
	ErrTrailing  = errors.New("octets after the last field")

	ErrExtensionsTooLarge = errors.New("extension block above limit")
	ErrPayloadTooLarge    = errors.New("payload above limit")

	ErrVersion = errors.New("unsupported version")
	ErrMsgType = errors.New("msg_type is 0")
	ErrMsgID   = errors.New("msg_id length out of range")
)

// Field names the field in which a fault was found.
type Field uint8

// The fields in the order of the wire.
const (
	FieldVersion Field = iota
	FieldProfileID
	FieldMsgType
	FieldFlags
	FieldTimestamp
	FieldMsgID
	FieldExtensions
	FieldPayload
)

var fieldNames = [...]string{"version", "profile_id", "msg_type", "flags", "ts_unix_ms", "msg_id", "extensions", "payload"}

// String returns the name that the specification gives the field.
func (f Field) String() string {
	if int(f) < len(fieldNames) {
		return fieldNames[f]
	}
	return fmt.Sprintf("field %d", uint8(f))
}

// Error says why an envelope was refused. It reports a fact about octets; the endpoint maps
// it to a code.
type Error struct {
	Field Field
	Err   error  // one of the Err values of this package
	Value uint64 // the offending number: a length, a count, a version
	Min   uint64 // ErrMsgID: the shortest length allowed
	Bound uint64 // the bound that Value broke: a limit, or the remaining octets
}

func (e *Error) Error() string {
	switch e.Err {
	case ErrUvarintTruncated, ErrUvarintTooLong, ErrUvarintOverflow:
		return fmt.Sprintf("e1: %s: %v", e.Field, e.Err)
	case ErrMsgType:
		return "e1: msg_type is 0"
	case ErrTruncated:
		return fmt.Sprintf("e1: %s: length %d, only %d octets follow", e.Field, e.Value, e.Bound)
	case ErrTrailing:
		return fmt.Sprintf("e1: %d octets after the payload", e.Value)
	case ErrVersion:
		return fmt.Sprintf("e1: version %d, want %d", e.Value, e.Bound)
	case ErrMsgID:
		return fmt.Sprintf("e1: msg_id: %d octets, want %d to %d", e.Value, e.Min, e.Bound)
	}
	return fmt.Sprintf("e1: %s: %d octets exceed limit %d", e.Field, e.Value, e.Bound)
}

// Unwrap returns the fault, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }

func tooLarge(f Field, err error, size, limit int) error {
	return &Error{Field: f, Err: err, Value: uint64(size), Bound: uint64(limit)}
}
