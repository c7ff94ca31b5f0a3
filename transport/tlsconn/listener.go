package tlsconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/strangers"
	"github.com/slimwire/swp/transport"
)

// Listener accepts mutual TLS 1.3 connections. It implements transport.Listener.
type Listener struct {
	*transport.Queue
	ln     net.Listener
	config *tls.Config
	policy *transport.Policy
	opts   Options
	slots  chan struct{}
	tasks  sync.WaitGroup

	places *strangers.Places // of peers not yet authenticated

	mu      sync.Mutex
	pending map[net.Conn]struct{}
	closed  bool
}

// Listen listens on addr, host:port.
func Listen(addr string, policy *transport.Policy, opts Options) (*Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("tlsconn: listen: %w", err)
	}
	return On(ln, policy, opts), nil
}

// On is Listen on a TCP listener, which it owns from then on.
func On(ln net.Listener, policy *transport.Policy, opts Options) *Listener {
	opts = opts.withDefaults()
	l := &Listener{
		Queue:  transport.NewQueue(),
		ln:     ln,
		config: serverConfig(policy),
		policy: policy,
		opts:   opts,
		slots:  make(chan struct{}, opts.Handshakes),

		places: strangers.New(opts.Pending, opts.Shared), pending: make(map[net.Conn]struct{}),
	}
	l.tasks.Go(func() { transport.AcceptTCP(ln, l.handle) })
	return l
}

// serverConfig returns the TLS configuration of a policy. It refuses peers without an
// application protocol with the proper alert. crypto/tls would continue, and
// VerifyConnection would report the certificate instead.
func serverConfig(policy *transport.Policy) *tls.Config {
	c := policy.Server()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) > 0 || !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
			return nil, nil // which crypto/tls judges
		}
		if w, ok := hello.Conn.(*wire); ok {
			w.alert(alertNoApplicationProtocol)
		}
		return nil, &transport.RefusedError{
			Reason: transport.ReasonDowngrade, Err: fmt.Errorf("tlsconn: the peer names no application protocol (ALPN), want %q", transport.ALPN),
		}
	}
	return c
}

// Addr implements transport.Listener.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Close implements transport.Listener.
func (l *Listener) Close() error {
	l.Queue.Close()
	err := l.ln.Close()
	l.mu.Lock()
	l.closed = true
	for conn := range l.pending {
		_ = conn.Close()
	}
	l.mu.Unlock()
	l.tasks.Wait()
	return err
}

// handle starts the handshake of a new connection. Its goroutine ends with the handshake,
// because a handshake needs twice the stack of an established connection.
func (l *Listener) handle(conn net.Conn) {
	place := l.places.Enter(conn.RemoteAddr(), func() { l.evict(conn) }, nil)
	if place == nil {
		_ = conn.Close()
		return
	}
	if !l.add(conn) {
		place.Leave()
		_ = conn.Close()
		return
	}
	l.tasks.Go(func() { l.shake(conn, place) })
}

// haste divides the time for a handshake while more than half of the places are in use.
const haste = 4

func (l *Listener) shake(tcp net.Conn, place *strangers.Place) {
	most := l.opts.HandshakeTimeout
	if l.places.Pressed() {
		most /= haste
	}
	deadline := time.Now().Add(most)
	_ = tcp.SetDeadline(deadline)
	h := &handshake{slots: l.slots}
	raw := &wire{Conn: tcp, shaking: h}
	conn := tls.Server(raw, l.config)

	h.acquire()
	ctx, presented := transport.NotePresented(context.Background())
	peer, err := shake(ctx, conn, raw, l.policy)
	h.release()

	if err == nil {
		place.Know()
	}
	open := l.forget(tcp)
	ours := place.Leave() && open // otherwise evicted or closed, and said so there
	if err != nil || !ours {
		_ = tcp.Close()
		if ours && !transport.PeerLeft(err) {
			l.opts.OnSecurity(transport.NewSecurityEvent("tls", tcp.RemoteAddr().String(), err))
		}
		return
	}
	_ = tcp.SetDeadline(time.Time{})
	if c, ok := tcp.(*net.TCPConn); ok {
		_ = c.SetKeepAliveConfig(keepAlive)
	}
	l.Put(&accepted{newConn(conn, raw, peer, l.opts), conn, l.policy, presented}, l.opts.HandshakeTimeout)
}

// evict closes a connection for a new one.
func (l *Listener) evict(conn net.Conn) {
	_ = conn.Close()
	l.opts.OnSecurity(transport.SecurityEvent{
		Transport: "tls",
		Addr:      conn.RemoteAddr().String(),
		Reason:    transport.ReasonEvicted,
		Err:       fmt.Errorf("tlsconn: newer connections took its place among %d in their handshake", l.opts.Pending),
	})
}

// add adds a pending connection. It returns false after Close.
func (l *Listener) add(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.pending[conn] = struct{}{}
	}
	return !l.closed
}

// forget removes a pending connection, and reports whether Close was not called before.
func (l *Listener) forget(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, conn)
	return !l.closed
}
