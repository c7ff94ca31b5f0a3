// Package farend says in words why the other end of a connection does not let this end in.
package farend

import (
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Refusal is how the other end has refused this end.
type Refusal int

// The refusals.
const (
	None        Refusal = iota
	Certificate         // it refused the certificate of this end
	Identity            // it accepted the certificate, and denies its identity
	Full                // it has no room, or limits this identity
	HungUp              // it ended the connection without a reason
)

// Of returns the refusal in the error of a connection. Only QUIC carries a reason for
// Identity and Full; over TLS they are HungUp.
func Of(err error) Refusal {
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		switch {
		case closed.Stream || !closed.Remote:
			return None
		case closed.Code == uint64(profiles.SecurityPolicy):
			return Identity
		case closed.Code == uint64(profiles.RateLimitExceeded):
			return Full
		case closed.Code == 0:
			return HungUp
		}
		return None
	}
	if errors.As(err, new(*transport.RefusedError)) { // this end has refused
		return None
	}
	// In crypto/tls an alert of the other end has no type; in quic-go it is only a number.
	text := err.Error()
	for _, alert := range alerts {
		if strings.Contains(text, "tls: "+alert) {
			return Certificate
		}
	}
	for _, end := range []error{io.ErrUnexpectedEOF, endpoint.ErrNoAnswer, endpoint.ErrEnded, syscall.ECONNRESET} {
		if errors.Is(err, end) {
			return HungUp
		}
	}
	return None
}

var alerts = []string{
	"bad certificate", "unknown certificate", "certificate required", "certificate unknown", "expired certificate",
	"unsupported certificate", "revoked certificate", "access denied", "unknown certificate authority",
}

// Words returns what the other end has done. far and near name the ends, such as "the
// server" and "this client". It is empty for None.
func (r Refusal) Words(far, near string) string {
	switch r {
	case Certificate:
		return far + " refused " + near + "'s certificate"
	case Identity:
		return far + " trusts " + near + "'s certificate but does not let its identity in"
	case Full:
		return far + " is full or limits this identity"
	case HungUp:
		return far + " hung up; if it does so each time, it is full, or does not let this identity in"
	}
	return ""
}
