package passing

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/transport"
)

// passed is a connection of a peer that another process has accepted.
type passed struct {
	transport.Conn // of the other process
	peer           *transport.Peer
	state          tls.ConnectionState // of the peer; empty for plaintext
	policy         *transport.Policy
	own            func() *tls.Certificate // that the peer was shown
	departing      context.Context         // ends when the other process is about to end
}

// Departing implements transport.Departing.
func (p *passed) Departing() context.Context { return p.departing }

// Peer implements transport.Conn.
func (p *passed) Peer() *transport.Peer { return p.peer }

// Recheck implements transport.Rechecker.
func (p *passed) Recheck() error {
	if len(p.state.PeerCertificates) == 0 {
		return nil
	}
	return p.policy.Recheck(p.state)
}

// Leaves implements transport.Certified.
func (p *passed) Leaves() transport.Leaves {
	if len(p.state.PeerCertificates) == 0 {
		return transport.Leaves{}
	}
	return transport.Leaves{Own: p.own(), Peer: p.state.PeerCertificates[0]}
}

// single is a connection with one stream, whose first frame was read.
type single struct {
	passed
	stream transport.Stream
	given  atomic.Bool
}

// Accept implements transport.Conn.
func (s *single) Accept(ctx context.Context) (transport.Stream, error) {
	if s.given.CompareAndSwap(false, true) {
		return s.stream, nil
	}
	return s.Conn.Accept(ctx)
}

// multiplexed is a connection with many streams.
type multiplexed struct {
	passed
	transport.Bounded
	transport.Concluder
}

// raw is a connection of TCP that another process has accepted.
type raw struct {
	transport.Stream
	conn   transport.Conn
	remote net.Addr
}

func newRaw(conn transport.Conn, s transport.Stream, addr string) net.Conn {
	r := &raw{Stream: s, conn: conn, remote: &net.TCPAddr{}}
	if at, err := netip.ParseAddrPort(addr); err == nil {
		r.remote = net.TCPAddrFromAddrPort(at)
	}
	return r
}

// Close implements net.Conn.
func (r *raw) Close() error { return r.conn.Close(0) }

// LocalAddr implements net.Conn.
func (r *raw) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (r *raw) RemoteAddr() net.Addr { return r.remote }

// SetDeadline implements net.Conn.
func (r *raw) SetDeadline(t time.Time) error {
	if err := r.SetReadDeadline(t); err != nil {
		return err
	}
	return r.SetWriteDeadline(t)
}
