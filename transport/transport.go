// Package transport is what SWP runs over: authenticated connections that carry
// one or many ordered octet streams. It holds the interfaces, the mutual-TLS
// policy, plaintext for loopback, and an in-memory Pipe. TLS over TCP is in
// tlsconn, QUIC in quicconn.
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

// Listener accepts connections that are authenticated already: a peer that is
// slow or fails in its handshake is never seen here and delays nobody.
type Listener interface {
	// Accept returns the next connection. It fails with net.ErrClosed after
	// Close, with the context's error, and with nothing else.
	Accept(ctx context.Context) (Conn, error)

	// Addr is the address listened on.
	Addr() net.Addr

	// Close stops accepting and ends unfinished handshakes. Connections that
	// Accept returned live on.
	Close() error
}

// Conn is one authenticated connection. It is safe for concurrent use.
type Conn interface {
	// Peer is who is on the other side. It never changes.
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

	// Close ends the connection and all its streams at once. On QUIC the peer
	// sees code; elsewhere the code is not carried. Calls after the first do
	// nothing.
	Close(code uint64) error

	// Context ends with the connection; context.Cause says why: a *CloseError
	// with the peer's code, or the error of the network.
	Context() context.Context
}

// Stream is an ordered stream of octets in both directions. One goroutine may
// read while another writes.
type Stream interface {
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)

	// SetReadDeadline makes a pending and each later Read fail with
	// os.ErrDeadlineExceeded once t has passed. The stream stays usable: a
	// later deadline, or the zero time, lets reading go on where it stopped.
	SetReadDeadline(t time.Time) error

	// SetWriteDeadline does the same for Write, after which the stream is of
	// no more use, because part of a record may have been written.
	SetWriteDeadline(t time.Time) error

	// CloseWrite tells the peer that nothing more will be written. Reading goes on.
	CloseWrite() error

	// Reset gives the stream up in both directions, with code where the
	// transport carries one. On a connection that is its only stream it ends
	// the connection.
	Reset(code uint64)

	// Context ends when the peer no longer takes what is written: it stopped or
	// reset the stream, CloseWrite was called, or the connection is gone. On a
	// connection that is its only stream it is the connection's.
	Context() context.Context
}

// Peer is who is on the other side of a connection.
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
	Remote bool // the peer's doing, not ours
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

// BrokenError is an error of a stream whose connection ended without a word of the peer:
// it fell silent, or the transport failed. Its text is that of Err.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// ConnectionError returns why the connection of a stream has ended if an error of the
// stream says so, else nil. The stream may say so before the Context of the connection
// ends.
func ConnectionError(err error) error {
	if err == io.EOF { // as each stream that a peer finishes ends
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

// ErrNotLoopback refuses plaintext to or from anywhere but this machine (SWP
// Core §13: no plaintext SWP on non-loopback interfaces).
var ErrNotLoopback = errors.New("transport: plaintext is for loopback addresses only; use swp+tls:// or swp+quic://")

// SecurityEvent reports that a channel was not established or did not last for
// reasons of security. It is meant for the audit log.
type SecurityEvent struct {
	Transport string // "tls", "quic" or "tcp"
	Addr      string // remote address
	Reason    string // short, from a fixed set: see the Reason constants
	Identity  string // claimed or proven identity, if any
	Err       error  // what was found; for the log, never for the peer
}

// Reasons of a SecurityEvent.
const (
	ReasonNoCertificate = "no_certificate" // the peer showed none
	ReasonUntrusted     = "untrusted"      // wrong authority, expired, wrong usage, wrong name
	ReasonIdentity      = "identity"       // not exactly one canonical identity
	ReasonDowngrade     = "downgrade"      // version, suite or protocol not acceptable
	ReasonIntegrity     = "integrity"      // a record failed authentication
	ReasonHandshake     = "handshake"      // anything else that ended a handshake
	ReasonTimeout       = "timeout"        // the handshake took too long
	ReasonEvicted       = "evicted"        // pushed out by newer unauthenticated connections
	ReasonPlaintext     = "plaintext"      // plaintext from a non-loopback address
	ReasonStale         = "stale"          // a timestamp outside the window, freshness owned by S1
)
