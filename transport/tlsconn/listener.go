package tlsconn

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

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

	mu      sync.Mutex
	pending list.List // of net.Conn, oldest first: peers not yet authenticated
	closed  bool
}

// Listen listens on addr, host:port.
func Listen(addr string, policy *transport.Policy, opts Options) (*Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("tlsconn: listen: %w", err)
	}
	opts = opts.withDefaults()
	l := &Listener{
		Queue:  transport.NewQueue(),
		ln:     ln,
		config: serverConfig(policy),
		policy: policy,
		opts:   opts,
		slots:  make(chan struct{}, opts.Handshakes),
	}
	l.tasks.Go(func() { transport.AcceptTCP(ln, l.handle) })
	return l, nil
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
	for l.pending.Len() > 0 {
		_ = l.remove(l.pending.Front()).Close()
	}
	l.mu.Unlock()
	l.tasks.Wait()
	return err
}

// handle starts the handshake of a new connection. Its goroutine ends with the handshake,
// because a handshake needs twice the stack of an established connection.
func (l *Listener) handle(conn net.Conn) {
	place := l.admit(conn)
	if place == nil {
		_ = conn.Close()
		return
	}
	l.tasks.Go(func() { l.shake(conn, place) })
}

func (l *Listener) shake(tcp net.Conn, place *list.Element) {
	deadline := time.Now().Add(l.opts.HandshakeTimeout)
	_ = tcp.SetDeadline(deadline)
	h := &handshake{slots: l.slots}
	raw := &wire{Conn: tcp, shaking: h}
	conn := tls.Server(raw, l.config)

	h.acquire()
	ctx, presented := transport.NotePresented(context.Background())
	peer, err := shake(ctx, conn, raw, l.policy)
	h.release()

	ours := l.leave(place) // otherwise evicted or closed, and said so there
	if err != nil || !ours {
		_ = tcp.Close()
		if ours {
			l.opts.OnSecurity(transport.NewSecurityEvent("tls", tcp.RemoteAddr().String(), err))
		}
		return
	}
	_ = tcp.SetDeadline(time.Time{})
	l.Put(&accepted{newConn(conn, raw, peer, l.opts), conn, l.policy, presented}, l.opts.HandshakeTimeout)
}

// admit adds conn to the pending connections, and evicts the oldest one if there are too
// many. It returns nil after Close.
func (l *Listener) admit(conn net.Conn) *list.Element {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	var evicted net.Conn
	if l.pending.Len() >= l.opts.Pending {
		evicted = l.remove(l.pending.Front())
	}
	place := l.pending.PushBack(conn)
	l.mu.Unlock()

	if evicted != nil {
		_ = evicted.Close()
		l.opts.OnSecurity(transport.SecurityEvent{
			Transport: "tls",
			Addr:      evicted.RemoteAddr().String(),
			Reason:    transport.ReasonEvicted,
			Err:       fmt.Errorf("tlsconn: %d newer connections in their handshake", l.opts.Pending),
		})
	}
	return place
}

// leave removes a pending connection and reports whether it was still pending.
func (l *Listener) leave(place *list.Element) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remove(place) != nil
}

// remove removes a pending connection, under l.mu. It returns nil if it was removed before.
func (l *Listener) remove(place *list.Element) net.Conn {
	conn, _ := place.Value.(net.Conn)
	if conn != nil {
		l.pending.Remove(place)
		place.Value = nil
	}
	return conn
}
