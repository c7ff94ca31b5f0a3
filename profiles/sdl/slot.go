package sdl

import (
	"context"
	"sync"

	"github.com/slimwire/swp/internal/fair"
)

// slot is the right of one message of an identity to compute.
type slot struct {
	of       *fair.Slots
	identity string
	once     sync.Once
}

type slotKey struct{}

// rest releases the slot, once.
func (s *slot) rest() { s.once.Do(func() { s.of.Give(s.identity) }) }

// Rest declares that the handling of a message only waits for another party from now on, so
// that another message may compute. ctx must be that of Server.Handle or derived from it;
// with any other context Rest does nothing.
func Rest(ctx context.Context) {
	if s, ok := ctx.Value(slotKey{}).(*slot); ok {
		s.rest()
	}
}
