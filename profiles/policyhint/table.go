package policyhint

import (
	"container/list"
	"slices"
	"strings"
	"sync"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// Bounds of the stored hints, see the documentation of the package.
const (
	maxHints     = 512
	maxOctets    = 96 << 10
	maxAllOctets = 64 << 20

	// hintCost is the overhead of a hint in octets.
	hintCost = 128
)

// table finds the hints of a connection.
type table struct {
	profiles.PerSession[connection]
	octets fair.Budget // of all hints, by the identity of their connection
}

// enter is Find that makes the missing hints. They are removed with the connection.
func (t *table) enter(s profiles.Session) *connection {
	return t.Enter(s, func() *connection {
		return &connection{table: t, identity: s.Peer().Identity, scopes: make(map[string]*scope)}
	}, (*connection).end)
}

// connection has the hints of one connection.
type connection struct {
	table    *table
	identity string // of the peer

	mu     sync.Mutex
	scopes map[string]*scope
	shared []profiles.Hint // hints of the connection and of targets; replaced, never changed
	begun  list.List       // of *scope: lifecycles that have begun, oldest first
	count  int
	octets int
	over   bool
}

// scope has the hints of one scope, at most one per key.
type scope struct {
	name  string
	hints []profiles.Hint // replaced, never changed
	place *list.Element   // in begun, nil while the lifecycle has not begun
}

func costOf(hints []profiles.Hint) (octets int) {
	for i := range hints {
		octets += hintCost + len(hints[i].Key) + len(hints[i].Value) + len(hints[i].Scope)
	}
	return octets
}

// put sets hints, all or none. The violation has the hint that cannot be set; the error
// means that there is no room.
func (c *connection) put(hints []profiles.Hint) (*ViolationError, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, nil
	}
	next := make(map[string][]profiles.Hint) // the scopes that change
	for _, h := range hints {
		there, ok := next[h.Scope]
		if !ok && c.scopes[h.Scope] != nil {
			there = slices.Clone(c.scopes[h.Scope].hints)
		}
		i := slices.IndexFunc(there, func(old profiles.Hint) bool { return old.Key == h.Key })
		switch _, known := keys[h.Key]; {
		case !known && h.Mode == profiles.Must:
			return &ViolationError{h.Key, h.Scope, ReasonUnknownKey}, nil
		case i < 0:
			there = append(there, h)
		case there[i].Mode == profiles.Must && h.Mode == profiles.Must && there[i].Value != h.Value:
			return &ViolationError{h.Key, h.Scope, ReasonConflict}, nil
		case h.Mode >= there[i].Mode:
			there[i] = h
		}
		next[h.Scope] = there
	}
	count, octets := 0, 0
	for name, hints := range next {
		count, octets = count+len(hints), octets+costOf(hints)
		if old := c.scopes[name]; old != nil {
			count, octets = count-len(old.hints), octets-costOf(old.hints)
		}
	}
	if fault := c.room(count, octets, next).Refuse(errBound); fault != nil {
		return nil, fault
	}
	for name, hints := range next {
		c.replace(name, hints)
	}
	c.share()
	return nil, nil
}

var errBound = profiles.Busy(DetailBound, "policyhint: too many hints on this connection, or on all")

// room makes room by removing lifecycles that have begun and are not in next.
func (c *connection) room(count, octets int, next map[string][]profiles.Hint) fair.Answer {
	if count <= 0 && octets <= 0 {
		return fair.Taken
	}
	ask := func() fair.Answer {
		if c.count+count > maxHints || c.octets+octets > maxOctets {
			return fair.Above
		}
		return c.table.octets.Ask(c.identity, octets)
	}
	answer := ask()
	for e := c.begun.Front(); e != nil && answer != fair.Taken; {
		old := e.Value.(*scope) //nolint:errcheck // the list holds nothing else
		e = e.Next()
		if _, changes := next[old.name]; !changes {
			c.replace(old.name, nil)
			answer = ask()
		}
	}
	return answer
}

// replace sets the hints of a scope; an empty list removes it. A lifecycle with new hints
// counts as not begun.
func (c *connection) replace(name string, hints []profiles.Hint) {
	s := c.scopes[name]
	if s == nil {
		s = &scope{name: name}
		c.scopes[name] = s
	}
	if s.place != nil {
		c.begun.Remove(s.place)
		s.place = nil
	}
	c.account(len(hints)-len(s.hints), costOf(hints)-costOf(s.hints))
	s.hints = hints
	if len(hints) == 0 {
		delete(c.scopes, name)
	}
}

// share collects the hints that can apply to every exchange.
func (c *connection) share() {
	c.shared = nil
	for name, s := range c.scopes {
		if name == profiles.ScopeConnection || strings.HasPrefix(name, profiles.ScopeTarget) {
			c.shared = append(c.shared, s.hints...)
		}
	}
}

func (c *connection) account(count, octets int) {
	c.count += count
	c.octets += octets
	c.table.octets.Add(c.identity, octets)
}

// begin returns the hints for an exchange, given the scopes of its lifecycle, which may be
// empty, and of its message. The caller must not change them.
func (c *connection) begin(names ...string) []profiles.Hint {
	c.mu.Lock()
	defer c.mu.Unlock()
	hints := c.shared
	for _, name := range names {
		s := c.scopes[name]
		if s == nil {
			continue
		}
		if s.place == nil {
			s.place = c.begun.PushBack(s)
		}
		hints = slices.Concat(s.hints, hints)
	}
	return hints
}

// end removes everything at the end of the connection.
func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.account(-c.count, -c.octets)
	clear(c.scopes)
	c.shared = nil
	c.begun.Init()
}
