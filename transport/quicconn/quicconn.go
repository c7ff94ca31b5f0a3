// Package quicconn carries SWP over QUIC, with any number of streams per connection.
// transport.Policy decides which peers are admitted. It is the only package that names
// quic-go.
//
// Specification: SWP Core §13 (S1).
package quicconn

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/transport"
)

// Options configure a listener or a dialler. The zero value is usable.
type Options struct {
	// OnSecurity is told of each handshake that failed, of a dialler unless the link has failed
	// (transport.LinkFailed). Many goroutines call it
	// at once and it must not block. It may be nil.
	OnSecurity func(transport.SecurityEvent)

	// HandshakeTimeout is how long a peer may be silent during its handshake;
	// the handshake may take twice as long. Zero means 5 s.
	HandshakeTimeout time.Duration

	// RetryAbove is the number of handshakes in progress per listener above which new peers
	// must first prove their address (Retry). Zero means 128, a negative value always.
	RetryAbove int

	// Pending is how many handshakes of a listener may be in progress; further ones are
	// refused. Zero means 1,024.
	Pending int

	// Shared reports whether many peers share an address, as behind a proxy. Elsewhere the
	// peers of one address have a quarter of Pending. Many goroutines call it at once. It
	// may be nil.
	Shared func(netip.Addr) bool

	// Windows is how many octets the receive windows of all connections of a listener may
	// grow in total. Each window begins with 1 MiB and grows to at most 4 MiB. Zero means
	// 16 MiB.
	Windows int
}

func (o Options) withDefaults() Options {
	if o.OnSecurity == nil {
		o.OnSecurity = func(transport.SecurityEvent) {}
	}
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = 5 * time.Second
	}
	if o.RetryAbove == 0 {
		o.RetryAbove = 128
	}
	if o.Pending <= 0 {
		o.Pending = 1024
	}
	if o.Windows <= 0 {
		o.Windows = 16 << 20
	}
	return o
}

// Bounds of a connection.
const (
	maxStreams       = 128 // that a peer may have open
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20
	idleTimeout      = 60 * time.Second
	keepAlive        = 20 * time.Second

	// firstPacket is the size of packets until larger ones have been found to arrive (RFC 9000
	// §14.1). A hop with an MTU of 1,280, as in WireGuard, carries at most 1,252 octets in a datagram
	// over IPv4 and 1,232 over IPv6; the library begins with 1,280.
	firstPacket = 1200
)

// config returns the QUIC parameters of both sides.
func (o Options) config() *quic.Config {
	return &quic.Config{
		Versions:                       []quic.Version{quic.Version1},
		InitialPacketSize:              firstPacket,
		HandshakeIdleTimeout:           o.HandshakeTimeout,
		MaxIdleTimeout:                 idleTimeout,
		InitialStreamReceiveWindow:     streamWindow / 2,
		MaxStreamReceiveWindow:         streamWindow,
		InitialConnectionReceiveWindow: streamWindow,
		MaxConnectionReceiveWindow:     connectionWindow,
		MaxIncomingStreams:             maxStreams,
		MaxIncomingUniStreams:          -1,
		Allow0RTT:                      false,
		EnableDatagrams:                false,
		// Refused messages end a stream behind the answers to others (transport.Concluder).
		EnableStreamResetPartialDelivery: true,
		// A stream counts until its work here is done (transport.Releaser), even if the
		// peer has reset it.
		RequireStreamCreditRelease: true,
	}
}

// Dial connects to addr, host:port, from a new UDP socket, and returns after this side has
// verified the peer. The peer may still refuse this side, or close the connection with a code
// at once: the cause of the connection's Context then says so, or the error of Dial, whichever
// is first.
func Dial(ctx context.Context, addr string, policy *transport.Policy, opts Options) (transport.Conn, error) {
	opts = opts.withDefaults()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("quicconn: dial: %w", err)
	}
	config := opts.config()
	config.KeepAlivePeriod = keepAlive // one side's is enough
	ctx, presented := transport.NotePresented(ctx)
	qc, err := quic.DialAddr(ctx, addr, policy.Client(host), config)
	if err != nil {
		// A peer that accepts this side and closes at once may be faster than this return.
		err = cause(err)
		if ctx.Err() == nil && !is[*transport.CloseError](err) && !transport.LinkFailed(shaken(err)) {
			opts.OnSecurity(transport.NewSecurityEvent("quic", addr, shaken(err)))
		}
		return nil, fmt.Errorf("quicconn: dial %s: %w", addr, err)
	}
	peer, err := policy.Peer(qc.ConnectionState().TLS, "quic", qc.RemoteAddr().String())
	if err != nil {
		_ = qc.CloseWithError(0, "")
		return nil, fmt.Errorf("quicconn: dial %s: %w", addr, err)
	}
	return &dialled{newConn(qc, peer, opts), policy, host, presented}, nil
}
