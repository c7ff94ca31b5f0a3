package sqlstore_test

import (
	"encoding/hex"
	"math/rand/v2"
)

// newIDs returns ids as producers make them: random.
func newIDs(seed int) func() string {
	var key [32]byte
	key[0] = byte(seed)
	r := rand.NewChaCha8(key)
	return func() string {
		var id [16]byte
		_, _ = r.Read(id[:])
		return hex.EncodeToString(id[:])
	}
}
