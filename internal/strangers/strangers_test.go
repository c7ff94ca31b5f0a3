package strangers

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// at returns an address.
func at(address string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))
}

// entered is a place that can be taken back.
type entered struct {
	*Place
	evicted bool
}

func enter(p *Places, address string) *entered {
	e := new(entered)
	e.Place = p.Enter(at(address), func() { e.evicted = true }, nil)
	return e
}

func TestAClosedConnectionFreesItsPlaceOnce(t *testing.T) {
	p := New(2, nil)
	e := enter(p, "10.0.0.1")
	release := e.Know()
	if !e.Leave() || e.Leave() {
		t.Error("it has left never, or twice")
	}
	release()
	if p.open != 0 || lenOf(p) != 0 || len(p.from) != 0 {
		t.Errorf("%d open, %d strangers at %d addresses; want none", p.open, lenOf(p), len(p.from))
	}
}

// lenOf returns the number of strangers.
func lenOf(p *Places) (n int) {
	for i := range p.strangers {
		n += p.strangers[i].Len()
	}
	return n
}

func TestTL21APeerThatAuthenticatedBeforeIsClosedLast(t *testing.T) {
	p := New(3, func(netip.Addr) bool { return true })
	now := time.Now()
	p.now = func() time.Time { return now }
	before := enter(p, "10.0.0.1")
	before.Know()() // an idle connection
	neighbour, stranger := enter(p, "10.0.0.1"), enter(p, "10.0.0.2")
	for i, e := range []*entered{stranger, neighbour} {
		now = now.Add(Fair)
		known := enter(p, "10.0.1.1")
		known.Know()
		if !e.evicted || before.evicted {
			t.Errorf("closed for number %d: %t; that of a peer that authenticated before: %t", i, e.evicted, before.evicted)
		}
	}
	now = now.Add(Fair)
	if enter(p, "10.0.1.2").Place == nil || !before.evicted {
		t.Error("an idle connection has kept out a new one")
	}
}

// never is a random that refuses nobody.
func never() float64 { return 1 }

func TestTL20PeersAtASharedAddressHaveNoBound(t *testing.T) {
	proxy := netip.MustParseAddr("10.0.0.1")
	for _, at := range []string{"10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"} {
		p := New(8, func(a netip.Addr) bool { return a == proxy })
		first := enter(p, at)
		for range 2 {
			enter(p, at)
		}
		if want := at == "10.0.0.2"; first.evicted != want {
			t.Errorf("%s: the first of three with 8 places is evicted: %t, want %t", at, first.evicted, want)
		}
	}
}

// On a busy machine a request that has arrived waits to be read. Its connection is not closed for
// newcomers, unless all wait.
func TestGW10AConnectionWhoseOctetsNobodyHasReadIsClosedLast(t *testing.T) {
	p := New(2, func(netip.Addr) bool { return true })
	now := time.Now()
	p.now = func() time.Time { return now }
	waits := [2]bool{true, false}
	var evicted []int
	for i := range waits {
		p.Enter(at("10.0.0.1"), func() { evicted = append(evicted, i) }, func() bool { return waits[i] })
	}
	now = now.Add(Fair)
	enter(p, "10.0.0.1").Know() // keeps its place
	if len(evicted) != 1 || evicted[0] != 1 {
		t.Fatalf("closed %v, want the one that was read", evicted)
	}
	now = now.Add(Fair)
	if enter(p, "10.0.0.1"); len(evicted) != 2 {
		t.Errorf("closed %v, want the last one, too", evicted)
	}
}

func TestTL21AStrangerWithUnreadOctetsIsClosedBeforeAPeerThatAuthenticated(t *testing.T) {
	p := New(2, func(netip.Addr) bool { return true })
	now := time.Now()
	p.now = func() time.Time { return now }
	before := enter(p, "10.0.0.1")
	before.Know()()
	stranger := false
	p.Enter(at("10.0.0.2"), func() { stranger = true }, func() bool { return true })
	now = now.Add(Fair)
	if enter(p, "10.0.0.3"); !stranger || before.evicted {
		t.Errorf("closed: the stranger %t, the peer %t", stranger, before.evicted)
	}
}

// A flood that is faster than an authentication closes only connections that have had their
// time, mostly; and it cannot hold back a known address.
func TestTL21AFullEntranceGivesAConnectionTimeToAuthenticate(t *testing.T) {
	p := New(8, nil)
	now := time.Now()
	p.now = func() time.Time { return now }
	chance := 0.0
	p.random = func() float64 { return chance }
	friend := enter(p, "10.0.9.9")
	friend.Know()
	friend.Leave()
	var first *entered
	for i := range byte(8) {
		e := enter(p, netip.AddrFrom4([4]byte{10, 0, 1, i}).String())
		if i == 0 {
			first = e
		}
	}
	for _, tt := range []struct {
		age    time.Duration
		chance float64
		enters bool
	}{{0, 0.99, false}, {Fair / 2, 0.49, false}, {Fair, 0, true}} {
		now, chance = first.since.Add(tt.age), tt.chance
		if got := enter(p, "10.0.2.1"); (got.Place != nil) != tt.enters || first.evicted != tt.enters {
			t.Errorf("with the oldest %v old: entered %t, evicted %t; want %t", tt.age, got.Place != nil, first.evicted, tt.enters)
		}
	}
	now, chance = now.Add(-Fair), 0 // the others are new again
	if enter(p, "10.0.9.9").Place == nil {
		t.Error("a known address was refused")
	}
	now, chance = now.Add(Fair/2), 0.51
	if enter(p, "10.0.2.2").Place == nil {
		t.Error("with the oldest half of its time old, half of the new ones enter")
	}
}

func TestTL21WhereNoneCanBeClosedNewOnesAreRefusedEarly(t *testing.T) {
	p := New(16, nil)
	chance := 1.0
	p.random = func() float64 { return chance }
	for i := range byte(8) { // a half
		chance = 0
		if p.Enter(at(netip.AddrFrom4([4]byte{10, 0, i, 1}).String()), nil, nil) == nil {
			t.Fatalf("refused with %d of 16 places in use", i)
		}
	}
	for i := range byte(6) { // up to seven eighths
		refused := float64(i) / 6
		if chance = refused - 0.01; refused > 0 && p.Enter(at("10.1.0.1"), nil, nil) != nil {
			t.Errorf("entered with %d of 16 in use and a chance below %.2f", 8+i, refused)
		}
		if chance = refused; p.Enter(at(netip.AddrFrom4([4]byte{10, 2, i, 1}).String()), nil, nil) == nil {
			t.Errorf("refused with %d of 16 in use and a chance of %.2f", 8+i, refused)
		}
	}
}

func TestTL22WhoHasNotAuthenticatedIsHurriedUnderPressure(t *testing.T) {
	p := New(4, nil)
	stranger := enter(p, "10.0.0.1")
	known := enter(p, "10.0.0.2")
	known.Know()()
	if stranger.Hurried() || known.Hurried() {
		t.Error("hurried with half of the places in use")
	}
	enter(p, "10.0.0.3")
	if !stranger.Hurried() || known.Hurried() {
		t.Errorf("hurried: a stranger %t, one that was known %t; want true, false", stranger.Hurried(), known.Hurried())
	}
}

func TestAnAddressIsForgottenAfterAWhile(t *testing.T) {
	for _, passed := range []time.Duration{friendTime - 1, friendTime} {
		p := New(2, nil)
		p.random = never
		now := time.Now()
		p.now = func() time.Time { return now }
		friend := enter(p, "10.0.0.1")
		friend.Know()
		friend.Leave()
		now = now.Add(passed)
		first, second := enter(p, "10.0.0.1"), enter(p, "10.0.0.2")
		enter(p, "10.0.0.3")
		if known := passed < friendTime; first.evicted == known || second.evicted != known {
			t.Errorf("after %v: evicted at the address %t, at another %t", passed, first.evicted, second.evicted)
		}
	}
}

// Handshakes over QUIC cannot be closed for others.
func TestQU07PlacesThatAreNotGivenUpAreKeptForKnownAddresses(t *testing.T) {
	p := New(16, nil)
	p.random = never
	known := p.Enter(at("10.0.0.1"), nil, nil)
	known.Know()
	known.Leave()
	n := 0
	for i := range byte(4) {
		for p.Enter(at(netip.AddrFrom4([4]byte{10, 0, 1, i}).String()), nil, nil) != nil {
			n++
		}
		if i == 0 && n != 4 {
			t.Errorf("strangers at one address have %d places, want a quarter of 16", n)
		}
	}
	if n != 14 {
		t.Errorf("strangers have %d places, want 7/8 of 16", n)
	}
	if p.Enter(at("10.0.0.1"), nil, nil) == nil {
		t.Error("a known address has found no place")
	}
}
