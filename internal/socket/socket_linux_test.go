package socket_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/socket"
)

func connected(t *testing.T) (client *net.TCPConn, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return c.(*net.TCPConn), server
}

// becomes waits for a state.
func becomes(t *testing.T, conn net.Conn, is func(socket.State) bool) {
	t.Helper()
	for began := time.Now(); ; <-time.After(time.Millisecond) {
		s, ok := socket.Look(conn)
		if ok && is(s) {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%+v, %v", s, ok)
		}
	}
}

func TestOctetsThatNobodyHasReadAreSeen(t *testing.T) {
	client, server := connected(t)
	becomes(t, server, func(s socket.State) bool { return s == socket.State{} })
	if _, err := client.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	becomes(t, server, func(s socket.State) bool { return s == socket.State{Unread: 2} })
	if _, err := io.ReadFull(server, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	becomes(t, server, func(s socket.State) bool { return s == socket.State{} })
	_ = server.Close()
	if s, ok := socket.Look(server); ok || s.Unread > 0 {
		t.Errorf("%+v of a closed connection", s)
	}
}

func TestTheEndIsSeenBehindOctetsThatNobodyHasRead(t *testing.T) {
	client, server := connected(t)
	if _, err := client.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	_ = client.CloseWrite()
	becomes(t, server, func(s socket.State) bool { return s == socket.State{Unread: 2, Ended: true} })
}

func TestAResetIsSeen(t *testing.T) {
	client, server := connected(t)
	if _, err := client.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	_ = client.SetLinger(0)
	_ = client.Close()
	becomes(t, server, func(s socket.State) bool { return s.Lost })
}
