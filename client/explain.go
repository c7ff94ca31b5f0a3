package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Explained is an error with what to do about it.
type Explained struct {
	What string // what failed; may be empty
	Do   string // what to do; may be empty
	Err  error  // the cause
}

func (e *Explained) Error() string {
	s := e.Err.Error()
	if e.What != "" {
		s = e.What + ": " + s
	}
	if e.Do != "" {
		s += "\n" + e.Do
	}
	return s
}

// Unwrap returns the cause.
func (e *Explained) Unwrap() error { return e.Err }

// Explain says what an error of this connection means to the person who asked
// for it and what to do. An error that ends the connection is found behind those
// of calls, because TLS 1.3 tells a client that it was refused only then.
func (c *Client) Explain(err error) error {
	if err == nil {
		return nil
	}
	if done := (*Explained)(nil); errors.As(err, &done) {
		return err
	}
	if c.Session != nil {
		if cause := context.Cause(c.Session.Context()); cause != nil && !said(err) {
			err = cause
		}
	}
	if fault := (*profiles.Error)(nil); errors.As(err, &fault) && fault.Code == profiles.Internal && fault.Detail == profiles.PayloadTooLarge.String() {
		return &tooLargeError{cmp.Or(c.opts.Endpoint.Envelope.MaxPayload, e1.DefaultMaxPayload), err}
	}
	return &Explained{What: c.address, Do: c.advice(err), Err: err}
}

// said reports whether an error is what the peer said.
func said(err error) bool {
	return errors.As(err, new(*profiles.Error)) || errors.As(err, new(*events.PeerError)) || errors.As(err, new(*relay.PeerError))
}

// tooLargeError is that of a message which never left.
type tooLargeError struct {
	limit int // octets of a payload
	err   error
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the input is too large: a message, the input and what it is wrapped in, has at most %d octets", e.limit)
}

func (e *tooLargeError) Unwrap() error { return e.err }

func (c *Client) advice(err error) string {
	id := c.opts.Identity
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		lookup    *net.DNSError
		closed    *transport.CloseError
	)
	switch text := err.Error(); {
	case errors.Is(err, fs.ErrNotExist):
		return "Make a development identity with: swpd init, or name files with --cert, --key and --ca."
	case errors.As(err, &authority):
		return fmt.Sprintf("The server's certificate is not from an authority in %s. If you trust the server, pass its authority with --ca FILE.", id.CA)
	case errors.As(err, &name):
		return "The server's certificate is for another name. If the server is known by an identity instead, pass it with --expect, such as --expect spiffe://example.org/swpd."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The server's certificate is not valid now. Check the clock of both machines; if they are right, the certificate has to be renewed."
	case strings.Contains(text, "expected \""):
		return "Another identity was expected. Correct --expect, or find out who answers there."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Nothing listens there. Is swpd running, and is this its address? Its log says where it listens."
	case errors.As(err, &lookup):
		return "The host name is not known here."
	case errors.As(err, &closed) && closed.Code == uint64(profiles.SecurityPolicy):
		return "The server trusts this client's certificate but does not let its identity in. " + c.ifDenied()
	case refusedUs(text):
		return fmt.Sprintf("The server refused this client's certificate %s. Show one from an authority that the server trusts with --cert and --key.", id.Cert)
	case strings.Contains(text, "no application protocol"), strings.Contains(text, "first record does not look like a TLS handshake"):
		return "What listens there does not speak SWP over TLS. Is the port, and is the scheme of the address right?"
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(text, "timeout"), strings.Contains(text, "no recent network activity"):
		return "No answer in time. Check the address and whether something on the way drops packets (UDP for swp+quic), or allow more time with --timeout."
	case errors.As(err, &closed) && closed.Code == uint64(profiles.RateLimitExceeded):
		return "The server is full or limits this identity. Try again later."
	case c.endedInOrder(err):
		return "The server ended the connection, as it does with one that was idle for its limits.idle, and when it stops. The same again connects anew."
	case c.id() != "" && (errors.Is(err, endpoint.ErrNoAnswer) || errors.Is(err, endpoint.ErrEnded) || errors.Is(err, syscall.ECONNRESET)):
		// Over TLS nothing says why.
		return "The server hung up. If it does so each time, it is full, or does not let this identity in. " + c.ifDenied()
	}
	return ""
}

// endedInOrder reports whether the peer ended a connection that it had let in, without a
// complaint: over QUIC by code 0, over TLS as it is closed in order.
func (c *Client) endedInOrder(err error) bool {
	closed := (*transport.CloseError)(nil)
	inOrder := errors.Is(err, endpoint.ErrEnded) || errors.As(err, &closed) && closed.Remote && closed.Code == 0
	return inOrder && c.Session != nil && c.Answered()
}

// ifDenied is what to do about a server that does not let our identity in.
func (c *Client) ifDenied() string {
	return fmt.Sprintf("Its operator finds %q in its log with reason \"denied\" and would have to take it out of access.deny; swpd reload then lets it in.", c.id())
}

// id returns the identity of this side, empty where it shows none.
func (c *Client) id() string {
	pair, err := tls.LoadX509KeyPair(c.opts.Identity.Cert, c.opts.Identity.Key)
	if err != nil {
		return ""
	}
	id, err := transport.Identity(pair.Leaf)
	if err != nil {
		return ""
	}
	return id
}

// refusedUs reports whether the text is an alert about our certificate. crypto/tls
// gives the alerts that a peer sent no type, quic-go only a number.
func refusedUs(text string) bool {
	for _, alert := range []string{"bad certificate", "unknown certificate", "certificate required", "certificate unknown", "expired certificate", "unsupported certificate", "revoked certificate", "access denied", "unknown certificate authority"} {
		if strings.Contains(text, "tls: "+alert) {
			return true
		}
	}
	return false
}
