package p1

import "google.golang.org/protobuf/encoding/protowire"

// Body returns the body of a message as a window into payload: the member of the wrapper
// that is set. members is the highest number in the profile's oneof, which in every profile
// is its highest msg_type; higher fields are unknown fields.
//
// A wrapper should hold one member. If there are several, the last one counts, as in a
// oneof of proto3, and its number must equal msg_type. If the same member occurs several
// times in a row, its occurrences are merged; only then the body is a copy. A payload
// without a member is refused: an empty body still has its key and a length of zero.
func Body(payload []byte, msgType, members uint64) ([]byte, error) {
	if body, ok := only(payload, msgType); ok {
		return body, nil
	}
	var (
		num  uint64 // member that is set so far
		body []byte // its last occurrence
		run  []byte // payload from its first occurrence on
		more bool   // it occurred more than once
	)
	f := Read(payload)
	for at := payload; f.Next(); at = f.rest {
		if f.num > members {
			continue
		}
		previous := body
		if f.Bytes(&body); f.err != nil {
			break
		}
		// A superseded value is not decoded, but it must be a valid message.
		if err := Check(previous); err != nil {
			return nil, err
		}
		more = f.num == num
		if !more {
			num, run = f.num, at
		}
	}
	switch {
	case f.err != nil:
		return nil, f.err
	case num == 0:
		return nil, refuse(DetailBody, "payload has no body, want member %d", msgType)
	case num != msgType:
		return nil, refuse(DetailBody, "payload has member %d, want %d", num, msgType)
	case more:
		return merge(run, num)
	}
	return body, nil
}

// only returns the body of a payload that consists of the wanted member alone, as every
// sender writes it: 10 ns instead of 45.
func only(payload []byte, msgType uint64) ([]byte, bool) {
	if msgType > 15 || len(payload) < 2 || payload[0] != byte(msgType<<3|2) {
		return nil, false
	}
	n, size := protowire.ConsumeVarint(payload[1:])
	if size < 0 || n != uint64(len(payload)-1-size) {
		return nil, false
	}
	return payload[1+size : len(payload) : len(payload)], true
}

// merge joins the occurrences of one member.
func merge(payload []byte, num uint64) ([]byte, error) {
	var body []byte
	f := Read(payload)
	for f.Next() {
		if f.num == num {
			f.Message(&body)
		}
	}
	return body, f.err
}

// maxLimits keeps the counters of Check off the heap.
const maxLimits = 8

// Limit bounds how often one field may occur in a message.
type Limit struct {
	Field uint64
	Max   int
}

// Check walks over a message without decoding it. Every field must be well formed, and no
// field in limits may occur more often than allowed. It stops at the first that does, so
// that a flood of empty elements costs no more than the allowed number. It panics on more
// than 8 limits.
func Check(message []byte, limits ...Limit) error {
	var seen [maxLimits]int
	if len(limits) > len(seen) {
		panic("p1: Check: too many limits")
	}
	f := Read(message)
	for f.Next() {
		for i := range limits {
			if limits[i].Field != f.num {
				continue
			}
			if seen[i]++; seen[i] > limits[i].Max {
				return refuse(DetailCount, "field %d: more than %d elements", f.num, limits[i].Max)
			}
		}
	}
	return f.err
}
