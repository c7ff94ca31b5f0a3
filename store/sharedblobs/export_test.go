package sharedblobs

import (
	"context"
	"time"

	"github.com/slimwire/swp/store/internal/blocks"
)

// FullSize is the number of octets in a full segment.
const FullSize = fullSize

// WithLapse returns options with which a process without a write for so long counts as ended.
func (o Options) WithLapse(d time.Duration) Options {
	o.lapse = d
	return o
}

// Search is a search for objects without a record that are as old.
func (s *Store) Search(ctx context.Context, age time.Duration) error { return s.search(ctx, age) }

// Recount counts the usage that is in doubt.
func (s *Store) Recount(ctx context.Context) error { return s.recount(ctx) }

// Rounds returns a function that does a round of the sweeper.
func (s *Store) Rounds() func() error {
	seen := make(map[blocks.ID]sighting)
	return func() error { return s.round(seen) }
}

// Account is the usage of an owner in the ledger.
type Account struct {
	Octets, Items int64
	Doubt, Open   bool
}

// Account returns the usage of an owner.
func (s *Store) Account(ctx context.Context, owner string) (Account, error) {
	l, err := s.ledger(ctx)
	if err != nil || l.owners[owner] == nil {
		return Account{}, err
	}
	a := l.owners[owner]
	return Account{a.octets, a.items, a.doubt, l.open(owner)}, nil
}
