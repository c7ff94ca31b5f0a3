package tlsconn

import (
	"net"
	"testing"

	"github.com/slimwire/swp/transport"
)

// A peer that gives its handshake up, as one that has suspended this endpoint does, is no security event here.
func TestAPeerThatGivesItsHandshakeUpIsNoSecurityEvent(t *testing.T) {
	events := make(chan transport.SecurityEvent, 8)
	l, err := Listen("127.0.0.1:0", new(transport.Policy), Options{OnSecurity: func(e transport.SecurityEvent) { events <- e }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() *net.TCPConn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn)
	}
	begin := []byte{22, 3, 1, 1, 0} // the head of a ClientHello
	left := dial()
	if _, err := left.Write(begin); err != nil {
		t.Fatal(err)
	}
	if err := left.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	wrong := dial()
	defer wrong.Close()
	if _, err := wrong.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Addr != wrong.LocalAddr().String() {
		t.Errorf("%+v is of the peer that left", e)
	}
}
