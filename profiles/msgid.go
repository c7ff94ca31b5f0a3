package profiles

import "crypto/rand"

// NewMsgID returns a fresh msg_id of 16 random octets (SWP Core §3.2, §9).
func NewMsgID() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: it ends the program instead
	return id
}
