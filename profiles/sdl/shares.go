package sdl

import (
	"context"
	"sync"
)

// shares limits each identity, over all its sessions, to half of a Service, so that no peer
// can block the others.
type shares struct {
	live, computing int // limits for one identity

	mu sync.Mutex
	of map[string]*share
}

// share is the usage of an identity. It exists while a message of the identity is in
// progress.
type share struct {
	live  int
	slots chan struct{} // slots for computing
}

// enter counts a message of an identity. It returns nil above the limit.
func (s *shares) enter(identity string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[identity]
	if own == nil {
		if s.of == nil {
			s.of = make(map[string]*share)
		}
		own = &share{slots: make(chan struct{}, s.computing)}
		s.of[identity] = own
	}
	if own.live >= s.live {
		return nil
	}
	own.live++
	return own
}

// leave subtracts a message.
func (s *shares) leave(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[identity]
	if own.live--; own.live == 0 {
		delete(s.of, identity)
	}
}

// slot is the right of one message to compute.
type slot struct {
	own, all chan struct{}
	given    chan struct{} // holds one element after the release
}

// compute waits for a slot: first of the identity, so that a peer waits only in its own
// share. It returns nil when ctx has ended.
func compute(ctx context.Context, own, all chan struct{}) *slot {
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	select {
	case all <- struct{}{}:
	case <-ctx.Done():
		<-own
		return nil
	}
	return &slot{own, all, make(chan struct{}, 1)}
}

type slotKey struct{}

// rest releases the slot, once.
func (s *slot) rest() {
	select {
	case s.given <- struct{}{}:
		<-s.all
		<-s.own
	default:
	}
}

// Rest declares that the handling of a message only waits for another party from now on, so
// that another message may compute. ctx must be that of Server.Handle or derived from it;
// with any other context Rest does nothing.
func Rest(ctx context.Context) {
	if s, ok := ctx.Value(slotKey{}).(*slot); ok {
		s.rest()
	}
}
