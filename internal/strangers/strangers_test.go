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
	e.Place = p.Enter(at(address), func() { e.evicted = true })
	return e
}

func TestAClosedConnectionFreesItsPlaceOnce(t *testing.T) {
	p := New(2)
	e := enter(p, "10.0.0.1")
	release := e.Know()
	if !e.Leave() || e.Leave() {
		t.Error("it has left never, or twice")
	}
	release()
	if p.open != 0 || p.strangers.Len() != 0 || len(p.from) != 0 {
		t.Errorf("%d open, %d strangers at %d addresses; want none", p.open, p.strangers.Len(), len(p.from))
	}
}

func TestAnAddressIsForgottenAfterAWhile(t *testing.T) {
	p := New(2)
	now := time.Now()
	p.now = func() time.Time { return now }
	friend := enter(p, "10.0.0.1")
	friend.Know()()
	stranger := enter(p, "10.0.0.2")
	now = now.Add(friendTime)
	enter(p, "10.0.0.3")
	if !friend.evicted || stranger.evicted {
		t.Errorf("evicted: friend %t, stranger %t; want the older one", friend.evicted, stranger.evicted)
	}
}

// Handshakes over QUIC cannot be closed for others.
func TestQU07PlacesThatAreNotGivenUpAreKeptForKnownAddresses(t *testing.T) {
	p := New(16)
	known := p.Enter(at("10.0.0.1"), nil)
	known.Know()
	known.Leave()
	n := 0
	for i := range byte(4) {
		for p.Enter(at(netip.AddrFrom4([4]byte{10, 0, 1, i}).String()), nil) != nil {
			n++
		}
		if i == 0 && n != 4 {
			t.Errorf("strangers at one address have %d places, want a quarter of 16", n)
		}
	}
	if n != 14 {
		t.Errorf("strangers have %d places, want 7/8 of 16", n)
	}
	if p.Enter(at("10.0.0.1"), nil) == nil {
		t.Error("a known address has found no place")
	}
}
