package tlsconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"time"

	"github.com/slimwire/swp/transport"
)

// channel is a tls.Conn that distinguishes network failures from records that the peer, or
// an attacker on the path, has damaged.
type channel struct {
	*tls.Conn
	wire     *wire
	peer     *transport.Peer
	onEvent  func(transport.SecurityEvent)
	reported bool // used by Read only, which one goroutine calls at a time
	received bool // anything at all since the handshake
}

func newConn(conn *tls.Conn, w *wire, peer *transport.Peer, opts Options) *transport.NetConn {
	return transport.NewNetConn(&channel{Conn: conn, wire: w, peer: peer, onEvent: opts.OnSecurity}, peer)
}

// dialled is a connection with the policy that verified its peer. It implements
// transport.Rechecker and transport.Certified.
type dialled struct {
	*transport.NetConn
	tls       *tls.Conn
	policy    *transport.Policy
	host      string
	presented *transport.Presented
}

func (d *dialled) Recheck() error { return d.policy.RecheckDialled(d.tls.ConnectionState(), d.host) }

// accepted is a connection with the policy that admitted its peer. It implements
// transport.Rechecker and transport.Certified.
type accepted struct {
	*transport.NetConn
	tls       *tls.Conn
	policy    *transport.Policy
	presented *transport.Presented
}

func (a *accepted) Recheck() error { return a.policy.Recheck(a.tls.ConnectionState()) }

func (d *dialled) Leaves() transport.Leaves  { return d.presented.Leaves(d.tls.ConnectionState()) }
func (a *accepted) Leaves() transport.Leaves { return a.presented.Leaves(a.tls.ConnectionState()) }

// Chain implements transport.Chained.
func (a *accepted) Chain() []*x509.Certificate { return a.tls.ConnectionState().PeerCertificates }

// Read returns io.EOF after close_notify, an io.ErrUnexpectedEOF error if the connection
// ended without it, and otherwise the error of the network or of TLS.
func (c *channel) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.received = true
	}
	if err != nil && err != io.EOF && c.wire.failed == nil {
		c.report(err)
	}
	return n, err
}

// report reports, once, that TLS itself ended the connection: a record that failed
// authentication, too many records without data, an alert.
func (c *channel) report(err error) {
	if c.reported {
		return
	}
	c.reported = true
	reason := transport.ReasonIntegrity
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" && !c.received {
		reason = transport.ReasonOf(err) // the peer refused us after our handshake was over
	}
	c.onEvent(transport.SecurityEvent{
		Transport: c.peer.Transport,
		Addr:      c.peer.Addr,
		Reason:    reason,
		Identity:  c.peer.Identity,
		Err:       err,
	})
}

// buffered is the most octets that crypto/tls has read from the socket and not returned: the rest of a
// record that was decrypted, and another record.
const buffered = 2 * 17 << 10

// Probe implements transport.Prober.
func (c *channel) Probe(int64) (rest int64, err error) {
	return transport.ProbeSocket(c.wire.Conn, buffered)
}

// Unacknowledged implements transport.Acknowledger.
func (c *channel) Unacknowledged() time.Duration { return transport.UnacknowledgedOn(c.wire.Conn) }

// Break closes the connection of TCP without the alert close_notify.
func (c *channel) Break() error { return c.wire.Conn.Close() }

func (c *channel) Close() error {
	c.wire.closing.Store(true)
	return c.Conn.Close()
}
