package trust

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Bounds of Sessions.
const (
	maxSessions = 10_000

	// MaxSessionLifetime is how far ahead a session may end unless SessionOptions
	// says otherwise.
	MaxSessionLifetime = 24 * time.Hour
)

// BindingDocument returns the document of a session: its hash is the binding_id, and
// binding_sig signs it (§10.5). expires is the text in the answer.
func BindingDocument(from, to string, profile canonical.Value, nonce, expires string) canonical.Value {
	return canonical.Object(
		canonical.Member{Name: "from_agent", Value: canonical.String(from)},
		canonical.Member{Name: "to_agent", Value: canonical.String(to)},
		canonical.Member{Name: "profile", Value: profile},
		canonical.Member{Name: "nonce", Value: canonical.String(nonce)},
		canonical.Member{Name: "expires", Value: canonical.String(expires)},
	)
}

// BindingID returns the hash of a binding document.
func BindingID(document canonical.Value) string { return canonical.Hash(document) }

// Session is a session that was opened.
type Session struct {
	ID       string // binding_id
	From, To string // agent_ids
	Expires  time.Time
}

// SessionOptions bound Sessions. The zero value is usable.
type SessionOptions struct {
	// Max is how many sessions are stored, default 10,000.
	Max int

	// PerAgent is how many of them one agent may open, so that it does not displace those
	// of others; default a quarter of Max.
	PerAgent int

	// MaxLifetime is how far ahead a session may end, default 24 hours.
	MaxLifetime time.Duration
}

// Sessions stores sessions. If there are too many, of one agent or in total, expired ones
// are removed first, then the least recently used one.
type Sessions struct {
	o SessionOptions

	mu    sync.Mutex
	byID  map[string]*list.Element
	from  map[string]int // how many each agent opened
	used  list.List      // of Session, the one used last in front
	first time.Time      // no stored session ends before this time
}

// NewSessions returns Sessions that are empty.
func NewSessions(o SessionOptions) *Sessions {
	if o.Max <= 0 {
		o.Max = maxSessions
	}
	if o.PerAgent <= 0 {
		o.PerAgent = max(1, o.Max/4)
	}
	if o.MaxLifetime <= 0 {
		o.MaxLifetime = MaxSessionLifetime
	}
	return &Sessions{o: o, byID: make(map[string]*list.Element), from: make(map[string]int)}
}

// Register stores a session. It refuses a session that is expired, lasts too long, or whose
// id is in use for other agents. A known session becomes the most recently used one.
func (s *Sessions) Register(b Session, now time.Time) error {
	switch {
	case b.ID == "" || b.From == "" || b.To == "":
		return errors.New("trust: session without an id or an agent")
	case sdl.Over(b.Expires, now):
		return errors.New("trust: session is over")
	case b.Expires.After(now.Add(s.o.MaxLifetime)):
		return fmt.Errorf("trust: session lasts %v, limit %v", b.Expires.Sub(now), s.o.MaxLifetime)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.find(b.ID, now); known != nil {
		if k := sessionOf(known); k.From != b.From || k.To != b.To {
			return errors.New("trust: session is known for other agents")
		}
		s.drop(known)
	}
	if s.used.Len() >= s.o.Max || s.from[b.From] >= s.o.PerAgent {
		s.makeRoom(b.From, now)
	}
	if s.used.Len() == 0 || b.Expires.Before(s.first) {
		s.first = b.Expires
	}
	s.byID[b.ID] = s.used.PushFront(b)
	s.from[b.From]++
	return nil
}

// Active reports whether a session exists for exactly these agents and has not expired.
func (s *Sessions) Active(id, from, to string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.find(id, now)
	if known == nil {
		return false
	}
	if k := sessionOf(known); k.From != from || k.To != to {
		return false
	}
	s.used.MoveToFront(known)
	return true
}

// Len returns the number of sessions held, expired ones included.
func (s *Sessions) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used.Len()
}

// find returns a session that is not over, or nil.
func (s *Sessions) find(id string, now time.Time) *list.Element {
	known := s.byID[id]
	if known != nil && sdl.Over(sessionOf(known).Expires, now) {
		s.drop(known)
		return nil
	}
	return known
}

// makeRoom removes all expired sessions. If there is still no room, it removes the least
// recently used one: of the agent if that is at its bound, else of all. It searches for
// expired ones only if the earliest end has passed.
func (s *Sessions) makeRoom(agent string, now time.Time) {
	if sdl.Over(s.first, now) {
		s.first = now.Add(s.o.MaxLifetime)
		for e := s.used.Back(); e != nil; {
			before := e.Prev()
			if ends := sessionOf(e).Expires; sdl.Over(ends, now) {
				s.drop(e)
			} else if ends.Before(s.first) {
				s.first = ends
			}
			e = before
		}
	}
	least := s.used.Back()
	switch {
	case s.from[agent] >= s.o.PerAgent:
		for sessionOf(least).From != agent {
			least = least.Prev()
		}
		s.drop(least)
	case s.used.Len() >= s.o.Max:
		s.drop(least)
	}
}

func (s *Sessions) drop(e *list.Element) {
	b := sessionOf(e)
	delete(s.byID, b.ID)
	if s.from[b.From]--; s.from[b.From] == 0 {
		delete(s.from, b.From)
	}
	s.used.Remove(e)
}

func sessionOf(e *list.Element) Session {
	b, _ := e.Value.(Session)
	return b
}
