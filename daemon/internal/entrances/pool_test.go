package entrances

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/internal/strangers"
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
	at       net.Addr
	closed   bool
	deadline time.Time
}

func (c *caller) RemoteAddr() net.Addr { return c.at }
func (c *caller) Close() error         { c.closed = true; return nil }

func (c *caller) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

// pool is a Pool whose connections a test makes.
type pool struct {
	*Pool
	t    *testing.T
	next chan net.Conn
}

func newPool(t *testing.T, most int) *pool {
	next := make(chan net.Conn, 1)
	return &pool{NewPool(&arrivals{next: next}, most, nil, nil), t, next}
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
	synctest.Test(t, closesTheOldestStranger)
}

func closesTheOldestStranger(t *testing.T) {
	p := newPool(t, 8)
	first, _ := p.from("10.0.0.1")
	known, ctx := p.from("10.0.0.2")
	release := Admit(ctx, "http:a")
	var others []*caller
	for i := range 6 {
		c, _ := p.from(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String())
		others = append(others, c)
	}
	if first.closed {
		t.Error("closed while there was a place")
	}
	time.Sleep(strangers.Fair)
	_, _ = p.from("10.0.2.1")
	if !first.closed || known.closed || others[0].closed {
		t.Errorf("closed: first %t, known %t, next %t; want the first", first.closed, known.closed, others[0].closed)
	}
	release()
	time.Sleep(strangers.Fair)
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

// Connections at one known address, as those of admin, are closed for newcomers of the same
// address, but not before they could be read.
func TestGW10ABurstOfConnectionsLeavesEachTheTimeToBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2)
		_, ctx := p.from("127.0.0.1")
		Admit(ctx, "")()
		first, _ := p.from("127.0.0.1")
		began := time.Now()
		second, _ := p.from("127.0.0.1")
		if took := time.Since(began); !first.closed || took != strangers.Least {
			t.Errorf("the first is closed: %v, after %v, want %v", first.closed, took, strangers.Least)
		}
		time.Sleep(strangers.Least)
		began = time.Now()
		if p.from("127.0.0.1"); !second.closed || time.Since(began) != 0 {
			t.Errorf("the second is closed: %v, after %v more", second.closed, time.Since(began))
		}
	})
}

func TestAdmittedConnectionsKeepTheirPlaces(t *testing.T) {
	p := newPool(t, 2)
	one, ctx := p.from("10.0.0.1")
	Admit(ctx, "http:a")
	two, ctx := p.from("10.0.0.2")
	Admit(ctx, "http:a")
	if !p.refused("10.0.0.3") || one.closed || two.closed {
		t.Error("a new connection has taken the place of an admitted one")
	}
}

// The head of the first request of a stranger has to come soon while more than half of the
// places are in use. What was asked for is in force when the request is admitted.
func TestTL22HeadsOfStrangersHaveLessTimeUnderPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 4)
		var conns []net.Conn
		var callers []*caller
		for i := range byte(3) {
			c := &caller{at: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, i}), 1))}
			p.next <- c
			conn, err := p.Accept()
			if err != nil {
				t.Fatal(err)
			}
			callers, conns = append(callers, c), append(conns, conn)
			usual := time.Now().Add(5 * time.Second)
			_ = conn.SetReadDeadline(usual)
			if hurried := i == 2; c.deadline.Equal(usual) == hurried {
				t.Errorf("with %d of 4 places in use the time is %v", i+1, time.Until(c.deadline))
			}
		}
		c, conn := callers[2], conns[2]
		if left := time.Until(c.deadline); left != hurry {
			t.Errorf("a hurried stranger has %v, want %v", left, hurry)
		}
		_ = conn.SetReadDeadline(time.Time{}) // no end
		if left := time.Until(c.deadline); left != hurry {
			t.Errorf("without a deadline a hurried stranger has %v, want %v", left, hurry)
		}
		Admit(Context(t.Context(), conn), "http:a")
		if !c.deadline.IsZero() {
			t.Errorf("an admitted request ends in %v, want never", time.Until(c.deadline))
		}
		later := time.Now().Add(time.Hour)
		if _ = conn.SetReadDeadline(later); !c.deadline.Equal(later) {
			t.Error("a known caller is hurried")
		}
	})
}

func TestTL20ProxiesAreNetworks(t *testing.T) {
	p := NewProxies([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32")})
	shared := func() (list []bool) {
		for _, a := range []string{"10.1.255.255", "10.2.0.0", "2001:db8::1", "2001:db9::1"} {
			list = append(list, p.Shared(netip.MustParseAddr(a)))
		}
		return list
	}
	if got := shared(); !slices.Equal(got, []bool{true, false, true, false}) {
		t.Errorf("%v", got)
	}
	if p.Set(nil); slices.Contains(shared(), true) {
		t.Error("an address is still shared")
	}
}

// said is a connection that says something without end.
type said struct{ *caller }

func (s said) Read(b []byte) (int, error) { return len(b), nil }

// Heads that do not end are in the budget, where strangers have an eighth together. Those of an
// admitted request are its caller's.
func TestRS14HeadsOfStrangersHaveAnEighthOfTheBudget(t *testing.T) {
	const budget, head = 8 << 20, 60 << 10
	b := memory.New(budget)
	next := make(chan net.Conn, 1)
	p := NewPool(&arrivals{next: next}, 4096, nil, b)
	const many = 3 * budget / strangePart / (connOctets + head)
	conns, callers := make([]net.Conn, many), make([]*caller, many)
	for i := range conns {
		callers[i] = &caller{at: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 1))}
		next <- said{callers[i]}
		var err error
		if conns[i], err = p.Accept(); err != nil {
			t.Fatal(err)
		}
		if n, err := conns[i].Read(make([]byte, head)); n != head || err != nil {
			t.Fatalf("connection %d: %d octets, %v", i, n, err)
		}
		if used := b.Used(); used > budget/strangePart {
			t.Fatalf("strangers hold %d octets of %d", used, budget)
		}
	}
	if !callers[0].closed || callers[many-1].closed {
		t.Errorf("closed: oldest %t, newest %t; want true, false", callers[0].closed, callers[many-1].closed)
	}
	release := Admit(Context(t.Context(), conns[many-1]), "http:a")
	held := map[string]int{}
	for _, use := range b.Top(2) {
		held[use.Identity] = use.Octets
	}
	if held["http:a"] != connOctets+head {
		t.Errorf("the octets are those of %v", held)
	}
	if _, err := conns[many-1].Read(make([]byte, 1<<20)); err != nil || b.Used() != held["http:a"]+held[strange] {
		t.Errorf("a body is counted here: %v", err)
	}
	release()
	for _, c := range conns {
		_ = c.Close()
	}
	if used := b.Used(); used != 0 {
		t.Errorf("%d octets are in use after the end", used)
	}
}
