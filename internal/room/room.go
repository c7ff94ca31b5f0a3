// Package room says how much may wait for a peer to read, and has senders wait until
// it is less. The queue of an endpoint and that of the connections of profiletest are
// bounded by it, so that what a profile sends meets the same limits in its tests.
package room

import (
	"context"
	"sync"

	"github.com/slimwire/swp/profiles"
)

// Defaults are the Bounds of an endpoint that is given none.
var Defaults = Bounds{Frames: 1024, Octets: 16 << 20}

// Bounds are how much may be queued for a peer.
type Bounds struct {
	Frames int
	Octets int
}

// ErrFull is the error of an Offer for which there is no room.
var ErrFull = profiles.Busy("outbound", "too much is waiting for the peer to read")

// Paces reports whether a sender that has time may go on: nothing is queued, or at most
// half of the frames and at most so many octets. Zero octets stand for half of the bound.
func (b Bounds) Paces(frames int, queued int64, octets int) bool {
	if octets == 0 {
		octets = b.Octets / 2
	}
	return frames == 0 || frames <= b.Frames/2 && queued <= int64(octets)
}

// Yields reports whether a message of a size may be queued that may be lost: it leaves
// a quarter of the octets to the others.
func (b Bounds) Yields(queued int64, size int) bool {
	return queued+int64(size) <= int64(b.Octets-b.Octets/4)
}

// Gate has goroutines wait until there may be more room. The mutex of the queue guards
// it. The zero value is ready.
type Gate struct{ next chan struct{} } // closed by Open; nil if nobody waits

// Wait waits without mu, which the caller holds, for the next Open. It fails with the
// error of ctx.
func (g *Gate) Wait(ctx context.Context, mu *sync.Mutex) error {
	if g.next == nil {
		g.next = make(chan struct{})
	}
	next := g.next
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Open lets those go on who wait.
func (g *Gate) Open() {
	if g.next != nil {
		close(g.next)
		g.next = nil
	}
}
