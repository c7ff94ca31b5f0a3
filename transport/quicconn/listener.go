package quicconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/internal/strangers"
	"github.com/slimwire/swp/transport"
)

// Listener accepts QUIC connections. It implements transport.Listener.
type Listener struct {
	udp    net.PacketConn
	tr     *quic.Transport
	ln     *quic.Listener
	policy *transport.Policy
	opts   Options

	pending atomic.Int64 // handshakes under way
	places  *strangers.Places
	windows windows

	// The socket lives as long as the listener and the connections that Accept
	// returned.
	mu     sync.Mutex
	users  int
	closed bool
}

// Listen listens on addr, host:port, of UDP.
func Listen(addr string, policy *transport.Policy, opts Options) (*Listener, error) {
	var lc net.ListenConfig
	udp, err := lc.ListenPacket(context.Background(), "udp", addr)
	if err != nil {
		return nil, fmt.Errorf("quicconn: listen: %w", err)
	}
	return On(udp, policy, opts)
}

// On is Listen on a socket, which it owns from then on, also if it fails.
func On(udp net.PacketConn, policy *transport.Policy, opts Options) (*Listener, error) {
	l := &Listener{udp: udp, policy: policy, opts: opts.withDefaults(), users: 1}
	l.tr = &quic.Transport{
		Conn:                udp,
		VerifySourceAddress: func(net.Addr) bool { return l.pending.Load() > int64(l.opts.RetryAbove) },
		ConnContext:         l.begin,
		StatelessResetKey:   resetKey(policy),
	}
	l.windows.limit = uint64(l.opts.Windows)
	config := l.opts.config()
	config.AllowConnectionWindowIncrease = l.windows.grow
	l.places = strangers.New(l.opts.Pending, opts.Shared)
	hasty := config.Clone()
	hasty.HandshakeIdleTimeout /= haste
	config.GetConfigForClient = func(*quic.ClientInfo) (*quic.Config, error) {
		if l.places.Pressed() {
			return hasty, nil
		}
		return config, nil
	}
	var err error
	l.ln, err = l.tr.Listen(policy.Server(), config)
	if err != nil {
		_ = udp.Close()
		return nil, fmt.Errorf("quicconn: listen: %w", err)
	}
	return l, nil
}

// haste divides the time for a handshake while more than half of the places are in use.
const haste = 5

// Addr implements transport.Listener.
func (l *Listener) Addr() net.Addr { return l.udp.LocalAddr() }

// Accept implements transport.Listener.
func (l *Listener) Accept(ctx context.Context) (transport.Conn, error) {
	for {
		qc, err := l.ln.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, net.ErrClosed
		}
		h := qc.Context().Value(handshakeKey{}).(*handshake) //nolint:errcheck // begin has put it there
		h.end()
		addr := qc.RemoteAddr().String()
		peer, err := l.policy.Peer(qc.ConnectionState().TLS, "quic", addr)
		if err == nil {
			h.place.Know()
		}
		if err != nil {
			_ = qc.CloseWithError(0, "")
			l.opts.OnSecurity(transport.NewSecurityEvent("quic", addr, err))
			continue
		}
		if !l.join() {
			_ = qc.CloseWithError(0, "")
			return nil, net.ErrClosed
		}
		context.AfterFunc(qc.Context(), l.leave)
		return &accepted{newConn(qc, peer, l.opts), l.policy, h.presented}, nil
	}
}

// Close implements transport.Listener.
func (l *Listener) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	err := l.ln.Close()
	l.leave()
	return err
}

// join adds a user of the socket. It returns false if the socket is closed.
func (l *Listener) join() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.users++
	return true
}

// leave removes a user of the socket and closes it after the last one.
func (l *Listener) leave() {
	l.mu.Lock()
	l.users--
	last := l.users == 0
	l.mu.Unlock()
	if last {
		_ = l.tr.Close()
		_ = l.udp.Close()
	}
}

func (l *Listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// handshake is a handshake in progress. It is a value of its connection's context, where
// Accept finds it.
type handshake struct {
	l     *Listener
	place *strangers.Place
	over  atomic.Bool

	presented *transport.Presented
}

type handshakeKey struct{}

// begin counts a handshake, which ends when Accept takes the connection or the
// connection ends.
func (l *Listener) begin(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	place := l.places.Enter(info.RemoteAddr, nil, nil)
	if place == nil {
		l.opts.OnSecurity(transport.SecurityEvent{
			Transport: "quic",
			Addr:      info.RemoteAddr.String(),
			Reason:    transport.ReasonEvicted,
			Err:       fmt.Errorf("quicconn: %d handshakes under way", l.pending.Load()),
		})
		return nil, errors.New("quicconn: too many handshakes")
	}
	ctx, presented := transport.NotePresented(ctx)
	h := &handshake{l: l, place: place, presented: presented}
	l.pending.Add(1)
	addr := info.RemoteAddr
	context.AfterFunc(ctx, func() {
		if why := context.Cause(ctx); h.end() && !l.isClosed() && !transport.PeerLeft(cause(why)) {
			l.opts.OnSecurity(transport.NewSecurityEvent("quic", addr.String(), shaken(why)))
		}
	})
	return context.WithValue(ctx, handshakeKey{}, h), nil
}

// end reports whether this call is the one that ended the handshake.
func (h *handshake) end() bool {
	if h.over.Swap(true) {
		return false
	}
	h.l.pending.Add(-1)
	h.place.Leave()
	return true
}
