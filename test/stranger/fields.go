package stranger

import (
	"encoding/binary"
	"errors"
)

// Types of fields of proto3 that the messages of A2A have.
const (
	varint = 0
	octets = 2
)

// field is a field of a message of proto3.
type field struct {
	number uint64
	value  []byte // of a field of octets
	set    bool   // of a field that is a truth value
}

// wrapped returns the fields of a message as the payload of its type (SWP profiles §0.1).
func wrapped(msgType uint64, fields ...field) []byte {
	var body []byte
	for _, f := range fields {
		switch {
		case f.value != nil:
			body = binary.AppendUvarint(body, f.number<<3|octets)
			body = append(binary.AppendUvarint(body, uint64(len(f.value))), f.value...)
		case f.set:
			body = append(binary.AppendUvarint(body, f.number<<3|varint), 1)
		}
	}
	out := binary.AppendUvarint(nil, msgType<<3|octets)
	return append(binary.AppendUvarint(out, uint64(len(body))), body...)
}

var errFields = errors.New("stranger: malformed payload")

// unwrapped returns the fields of the payload of a type, by their numbers. Of a repeated
// one the last counts.
func unwrapped(msgType uint64, payload []byte) (map[uint64]field, error) {
	outer, err := split(payload)
	if err != nil {
		return nil, err
	}
	body, ok := outer[msgType]
	if !ok || len(outer) != 1 {
		return nil, errFields
	}
	return split(body.value)
}

func split(b []byte) (map[uint64]field, error) {
	fields := make(map[uint64]field)
	for len(b) > 0 {
		key, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, errFields
		}
		b = b[size:]
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, errFields
		}
		b = b[size:]
		f := field{number: key >> 3}
		switch key & 7 {
		case varint:
			f.set = n != 0
		case octets:
			if n > uint64(len(b)) {
				return nil, errFields
			}
			f.value, b = b[:n:n], b[n:]
		default:
			return nil, errFields
		}
		fields[f.number] = f
	}
	return fields, nil
}
