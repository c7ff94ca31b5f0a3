package entrances

import (
	"container/list"
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Pool is a listener for HTTP that holds a bounded number of connections. A connection
// counts as a stranger's until a request on it is admitted (Admit). While the pool is full,
// the oldest connection of a stranger is closed for a new one, so that strangers cannot keep
// others out by keeping connections open. Strangers at one address, outside this machine,
// have at most a quarter of the pool; those at an address of which a request was admitted
// lately are closed last.
type Pool struct {
	net.Listener
	most int
	now  func() time.Time

	mu        sync.Mutex
	open      int
	strangers list.List // of *pooled, oldest first
	from      map[netip.Prefix]int
	friends   friends
}

// NewPool returns a Pool of at most most connections.
func NewPool(l net.Listener, most int) *Pool {
	return &Pool{Listener: l, most: most, now: time.Now, from: make(map[netip.Prefix]int), friends: friends{seen: make(map[netip.Prefix]time.Time)}}
}

// pooled is a connection of a Pool.
type pooled struct {
	net.Conn
	pool   *Pool
	prefix netip.Prefix // zero: of this machine

	// Guarded by the mutex of the pool.
	place  *list.Element // among strangers, or nil
	held   int           // admissions in force
	closed bool
}

// Accept implements net.Listener.
func (p *Pool) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &pooled{Conn: conn, pool: p, prefix: prefixOf(conn.RemoteAddr())}
		worse, ok := p.enter(c)
		if worse != nil {
			_ = worse.Conn.Close()
		}
		if ok {
			return c, nil
		}
		_ = conn.Close()
	}
}

// enter adds a connection. It returns the connection that has lost its place to it, and
// whether there is a place.
func (p *Pool) enter(c *pooled) (worse *pooled, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case c.prefix.IsValid() && p.from[c.prefix] >= max(1, p.most/4):
		worse = p.oldest(func(s *pooled) bool { return s.prefix == c.prefix })
	case p.open >= p.most:
		now := p.now()
		worse = p.oldest(func(s *pooled) bool { return !p.friends.has(s.prefix, now) })
		if worse == nil {
			worse = p.oldest(func(*pooled) bool { return true })
		}
		if worse == nil {
			return nil, false
		}
	}
	if worse != nil {
		p.remove(worse)
	}
	p.open++
	p.estrange(c)
	return worse, true
}

// oldest returns the oldest connection of a stranger that meets a condition.
func (p *Pool) oldest(meets func(*pooled) bool) *pooled {
	for e := p.strangers.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*pooled); meets(c) { //nolint:errcheck // the list holds nothing else
			return c
		}
	}
	return nil
}

// estrange makes a connection one of a stranger.
func (p *Pool) estrange(c *pooled) {
	c.place = p.strangers.PushBack(c)
	if c.prefix.IsValid() {
		p.from[c.prefix]++
	}
}

// settle ends that a connection is one of a stranger.
func (p *Pool) settle(c *pooled) {
	if c.place == nil {
		return
	}
	p.strangers.Remove(c.place)
	c.place = nil
	if p.from[c.prefix]--; p.from[c.prefix] <= 0 {
		delete(p.from, c.prefix)
	}
}

// remove takes a connection out of the pool.
func (p *Pool) remove(c *pooled) {
	if c.closed {
		return
	}
	c.closed = true
	p.settle(c)
	p.open--
}

func (c *pooled) Close() error {
	c.pool.mu.Lock()
	c.pool.remove(c)
	c.pool.mu.Unlock()
	return c.Conn.Close()
}

type pooledKey struct{}

// Context is a ConnContext of http.Server, so that Admit finds the connection of a request.
func Context(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	if c, ok := conn.(*pooled); ok {
		return context.WithValue(ctx, pooledKey{}, c)
	}
	return ctx
}

// Admit says that the connection of a request is not one of a stranger, until the result is
// called.
func Admit(ctx context.Context) (release func()) {
	c, ok := ctx.Value(pooledKey{}).(*pooled)
	if !ok {
		return func() {}
	}
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c.held++
	p.settle(c)
	p.friends.add(c.prefix, p.now())
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.held--; c.held == 0 && !c.closed {
			p.estrange(c)
		}
	}
}

// friends remembers the addresses of admitted requests.
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

// prefixOf returns what counts as one address: one of IPv4, 56 bits of IPv6. It is zero on
// this machine.
func prefixOf(a net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.IsLoopback() {
		return netip.Prefix{}
	}
	if addr.Is6() {
		bits = 56
	}
	p, _ := addr.Prefix(bits) // never more bits than the address has
	return p
}
