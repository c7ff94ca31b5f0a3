// Package transport defines the connections that SWP uses: authenticated connections that
// carry one or many ordered octet streams. It holds the interfaces, the mutual-TLS policy,
// plaintext for loopback, and an in-memory Pipe. Package tlsconn implements TLS over TCP,
// quicconn QUIC.
//
// Specification: SWP Core §1 and §13 (S1).
package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"
)

// ALPN is the protocol that both sides of TLS and QUIC must agree on.
const ALPN = "swp/1"

// Listener accepts authenticated connections. A peer that is slow or fails in its handshake
// does not appear here and delays no other peer.
type Listener interface {
	// Accept returns the next connection. Its only errors are net.ErrClosed after Close,
	// and the error of ctx.
	Accept(ctx context.Context) (Conn, error)

	// Addr is the address listened on.
	Addr() net.Addr

	// Close stops accepting and ends unfinished handshakes. Connections that Accept
	// returned stay open.
	Close() error
}

// Conn is one authenticated connection. It is safe for concurrent use.
type Conn interface {
	// Peer describes the other end. It never changes.
	Peer() *Peer

	// Multiplexed reports whether each Open and Accept yields a new stream
	// (QUIC). Otherwise the connection is its only stream: Open returns it
	// every time, and Accept returns it once.
	Multiplexed() bool

	// Open returns a stream to send on. On a multiplexed connection it waits
	// until the peer permits another stream.
	Open(ctx context.Context) (Stream, error)

	// Accept returns the next stream that the peer opened.
	Accept(ctx context.Context) (Stream, error)

	// Close ends the connection and all its streams at once. On QUIC the peer receives
	// code; other transports do not carry it. Later calls do nothing.
	Close(code uint64) error

	// Context ends with the connection; context.Cause returns the reason: a *CloseError
	// with the peer's code, or the error of the network.
	Context() context.Context
}

// Bounded is a multiplexed Conn with a bound of the streams that this side opens.
type Bounded interface {
	// Streams is how many of them an endpoint of this project permits at once. Other peers may
	// permit fewer.
	Streams() int

	// TryOpen is Open that does not wait: the stream is nil if the peer permits no other now.
	TryOpen() (Stream, error)
}

// Breaker is a Conn that can end as if its path had failed: the peer does not see an orderly end.
type Breaker interface {
	// Break ends the connection and all its streams at once. On QUIC the peer receives code, which is
	// not 0; on TLS it misses close_notify. Later calls do nothing.
	Break(code uint64) error
}

// Departing is a Conn that another process carries, and that process can end earlier than the peer.
type Departing interface {
	// Departing ends when the connection should be drained. The cause does not matter.
	Departing() context.Context
}

// Stream is an ordered stream of octets in both directions. One goroutine may
// read while another writes.
type Stream interface {
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)

	// SetReadDeadline makes a pending and each later Read fail with os.ErrDeadlineExceeded
	// once t has passed. The stream stays usable: with a later deadline, or the zero time,
	// reading continues at the same octet.
	SetReadDeadline(t time.Time) error

	// SetWriteDeadline does the same for Write. After it has expired the stream is
	// unusable, because part of a record may have been written.
	SetWriteDeadline(t time.Time) error

	// CloseWrite half-closes the stream: the peer sees its end, and reading continues.
	CloseWrite() error

	// Reset ends the stream in both directions, with code if the transport carries one. The
	// peer may lose what it has not read yet; see Concluder. If the stream is the connection,
	// it ends the connection.
	Reset(code uint64)

	// Context ends when the peer receives nothing more from this stream: it stopped or
	// reset the stream, CloseWrite was called, or the connection is lost. If the stream is
	// the connection, it is the context of the connection.
	Context() context.Context
}

// Acknowledger is a Conn that knows whether the host of the peer is there.
type Acknowledger interface {
	// Unacknowledged returns for how long the host has acknowledged no octet, although some
	// were sent repeatedly. It is 0 if there is nothing of the kind, or that is not known.
	Unacknowledged() time.Duration
}

// Unacknowledged is Acknowledger.Unacknowledged, 0 for other connections.
func Unacknowledged(conn Conn) time.Duration {
	if a, ok := conn.(Acknowledger); ok {
		return a.Unacknowledged()
	}
	return 0
}

// Prober is a Stream that knows something about octets that were not read yet.
type Prober interface {
	// Probe neither reads nor waits; reading goes on as if it had not been called, but the read
	// deadline has to be set again. read is how many octets of the stream were read. The error says why
	// no more can be read: the peer has reset the stream, or the connection is lost. Otherwise rest is an
	// upper bound of the octets that are still to come, -1 as long as the peer may send more.
	Probe(read int64) (rest int64, err error)
}

// Peer describes the other end of a connection.
type Peer struct {
	Identity    string // canonical, see Identity; "loopback" for plaintext
	Transport   string // "tls", "quic", "tcp" or "pipe"
	Addr        string // remote address, for logs
	Issuer      string // audit attributes of the leaf certificate
	Subject     string
	Fingerprint string // SHA-256 of the leaf certificate, hex

	NotBefore, NotAfter time.Time // when the leaf certificate is valid; zero without one
}

// CloseError is the cause of a connection or stream that the peer ended with an
// application error code; 0 is an orderly end.
type CloseError struct {
	Code   uint64
	Remote bool // closed by the peer, not by this side
	Stream bool // it ended one of several streams, the connection goes on
}

func (e *CloseError) Error() string {
	who := "here"
	if e.Remote {
		who = "by the peer"
	}
	if e.Code == 0 {
		return "transport: closed " + who
	}
	return "transport: closed " + who + " with code " + strconv.FormatUint(e.Code, 10)
}

// BrokenError is an error of a stream whose connection ended without a message from the
// peer: it fell silent, or the transport failed. Its text is that of Err.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// ConnectionError returns why the connection of a stream has ended, if an error of the
// stream says so, else nil. Such an error can arrive before the Context of the connection
// ends.
func ConnectionError(err error) error {
	if err == io.EOF { // the usual end of a stream
		return nil
	}
	if closed, ok := errors.AsType[*CloseError](err); ok && !closed.Stream {
		return closed
	}
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		return broken.Err
	}
	return nil
}

// ErrNotLoopback refuses plaintext on non-loopback addresses (SWP Core §13).
var ErrNotLoopback = errors.New("transport: plaintext is for loopback addresses only; use swp+tls:// or swp+quic://")

// SecurityEvent reports a connection that was not established, or ended, for security
// reasons. It is meant for the audit log.
type SecurityEvent struct {
	Transport string // "tls", "quic" or "tcp"
	Addr      string // remote address
	Reason    string // short, from a fixed set: see the Reason constants
	Identity  string // claimed or proven identity, if any
	Issuer    string // authority of a certificate that was refused, as it says itself; at most 256 octets
	Err       error  // what was found; for the log, never for the peer
}

// Reasons of a SecurityEvent.
const (
	ReasonNoCertificate = "no_certificate" // the peer showed none
	ReasonUntrusted     = "untrusted"      // wrong authority, expired, wrong usage, wrong name
	ReasonDistrusted    = "distrusted"     // the peer does not accept the certificate of this endpoint
	ReasonIdentity      = "identity"       // not exactly one canonical identity
	ReasonDowngrade     = "downgrade"      // version, suite or protocol not acceptable
	ReasonIntegrity     = "integrity"      // a record failed authentication
	ReasonHandshake     = "handshake"      // anything else that ended a handshake
	ReasonTimeout       = "timeout"        // the handshake took too long
	ReasonEvicted       = "evicted"        // pushed out by newer unauthenticated connections
	ReasonPlaintext     = "plaintext"      // plaintext from a non-loopback address
	ReasonCaller        = "caller"         // an assertion of a caller that does not verify (extension 51)
	ReasonStale         = "stale"          // a timestamp outside the window, freshness owned by S1
)
