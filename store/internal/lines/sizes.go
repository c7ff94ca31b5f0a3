package lines

import (
	"fmt"
	"math"

	"github.com/slimwire/swp/store"
)

// CheckSizes checks the limits of what belongs to a blob.
func CheckSizes(name, owner string, tag, note []byte) error {
	for _, f := range []struct {
		what        string
		size, limit int
	}{
		{"name", len(name), store.MaxName},
		{"owner", len(owner), store.MaxOwner},
		{"tag", len(tag), store.MaxTag},
		{"note", len(note), store.MaxNote},
	} {
		if f.size > f.limit {
			return fmt.Errorf("%w: %s of %d octets, limit %d", store.ErrTooLarge, f.what, f.size, f.limit)
		}
	}
	return nil
}

// AddUp adds without overflow.
func AddUp(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
