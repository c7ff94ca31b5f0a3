// Package strangers bounds connections without an authenticated peer, for every entrance, so
// that strangers cannot keep others out by keeping connections open.
//
// Strangers at one address (IPv4, or 56 bits of IPv6) have at most a quarter of the places;
// addresses of this machine, and those that many peers share (New), have no such bound. While all
// places are in use, the oldest connection of a stranger is closed for a new one; later those at a known
// address, from which a peer has authenticated within ten minutes; last those of peers that have
// authenticated before. A connection
// that cannot be closed so early keeps its place; then an eighth of the places is for known
// addresses.
//
// A connection with unread octets is closed after the others of its kind: on a busy machine its
// request waits for this endpoint.
//
// New connections from other addresses are refused at random, so that those that have
// a place keep it long enough to authenticate: at a full entrance, the more often the younger the
// connection is that would be closed (Fair); where none can be closed, from half of the places on,
// the more often the fewer are free.
package strangers

import (
	"container/list"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Places are the places of an entrance. They are safe for concurrent use.
type Places struct {
	most   int
	shared func(netip.Addr) bool
	now    func() time.Time
	random func() float64

	mu        sync.Mutex
	open      int
	strangers [classes]list.List // of *Place, oldest first; those of the first list are closed first
	from      map[netip.Prefix]int
	friends   friends
}

// Fair is the age from which on a connection is always closed for a newer one. It is time enough
// to authenticate.
const Fair = time.Second

// Least is the age up to which Spare spares a connection. It is time enough to read a request
// that has arrived.
const Least = 250 * time.Millisecond

// New returns Places for most connections. shared reports whether many peers share an address,
// as behind a proxy; then there is no bound for the address. It may be nil.
func New(most int, shared func(netip.Addr) bool) *Places {
	if shared == nil {
		shared = func(netip.Addr) bool { return false }
	}
	return &Places{
		most: most, shared: shared, now: time.Now, random: rand.Float64,
		from: make(map[netip.Prefix]int), friends: friends{seen: make(map[netip.Prefix]time.Time)},
	}
}

// Classes of strangers.
const (
	unknown   = iota // at another address than the next
	neighbour        // at a known address
	returning        // it has authenticated before
	classes
)

// Place is the place of a connection, at first one of a stranger.
type Place struct {
	of      *Places
	prefix  netip.Prefix
	bounded bool        // strangers of prefix have a bound
	evict   func()      // nil: it cannot be closed
	unread  func() bool // may be nil

	// Guarded by the mutex of of.
	element *list.Element // in the list of its class, or nil
	class   int
	since   time.Time // when it became one of a stranger
	met     bool      // Know was called
	known   int       // calls of Know in force
	left    bool
}

// Enter returns a place for a connection from an address, or nil without a free one. evict is
// called at most once, if the place is given to another connection; nil means that the
// connection cannot be closed. unread reports whether octets of the connection have arrived and
// wait to be read, and must not block. Such a connection is closed after the others of its kind:
// its peer waits for this endpoint and not the reverse. It may be nil.
func (p *Places) Enter(from net.Addr, evict func(), unread func() bool) *Place {
	c := &Place{of: p, evict: evict, unread: unread}
	c.prefix, c.bounded = p.prefixOf(from)
	worse, ok := p.enter(c)
	if worse != nil {
		worse.evict()
	}
	if !ok {
		return nil
	}
	return c
}

// enter adds a place. It returns the place that is lost to it, and whether there is one.
func (p *Places) enter(c *Place) (worse *Place, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, most := p.now(), p.most
	known := p.friends.has(c.prefix, now)
	if c.evict == nil && !known {
		most -= most / 8
	}
	full := true
	switch {
	case c.bounded && p.from[c.prefix] >= max(1, p.most/4):
		worse = p.oldest(func(s *Place) bool { return s.prefix == c.prefix })
	case p.open >= most:
		worse = p.worst()
		if worse != nil && !known && p.drops(1-float64(now.Sub(worse.since))/float64(Fair)) {
			return nil, false
		}
	case c.evict == nil && !known && p.drops(float64(p.open-p.most/2)/float64(most-p.most/2)):
		return nil, false
	default:
		full = false
	}
	if full && worse == nil {
		return nil, false
	}
	if worse != nil {
		p.remove(worse)
	}
	p.open++
	p.estrange(c, now)
	return worse, true
}

// Spare returns how long the connection that a full entrance would close for one more is to be
// spared, so that it gets the time Least.
func (p *Places) Spare() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open < p.most {
		return 0
	}
	worse := p.worst()
	if worse == nil {
		return 0
	}
	return Least - p.now().Sub(worse.since)
}

// Evict closes the connection that a full entrance would close for a new one. It returns false if no connection can be closed.
func (p *Places) Evict() bool {
	p.mu.Lock()
	worse := p.worst()
	if worse != nil {
		p.remove(worse)
	}
	p.mu.Unlock()
	if worse == nil {
		return false
	}
	worse.evict()
	return true
}

// drops returns true with a probability, of which all below 0 are 0.
func (p *Places) drops(probability float64) bool {
	return probability > 0 && p.random() < probability
}

// worst returns the place of a stranger that is given to another connection, or nil if no
// connection can be closed.
func (p *Places) worst() *Place {
	for i := range p.strangers {
		var waits *Place // the oldest of the list with unread octets
		for e := p.strangers[i].Front(); e != nil; e = e.Next() {
			switch c := e.Value.(*Place); { //nolint:errcheck // the list holds nothing else
			case c.evict == nil:
			case c.unread == nil || !c.unread():
				return c
			case waits == nil:
				waits = c
			}
		}
		if waits != nil {
			return waits
		}
	}
	return nil
}

// oldest returns the oldest place of the first list that meets a condition and can be closed.
func (p *Places) oldest(meets func(*Place) bool) *Place {
	for i := range p.strangers {
		for e := p.strangers[i].Front(); e != nil; e = e.Next() {
			if c := e.Value.(*Place); c.evict != nil && meets(c) { //nolint:errcheck // the list holds nothing else
				return c
			}
		}
	}
	return nil
}

// Pressed reports whether more than half of the places are in use.
func (p *Places) Pressed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > p.most/2
}

// estrange makes a place one of a stranger. The caller holds mu.
func (p *Places) estrange(c *Place, now time.Time) {
	switch {
	case c.met:
		c.class = returning
	case p.friends.has(c.prefix, now):
		c.class = neighbour
	}
	c.element, c.since = p.strangers[c.class].PushBack(c), now
	p.from[c.prefix]++
}

// settle ends that a place is one of a stranger. The caller holds mu.
func (p *Places) settle(c *Place) {
	if c.element == nil {
		return
	}
	p.strangers[c.class].Remove(c.element)
	c.element = nil
	if p.from[c.prefix]--; p.from[c.prefix] <= 0 {
		delete(p.from, c.prefix)
	}
}

// remove gives up a place. The caller holds mu.
func (p *Places) remove(c *Place) (removed bool) {
	if c.left {
		return false
	}
	c.left = true
	p.settle(c)
	p.open--
	return true
}

// Leave gives up the place, and reports whether the connection still had it.
func (c *Place) Leave() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.of.remove(c)
}

// Know says that the peer is authenticated, until release is called.
func (c *Place) Know() (release func()) {
	p := c.of
	p.mu.Lock()
	defer p.mu.Unlock()
	c.known++
	c.met = true
	p.settle(c)
	p.friends.add(c.prefix, p.now())
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.known--; c.known == 0 && !c.left {
			p.estrange(c, p.now())
		}
	}
}

// Hurried reports whether the peer has less time than usual to authenticate: it has not done so
// yet, and more than half of the places are in use.
func (c *Place) Hurried() bool {
	p := c.of
	p.mu.Lock()
	defer p.mu.Unlock()
	return !c.met && p.open > p.most/2
}

// friends remembers the addresses of authenticated peers.
type friends struct{ seen map[netip.Prefix]time.Time }

const (
	friendTime  = 10 * time.Minute
	mostFriends = 4096
)

func (f *friends) has(p netip.Prefix, now time.Time) bool {
	at, ok := f.seen[p]
	return ok && now.Sub(at) < friendTime
}

func (f *friends) add(p netip.Prefix, now time.Time) {
	if _, ok := f.seen[p]; !ok && len(f.seen) >= mostFriends {
		for old, at := range f.seen {
			if now.Sub(at) >= friendTime {
				delete(f.seen, old)
			}
		}
		for old := range f.seen { // any of them
			if len(f.seen) < mostFriends {
				break
			}
			delete(f.seen, old)
		}
	}
	f.seen[p] = now
}

// prefixOf returns what counts as one address, one of IPv4 or 56 bits of IPv6, and whether
// strangers there have a bound.
func (p *Places) prefixOf(a net.Addr) (of netip.Prefix, bounded bool) {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}, false
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 56
	}
	of, _ = addr.Prefix(bits) // never more bits than the address has
	return of, !addr.IsLoopback() && !p.shared(addr)
}
