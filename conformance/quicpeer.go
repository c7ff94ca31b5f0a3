package conformance

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	"github.com/quic-go/quic-go"
)

// quicPeer is the peer's side of a QUIC connection with one stream, on which it sends. The
// handshake runs beside the play: reads and writes wait for it. The connection ends with the
// stream. It uses quic-go itself, because a connection of quicconn never breaks the rules.
type quicPeer struct {
	ready  chan struct{} // closed when stream or err is set
	conn   *quic.Conn
	stream *quic.Stream
	err    error
}

// newQUICPeer begins the handshake: with an endpoint at to, or if to is nil, with the first one
// that connects to tr.
func (s *stage) newQUICPeer(tr *quic.Transport, to net.Addr, config *tls.Config) error {
	conf := &quic.Config{MaxIncomingStreams: 16, DisablePathMTUDiscovery: true} // each large packet has octets of the stream
	connect := func(ctx context.Context) (*quic.Conn, error) { return tr.Dial(ctx, to, config, conf) }
	if to == nil {
		// A handshake that this side ends is not accepted, only over.
		accepting, over := context.WithCancelCause(s.ctx)
		tr.ConnContext = func(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
			context.AfterFunc(ctx, func() { over(context.Cause(ctx)) })
			return ctx, nil
		}
		ln, err := tr.ListenEarly(config, conf) // the peer sends before it knows whether its certificate is accepted
		if err != nil {
			over(err)
			return err
		}
		s.onClose(func() {
			over(nil)
			_ = ln.Close()
		})
		connect = func(context.Context) (*quic.Conn, error) { return ln.Accept(accepting) }
	}
	p := &quicPeer{ready: make(chan struct{})}
	s.tasks.Go(func() {
		defer close(p.ready)
		if p.conn, p.err = connect(s.ctx); p.err == nil {
			p.stream, p.err = p.conn.OpenStreamSync(s.ctx)
		}
	})
	socket, _ := tr.Conn.(*damagedSocket)
	wire := s.newWirePeer("a", p)
	wire.flip = func(n int) { socket.least.Store(int64(n)) }
	wire.flipped = func() bool { return socket.least.Load() == 0 }
	s.peers["a"] = &channelPeer{wirePeer: wire}
	return nil
}

// quicSocket opens the socket of a peer.
func (s *stage) quicSocket() (*quic.Transport, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	tr := &quic.Transport{Conn: &damagedSocket{UDPConn: conn}}
	s.onClose(func() {
		_ = tr.Close()
		_ = conn.Close()
	})
	return tr, nil
}

func (p *quicPeer) Read(b []byte) (int, error) {
	if <-p.ready; p.err != nil {
		return 0, p.err
	}
	n, err := p.stream.Read(b)
	if err != nil {
		_ = p.conn.CloseWithError(0, "")
	}
	return n, err
}

func (p *quicPeer) Write(b []byte) (int, error) {
	if <-p.ready; p.err != nil {
		return 0, p.err
	}
	return p.stream.Write(b)
}

func (p *quicPeer) CloseWrite() error {
	if <-p.ready; p.err != nil {
		return p.err
	}
	return p.stream.Close()
}

// damagedSocket inverts a bit of the next packet after a handshake that has room for least
// octets; zero means none.
type damagedSocket struct {
	*net.UDPConn
	least atomic.Int64
}

func (d *damagedSocket) WriteTo(p []byte, addr net.Addr) (int, error) {
	return d.UDPConn.WriteTo(d.damage(p), addr)
}

func (d *damagedSocket) WriteMsgUDP(p, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	return d.UDPConn.WriteMsgUDP(d.damage(p), oob, addr)
}

// damage returns what is sent instead of a packet.
func (d *damagedSocket) damage(p []byte) []byte {
	const long = 0x80 // of the header of a handshake's packet
	least := d.least.Load()
	if least == 0 || int64(len(p)) < least || p[0]&long != 0 || !d.least.CompareAndSwap(least, 0) {
		return p
	}
	return damaged(p)
}
