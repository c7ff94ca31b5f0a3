package cred

import (
	"crypto/sha256"
	"math"
	"sync"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// table is the chains of an endpoint. Its mu is not held while a signature is verified.
type table struct {
	mu     sync.Mutex
	own    map[string]*chain            // by keyOf
	given  map[string]map[string]*chain // by keyOf of the last subject, if that is not the owner; then by key
	counts fair.Shares                  // of owners; without a capacity
	soon   int64                        // no chain ends before this time of the steady clock

	revoked map[[sha256.Size]byte]map[*chain]bool // revoked chains by the digests of their tokens; true: for other owners too
	watches map[*watch]struct{}
	tellers map[string]*teller // by the identity of the peer
}

func (t *table) init() {
	t.own, t.given = make(map[string]*chain), make(map[string]map[string]*chain)
	t.revoked, t.watches = make(map[[sha256.Size]byte]map[*chain]bool), make(map[*watch]struct{})
	t.tellers = make(map[string]*teller)
	t.soon = math.MaxInt64
}

// errFull refuses one chain too many.
var errFull = profiles.Busy("cred_chains", "cred: too many chains, revoked ones included")

// find returns the chain of an owner, or nil. The caller holds mu.
func (t *table) find(owner, id string, now int64) *chain {
	c := t.own[keyOf(owner, id)]
	if c != nil && c.over(now) {
		t.drop(c)
		return nil
	}
	return c
}

// enter adds a chain that is not in the table. The caller holds mu.
func (t *table) enter(c *chain, now int64, perIdentity, all int, apart func(peer string) bool) error {
	full := func() bool { return len(t.own) >= all || t.counts.Exceeds(c.owner, 1, perIdentity, apart) }
	if full() {
		t.sweep(now)
	}
	if full() {
		return errFull
	}
	t.own[c.key()] = c
	t.counts.Force(c.owner, 1)
	t.index(c)
	return nil
}

// sweep drops the chains that are over. It looks at the chains only if one may be over.
func (t *table) sweep(now int64) {
	if t.soon > now {
		return
	}
	t.soon = math.MaxInt64
	for _, c := range t.own {
		switch until := c.until(); {
		case until == 0:
		case until <= now:
			t.drop(c)
		default:
			t.soon = min(t.soon, until)
		}
	}
}

// drop forgets a chain. The caller holds mu.
func (t *table) drop(c *chain) {
	key := c.key()
	if t.own[key] != c {
		return
	}
	t.unindex(c)
	delete(t.own, key)
	t.counts.Give(c.owner, 1)
}

// subject is the identity to which a chain is delegated, empty if it is the owner or
// if there is no delegation.
func (c *chain) subject() string {
	if c.revoked || c.kind != JWT {
		return ""
	}
	if last := c.links[len(c.links)-1].subject; last != c.owner {
		return last
	}
	return ""
}

// index enters a chain for the identity to which it is delegated. unindex is called
// before a change of the chain, index after it. The caller holds mu.
func (t *table) index(c *chain) {
	if until := c.until(); until != 0 {
		t.soon = min(t.soon, until)
	}
	for sum, others := range c.tokens() {
		if t.revoked[sum] == nil {
			t.revoked[sum] = make(map[*chain]bool)
		}
		t.revoked[sum][c] = others
	}
	subject := c.subject()
	if subject == "" {
		return
	}
	key := keyOf(subject, c.id)
	if t.given[key] == nil {
		t.given[key] = make(map[string]*chain)
	}
	t.given[key][c.key()] = c
}

func (t *table) unindex(c *chain) {
	for sum := range c.tokens() {
		delete(t.revoked[sum], c)
		if len(t.revoked[sum]) == 0 {
			delete(t.revoked, sum)
		}
	}
	subject := c.subject()
	if subject == "" {
		return
	}
	key := keyOf(subject, c.id)
	delete(t.given[key], c.key())
	if len(t.given[key]) == 0 {
		delete(t.given, key)
	}
}

// refuses reports whether an owner may not present a token: it belongs to a revoked chain.
// The caller holds mu.
func (t *table) refuses(owner string, sum [sha256.Size]byte, now int64) bool {
	for c, others := range t.revoked[sum] {
		if (others || c.owner == owner) && !c.over(now) {
			return true
		}
	}
	return false
}

// dead reports whether the owner of another chain has revoked a token of c. The caller
// holds mu.
func (t *table) dead(c *chain, now int64) bool {
	for i := range c.links {
		for other, others := range t.revoked[c.links[i].sum] {
			if others && other.owner != c.owner && !other.over(now) {
				return true
			}
		}
	}
	return false
}

// delegated returns the only chain of an id that was delegated to an identity, or
// nil. The caller holds mu.
func (t *table) delegated(identity, id string, now int64) *chain {
	var found *chain
	for _, c := range t.given[keyOf(identity, id)] {
		switch {
		case c.ended(now), t.dead(c, now):
		case found != nil:
			return nil
		default:
			found = c
		}
	}
	return found
}
