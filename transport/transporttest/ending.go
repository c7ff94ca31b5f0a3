package transporttest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
)

// Ending is how a peer ends a connection of TLS.
type Ending string

// The endings.
const (
	CloseNotify Ending = "close_notify"
	FIN         Ending = "FIN" // TCP ends without close_notify, as by a plain close()
	RST         Ending = "RST" // TCP is reset
)

// Pair returns the ends of a connection of TLS 1.3 over a pipe in memory, for virtual time. Close of the
// far end ends it in this way.
func (e Ending) Pair(t testing.TB, ca *CA) (near, far transport.Conn) {
	t.Helper()
	a, b := buffered(t)
	config := func(identity string) *tls.Config {
		cert := ca.Issue(t, Named(identity))
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
			NextProtos: []string{"swp/1"}, SessionTicketsDisabled: true, InsecureSkipVerify: true,
		}
	}
	wire := &endingWire{Conn: a}
	t.Cleanup(func() {
		for _, end := range []net.Conn{a, b} {
			_ = end.(*pipeEnd).conn.Close(0)
		}
	})
	ours, theirs := tls.Client(wire, config(Client)), tls.Server(b, config(Server))
	shaken := make(chan error, 1)
	go func() { shaken <- theirs.HandshakeContext(context.Background()) }()
	if err := errors.Join(ours.HandshakeContext(context.Background()), <-shaken); err != nil {
		t.Fatal(err)
	}
	near = transport.NewNetConn(ours, &transport.Peer{Identity: Server, Transport: "tls"})
	far = transport.NewNetConn(&endingConn{theirs, e, b, &wire.reset}, &transport.Peer{Identity: Client, Transport: "tls"})
	return near, far
}

// buffered returns the ends of a pipe with a buffer, unlike net.Pipe: virtual time does not
// pass while somebody waits for the mutex of a tls.Conn whose write is not read.
func buffered(t testing.TB) (a, b net.Conn) {
	t.Helper()
	near, far := transport.Pipe()
	ends := make([]net.Conn, 2)
	for i, conn := range []transport.Conn{near, far} {
		stream, err := conn.Open(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = &pipeEnd{stream, conn}
	}
	return ends[0], ends[1]
}

// pipeEnd is one end of a pipe as a net.Conn. Close lets the other end read what was written.
type pipeEnd struct {
	transport.Stream
	conn transport.Conn
}

func (p *pipeEnd) Close() error {
	_ = p.CloseWrite() // the other end may have closed it
	return nil
}

func (p *pipeEnd) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (p *pipeEnd) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (p *pipeEnd) SetDeadline(at time.Time) error {
	return errors.Join(p.SetReadDeadline(at), p.SetWriteDeadline(at))
}

// endingConn is the end of the peer.
type endingConn struct {
	*tls.Conn
	how   Ending
	under net.Conn
	reset *atomic.Bool
}

func (c *endingConn) Close() error {
	switch c.how {
	case RST:
		c.reset.Store(true)
		return c.under.Close()
	case FIN:
		return c.under.Close()
	case CloseNotify:
	}
	return c.Conn.Close()
}

// endingWire is below the near end. Like tlsconn, it does not let crypto/tls take the end of TCP for close_notify.
type endingWire struct {
	net.Conn
	reset atomic.Bool
}

func (w *endingWire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	return n, w.failed(err, syscall.ECONNRESET, io.ErrUnexpectedEOF)
}

func (w *endingWire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	return n, w.failed(err, syscall.ECONNRESET, syscall.EPIPE)
}

func (w *endingWire) failed(err, reset, end error) error {
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case w.reset.Load():
		return &net.OpError{Op: "read", Net: "tcp", Err: reset}
	}
	return &net.OpError{Op: "read", Net: "tcp", Err: end}
}
