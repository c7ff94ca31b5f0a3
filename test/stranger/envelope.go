package stranger

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// envelope is E1, by the order of its fields (SWP Core §3).
type envelope struct {
	profile, msgType    uint64
	msgID, ext, payload []byte
}

const (
	coreVersion = 1
	maxFrame    = 8 << 20
)

var errEnvelope = errors.New("stranger: malformed envelope")

// frame returns the envelope with its length ahead (SWP Core §2).
func (e *envelope) frame() []byte {
	body := binary.AppendUvarint(nil, coreVersion)
	for _, n := range []uint64{e.profile, e.msgType, 0, 0} { // flags, and no time
		body = binary.AppendUvarint(body, n)
	}
	for _, octets := range [][]byte{e.msgID, e.ext, e.payload} {
		body = append(binary.AppendUvarint(body, uint64(len(octets))), octets...)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...) //nolint:gosec // frames are small
}

// readFrame reads the next envelope. The error is io.EOF after the last one.
func readFrame(r *bufio.Reader) (*envelope, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxFrame {
		return nil, fmt.Errorf("stranger: a frame of %d octets", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return parse(body)
}

func parse(body []byte) (*envelope, error) {
	var numbers [5]uint64
	for i := range numbers {
		n, size := binary.Uvarint(body)
		if size <= 0 {
			return nil, errEnvelope
		}
		numbers[i], body = n, body[size:]
	}
	if numbers[0] != coreVersion {
		return nil, fmt.Errorf("stranger: version %d", numbers[0])
	}
	e := &envelope{profile: numbers[1], msgType: numbers[2]}
	for _, field := range []*[]byte{&e.msgID, &e.ext, &e.payload} {
		n, size := binary.Uvarint(body)
		if size <= 0 || n > uint64(len(body)-size) {
			return nil, errEnvelope
		}
		*field, body = body[size:size+int(n)], body[size+int(n):]
	}
	if len(body) > 0 {
		return nil, errEnvelope
	}
	return e, nil
}
