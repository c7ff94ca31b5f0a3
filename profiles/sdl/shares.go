package sdl

import (
	"context"
	"sync"
)

// shares is how much of a Service each identity has, on all of its sessions: half of
// it at most, so that what one peer sends keeps no other waiting.
type shares struct {
	live, computing int // of one identity

	mu sync.Mutex
	of map[string]*share
}

// share is what an identity has. It is there as long as something of it is handled.
type share struct {
	live  int
	slots chan struct{} // for computing
}

// enter counts one more message of an identity. It returns nil if that has too many.
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

// leave gives the room back.
func (s *shares) leave(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[identity]
	if own.live--; own.live == 0 {
		delete(s.of, identity)
	}
}

// slot is the room that one message has for computing.
type slot struct {
	own, all chan struct{}
	given    chan struct{} // holds one element once the room was given back
}

// compute waits for room: of the identity first, so that nobody waits in the place of
// another. It returns nil once ctx has ended.
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

// rest gives the room back, once.
func (s *slot) rest() {
	select {
	case s.given <- struct{}{}:
		<-s.all
		<-s.own
	default:
	}
}

// Rest says that the handling of a message only waits for another party from now on:
// another message is handled in its place. ctx is that of Server.Handle, or made of
// it; with any other Rest does nothing.
func Rest(ctx context.Context) {
	if s, ok := ctx.Value(slotKey{}).(*slot); ok {
		s.rest()
	}
}
