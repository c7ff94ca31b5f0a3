package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
)

// Explained is an error with advice.
type Explained struct {
	What string // what failed; may be empty
	By   Author // the endpoint that said so, if known
	Do   string // what to do; may be empty
	Err  error  // the cause

	advice string // the name of the advice in Do, for the tests
}

func (e *Explained) Error() string {
	s := plain.Error(e.Err)
	if code, _, ok := Refusal(e); ok {
		if by := e.By.Said(code); by != "" {
			s += "; " + by
		}
	}
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

// Explain describes an error of this connection for the user, with advice. If a call failed
// because the connection ended, Explain describes that reason: in TLS 1.3 a client learns
// only then that it was refused.
func (c *Client) Explain(err error) error { return c.ExplainAbout(err, "") }

// ExplainAbout is Explain for an error of a request about a name, such as a topic: its
// first segment may be the partner that has refused the request.
func (c *Client) ExplainAbout(err error, name string) error {
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
	e := &Explained{What: c.address, By: c.wrote(err, name), Err: err}
	if c.opts.Partner && c.Target != "" && said(err) {
		e.What += "/" + c.Target
	}
	e.advice, e.Do = c.advise(err, name)
	return e
}

// wrote returns the endpoint that has refused a request about a name.
func (c *Client) wrote(err error, name string) Author {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		name = refused.Publication.Topic
	}
	endpoint := writer(err)
	if endpoint == "" || c.peer == nil {
		return Author{}
	}
	return c.author(endpoint, name)
}

// writer returns the identity of the endpoint that has written an error message of a profile
// or refused a call, if the error says it.
func writer(err error) string {
	if refused, ok := errors.AsType[*profiles.PeerError](err); ok {
		return refused.Endpoint
	}
	if failed, ok := errors.AsType[*rpc.Error](err); ok {
		return failed.Endpoint
	}
	return ""
}

// said reports whether an error is an answer of the peer.
func said(err error) bool {
	return errors.As(err, new(*profiles.PeerError)) || errors.As(err, new(*profiles.Error)) || errors.As(err, new(*rpc.Error)) ||
		errors.As(err, new(*policyhint.ViolationError)) || errors.As(err, new(*profiles.UnconfirmedError))
}

// tooLargeError is the error for a message that is too large to send.
type tooLargeError struct {
	limit int // octets of a payload
	err   error
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the input is too large: a message, the input and what it is wrapped in, has at most %d octets", e.limit)
}

func (e *tooLargeError) Unwrap() error { return e.err }

// Name returns the identity that the certificate says, empty if it cannot be read.
func (id Identity) Name() string {
	pair, err := tls.LoadX509KeyPair(id.Cert, id.Key)
	if err != nil {
		return ""
	}
	name, err := transport.Identity(pair.Leaf)
	if err != nil {
		return ""
	}
	return name
}
