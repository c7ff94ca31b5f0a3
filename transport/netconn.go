package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slimwire/swp/internal/socket"
)

// NetConn is a Conn over a net.Conn, which is its only stream: a TLS
// connection, or a plaintext one on loopback. It is its own Stream.
type NetConn struct {
	conn net.Conn
	peer *Peer

	ctx  context.Context
	stop context.CancelCauseFunc

	taken  atomic.Bool // Accept has returned the stream
	closed atomic.Bool
	halves atomic.Int32 // directions that ended in order, as bits
}

const (
	readEnded  = 1 << 0
	writeEnded = 1 << 1
)

var (
	_ Conn   = (*NetConn)(nil)
	_ Stream = (*NetConn)(nil)
	_ Prober = (*NetConn)(nil)

	_ Acknowledger = (*NetConn)(nil)
)

// NewNetConn returns a Conn that owns conn. CloseWrite works if conn has a
// CloseWrite method, as TCP and TLS connections do.
func NewNetConn(conn net.Conn, peer *Peer) *NetConn {
	c := &NetConn{conn: conn, peer: peer}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	return c
}

// Peer implements Conn.
func (c *NetConn) Peer() *Peer { return c.peer }

// Multiplexed implements Conn: it is false.
func (c *NetConn) Multiplexed() bool { return false }

// Context implements Conn.
func (c *NetConn) Context() context.Context { return c.ctx }

// Open implements Conn. It returns c itself, each time.
func (c *NetConn) Open(context.Context) (Stream, error) {
	if c.ctx.Err() != nil {
		return nil, context.Cause(c.ctx)
	}
	return c, nil
}

// Accept implements Conn. The first call returns c itself; each later one
// waits for the end of the connection.
func (c *NetConn) Accept(ctx context.Context) (Stream, error) {
	if c.taken.CompareAndSwap(false, true) {
		return c, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
}

// Close implements Conn. The code is not carried to the peer.
func (c *NetConn) Close(code uint64) error { return c.end(&CloseError{Code: code}) }

// Break implements Breaker, if conn has a method Break; otherwise it is Close.
func (c *NetConn) Break(code uint64) error {
	if c.closed.Load() {
		return nil
	}
	if b, ok := c.conn.(interface{ Break() error }); ok {
		_ = b.Break() // the close that follows cannot be seen by the peer
	}
	return c.Close(code)
}

// Reset implements Stream: it closes the connection.
func (c *NetConn) Reset(code uint64) { _ = c.Close(code) }

// Read implements Stream. After the peer's last octet it returns io.EOF, or an
// error that is io.ErrUnexpectedEOF if the transport can tell that the stream
// was truncated (TLS without close_notify).
func (c *NetConn) Read(p []byte) (int, error) {
	n, err := c.conn.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
	case err == io.EOF:
		c.half(readEnded)
	default:
		err = c.fail(err)
	}
	return n, err
}

// Write implements Stream.
func (c *NetConn) Write(p []byte) (int, error) {
	n, err := c.conn.Write(p)
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
	case c.halves.Load()&writeEnded != 0: // the caller's mistake, not the connection's end
	default:
		err = c.fail(err)
	}
	return n, err
}

// Probe implements Prober. A conn that has a method Probe is asked, otherwise its socket.
func (c *NetConn) Probe(read int64) (rest int64, err error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	if p, ok := c.conn.(Prober); ok {
		return p.Probe(read)
	}
	return ProbeSocket(c.conn, 0)
}

// ProbeSocket is Probe for a connection whose octets come from a socket, and buffered ones from
// elsewhere.
func ProbeSocket(conn net.Conn, buffered int) (rest int64, err error) {
	switch s, known := socket.Look(conn); {
	case !known:
	case s.Lost:
		return 0, syscall.ECONNRESET
	case s.Ended:
		return int64(s.Unread + buffered), nil
	}
	return -1, nil
}

// Unacknowledged implements Acknowledger. A conn that has a method Unacknowledged is asked, otherwise
// its socket.
func (c *NetConn) Unacknowledged() time.Duration {
	if a, ok := c.conn.(Acknowledger); ok {
		return a.Unacknowledged()
	}
	return UnacknowledgedOn(c.conn)
}

// UnacknowledgedOn is Acknowledger.Unacknowledged for a connection with a socket.
func UnacknowledgedOn(conn net.Conn) time.Duration {
	s, _ := socket.Look(conn)
	return s.Unacknowledged
}

// SetReadDeadline implements Stream.
func (c *NetConn) SetReadDeadline(t time.Time) error { return c.because(c.conn.SetReadDeadline(t)) }

// SetWriteDeadline implements Stream.
func (c *NetConn) SetWriteDeadline(t time.Time) error { return c.because(c.conn.SetWriteDeadline(t)) }

// because returns the recorded reason for the end of the connection, in place of an error
// that only says that it has ended.
func (c *NetConn) because(err error) error {
	if err != nil && c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return err
}

// CloseWrite implements Stream.
func (c *NetConn) CloseWrite() error {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	err := half.CloseWrite()
	c.half(writeEnded)
	return err
}

// half notes that one direction ended in order. A connection that ended in
// both is over.
func (c *NetConn) half(bit int32) {
	if c.halves.Or(bit)|bit == readEnded|writeEnded {
		_ = c.end(&CloseError{Remote: true})
	}
}

// fail ends the connection because of err and returns the reason of its end: err, or an
// earlier one.
func (c *NetConn) fail(err error) error {
	_ = c.end(err)
	return context.Cause(c.ctx)
}

func (c *NetConn) end(why error) error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	c.stop(why)
	return c.conn.Close()
}
