package partner

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// Directory finds links by name and by identity. It is safe for concurrent use. The zero
// value is empty.
type Directory struct {
	now       atomic.Pointer[table]
	sequences sequences
}

type table struct {
	names      map[string]*Link
	identities map[string]*Link
	sorted     []*Link
}

// Set replaces the links. Names and identities must be unique.
func (d *Directory) Set(links []*Link) {
	t := &table{names: make(map[string]*Link), identities: make(map[string]*Link)}
	for _, l := range links {
		t.names[l.Name()], t.identities[l.Identity()] = l, l
	}
	t.sorted = slices.SortedFunc(maps.Values(t.names), func(a, b *Link) int { return cmp.Compare(a.Name(), b.Name()) })
	d.now.Store(t)
}

// Links returns the links by name. Callers must not modify the slice.
func (d *Directory) Links() []*Link {
	if t := d.now.Load(); t != nil {
		return t.sorted
	}
	return nil
}

// Names returns the names of the links, sorted.
func (d *Directory) Names() []string {
	var names []string
	for _, l := range d.Links() {
		names = append(names, l.Name())
	}
	return names
}

// Split splits partner/rest into the link and the rest.
func (d *Directory) Split(name string) (l *Link, rest string, ok bool) {
	t := d.now.Load()
	first, rest, found := strings.Cut(name, "/")
	if t == nil || !found || rest == "" {
		return nil, "", false
	}
	l, ok = t.names[first]
	return l, rest, ok
}

// any reports whether there are links.
func (d *Directory) any() bool {
	t := d.now.Load()
	return t != nil && len(t.names) > 0
}

// find returns the link with a name, or nil.
func (d *Directory) find(name string) *Link {
	if t := d.now.Load(); t != nil {
		return t.names[name]
	}
	return nil
}

// Of returns the link to the partner with an identity, its own or the one of a
// caller, or nil.
func (d *Directory) Of(identity string) *Link {
	if t := d.now.Load(); t != nil {
		return t.identities[profiles.Link(identity)]
	}
	return nil
}

// Knows reports whether a partner has the identity.
func (d *Directory) Knows(identity string) bool { return d.Of(identity) != nil }

// NameOf returns the name of the partner of an identity, if it is one.
func (d *Directory) NameOf(identity string) (string, bool) {
	if l := d.Of(identity); l != nil {
		return l.Name(), true
	}
	return "", false
}

// Asked reports whether an identity belongs to a partner, and records that it has called
// swp.info here: so it serves swp.info too.
func (d *Directory) Asked(identity string) bool {
	l := d.Of(identity)
	if l != nil {
		l.answered(nil)
	}
	return l != nil
}

// Refusal returns why a partner that is away refuses this endpoint, with the remedy; empty if that is not known.
func (d *Directory) Refusal(partner string) string {
	if l := d.find(partner); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if refused, ok := errors.AsType[*refusedError](l.failure); ok && l.current == nil {
			return refused.Error()
		}
	}
	return ""
}

// Told returns how a partner knows a caller that it distinguishes: by the identity or a pseudonym, behind this
// endpoint. It is empty if the partner is told nothing, or of the endpoints in between as well.
func (d *Directory) Told(partner, identity string) string {
	l := d.find(partner)
	if l == nil || !l.telling() {
		return ""
	}
	claim := l.claim(identity)
	if len(claim.Chain) > 1 {
		return ""
	}
	return claim.Caller
}

// Tells reports whether the partner of an identity is known to read the error path (profile 4096): its last
// swp.info has listed it.
func (d *Directory) Tells(identity string) bool {
	l := d.Of(identity)
	return l != nil && l.lists(endpoint.ErrorProfile)
}

// InFlight returns how many requests the partner with an identity may have in flight here,
// or 0.
func (d *Directory) InFlight(identity string) int {
	if l := d.Of(identity); l != nil {
		return l.opts.InFlight
	}
	return 0
}

// Adopt gives an accepted session to the link of its identity, if there is one. It does not
// wait.
func (d *Directory) Adopt(s *endpoint.Session) {
	if l := d.Of(s.Peer().Identity); l != nil {
		l.Adopt(s)
	}
}
