package transporttest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Path carries the datagrams of one client to a server and back, as a network with faults does.
type Path struct {
	at   Place
	near *net.UDPConn // for the client
	to   *net.UDPAddr

	limit atomic.Int64 // octets of a datagram that arrives; 0: any
	out   atomic.Bool  // datagrams to the server are lost
	back  atomic.Bool  // datagrams to the client are lost
	lost  atomic.Int64

	tasks sync.WaitGroup
	mu    sync.Mutex
	from  *net.UDPAddr // the client
	far   *net.UDPConn // the address of the client that the server sees
	over  bool
}

// Place is where the sockets of a Path are, such as a host of package netcut.
type Place interface {
	Addr() string          // an IP address
	Do(func() error) error // calls a function there
}

// loopback is the Place of this process.
type loopback struct{}

func (loopback) Addr() string            { return "127.0.0.1" }
func (loopback) Do(f func() error) error { return f() }

// NewPath starts a Path to a server over the loopback interface. It stops when the test ends.
func NewPath(t testing.TB, server string) *Path {
	t.Helper()
	return NewPathAt(t, loopback{}, server)
}

// NewPathAt starts a Path to a server, of which a place is the hop between. It stops when the test ends.
func NewPathAt(t testing.TB, at Place, server string) *Path {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	p := &Path{at: at, to: to}
	if p.near, err = p.listen(); err != nil {
		t.Fatal(err)
	}
	p.tasks.Go(p.outward)
	t.Cleanup(func() {
		p.mu.Lock()
		p.over = true
		p.forget()
		p.mu.Unlock()
		_ = p.near.Close()
		p.tasks.Wait()
	})
	return p
}

// listen opens a socket at the place.
func (p *Path) listen() (conn *net.UDPConn, err error) {
	done := p.at.Do(func() error {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(p.at.Addr())})
		return err
	})
	return conn, done
}

// Addr is the address that the client dials.
func (p *Path) Addr() string { return p.near.LocalAddr().String() }

// Limit loses each datagram of more than n octets, in both directions and without a notice.
func (p *Path) Limit(n int) { p.limit.Store(int64(n)) }

// Lose loses all datagrams to the server, all to the client, or both.
func (p *Path) Lose(out, back bool) {
	p.out.Store(out)
	p.back.Store(back)
}

// Lost is how many datagrams were lost.
func (p *Path) Lost() int { return int(p.lost.Load()) }

// Forget drops the mapping of the client, as a NAT does: datagrams of the server to its old address are
// lost, and the server sees later ones of the client from a new address.
func (p *Path) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
}

func (p *Path) forget() {
	if p.far != nil {
		_ = p.far.Close()
		p.far = nil
	}
}

// outward passes on what the client sends.
func (p *Path) outward() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := p.near.ReadFromUDP(buf)
		if err != nil {
			return
		}
		if p.loses(&p.out, n) {
			continue
		}
		p.mu.Lock()
		p.from = from
		if p.far == nil && !p.over {
			if p.far, err = p.listen(); err == nil {
				far := p.far
				p.tasks.Go(func() { p.inward(far) })
			}
		}
		if p.far != nil {
			_, _ = p.far.WriteToUDP(buf[:n], p.to)
		}
		p.mu.Unlock()
	}
}

// inward passes on what arrives at one address of the client.
func (p *Path) inward(far *net.UDPConn) {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := far.ReadFromUDP(buf)
		if err != nil {
			return
		}
		if p.loses(&p.back, n) {
			continue
		}
		p.mu.Lock()
		from := p.from
		p.mu.Unlock()
		_, _ = p.near.WriteToUDP(buf[:n], from)
	}
}

func (p *Path) loses(direction *atomic.Bool, n int) bool {
	limit := p.limit.Load()
	if !direction.Load() && (limit == 0 || int64(n) <= limit) {
		return false
	}
	p.lost.Add(1)
	return true
}
