package transporttest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// Identities of the two sides of a Pair over TLS, QUIC and pipes.
const (
	Server = "spiffe://test.invalid/server"
	Client = "spiffe://test.invalid/client"
)

// Patience is how long a test waits for an expected event.
const Patience = time.Minute

// handshake is how long one may take here: a test that keeps every processor busy must
// not lose a new connection.
const handshake = Patience / 2

// Kinds are what Pair and Listen accept: "pipe", "mux", "tcp", "tls" and
// "quic". The last three are over loopback.
func Kinds() []string { return []string{"pipe", "mux", "tcp", "tls", "quic"} }

// Pair returns two connected ends of the given kind, closed when the test ends.
func Pair(t testing.TB, kind string) (server, client transport.Conn) {
	t.Helper()
	if kind == "pipe" || kind == "mux" {
		server, client = transport.NewPipe(transport.PipeOptions{Multiplexed: kind == "mux", A: Server, B: Client})
		t.Cleanup(func() { _, _ = server.Close(0), client.Close(0) })
		return server, client
	}
	ca := NewCA(t)
	ln := Listen(t, kind, ca.Policy(t, Server), nil)
	return Connect(t, ln, ca.Policy(t, Client))
}

// Listen listens on a free port of loopback until the test ends. The policy is
// not used for "tcp"; onSecurity may be nil.
func Listen(t testing.TB, kind string, policy *transport.Policy, onSecurity func(transport.SecurityEvent)) transport.Listener {
	t.Helper()
	const addr = "127.0.0.1:0"
	var ln transport.Listener
	var err error
	switch kind {
	case "tcp":
		ln, err = transport.ListenLoopback(addr, transport.PlainOptions{OnSecurity: onSecurity})
	case "tls":
		ln, err = tlsconn.Listen(addr, policy, tlsconn.Options{OnSecurity: onSecurity, HandshakeTimeout: handshake})
	case "quic":
		ln, err = quicconn.Listen(addr, policy, quicconn.Options{OnSecurity: onSecurity, HandshakeTimeout: handshake})
	default:
		t.Fatalf("transporttest: no kind %q", kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// Dial connects to an address of the given kind. The policy is not used for "tcp".
func Dial(ctx context.Context, kind, addr string, policy *transport.Policy) (transport.Conn, error) {
	switch kind {
	case "tls":
		return tlsconn.Dial(ctx, addr, policy, tlsconn.Options{HandshakeTimeout: handshake})
	case "quic":
		return quicconn.Dial(ctx, addr, policy, quicconn.Options{HandshakeTimeout: handshake})
	}
	return transport.DialLoopback(ctx, addr)
}

// Connect dials ln and returns both ends, closed when the test ends.
func Connect(t testing.TB, ln transport.Listener, policy *transport.Policy) (server, client transport.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	client, err := Dial(ctx, kindOf(ln), ln.Addr().String(), policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(0) })
	server, err = ln.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(0) })
	return server, client
}

func kindOf(ln transport.Listener) string {
	switch ln.(type) {
	case *tlsconn.Listener:
		return "tls"
	case *quicconn.Listener:
		return "quic"
	}
	return "tcp"
}

// Streams opens a stream at one end and accepts it at the other. QUIC shows a
// stream to the peer with its first octet, so one is sent and read.
func Streams(t testing.TB, from, to transport.Conn) (opened, accepted transport.Stream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	opened, err := from.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	accepted, err = to.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := accepted.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	return opened, accepted
}

// NoLeaks fails the test if goroutines that it started outlive it. Call it
// first, so that it looks last.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}
