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

	// Caller is who the peer acts for, with the Identity of both; nil if it has asserted
	// nobody. See Request.Peer.
	Caller *Peer

	// Unsolicited marks an answer that matches no call of this session. Only its type has
	// been checked. If the handler returns nil, the answer is counted and dropped.
	Unsolicited bool

	// Rules are the access rules of the endpoint, for profiles that were built without
	// access rules. Nil denies nothing.
	Rules Access

	// Exchange is the endpoint's side of the methods below.
	Exchange Exchange
}

// Exchange is the part of a Request that an endpoint implements.
type Exchange interface {
	Detach(req *Request, f func(context.Context, *Request, Responder) error) error
	Hold(req *Request, long bool) (*Request, Responder, error)
	Scratch(n int) []byte
	Defer(req *Request) (done func(error))
	After(f func(), of ...[]byte) bool
	About(s Subject)
}

// Detach copies the request and runs f with the copy on a goroutine of the session's
// bounded pool. Serve must return the error of Detach. The context of f ends with the
// stream, or at the handler deadline: then the sender gets one terminal error, and later
// answers of f are dropped. The error of f has the meaning of an error of Serve. Detach
// fails with an *Error of RateLimitExceeded if the pool of the session or of the endpoint
// is full.
//
// Detached requests run in no order. If order matters, register the request before calling
// Detach.
func (r *Request) Detach(f func(ctx context.Context, req *Request, w Responder) error) error {
	return r.Exchange.Detach(r, f)
}

// Hold copies the request and keeps its exchange open after Serve has returned nil. The
// copy is valid until Finish or Fail of the Responder; either must be called once, by
// any goroutine. A held exchange uses no goroutine and no slot of the pool, but counts as a
// request in flight of its session. Hold fails with an *Error of RateLimitExceeded if that
// bound is reached.
func (r *Request) Hold() (*Request, Responder, error) { return r.Exchange.Hold(r, false) }

// HoldLong is Hold for exchanges without an expected end, such as subscriptions. They have
// a separate bound.
func (r *Request) HoldLong() (*Request, Responder, error) { return r.Exchange.Hold(r, true) }

// Defer keeps a message without a success answer, such as a publication, open after Serve
// has returned nil, until done is called. done may be called by any goroutine and does not
// wait; later calls do nothing. done(nil) means that the message was accepted and, if it
// must be durable, is stored. An error refuses the message as an error of Serve does. Only
// the msg_id of the request stays valid. Deferred messages do not count as requests in
// flight. If too many messages or octets of a stream are deferred, reading from it pauses.
func (r *Request) Defer() (done func(error)) { return r.Exchange.Defer(r) }

// After calls f once every message deferred earlier on this stream is done. f runs on a
// goroutine that ended one of them, and must not block. Functions that wait on one stream
// run one after the other, in the order of the calls of After. After returns false, without
// calling f, if nothing is deferred. With msg_ids f waits only for those messages.
func (r *Request) After(f func(), of ...[]byte) bool { return r.Exchange.After(f, of...) }

// Scratch returns a buffer of length zero and a capacity of at least n octets for building
// one answer. It may be called inside Serve only. The buffer is valid until the next call
// of Scratch on the same stream or until Serve returns.
func (r *Request) Scratch(n int) []byte { return r.Exchange.Scratch(n) }

// Responder answers one request. Zero fields of an envelope are filled in: Version 1, the
// request's ProfileID and MsgID, the present time. Octets that the envelope refers to are
// copied or written before the call returns.
//
// Inside Serve a Responder belongs to the read loop. In a detached function Send and Finish
// wait for a slow peer, up to the write deadline. On a held exchange they never wait, and
// any goroutine may call them, one at a time; a peer whose outbound queue stays full is
// disconnected.
type Responder interface {
	// Send queues a message that does not end the exchange: a stream item, or a
	// notification under a new msg_id (see NewMsgID).
	Send(env e1.Envelope) error

	// Offer is Send for a message that may be lost. If the queue is so full that terminal
	// answers of other exchanges may not fit, it sends nothing and returns a Busy error. It
	// never disconnects the peer.
	Offer(env e1.Envelope) error

	// Pace waits until the peer's outbound queue is at most half full. A sender that calls
	// it before each message of a stream never fills the queue of a slow peer. octets, if
	// not zero, replaces half of the octet bound: a sender of large messages can wait until
	// the previous one is nearly written, and so holds little memory. The error is
	// ErrFinished after the end of the exchange, or that of ctx or of the connection. Any
	// number of goroutines may wait. Inside Serve Pace returns at once, because Send waits
	// there.
	Pace(ctx context.Context, octets int) error

	// Finish queues the terminal answer. Later messages are dropped with ErrFinished. An
	// exchange may also end without a terminal answer: Serve or a detached function returns
	// nil, or Fail(nil) is called on a held exchange.
	Finish(env e1.Envelope) error

	// Fail ends a held exchange with the verdict of err and the matching error answer; nil
	// means handled without an answer. Inside Serve and Detach return the error instead.
	Fail(err error)

	// Context ends when the peer cannot be answered any more: its stream was reset or its
	// connection is lost.
	Context() context.Context
}

// SendLast is Send for the last answer of a held exchange whose profile has no terminal
// answers, or none that could be sent again for lack of room. The record of the exchange is
// written before it. Fail(nil) ends the exchange.
func SendLast(w Responder, env e1.Envelope) error {
	if w, ok := w.(interface{ SendLast(env e1.Envelope) error }); ok {
		return w.SendLast(env)
	}
	return w.Send(env)
}

// Shedder is a Responder of a held request that can release its octets before the end of
// the exchange. The Responder of an endpoint is one.
type Shedder interface {
	// Shed releases the extensions and the payload of the request: they are no longer
	// valid. The request can still be answered.
	Shed()
}

// Caller sends requests: a Session, which opens a new lane for each, or a Lane.
type Caller interface {
	Call(ctx context.Context, env e1.Envelope) (Call, error)
}

// Ask sends a request and passes its one answer to read, for which the answer is valid. The
// error is that of Call, of Recv, or of read.
func Ask(ctx context.Context, on Caller, env e1.Envelope, read func(answer *e1.Envelope) error) error {
	call, err := on.Call(ctx, env)
	if err != nil {
		return err
	}
	defer call.Close()
	answer, err := call.Recv(ctx)
	if err != nil {
		return err
	}
	return read(answer)
}

// Sender sends messages without an answer: a Session, which uses one lane for all of them,
// or a Lane.
type Sender interface {
	Send(ctx context.Context, env e1.Envelope) error
}

// Session is one authenticated connection. Both ends have the same rights; it does not
// matter which of them dialled. It is safe for concurrent use.
type Session interface {
	// Peer describes the other end. It never changes.
	Peer() *Peer

	// Open returns a new lane: a new stream on QUIC, the one stream elsewhere.
	// The caller closes it.
	Open(ctx context.Context) (Lane, error)

	// Call opens a lane, calls on it, and closes the lane with the call.
	Call(ctx context.Context, env e1.Envelope) (Call, error)

	// Send sends on a lane that the one-way messages of a profile share.
	Send(ctx context.Context, env e1.Envelope) error

	// Context ends with the connection; context.Cause returns the reason.
	Context() context.Context
}

// IdleOf returns the time after which this endpoint closes the connection of a session
// without a message and with nothing in flight; 0 if the session does not say it.
func IdleOf(s Session) time.Duration {
	if s, ok := s.(interface{ Idle() time.Duration }); ok {
		return s.Idle()
	}
	return 0
}

// LimitsOf returns the limits of messages that this endpoint accepts on a session; zero if
// the session does not say them.
func LimitsOf(s Session) Limits {
	if s, ok := s.(interface{ Limits() Limits }); ok {
		return s.Limits()
	}
	return Limits{}
}

// Lane carries the messages of one or more lifecycles in order. It is safe for concurrent
// use. Zero fields of an envelope are filled in as by a Responder, except ProfileID and
// MsgType, which are required. An empty MsgID becomes a new one. Octets that the envelope
// refers to are copied or written before Call or Send returns.
type Lane interface {
	// Call sends env under a new msg_id and returns the exchange. env.MsgID must be empty.
	Call(ctx context.Context, env e1.Envelope) (Call, error)

	// Send sends a message that expects no answer. It waits while the peer is
	// slow to read.
	Send(ctx context.Context, env e1.Envelope) error

	// Close half-closes a stream: this caller sends nothing more. On a stream that others
	// share it does nothing.
	Close() error
}

// CloseThen is Close of a lane, and calls read, once, when the peer has read what was sent on the lane,
// or no more of it will be read. On a stream that others share it calls read at once.
func CloseThen(on Lane, read func()) {
	if on, ok := on.(interface{ CloseThen(read func()) }); ok {
		on.CloseThen(read)
		return
	}
	_ = on.Close()
	read()
}

// Room returns the size of the largest payload that can be sent on a lane beside extensions
// of a size. For a lane that does not know its limits this is the default limit.
func Room(on Lane, extensions int) int {
	if lane, ok := on.(interface{ Room(extensions int) int }); ok {
		return lane.Room(extensions)
	}
	return e1.DefaultMaxPayload
}

// Call is an exchange that this side opened.
type Call interface {
	// MsgID is the id the request went out with, valid until Close.
	MsgID() []byte

	// Recv returns the next answer, in order. The envelope is valid until the next call of
	// Recv or Close. The error is that of ctx, an *Error if the peer or this endpoint
	// refused, or the reason why the connection ended. One goroutine at a time may call
	// Recv.
	Recv(ctx context.Context) (*e1.Envelope, error)

	// Lane is the lane of the request. Further messages of the exchange are sent on it.
	Lane() Lane

	// Close ends the exchange on this side. Later answers are dropped; up to a bound they
	// are no violation of the peer. Close must be called once.
	Close()
}

// Completed says that a call has had all of its answers, or will have none. It is for
// exchanges whose answers do not show by their type that they are the last ones, see Terminal
// and Lone. Call it before Close, as Recv.
func Completed(c Call) {
	if c, ok := c.(interface{ Completed() }); ok {
		c.Completed()
	}
}

// Peer describes the other end of a session.
type Peer struct {
	Identity    string // canonical: the URI SAN, else the DNS SAN; "loopback" for plaintext
	Transport   string // "tls", "quic", "tcp" or "pipe"
	Addr        string // remote address, for logs
	Issuer      string // audit attributes of the certificate
	Subject     string
	Fingerprint string // SHA-256 of the leaf certificate, hex

	NotBefore, NotAfter time.Time // when the leaf certificate is valid; zero without one
}
