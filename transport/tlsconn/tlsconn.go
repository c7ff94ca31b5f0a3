// Package tlsconn carries SWP over mutual TLS 1.3 on TCP, with one stream per connection.
// transport.Policy decides which peers are admitted.
//
// Specification: SWP Core §13 (S1).
package tlsconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/slimwire/swp/transport"
)

// Options configure a listener or a dialler. The zero value is usable.
type Options struct {
	// OnSecurity is called for each failed handshake, of a dialler unless the link has failed
	// (transport.LinkFailed), and for each connection whose records fail authentication later. Many goroutines call it at once and it must not block. It
	// may be nil.
	OnSecurity func(transport.SecurityEvent)

	// HandshakeTimeout is how long a peer may take from its first octet of TCP
	// to the end of the handshake. Zero means 10 s.
	HandshakeTimeout time.Duration

	// Handshakes is how many handshakes a listener computes at once. Waiting
	// for a peer does not count. Zero means half the cores, at least one.
	Handshakes int

	// Pending is how many connections of a listener may be in their handshake; a newer one
	// evicts the oldest. Zero means 1,024.
	Pending int

	// Shared reports whether many peers share an address, as behind a proxy. Elsewhere the
	// peers of one address have a quarter of Pending. Many goroutines call it at once. It
	// may be nil.
	Shared func(netip.Addr) bool
}

func (o Options) withDefaults() Options {
	if o.OnSecurity == nil {
		o.OnSecurity = func(transport.SecurityEvent) {}
	}
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.Handshakes <= 0 {
		o.Handshakes = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if o.Pending <= 0 {
		o.Pending = 1024
	}
	return o
}

// keepAlive finds dead peers within two minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 30 * time.Second, Count: 3}

// Dial connects to addr, host:port, and returns after this side has verified the peer. In
// TLS 1.3 the peer verifies this side later: if it refuses, the first Read fails.
func Dial(ctx context.Context, addr string, policy *transport.Policy, opts Options) (transport.Conn, error) {
	opts = opts.withDefaults()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("tlsconn: dial: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, opts.HandshakeTimeout)
	defer cancel()
	d := net.Dialer{KeepAliveConfig: keepAlive}
	tcp, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("tlsconn: dial: %w", err)
	}
	raw := &wire{Conn: tcp, shaking: &handshake{}}
	conn := tls.Client(raw, policy.Client(host))
	ctx, presented := transport.NotePresented(ctx)
	peer, err := shake(ctx, conn, raw, policy)
	if err != nil {
		_ = tcp.Close()
		if !transport.LinkFailed(err) {
			opts.OnSecurity(transport.NewSecurityEvent("tls", addr, err))
		}
		return nil, fmt.Errorf("tlsconn: dial %s: %w", addr, err)
	}
	return &dialled{newConn(conn, raw, peer, opts), conn, policy, host, presented}, nil
}

// shake runs the handshake of conn and returns the peer.
func shake(ctx context.Context, conn *tls.Conn, raw *wire, policy *transport.Policy) (*transport.Peer, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		if alert, ok := raw.shaking.clearAlert(); ok {
			return nil, alert
		}
		return nil, err
	}
	raw.shaking = nil
	return policy.Peer(conn.ConnectionState(), "tls", raw.RemoteAddr().String())
}
