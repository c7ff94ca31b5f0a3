package quicconn_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// narrow is the largest datagram that a hop with an MTU of 1,280 carries over IPv4: 20 octets are the
// header of IP, and 8 that of UDP. WireGuard has such hops, and so have mesh VPNs. IPv6 leaves 1,232.
const (
	narrow  = 1252
	narrow6 = 1232
)

func TestAPathWithAnMTUOf1280CarriesConnections(t *testing.T) {
	for name, limit := range map[string]int{"IPv4": narrow, "IPv6": narrow6} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, quicconn.Options{})
			path := transporttest.NewPath(t, s.Addr().String())
			path.Limit(limit)
			client, server := s.over(t, path)
			carries(t, client, server)
			carries(t, server, client)
		})
	}
}

// over connects a client over a path.
func (s *server) over(t *testing.T, path *transporttest.Path) (client, server transport.Conn) {
	t.Helper()
	client, err := quicconn.Dial(patience(t), path.Addr(), s.ca.Policy(t, transporttest.Client), quicconn.Options{})
	if err != nil {
		t.Fatalf("after %d lost datagrams: %v", path.Lost(), err)
	}
	t.Cleanup(func() { _ = client.Close(0) })
	server, err = s.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(0) })
	return client, server
}

// carries sends 256 KiB on a stream of one connection and half-closes it; the other end must have them.
func carries(t *testing.T, from, to transport.Conn) {
	t.Helper()
	want := bytes.Repeat([]byte("octets"), 256<<10/6)
	out, err := from.Open(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := out.Write(want)
		if err == nil {
			err = out.CloseWrite()
		}
		sent <- err
	}()
	in, err := to.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = in.SetReadDeadline(time.Now().Add(transporttest.Patience))
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d octets, %v", len(got), err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	in.Reset(0)
	out.Reset(0)
}

// A path that loses everything, or everything in one direction, ends the handshake at its timeout.
func TestAPathThatLosesDatagramsEndsTheHandshake(t *testing.T) {
	for name, lose := range map[string][2]bool{"black hole": {true, true}, "half-open": {false, true}} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, quicconn.Options{HandshakeTimeout: 100 * time.Millisecond})
			path := transporttest.NewPath(t, s.Addr().String())
			path.Lose(lose[0], lose[1])
			opts := quicconn.Options{HandshakeTimeout: 100 * time.Millisecond}
			if _, err := quicconn.Dial(patience(t), path.Addr(), s.ca.Policy(t, transporttest.Client), opts); err == nil {
				t.Fatal("it is connected")
			}
			if path.Lost() == 0 {
				t.Error("no datagram was lost")
			}
		})
	}
}

// After a NAT has forgotten the client, and after a while without a path, the connection goes on.
func TestAConnectionSurvivesANATThatForgets(t *testing.T) {
	s := listen(t, quicconn.Options{})
	path := transporttest.NewPath(t, s.Addr().String())
	client, server := s.over(t, path)
	carries(t, client, server)
	path.Forget()
	carries(t, client, server)
	carries(t, server, client)
	path.Lose(true, true)
	out, err := client.Open(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte("lost at first")); err != nil {
		t.Fatal(err)
	}
	path.Lose(false, false)
	in, err := server.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("lost at first"))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "lost at first" {
		t.Errorf("%q, %v", got, err)
	}
	if client.Context().Err() != nil || server.Context().Err() != nil {
		t.Error(context.Cause(client.Context()), context.Cause(server.Context()))
	}
}
