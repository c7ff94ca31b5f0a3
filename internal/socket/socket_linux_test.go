package socket_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// blind makes the host of a connection drop all that arrives for it, as one that has lost its power.
func blind(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	})
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
}

// fill writes until the sockets take no more.
func fill(t *testing.T, conn net.Conn) {
	t.Helper()
	for octets := make([]byte, 1<<20); ; {
		_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := conn.Write(octets); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A host that is there acknowledges octets that nobody reads, and answers the question for room.
func TestAHostThatAcknowledgesIsKnown(t *testing.T) {
	for name, full := range map[string]bool{"octets": false, "without room": true} {
		t.Run(name, func(t *testing.T) {
			client, server := connected(t)
			if _, err := server.Write([]byte("a")); err != nil {
				t.Fatal(err)
			}
			if full {
				fill(t, server)
			}
			for began := time.Now(); time.Since(began) < time.Second; <-time.After(10 * time.Millisecond) {
				if s, ok := socket.Look(server); !ok || s.Unacknowledged > 0 {
					t.Fatalf("%+v, %v", s, ok)
				}
			}
			blind(t, client)
			if !full {
				if _, err := server.Write([]byte("b")); err != nil {
					t.Fatal(err)
				}
			}
			becomes(t, server, func(s socket.State) bool { return s.Unacknowledged > time.Second })
		})
	}
}
