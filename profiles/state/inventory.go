package state

import (
	"context"
	"crypto/sha256"
)

// Stored is a state in the Store.
type Stored struct {
	ID     ID
	Octets int // of the payload of its PUT

	key key
}

// OwnerSum is the hash of the identity that the state belongs to.
func (s *Stored) OwnerSum() [sha256.Size]byte { return [sha256.Size]byte([]byte(s.key[IDSize:])) }

// Stored calls yield with the states after a place, in the order of places, until yield returns false.
func (s *Service) Stored(ctx context.Context, after string, yield func(place string, st *Stored) bool) error {
	if s.opts.Store == nil {
		return nil
	}
	return s.opts.Store.Scan(ctx, spaceStates, "", after, func(at string, _ uint64, value []byte) bool {
		if len(at) != IDSize+sha256.Size {
			return true // not a name of this profile
		}
		return yield(at, &Stored{ID: ID([]byte(at[:IDSize])), Octets: len(value), key: key(at)})
	})
}
