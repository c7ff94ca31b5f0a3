// Package farend reads the error of a connection: why the other end does not let this end in.
package farend

import (
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Of returns the cause of a refusal in the error of a connection. It is Unsaid if the other end ended
// the connection without a code, for a refusal or for another reason.
func Of(err error) causes.Cause {
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		switch {
		case closed.Stream || !closed.Remote:
			return causes.None
		case closed.Code == 0:
			return causes.Unsaid
		}
		return causes.Of(closed.Code)
	}
	if errors.As(err, new(*transport.RefusedError)) { // this end has refused
		return causes.None
	}
	// In crypto/tls an alert of the other end has no type; in quic-go it is only a number.
	text := err.Error()
	for _, alert := range alerts {
		if strings.Contains(text, "tls: "+alert) {
			return causes.Untrusted
		}
	}
	for _, end := range []error{io.ErrUnexpectedEOF, endpoint.ErrNoAnswer, endpoint.ErrEnded, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return causes.Unsaid
		}
	}
	return causes.None
}

var alerts = []string{
	"bad certificate", "unknown certificate", "certificate required", "certificate unknown", "expired certificate",
	"unsupported certificate", "revoked certificate", "access denied", "unknown certificate authority",
}
