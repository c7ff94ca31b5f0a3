package artifact

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/slimwire/swp/store"
)

// Stored is an artifact in the Store.
type Stored struct {
	Owner     string // identity
	ID        string
	Size      uint64 // octets
	SHA256    string // hexadecimal
	Completed time.Time
}

// Stored calls yield with the artifacts after a place, in the order of places, until yield returns false.
func (s *Service) Stored(ctx context.Context, after string, yield func(place string, a *Stored) bool) error {
	if s.opts.Store == nil {
		return nil
	}
	return s.opts.Store.Scan(ctx, "", after, func(b store.BlobInfo) bool {
		id, owner, ok := splitName(b.Name)
		t, err := decodeTag(b.Tag)
		return !ok || err != nil || yield(b.Name, &Stored{Owner: owner, ID: id, Size: b.Size, SHA256: hex.EncodeToString(t.sum[:]), Completed: b.Sealed})
	})
}
