package sdl

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// NewID returns a UUID of version 7: the time in milliseconds and 74 random bits
// (RFC 9562 §5.7).
func NewID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	binary.BigEndian.PutUint64(u[:], uint64(time.Now().UnixMilli())<<16|uint64(u[6])<<8|uint64(u[7]))
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	text := make([]byte, 0, 36)
	for i, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}
