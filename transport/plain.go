package transport

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// PlainOptions configure plaintext on loopback. The zero value is usable.
type PlainOptions struct {
	// OnSecurity is called for each refused peer. It must not block. It may be nil.
	OnSecurity func(SecurityEvent)
}

// keepAlive finds dead peers of a TCP connection within two minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 30 * time.Second, Count: 3}

// ListenLoopback listens for plaintext on addr, host:port. The host must be a
// loopback address, or localhost if all its addresses are; otherwise the error
// is ErrNotLoopback. Peers are LoopbackIdentity: they are not authenticated.
func ListenLoopback(addr string, opts PlainOptions) (Listener, error) {
	addr, err := resolveLoopback(context.Background(), addr)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("transport: listen: %w", err)
	}
	return servePlain(ln, opts), nil
}

// DialLoopback connects to addr, host:port, in plaintext. It refuses the addresses that
// ListenLoopback refuses.
func DialLoopback(ctx context.Context, addr string) (Conn, error) {
	addr, err := resolveLoopback(ctx, addr)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{KeepAliveConfig: keepAlive}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("transport: dial: %w", err)
	}
	return NewNetConn(conn, plainPeer(conn)), nil
}

type plainListener struct {
	*Queue
	ln   net.Listener
	opts PlainOptions
	loop sync.WaitGroup
}

func servePlain(ln net.Listener, opts PlainOptions) *plainListener {
	l := &plainListener{Queue: NewQueue(), ln: ln, opts: opts}
	l.loop.Go(func() { AcceptTCP(ln, l.handle) })
	return l
}

// handle blocks until the connection is accepted: no other handshake waits for
// it.
func (l *plainListener) handle(conn net.Conn) {
	if !loopbackAddr(conn.RemoteAddr()) {
		if l.opts.OnSecurity != nil {
			l.opts.OnSecurity(SecurityEvent{Transport: "tcp", Addr: conn.RemoteAddr().String(), Reason: ReasonPlaintext, Err: ErrNotLoopback})
		}
		_ = conn.Close()
		return
	}
	l.Put(NewNetConn(conn, plainPeer(conn)), 10*time.Second)
}

func (l *plainListener) Addr() net.Addr { return l.ln.Addr() }

func (l *plainListener) Close() error {
	l.Queue.Close()
	err := l.ln.Close()
	l.loop.Wait()
	return err
}

func plainPeer(conn net.Conn) *Peer {
	return &Peer{Identity: LoopbackIdentity, Transport: "tcp", Addr: conn.RemoteAddr().String()}
}

// resolveLoopback returns addr with an IP address as its host.
func resolveLoopback(ctx context.Context, addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("transport: %w", err)
	}
	if !loopbackHost(host) {
		return "", fmt.Errorf("transport: address %q: %w", addr, ErrNotLoopback)
	}
	if host != "localhost" {
		return addr, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("transport: %w", err)
	}
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return "", fmt.Errorf("transport: address %q is %s here: %w", addr, ip, ErrNotLoopback)
		}
	}
	return net.JoinHostPort(ips[0].Unmap().String(), port), nil
}
