package quicconn

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/transport"
)

// conn is a QUIC connection. It implements transport.Conn.
type conn struct {
	qc   *quic.Conn
	peer *transport.Peer
	ctx  context.Context
}

func newConn(qc *quic.Conn, peer *transport.Peer, opts Options) *conn {
	ctx, stop := context.WithCancelCause(context.Background())
	context.AfterFunc(qc.Context(), func() {
		err := context.Cause(qc.Context())
		if refused := (*quic.TransportError)(nil); errors.As(err, &refused) && refused.ErrorCode.IsCryptoError() {
			ev := transport.NewSecurityEvent("quic", peer.Addr, shaken(err))
			ev.Identity = peer.Identity
			opts.OnSecurity(ev)
		}
		stop(cause(err))
	})
	return &conn{qc: qc, peer: peer, ctx: ctx}
}

// dialled is a connection with the policy that verified its peer. It implements
// transport.Rechecker and transport.Certified.
type dialled struct {
	*conn
	policy    *transport.Policy
	host      string
	presented *transport.Presented
}

func (d *dialled) Recheck() error { return d.policy.RecheckDialled(d.qc.ConnectionState().TLS, d.host) }

// accepted is a connection with the policy that admitted its peer. It implements
// transport.Rechecker and transport.Certified.
type accepted struct {
	*conn
	policy    *transport.Policy
	presented *transport.Presented
}

func (a *accepted) Recheck() error { return a.policy.Recheck(a.qc.ConnectionState().TLS) }

func (d *dialled) Leaves() transport.Leaves  { return d.presented.Leaves(d.qc.ConnectionState().TLS) }
func (a *accepted) Leaves() transport.Leaves { return a.presented.Leaves(a.qc.ConnectionState().TLS) }

// Chain implements transport.Chained.
func (a *accepted) Chain() []*x509.Certificate { return a.qc.ConnectionState().TLS.PeerCertificates }

func (c *conn) Peer() *transport.Peer    { return c.peer }
func (c *conn) Multiplexed() bool        { return true }
func (c *conn) Context() context.Context { return c.ctx }

func (c *conn) Open(ctx context.Context) (transport.Stream, error) {
	s, err := c.qc.OpenStreamSync(ctx)
	if err != nil {
		return nil, cause(err)
	}
	return (*stream)(s), nil
}

// Streams and TryOpen implement transport.Bounded.
func (c *conn) Streams() int { return maxStreams }

func (c *conn) TryOpen() (transport.Stream, error) {
	s, err := c.qc.OpenStream()
	switch {
	case err == nil:
		return (*stream)(s), nil
	case is[*quic.StreamLimitReachedError](err):
		return nil, nil
	}
	return nil, cause(err)
}

func (c *conn) Accept(ctx context.Context) (transport.Stream, error) {
	s, err := c.qc.AcceptStream(ctx)
	if err != nil {
		return nil, cause(err)
	}
	return (*stream)(s), nil
}

func (c *conn) Close(code uint64) error {
	return c.qc.CloseWithError(quic.ApplicationErrorCode(code), "")
}

// Break implements transport.Breaker.
func (c *conn) Break(code uint64) error { return c.Close(code) }

// Conclude implements transport.Concluder.
func (c *conn) Conclude(s transport.Stream, code uint64) bool {
	own, ok := s.(*stream)
	if !ok || !c.qc.ConnectionState().SupportsStreamResetPartialDelivery.Remote {
		return false
	}
	own.q().SetReliableBoundary()
	own.Reset(code)
	return true
}

// stream is a quic.Stream with other methods, so that a conversion allocates nothing. It
// implements transport.Stream and transport.Releaser.
type stream quic.Stream

func (s *stream) q() *quic.Stream { return (*quic.Stream)(s) }

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.q().Read(p)
	return n, ofStream(err)
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.q().Write(p)
	return n, ofStream(err)
}

func (s *stream) SetReadDeadline(t time.Time) error  { return s.q().SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.q().SetWriteDeadline(t) }
func (s *stream) CloseWrite() error                  { return ofStream(s.q().Close()) }

func (s *stream) Context() context.Context { return s.q().Context() }

func (s *stream) Reset(code uint64) {
	s.q().CancelWrite(quic.StreamErrorCode(code)) // first, as the reader may reset the stream, too, with another code
	s.q().CancelRead(quic.StreamErrorCode(code))
}

// Probe implements transport.Prober.
func (s *stream) Probe(read int64) (rest int64, err error) {
	_ = s.SetReadDeadline(time.Unix(1, 0))
	if _, err := s.q().Peek(make([]byte, 1)); err != nil && err != io.EOF && !errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, ofStream(err)
	}
	var size atomic.Int64 // the library may call the function later
	size.Store(read - 1)
	s.q().SetReceiveFinalSizeCallback(size.Store)
	s.q().SetReceiveFinalSizeCallback(nil)
	return size.Load() - read, nil
}

// Release implements transport.Releaser.
func (s *stream) Release() { s.q().ReleaseStreamCredit() }

// shaken converts the error of a handshake that a TLS alert of the peer has ended into a
// RemoteAlert.
func shaken(err error) error {
	if e, ok := errors.AsType[*quic.TransportError](err); ok && e.Remote && e.ErrorCode.IsCryptoError() {
		return transport.RemoteAlert(e.ErrorCode) // the low octet is the alert (RFC 9001 §4.8)
	}
	return err
}

// cause converts an application error code into a CloseError.
func cause(err error) error {
	if err == nil {
		return nil
	}
	if s := (*quic.StreamError)(nil); errors.As(err, &s) {
		return &transport.CloseError{Code: uint64(s.ErrorCode), Remote: s.Remote, Stream: true}
	}
	if a := (*quic.ApplicationError)(nil); errors.As(err, &a) {
		return &transport.CloseError{Code: uint64(a.ErrorCode), Remote: a.Remote}
	}
	return err
}

// ofStream is cause for an error of a stream; such an error also says whether the
// connection has ended.
func ofStream(err error) error {
	if err == nil || err == io.EOF { // as each stream that a peer finishes ends
		return err
	}
	if err = cause(err); is[*quic.IdleTimeoutError](err) || is[*quic.TransportError](err) || is[*quic.StatelessResetError](err) {
		return &transport.BrokenError{Err: err}
	}
	return err
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
