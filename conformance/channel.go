package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/vectors"
)

const loopback = "127.0.0.1:0"

// buildChannel sets an endpoint with recording profiles on one side of a real channel over
// loopback, TLS or QUIC, and a peer on the other that does what the input says of it.
// Handshakes run as they would anywhere else.
func buildChannel(s *stage) error {
	c := s.in.Channel
	if c == nil {
		c = new(vectors.Channel)
	}
	if names := s.connNames(); !slices.Equal(names, []string{"a"}) {
		return fmt.Errorf("%w: a channel scenario has one connection, not %q", ErrNotPlayed, names)
	}
	if c.Plaintext != "" {
		return s.refusePlaintext(c)
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	own, err := ca.issue(ownIdentity, nil)
	if err != nil {
		return err
	}
	creds := &transport.Credentials{Certificate: own, Roots: ca.pool()}
	policy := &transport.Policy{Credentials: func() *transport.Credentials { return creds }}
	theirs, err := peerConfig(ca, c)
	if err != nil {
		return err
	}
	list, err := recording(s)
	if err != nil {
		return err
	}
	ep, err := s.endpoint(list)
	if err != nil {
		return err
	}
	switch c.Transport + " " + c.Endpoint {
	case " ", " accept":
		return s.acceptTLS(ep, policy, theirs)
	case " dial":
		return s.dialTLS(ep, policy, theirs)
	case vectors.QUIC + " ", vectors.QUIC + " accept":
		return s.acceptQUIC(ep, policy, theirs)
	case vectors.QUIC + " dial":
		return s.dialQUIC(ep, policy, theirs)
	}
	return fmt.Errorf("channel.transport is %q, channel.endpoint %q", c.Transport, c.Endpoint)
}

// peerConfig is the peer's side of TLS. It takes whoever it meets: it is not
// the one under test.
func peerConfig(ca *authority, c *vectors.Channel) (*tls.Config, error) {
	cert, err := ca.peerCertificate(c.PeerCertificate, c.Endpoint != "dial")
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		NextProtos: []string{transport.ALPN}, InsecureSkipVerify: true, //nolint:gosec // see above
		ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true,
	}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	if c.PeerProtocol != "" {
		config.NextProtos = []string{c.PeerProtocol}
	}
	switch {
	case c.PeerMaxVersion == "", c.PeerMaxVersion == "1.3":
	case c.PeerMaxVersion == "1.2" && c.Transport == "":
		config.MaxVersion = tls.VersionTLS12
	default:
		return nil, fmt.Errorf("peer_max_version is %q", c.PeerMaxVersion)
	}
	return config, nil
}

// acceptQUIC has the endpoint listen and the peer dial.
func (s *stage) acceptQUIC(ep *endpoint.Endpoint, policy *transport.Policy, theirs *tls.Config) error {
	ln, err := quicconn.Listen(loopback, policy, quicconn.Options{OnSecurity: s.channelFailed})
	if err != nil {
		return err
	}
	s.tasks.Go(func() { _ = ep.Serve(s.ctx, ln) })
	tr, err := s.quicSocket()
	if err != nil {
		return err
	}
	return s.newQUICPeer(tr, ln.Addr(), theirs)
}

// dialQUIC has the peer listen and the endpoint dial.
func (s *stage) dialQUIC(ep *endpoint.Endpoint, policy *transport.Policy, theirs *tls.Config) error {
	tr, err := s.quicSocket()
	if err != nil {
		return err
	}
	if err := s.newQUICPeer(tr, nil, theirs); err != nil {
		return err
	}
	s.tasks.Go(func() {
		conn, err := quicconn.Dial(s.ctx, tr.Conn.LocalAddr().String(), policy, quicconn.Options{OnSecurity: s.channelFailed})
		if err == nil {
			s.attach(ep, conn, "a")
		}
	})
	return nil
}

// acceptTLS has the endpoint listen and the peer dial.
func (s *stage) acceptTLS(ep *endpoint.Endpoint, policy *transport.Policy, theirs *tls.Config) error {
	ln, err := tlsconn.Listen(loopback, policy, tlsconn.Options{OnSecurity: s.channelFailed})
	if err != nil {
		return err
	}
	s.tasks.Go(func() { _ = ep.Serve(s.ctx, ln) })
	tcp, err := net.Dial("tcp", ln.Addr().String()) //nolint:noctx // loopback
	if err != nil {
		return err
	}
	s.channelPeer(tcp, func(wire net.Conn) *tls.Conn { return tls.Client(wire, theirs) })
	return nil
}

// dialTLS has the peer listen and the endpoint dial.
func (s *stage) dialTLS(ep *endpoint.Endpoint, policy *transport.Policy, theirs *tls.Config) error {
	ln, err := net.Listen("tcp", loopback) //nolint:noctx // loopback
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	s.tasks.Go(func() {
		conn, err := tlsconn.Dial(s.ctx, ln.Addr().String(), policy, tlsconn.Options{OnSecurity: s.channelFailed})
		if err == nil {
			s.attach(ep, conn, "a")
		}
	})
	tcp, err := ln.Accept()
	if err != nil {
		return err
	}
	s.channelPeer(tcp, func(wire net.Conn) *tls.Conn { return tls.Server(wire, theirs) })
	return nil
}

// channelPeer makes the peer's end of TLS over tcp. The handshake happens with
// the first read or write.
func (s *stage) channelPeer(tcp net.Conn, side func(net.Conn) *tls.Conn) {
	wire := &damager{Conn: tcp}
	conn := side(wire)
	s.onClose(func() { _ = tcp.Close() })
	p := s.newWirePeer("a", conn)
	p.flip = func(int) { wire.armed.Store(true) }
	p.flipped = func() bool { return !wire.armed.Load() }
	s.peers["a"] = &channelPeer{wirePeer: p}
}

// channelPeer has ended even if no session came of the channel.
type channelPeer struct{ *wirePeer }

func (p *channelPeer) ended() bool { return p.over && p.s.failed || p.wirePeer.ended() }

// damager inverts a bit of the next record that is written through it.
type damager struct {
	net.Conn
	armed atomic.Bool
}

func (d *damager) Write(p []byte) (int, error) {
	if len(p) > 0 && d.armed.Swap(false) {
		p = damaged(p)
	}
	return d.Conn.Write(p)
}

// damaged returns a record or packet with a bit of its protected part inverted.
func damaged(p []byte) []byte {
	p = slices.Clone(p)
	p[len(p)-1] ^= 1
	return p
}

// channelFailed records the security failure that ended a channel. A step during which this
// happened counts as refused.
func (s *stage) channelFailed(ev transport.SecurityEvent) {
	s.change(func() {
		p := &s.steps[s.step]
		p.Events = append(p.Events, ev.Reason)
		p.refused = ev.Reason
		s.failed = true
	})
}

// refusePlaintext asks for plaintext on an address. Dialling is asked for with
// a context that has ended already, so that nothing is ever sent.
func (s *stage) refusePlaintext(c *vectors.Channel) error {
	var err error
	if c.Endpoint == "dial" {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var conn transport.Conn
		if conn, err = transport.DialLoopback(ctx, c.Plaintext); err == nil {
			_ = conn.Close(0)
		}
	} else {
		var ln transport.Listener
		if ln, err = transport.ListenLoopback(c.Plaintext, transport.PlainOptions{}); err == nil {
			_ = ln.Close()
		}
	}
	if errors.Is(err, transport.ErrNotLoopback) {
		s.channelFailed(transport.SecurityEvent{Transport: "tcp", Addr: c.Plaintext, Reason: transport.ReasonPlaintext, Err: err})
	}
	s.peers["a"] = noPeer{}
	return nil
}

// noPeer is a connection that was never made.
type noPeer struct{}

func (noPeer) send([]byte, bool) span { return span{1, 1} }
func (noPeer) altered() bool          { return false }
func (noPeer) hangUp() error          { return nil }
func (noPeer) ended() bool            { return true }
func (noPeer) waiting() bool          { return false }
func (noPeer) next() []byte           { return nil }
func (noPeer) last() []byte           { return nil }
