package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
)

// RefusedError says why a handshake refused a peer.
type RefusedError struct {
	Reason   string // one of the Reason constants
	Identity string // claimed by the peer, if canonical
	Issuer   string // authority of the certificate, as that says itself; at most 256 octets
	Err      error

	// Chain belongs to the peer, leaf first, within the limits of size and number; nil if
	// the refusal came before its authority or its name was judged.
	Chain []*x509.Certificate
}

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// RemoteAlert is the TLS alert with which the peer has ended a handshake.
type RemoteAlert tls.AlertError

func (a RemoteAlert) Error() string {
	return "the peer ended the handshake: " + tls.AlertError(a).Error()
}

// distrust has the alerts with which a peer refuses the certificate of this endpoint
// (RFC 8446 §6.2): bad, unsupported, revoked, expired, unknown and required certificate,
// unknown authority, access denied.
var distrust = []RemoteAlert{42, 43, 44, 45, 46, 48, 49, 116}

// distrusts reports whether err is one of these alerts. crypto/tls shows the alerts that it
// has received by their text only.
func distrusts(err error) bool {
	if alert, ok := errors.AsType[RemoteAlert](err); ok {
		return slices.Contains(distrust, alert)
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && slices.ContainsFunc(distrust, func(a RemoteAlert) bool { return op.Err.Error() == tls.AlertError(a).Error() })
}

// NewSecurityEvent describes a handshake that failed with err.
func NewSecurityEvent(transport, addr string, err error) SecurityEvent {
	ev := SecurityEvent{Transport: transport, Addr: addr, Reason: ReasonOf(err), Err: err}
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		ev.Identity, ev.Issuer = refused.Identity, refused.Issuer
	}
	return ev
}

// LinkFailed reports whether the link ended a handshake that this end has begun: the peer is away, or the time
// or the connection ended before the peer has shown anything wrong. That is no SecurityEvent.
func LinkFailed(err error) bool {
	switch ReasonOf(err) {
	case ReasonTimeout:
		return true
	case ReasonHandshake:
	default:
		return false
	}
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op != "remote error" && op.Op != "local error" // those are alerts of TLS
}

// PeerLeft reports whether the peer has given up a handshake that it has begun: it does not want the connection, and has
// ended it by an application error or a reset. It does not count as a SecurityEvent.
func PeerLeft(err error) bool {
	if closed, ok := errors.AsType[*CloseError](err); ok {
		return closed.Remote && !closed.Stream
	}
	return errors.Is(err, syscall.ECONNRESET)
}

// ReasonOf classifies the error that ended a handshake.
func ReasonOf(err error) string {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return ReasonTimeout
	}
	if distrusts(err) {
		return ReasonDistrusted
	}
	// crypto/tls makes these checks before VerifyConnection, and its errors have no type.
	// The certificate matrix of the tests holds the texts.
	text := err.Error()
	for _, known := range tlsTexts {
		if strings.Contains(text, known.text) {
			return known.reason
		}
	}
	return ReasonHandshake
}

var tlsTexts = []struct{ text, reason string }{
	{"client didn't provide a certificate", ReasonNoCertificate},
	{"unsupported versions", ReasonDowngrade},
	{"protocol version", ReasonDowngrade},
	{"application protocol", ReasonDowngrade},
	{"unadvertised ALPN", ReasonDowngrade},
	{"no cipher suite supported", ReasonDowngrade},
	{"failed to parse client certificate", ReasonUntrusted},
	{"failed to parse certificate from server", ReasonUntrusted},
	{"certificate containing RSA key larger", ReasonUntrusted},
	{"invalid signature by the", ReasonUntrusted},
	{"bad record MAC", ReasonIntegrity},
	{"finished hash", ReasonIntegrity},
}
