// Package room limits the outgoing queue of a peer and lets senders wait for room. The
// queues of an endpoint and of the connections of profiletest use it, so that a profile
// meets the same limits in its tests.
package room

import (
	"context"
	"sync"

	"github.com/slimwire/swp/profiles"
)

// Defaults are the Bounds of an endpoint without configured ones.
var Defaults = Bounds{Frames: 1024, Octets: 16 << 20}

// Bounds limit the queue for a peer.
type Bounds struct {
	Frames int
	Octets int
}

// ErrFull is the error of an Offer without room.
var ErrFull = profiles.Busy("outbound", "too much is waiting for the peer to read")

// Paces reports whether a sender that can wait may continue: nothing is queued, or at most
// half of the frames and at most the given octets. Zero octets mean half of the limit.
func (b Bounds) Paces(frames int, queued int64, octets int) bool {
	if octets == 0 {
		octets = b.Octets / 2
	}
	return frames == 0 || frames <= b.Frames/2 && queued <= int64(octets)
}

// Yields reports whether a message that may be lost fits into the queue: it must leave a
// quarter of the octets to other messages.
func (b Bounds) Yields(queued int64, size int) bool {
	return queued+int64(size) <= int64(b.Octets-b.Octets/4)
}

// Gate lets goroutines wait until there may be room. The mutex of the queue guards it. The
// zero value is ready.
type Gate struct{ next chan struct{} } // closed by Open; nil if no goroutine waits

// Wait releases mu, which the caller holds, until the next Open. It fails with the error of
// ctx.
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

// Open wakes the waiting goroutines.
func (g *Gate) Open() {
	if g.next != nil {
		close(g.next)
		g.next = nil
	}
}
