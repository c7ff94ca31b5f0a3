package profiles

import (
	"context"
	"time"

	"github.com/slimwire/swp/e1"
)

// Request is one message as a handler sees it. It is valid until Serve
// returns; Detach and Hold make it last.
type Request struct {
	e1.Envelope

	// Session is the authenticated connection the message came on.
	Session Session

	// Lane is where the message came: the stream on QUIC, the connection
	// elsewhere. Messages of the same lifecycle are sent on it.
	Lane Lane

	// Unsolicited marks an answer that matches no call of this session. It has
	// passed the type check only. A handler that returns nil has it counted and
	// dropped.
	Unsolicited bool

	// Rules are the access rules of the endpoint, for profiles that were given none by
	// whoever built them. Nil denies nothing.
	Rules Access

	// Exchange is the endpoint's side of the methods below.
	Exchange Exchange
}

// Exchange is what an endpoint lends to a Request.
type Exchange interface {
	Detach(req *Request, f func(context.Context, *Request, Responder) error) error
	Hold(req *Request, long bool) (*Request, Responder, error)
	Scratch(n int) []byte
	Defer(req *Request) (done func(error))
	After(f func(), of ...[]byte) bool
	About(s Subject)
}

// Detach copies the request and runs f with the copy on a goroutine of the
// bounded pool of the session; Serve then returns the error of Detach. f's
// context ends with the stream or after the handler deadline, when the sender
// gets one terminal error and what f still answers is dropped. f's error means
// what Serve's would. Detach fails with an *Error of RateLimitExceeded when
// the session or the endpoint has no slot left.
//
// Order is not kept between detached requests: register requests that must be
// ordered before you call Detach.
func (r *Request) Detach(f func(ctx context.Context, req *Request, w Responder) error) error {
	return r.Exchange.Detach(r, f)
}

// Hold copies the request and keeps its exchange open after Serve returned nil.
// The copy is valid until the Responder's Finish or Fail, one of which must be
// called once, from any goroutine. No goroutine and no slot of the pool is
// used, but the exchange counts against the requests in flight of its session;
// Hold fails with an *Error of RateLimitExceeded when they are spent.
func (r *Request) Hold() (*Request, Responder, error) { return r.Exchange.Hold(r, false) }

// HoldLong is Hold for exchanges without an expected end, such as
// subscriptions. They count against their own bound.
func (r *Request) HoldLong() (*Request, Responder, error) { return r.Exchange.Hold(r, true) }

// Defer keeps a message that gets no success answer, such as a publication,
// unfinished after Serve returned nil, until done is called, from any goroutine,
// without waiting; later calls do nothing. Nil means it was accepted and, if it
// was to be kept, is; an error refuses the message as one of Serve would. Of the
// request only the msg_id lives on. Deferred messages do not count as requests
// in flight: a stream with too many of them, or with too many octets in them, is
// not read until some are done.
func (r *Request) Defer() (done func(error)) { return r.Exchange.Defer(r) }

// After calls f once every message that was deferred earlier on this stream is
// done, from a goroutine that ended one of them; f must not block. What waits on
// one stream runs in the order of the calls, one after the other. After returns
// false, and does not call f, if there is nothing to wait for. With msg_ids f waits for
// those of these messages that are deferred, and for nothing else.
func (r *Request) After(f func(), of ...[]byte) bool { return r.Exchange.After(f, of...) }

// Scratch returns a buffer of length zero and a capacity of at least n octets
// for building one answer. It is valid until the next call of Scratch on the
// same stream or until Serve returns, and only inside Serve.
func (r *Request) Scratch(n int) []byte { return r.Exchange.Scratch(n) }

// Responder answers one request. Zero fields of an envelope are filled in:
// Version 1, the request's ProfileID and MsgID, the present time. Octets that
// the envelope refers to are copied or written before the call returns.
//
// Inside Serve a Responder belongs to the read loop. In a detached function
// Send and Finish wait while the peer is slow to read, up to the write
// deadline. On a held exchange they never wait and may be called by any
// goroutine, one at a time; a peer that leaves the outbound queue full is
// disconnected.
type Responder interface {
	// Send queues a message that does not end the exchange: a stream item, a
	// notification under a new msg_id (see NewMsgID).
	Send(env e1.Envelope) error

	// Offer is Send for a message that may be lost: where so much is queued that
	// the last words of other exchanges may not have room, nothing is sent and the
	// error is a Busy one, and no peer is disconnected for it.
	Offer(env e1.Envelope) error

	// Pace waits until at most half of what may be queued for the peer is, so that
	// a stream of messages whose sender waits before each one never fills the queue
	// of a slow peer. octets, if it is not zero, takes the place of that half of the
	// octets: who sends a large message only when the one before is nearly gone
	// holds little. The error is ErrFinished once the exchange is over, or that of
	// ctx or of the connection. Any number of goroutines may wait. Inside Serve,
	// where Send does what waiting there is, Pace returns at once.
	Pace(ctx context.Context, octets int) error

	// Finish queues the terminal answer. Everything after it is dropped with
	// ErrFinished. An exchange may also end without one: Serve and a detached
	// function return nil, a held one calls Fail(nil).
	Finish(env e1.Envelope) error

	// Fail ends a held exchange with the verdict of err and the answer that
	// goes with it; nil means handled without an answer. Inside Serve and
	// Detach return the error instead.
	Fail(err error)

	// Context ends when the peer can no longer be answered: its stream was
	// reset or its connection is gone.
	Context() context.Context
}

// Caller is where a request is sent: a Session, which gives it a lane of its own, or a
// Lane.
type Caller interface {
	Call(ctx context.Context, env e1.Envelope) (Call, error)
}

// Sender sends messages without an answer: a Session, which has one lane for all of
// them, or a Lane.
type Sender interface {
	Send(ctx context.Context, env e1.Envelope) error
}

// Session is one authenticated connection. Both ends have the same rights,
// whichever has dialled. It is safe for concurrent use.
type Session interface {
	// Peer is who is on the other side. It never changes.
	Peer() *Peer

	// Open returns a new lane: a new stream on QUIC, the one stream elsewhere.
	// The caller closes it.
	Open(ctx context.Context) (Lane, error)

	// Call is Call on a new lane, which is closed with the call.
	Call(ctx context.Context, env e1.Envelope) (Call, error)

	// Send is Send on the lane that all one-way messages of this session share.
	Send(ctx context.Context, env e1.Envelope) error

	// Context ends when the connection is gone; context.Cause says why.
	Context() context.Context
}

// Lane carries the messages of one or more lifecycles in order. It is safe for
// concurrent use. Zero fields of an envelope are filled in as by a Responder,
// but for ProfileID and MsgType, which are required; a zero MsgID becomes a
// fresh one.
type Lane interface {
	// Call sends env under a fresh msg_id and returns the exchange. env.MsgID
	// must be empty.
	Call(ctx context.Context, env e1.Envelope) (Call, error)

	// Send sends a message that expects no answer. It waits while the peer is
	// slow to read.
	Send(ctx context.Context, env e1.Envelope) error

	// Close says that nothing more will be sent by this caller. On a stream
	// shared with others it does nothing.
	Close() error
}

// Call is an exchange that this side opened.
type Call interface {
	// MsgID is the id the request went out with, valid until Close.
	MsgID() []byte

	// Recv returns the next answer, in order. The envelope is valid until the
	// next call of Recv or Close. The error is the context's, an *Error if the
	// peer or this endpoint refused, or the cause that ended the connection.
	// Recv may be called by one goroutine at a time.
	Recv(ctx context.Context) (*e1.Envelope, error)

	// Lane is the lane of the request; messages that belong to it are sent
	// there.
	Lane() Lane

	// Close ends the exchange on this side: later answers are dropped without
	// counting as violations of the peer, up to a bound. It must be called
	// once.
	Close()
}

// Peer is who is on the other side of a session.
type Peer struct {
	Identity    string // canonical: the URI SAN, else the DNS SAN; "loopback" for plaintext
	Transport   string // "tls", "quic", "tcp" or "pipe"
	Addr        string // remote address, for logs
	Issuer      string // audit attributes of the certificate
	Subject     string
	Fingerprint string // SHA-256 of the leaf certificate, hex

	NotBefore, NotAfter time.Time // when the leaf certificate is valid; zero without one
}
