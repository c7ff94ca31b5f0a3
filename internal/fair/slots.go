package fair

import (
	"context"
	"sync"
)

// Slots are places that goroutines wait for. A free place goes to the first waiting identity
// in turn whose share allows one more. Slots are safe for concurrent use. In the long run no
// operation allocates.
type Slots struct {
	mu      sync.Mutex
	shares  Shares
	waiting Queue[*waiter]
	spare   []*waiter
}

// waiter is a goroutine that waits. got has one slot, which is filled with the place.
type waiter struct {
	identity string
	got      chan struct{}
}

// NewSlots returns a number of places.
func NewSlots(places int) *Slots { return &Slots{shares: NewShares(places)} }

// NewOwnSlots returns a number of places with an owner, see NewOwn.
func NewOwnSlots(places int) *Slots { return &Slots{shares: NewOwn(places)} }

// Bound sets the number of places. Places in use stay in use.
func (s *Slots) Bound(places int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares.Bound(places)
	s.serve()
}

// Try takes a place for an identity, or returns why it may not have one now. It does not
// wait, nor does it overtake identities that wait.
func (s *Slots) Try(identity string) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shares.Take(identity, 1)
}

// Take waits for a place for an identity. It fails with the cause of ctx. The caller gives
// the place back.
func (s *Slots) Take(ctx context.Context, identity string) error {
	s.mu.Lock()
	if s.waiting.Len() == 0 && s.shares.Take(identity, 1) == Taken {
		s.mu.Unlock()
		return nil
	}
	w := reuse(&s.spare)
	if w.got == nil {
		w.got = make(chan struct{}, 1)
	}
	w.identity = identity
	s.waiting.Push(identity, w)
	s.serve()
	s.mu.Unlock()
	select {
	case <-w.got:
		s.mu.Lock()
		keep(&s.spare, w)
		s.mu.Unlock()
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waiting.Remove(identity, func(other *waiter) bool { return other == w }) {
		<-w.got
		s.give(identity)
	}
	keep(&s.spare, w)
	return context.Cause(ctx)
}

// Give returns a place that an identity has taken.
func (s *Slots) Give(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.give(identity)
}

func (s *Slots) give(identity string) {
	s.shares.Give(identity, 1)
	s.serve()
}

// serve gives free places to those who wait.
func (s *Slots) serve() {
	for s.waiting.Len() > 0 {
		w, ok := s.waiting.Pop(func(identity string) bool { return s.shares.Ask(identity, 1) == Taken })
		if !ok {
			return
		}
		s.shares.Force(w.identity, 1)
		w.got <- struct{}{}
	}
}

// Shared is Shared of Shares.
func (s *Slots) Shared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shares.Shared()
}

// Pool returns the use of the places under a name.
func (s *Slots) Pool(name string) Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shares.Pool(name)
}
