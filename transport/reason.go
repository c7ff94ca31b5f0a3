package transport

import (
	"crypto/x509"
	"errors"
	"net"
	"strings"
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

// NewSecurityEvent describes a handshake that failed with err.
func NewSecurityEvent(transport, addr string, err error) SecurityEvent {
	ev := SecurityEvent{Transport: transport, Addr: addr, Reason: ReasonOf(err), Err: err}
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		ev.Identity, ev.Issuer = refused.Identity, refused.Issuer
	}
	return ev
}

// ReasonOf classifies the error that ended a handshake.
func ReasonOf(err error) string {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return ReasonTimeout
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
