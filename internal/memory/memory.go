// Package memory is the budget for octets that others make this process hold: messages that
// arrive, wait or are not read, over SWP and over HTTP.
//
// Room for a message of a peer is a Room: it is taken once, before the octets that need it are
// read. Takers that wait for one hold nothing that others wait for; see Room.
//
// Identities share it without a fixed part for each. An identity may hold up to seven times
// the octets that are free. So alone it has seven eighths of the budget. Of two with
// the same demand each has 7/15, and an identity that has little gets room before one that
// has much. Octets in use are not taken back: an identity above its share gets nothing more
// until the others have theirs, and has a Room taken back only if its message stalls.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Small is the size of a message up to which it is small. Large messages leave the last
// sixteenth of a budget to small ones.
const Small = 64 << 10

// Size says which messages octets belong to.
type Size uint8

// Sizes of messages.
const (
	Large   Size = iota
	Little       // at most Small
	Opening      // at most Small, the first octets of a message that may need a Room, see First

	sizes
)

// Of returns the Size of a message of n octets.
func Of(n int) Size {
	if n <= Small {
		return Little
	}
	return Large
}

// First returns the Size of the first octets of a large message. An answer (Wait.Answer) uses no
// Opening, so it does not wait for messages that wait for a Room.
func First(answer bool) Size {
	if answer {
		return Little
	}
	return Opening
}

// Budget is a number of octets for all identities. It is safe for concurrent use.
type Budget struct {
	mu     sync.Mutex
	limit  int
	used   int
	of     [sizes]int // of used
	shares map[string]*Share
	freed  chan struct{} // closed at the next release; nil if nobody waits
	grows  bool          // somebody waits in Grow
	large  func(n int)   // of OnLarge

	rooms   rooms
	buffers buffers
}

// New returns a Budget of limit octets.
func New(limit int) *Budget {
	return &Budget{
		limit: limit, shares: make(map[string]*Share), large: func(int) {},
		rooms: rooms{open: make(map[*Room]struct{}), epoch: time.Now()},
	}
}

// OnLarge sets a function that is called with the number of octets whenever octets of large
// messages have been taken, before the taker gets to know it. It may block, and is called by
// several goroutines at once. Octets that were given back may be garbage that still fills
// memory; here it can be collected. OnLarge is called before the Budget is used.
func (b *Budget) OnLarge(f func(n int)) { b.large = f }

// Share is what one identity holds of a Budget. It is safe for concurrent use.
type Share struct {
	b        *Budget
	identity string
	users    int // calls of Share without Close
	used     [sizes]int
	rooms    int            // of used, those of rooms
	callers  map[string]int // of used, those of callers for which the identity acts
	waiting  []*Room        // in order of arrival
}

// Share returns the share of an identity. The caller calls Close when it takes nothing more;
// octets may be given back later.
func (b *Budget) Share(identity string) *Share {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shares[identity]
	if s == nil {
		s = &Share{b: b, identity: identity}
		b.shares[identity] = s
	}
	s.users++
	return s
}

// Close ends one use of the share.
func (s *Share) Close() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.users--
	s.forget()
}

// forget removes a share that is unused. The caller holds mu.
func (s *Share) forget() {
	if s.users == 0 && s.all() == 0 && len(s.waiting) == 0 && s.b.shares[s.identity] == s {
		delete(s.b.shares, s.identity)
	}
}

func (s *Share) all() int { return s.used[Large] + s.used[Little] + s.used[Opening] }

// Try takes n octets if there is room for them.
func (s *Share) Try(n int, of Size) bool {
	s.b.mu.Lock()
	ok := s.try(n, of)
	s.b.mu.Unlock()
	return s.b.taken(ok, n, of)
}

// taken is called without mu when octets have been taken, or not, and returns ok.
func (b *Budget) taken(ok bool, n int, of Size) bool {
	if ok && of == Large {
		b.large(n)
	}
	return ok
}

func (s *Share) try(n int, of Size) bool {
	b := s.b
	free := b.limit - b.used - n
	mine := s.used[Little] + s.used[Opening] + n
	switch of {
	case Large:
		mine += s.used[Large]
		if free < b.limit/16 {
			return false
		}
	case Opening:
		// A quarter of the budget, shared like the whole, so that the first octets of messages
		// that wait for a Room never take the place of one.
		if s.used[Opening]+n > 7*(b.limit/4-b.of[Opening]-n) {
			return false
		}
	}
	if mine > 7*free {
		return false
	}
	s.take(n, of)
	return true
}

// take adds to the octets in use, and give subtracts from them. The caller holds mu.
func (s *Share) take(n int, of Size) {
	s.b.used += n
	s.b.of[of] += n
	s.used[of] += n
}

func (s *Share) give(n int, of Size) { s.take(-n, of) }

// TryFor is Try for a caller for which the identity acts. The callers of an identity share its
// part as identities share the budget: one may hold seven times the octets that the identity
// may still take.
func (s *Share) TryFor(caller string, n int, of Size) bool {
	s.b.mu.Lock()
	ok := s.tryFor(caller, n, of)
	s.b.mu.Unlock()
	return s.b.taken(ok, n, of)
}

func (s *Share) tryFor(caller string, n int, of Size) bool {
	if !s.try(n, of) {
		return false
	}
	if !s.assign(caller, n) {
		s.give(n, of)
		return false
	}
	return true
}

// Assign gives a caller n octets that the identity has taken without one. It fails if the caller
// would have too much; the identity still has the octets then.
func (s *Share) Assign(caller string, n int) bool {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.assign(caller, n)
}

func (s *Share) assign(caller string, n int) bool {
	// The identity may take x more while all it has is at most 7*(free-x).
	left := (7*(s.b.limit-s.b.used) - s.all()) / 8
	if s.callers[caller]+n > 7*left {
		return false
	}
	if s.callers == nil {
		s.callers = make(map[string]int)
	}
	s.callers[caller] += n
	return true
}

// GiveFor returns n octets of those that TryFor has taken for a caller.
func (s *Share) GiveFor(caller string, n int, of Size) {
	s.b.mu.Lock()
	s.unassign(caller, n)
	s.b.mu.Unlock()
	s.Give(n, of)
}

// unassign takes n octets from a caller that has some. The caller holds mu.
func (s *Share) unassign(caller string, n int) {
	has, ok := s.callers[caller]
	switch {
	case !ok:
	case has <= n:
		delete(s.callers, caller)
	default:
		s.callers[caller] = has - n
	}
}

// Swap is Try with octets that TryFor has taken for a caller, or Try for "", which are given back for
// that. It takes n octets, or changes nothing.
func (s *Share) Swap(caller string, less int, was Size, n int, of Size) bool {
	s.b.mu.Lock()
	s.give(less, was)
	ok := s.try(n, of)
	if ok {
		s.unassign(caller, less)
		s.b.wake()
	} else {
		s.take(less, was)
	}
	s.b.mu.Unlock()
	return s.b.taken(ok, n, of)
}

// Take is Try that waits until the deadline, or until ctx ends. A taker that holds octets which
// others may wait for uses Grow or a Room instead.
func (s *Share) Take(ctx context.Context, n int, of Size, deadline time.Time) bool {
	if s.Try(n, of) {
		return true
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		s.b.mu.Lock()
		if s.try(n, of) {
			s.b.mu.Unlock()
			return s.b.taken(true, n, of)
		}
		if s.b.freed == nil {
			s.b.freed = make(chan struct{})
		}
		freed := s.b.freed
		s.b.mu.Unlock()
		select {
		case <-freed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// turn replaces octets that were taken by at most as many of another Size.
func (s *Share) turn(n int, of Size, less int, to Size) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.give(n, of)
	s.take(less, to)
	s.b.wake()
}

// Grow is Take for a message of unknown length that has octets already and needs n in total in
// their place: it takes n, and the caller gives the others back. One taker of the budget waits;
// others that find no room fail at once and give back what they have, so that the one goes on.
func (s *Share) Grow(ctx context.Context, n int, of Size, deadline time.Time) bool {
	if s.Try(n, of) {
		return true
	}
	s.b.mu.Lock()
	taken := s.b.grows
	s.b.grows = true
	s.b.mu.Unlock()
	if taken {
		return false
	}
	ok := s.Take(ctx, n, of, deadline)
	s.b.mu.Lock()
	s.b.grows = false
	s.b.mu.Unlock()
	return ok
}

// Give returns n octets of those that Try or Take has taken with the same Size.
func (s *Share) Give(n int, of Size) {
	if n == 0 {
		return
	}
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	s.give(n, of)
	s.forget()
	b.wake()
}

// wake makes waiting goroutines check again, after those that wait for a Room. The caller holds mu.
func (b *Budget) wake() {
	b.serve()
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// Used returns the octets that the identity holds.
func (s *Share) Used() int {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.all()
}

// Above reports whether the identity would be above its share with n octets more: it
// would have less if all identities with at least as much divided their octets equally.
func (s *Share) Above(n int) bool {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	mine, rest, equals := s.all(), s.b.limit/8*7, 1
	for _, other := range s.b.shares {
		switch has := other.all(); {
		case other == s:
		case has >= mine:
			equals++
		default:
			rest -= has
		}
	}
	return (mine+n)*equals > rest
}

// Bound changes the limit. Octets in use above it are not taken back.
func (b *Budget) Bound(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
	b.wake()
}

// Limit returns the octets for all.
func (b *Budget) Limit() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

// Used returns the octets in use.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Use is what one identity holds.
type Use struct {
	Identity string `json:"identity"`
	Octets   int    `json:"octets"`
}

// Top returns the identities that hold most, at most n, in descending order.
func (b *Budget) Top(n int) []Use {
	b.mu.Lock()
	var list []Use
	for _, s := range b.shares {
		if has := s.all(); has > 0 {
			list = append(list, Use{s.identity, has})
		}
	}
	b.mu.Unlock()
	slices.SortFunc(list, func(x, y Use) int {
		return cmp.Or(cmp.Compare(y.Octets, x.Octets), cmp.Compare(x.Identity, y.Identity))
	})
	return list[:min(n, len(list))]
}
