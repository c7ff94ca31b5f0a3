package entrances

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/internal/socket"
	"github.com/slimwire/swp/internal/strangers"
)

// Proxies are addresses that many peers share (limits.proxies). They are safe for concurrent use.
type Proxies struct {
	networks atomic.Pointer[[]netip.Prefix]
}

// NewProxies returns Proxies at addresses of some networks.
func NewProxies(networks []netip.Prefix) *Proxies {
	p := new(Proxies)
	p.Set(networks)
	return p
}

// Set replaces the networks.
func (p *Proxies) Set(networks []netip.Prefix) { p.networks.Store(&networks) }

// Shared reports whether many peers share an address.
func (p *Proxies) Shared(addr netip.Addr) bool {
	return slices.ContainsFunc(*p.networks.Load(), func(n netip.Prefix) bool { return n.Contains(addr) })
}

// Pool is a listener for HTTP that holds a bounded number of connections. A connection
// counts as a stranger's until a request on it is admitted (Admit). Its first request has to
// come sooner than the server says while more than half of the places are in use.
//
// What connections hold is in the budget for octets in flight: for each its buffers, and the
// octets of a head as they come. Those of strangers have an eighth of the budget together; the
// oldest is closed for more. Those of an admitted request are the caller's.
type Pool struct {
	net.Listener
	places *strangers.Places
	budget *memory.Budget // nil: they are not counted
	held   *memory.Share  // of strangers
}

const (
	// strange is the identity of strangers in the budget.
	strange = "strangers over HTTP"

	// strangePart divides the budget: so much is for strangers.
	strangePart = 8

	// connOctets is what a connection holds without a request: buffers and a stack.
	connOctets = 16 << 10
)

// NewPool returns a Pool of at most most connections. shared is for strangers.New. Without a
// budget the octets are not counted.
func NewPool(l net.Listener, most int, shared func(netip.Addr) bool, budget *memory.Budget) *Pool {
	p := &Pool{Listener: l, places: strangers.New(most, shared), budget: budget}
	if budget != nil {
		p.held = budget.Share(strange)
	}
	return p
}

// take takes octets for a connection of a stranger. The oldest ones are closed if necessary.
func (p *Pool) take(n int) bool {
	if p.budget == nil {
		return true
	}
	for p.held.Used()+n > p.budget.Limit()/strangePart || !p.held.Try(n, memory.Little) {
		if !p.places.Evict() {
			return false
		}
	}
	return true
}

func (p *Pool) give(n int) {
	if p.budget != nil {
		p.held.Give(n, memory.Little)
	}
}

// pooled is a connection of a Pool.
type pooled struct {
	net.Conn
	pool  *Pool
	place *strangers.Place

	mu       sync.Mutex
	octets   int       // counted as those of a stranger
	known    bool      // a request is admitted
	gone     bool      // nothing more is counted
	hurried  bool      // the deadline of reads is earlier than asked for
	deadline time.Time // asked for
}

// Accept implements net.Listener.
func (p *Pool) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		// A burst of newcomers at a small pool leaves each request that has arrived the time to be
		// read.
		time.Sleep(p.places.Spare())
		c := &pooled{Conn: conn, pool: p}
		c.place = p.places.Enter(conn.RemoteAddr(), c.evict, c.unread)
		if c.place != nil && c.count(connOctets) {
			return c, nil
		}
		_ = c.Close()
	}
}

func (c *pooled) Close() error {
	if c.place != nil {
		c.place.Leave()
	}
	c.leave()
	return c.Conn.Close()
}

// evict closes the connection for another one.
func (c *pooled) evict() {
	c.leave()
	_ = c.Conn.Close()
}

// unread reports whether octets have arrived and wait to be read.
func (c *pooled) unread() bool {
	s, ok := socket.Look(c.Conn)
	return ok && s.Unread > 0
}

// leave gives back what is counted.
func (c *pooled) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.pool.give(c.octets)
	c.octets = 0
}

// Read counts the octets of a head. A connection for which there is no room is closed.
func (c *pooled) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.count(n) {
		_ = c.Conn.Close()
		return 0, memory.ErrFull
	}
	return n, err
}

// count takes octets, unless the peer is known. It returns false if there is no room.
func (c *pooled) count(n int) bool {
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	if known {
		return true
	}
	if !c.pool.take(n) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known || c.gone {
		c.pool.give(n)
	} else {
		c.octets += n
	}
	return !c.gone
}

// hurry is the time of a hurried peer for a TLS handshake, and for the head of a request.
const hurry = 1250 * time.Millisecond

// SetReadDeadline gives a hurried peer less time.
func (c *pooled) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	soon := time.Now().Add(hurry)
	c.hurried, c.deadline = (t.IsZero() || t.After(soon)) && c.place.Hurried(), t
	if c.hurried {
		t = soon
	}
	return c.Conn.SetReadDeadline(t)
}

// know makes the connection one of a caller, until release is called.
func (c *pooled) know(caller string) (release func()) {
	estrange := c.place.Know()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hurried {
		c.hurried = false
		_ = c.Conn.SetReadDeadline(c.deadline)
	}
	c.known = true
	held := c.charge(caller)
	return func() {
		if held != nil {
			held.Release()
		}
		c.mu.Lock()
		c.known = false
		again := connOctets - c.octets
		c.mu.Unlock()
		if again > 0 && !c.count(again) {
			_ = c.Conn.Close()
		}
		estrange()
	}
}

// charge moves what is counted to the share of a caller, if that has room for it.
func (c *pooled) charge(caller string) *memory.Hold {
	if c.pool.budget == nil {
		return nil
	}
	held := c.pool.budget.Hold(caller)
	if held.Add(c.octets) {
		c.pool.give(c.octets)
		c.octets = 0
	}
	return held
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

// Admit says that the connection of a request is not one of a stranger but of a caller, until
// the result is called.
func Admit(ctx context.Context, caller string) (release func()) {
	c, ok := ctx.Value(pooledKey{}).(*pooled)
	if !ok {
		return func() {}
	}
	return c.know(caller)
}
