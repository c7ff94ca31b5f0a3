package tlsconn

import (
	"net"
	"net/netip"
	"testing"

	"github.com/slimwire/swp/transport"
)

// remote is a connection of an address.
type remote struct {
	net.Conn
	at string
}

func (r remote) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(r.at), 1))
}

func TestTL05StrangersAtOneAddressHaveAQuarter(t *testing.T) {
	events := make(chan transport.SecurityEvent, 16)
	l, err := Listen("127.0.0.1:0", new(transport.Policy), Options{Pending: 8, OnSecurity: func(e transport.SecurityEvent) { events <- e }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	come := func(at string) {
		here, there := net.Pipe()
		t.Cleanup(func() { _ = there.Close() })
		l.handle(remote{here, at})
	}
	come("192.0.2.1") // the oldest of all
	for range 3 {
		come("198.51.100.1")
	}
	if e := <-events; e.Reason != transport.ReasonEvicted || e.Addr != "198.51.100.1:1" {
		t.Errorf("%+v, want the eviction of the address that has more than its part", e)
	}
	if len(events) > 0 {
		t.Errorf("another one: %+v", <-events)
	}
}
