package entrances

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
)

// arrivals is a listener whose connections a test makes.
type arrivals struct {
	net.Listener
	next chan net.Conn
}

func (a *arrivals) Accept() (net.Conn, error) {
	c, ok := <-a.next
	if !ok {
		return nil, io.EOF
	}
	return c, nil
}

// caller is a connection of a remote address.
type caller struct {
	net.Conn
	at     net.Addr
	closed bool
}

func (c *caller) RemoteAddr() net.Addr { return c.at }
func (c *caller) Close() error         { c.closed = true; return nil }

// pool is a Pool whose connections a test makes.
type pool struct {
	*Pool
	t    *testing.T
	next chan net.Conn
}

func newPool(t *testing.T, most int) *pool {
	next := make(chan net.Conn, 1)
	return &pool{NewPool(&arrivals{next: next}, most), t, next}
}

// from accepts a connection of an address.
func (p *pool) from(address string) (*caller, context.Context) {
	p.t.Helper()
	c := &caller{at: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))}
	p.next <- c
	conn, err := p.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	return c, Context(p.t.Context(), conn)
}

// refused reports whether a connection of an address is closed at once.
func (p *pool) refused(address string) bool {
	p.t.Helper()
	c := &caller{at: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))}
	p.next <- c
	close(p.next)
	_, err := p.Accept()
	return err != nil && c.closed
}

func TestGW10AFullPoolClosesTheOldestStranger(t *testing.T) {
	p := newPool(t, 8)
	first, _ := p.from("10.0.0.1")
	known, ctx := p.from("10.0.0.2")
	release := Admit(ctx)
	var others []*caller
	for i := range 6 {
		c, _ := p.from(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String())
		others = append(others, c)
	}
	if first.closed {
		t.Error("closed while there was a place")
	}
	_, _ = p.from("10.0.2.1")
	if !first.closed || known.closed || others[0].closed {
		t.Errorf("closed: first %t, known %t, next %t; want the first", first.closed, known.closed, others[0].closed)
	}
	release()
	// The one that was known comes last among the strangers, and its address is known.
	for i := range 7 {
		_, _ = p.from(netip.AddrFrom4([4]byte{10, 0, 3, byte(i)}).String())
	}
	if known.closed {
		t.Error("the connection of an admitted caller was closed before those of strangers")
	}
}

func TestGW10StrangersAtOneAddressHaveAQuarter(t *testing.T) {
	for _, tt := range []struct {
		name      string
		one, same string
		together  bool
	}{
		{"IPv4", "10.0.0.1", "10.0.0.1", true},
		{"another IPv4", "10.0.0.1", "10.0.0.2", false},
		{"IPv6, the same /56", "2001:db8::1", "2001:db8:0:ff::2", true},
		{"IPv6, the next /56", "2001:db8::1", "2001:db8:0:100::2", false},
		{"IPv4 in IPv6", "10.0.0.1", "::ffff:10.0.0.1", true},
		{"this machine", "127.0.0.1", "127.0.0.1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, 8)
			first, _ := p.from(tt.one)
			second, _ := p.from(tt.one)
			if first.closed {
				t.Fatal("closed within the quarter")
			}
			_, _ = p.from(tt.same)
			if first.closed != tt.together || second.closed {
				t.Errorf("closed: first %t, second %t; want %t, false", first.closed, second.closed, tt.together)
			}
		})
	}
}

func TestAdmittedConnectionsKeepTheirPlaces(t *testing.T) {
	p := newPool(t, 2)
	one, ctx := p.from("10.0.0.1")
	Admit(ctx)
	two, ctx := p.from("10.0.0.2")
	Admit(ctx)
	if !p.refused("10.0.0.3") || one.closed || two.closed {
		t.Error("a new connection has taken the place of an admitted one")
	}
}
