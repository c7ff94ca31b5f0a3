package mcpmap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// ErrCancelled is returned by Do for a call that its caller cancelled by a
// notification.
var ErrCancelled = errors.New("mcpmap: the call was cancelled")

// Cancellation is a cause for the context of Do: the call was cancelled by a notification,
// which is forwarded to the server unchanged.
type Cancellation struct{ Octets []byte }

func (c *Cancellation) Error() string { return ErrCancelled.Error() }

// Is reports whether target is ErrCancelled.
func (c *Cancellation) Is(target error) bool { return target == ErrCancelled }

// cancelTime bounds sending a cancellation after the context of its call has ended.
const cancelTime = 5 * time.Second

// Call is a request to a server of a peer.
type Call struct {
	Target  string   // name of the server; "" means the peer's default
	Session string   // legacy session, from the answer to initialize
	Params  []string // "name:value" parameters of the request (extension 19)

	// Extensions are sent with the request, after the extensions that this package adds.
	Extensions e1.Extensions

	// Octets is the JSON-RPC request. It is sent unchanged.
	Octets []byte

	// Shared says that the calls of several clients use the connection. A response with the id
	// of another request is refused: the client that has asked may have asked others, too,
	// and would take it for their answer. An error without an id, or with null, passes. An
	// answer to initialize is refused unless it names a new session, see
	// MaxSession: the requests of one client would be in the session of another.
	Shared bool

	// Events receives the messages that belong to this call. With initialize it also
	// receives messages of the session that no call receives.
	Events Events

	// Sent, if not nil, is called when the request has been sent, by the goroutine that
	// called Do. Later messages follow it on the same session, and Notify finds the call.
	// It is not called if Do fails before.
	Sent func()
}

// Events are callbacks. The callbacks of one call run one at a time and in order, on a
// separate goroutine. They may block: a server at this project's endpoint then waits, see
// Exchange.Pace. A server that does not wait ends the call, above Options.MaxDue, with an
// *Error of the code RateLimitExceeded; notifications of a session are dropped and counted
// above that bound. Without a callback notifications are dropped and requests refused.
type Events struct {
	// Notification is called with a notification, unchanged. It may keep octets.
	Notification func(octets []byte)

	// Forward, if not nil, is called in place of Notification, also with the data that the notification
	// keeps when it is forwarded.
	Forward func(octets []byte, keeps profiles.EndToEnd)

	// Request is called with a request of the server; it must be answered.
	Request func(r *Asked)
}

// Result is the answer to a Call.
type Result struct {
	Octets  []byte // the JSON-RPC response, unchanged
	Session string // the session that initialize opened, or ""
	Status  int    // HTTP status where the peer gave one that an answer can have (extension 20), else 0

	Keeps profiles.EndToEnd // what the response keeps when it is forwarded

	// Draining says that the peer drains the connection and has refused the request, of which
	// nothing was done: it may be sent over another connection (extension 54).
	Draining bool
}

// Error returns the JSON-RPC error of the response, a window into its octets, or nil if it
// is not an error.
func (r *Result) Error() []byte {
	var response Message
	if response.Scan(r.Octets) != nil {
		return nil
	}
	return response.Error()
}

// Client calls the servers of the peer of one connection. It is safe for concurrent use.
//
// A modern request has a separate lane. A legacy session has one for its messages while it is
// used, see clientSession.
type Client struct {
	m *Mapping
	c *conn

	mu       sync.Mutex
	all      map[*outgoing]bool   // calls in flight
	calls    map[string]*outgoing // calls with a known msg_id, by it
	sessions map[string]*clientSession

	opening      int     // number of calls without a known msg_id
	initializing int     // number of calls without a known session
	early        []early // messages that may belong to one of them
	earlyOctets  int
}

// outgoing is a call in flight.
type outgoing struct {
	session string
	target  string
	key     string // of its JSON-RPC id
	route   *route
	sent    chan struct{} // closed once the request is on its way, or was not sent
	msgID   []byte        // valid then; nil if it was not sent
	events  Events
	inbox   inbox
	cancel  context.CancelCauseFunc
}

// early is a message that arrived before its owner was known.
type early struct {
	kind    Kind
	related string
	session string
	octets  []byte // of a notification
	keeps   profiles.EndToEnd
	mark    uint64 // to be confirmed when the notification is taken, or 0
	asked   *Asked // or a request
}

// Client returns the calling side of a connection, the same one each time.
func (m *Mapping) Client(sess profiles.Session) *Client {
	c := m.conn(sess)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		c.client = &Client{
			m: m, c: c,
			all: make(map[*outgoing]bool), calls: make(map[string]*outgoing), sessions: make(map[string]*clientSession),
		}
	}
	return c.client
}

func (c *conn) calling() *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// sessionKey is the key of a session: its id, or its target if the peer does not support
// session ids.
func sessionKey(target, id string) string {
	if id == "" {
		return "\x00" + target
	}
	return id
}

// Do sends a request and returns the response, after its Events have received all messages
// of the call. When ctx ends, or Notify sends a cancellation of the call, Do tells the
// server and returns at once.
//
// The error is an *Error if the request was refused, by its form here or by the peer;
// ErrCancelled; that of ctx; or the reason why the connection ended. AppendFailure makes a
// JSON-RPC error from any of them.
func (c *Client) Do(ctx context.Context, call *Call) (*Result, error) {
	var msg Message
	if err := msg.Scan(call.Octets); err != nil {
		return nil, err
	}
	if err := msg.Check(Request); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &outgoing{
		session: call.Session, target: call.Target, key: TokenKey(msg.ID()), events: call.Events, cancel: cancel,
		inbox: inbox{limit: c.m.opts.MaxDue},
		sent:  make(chan struct{}),
	}
	initialize := msg.Is(MethodInitialize)
	way, err := c.way(ctx, call, &msg)
	if err != nil {
		return nil, err
	}
	defer func() { c.leave(way) }()
	out.route = way.route

	c.open(out, initialize)
	defer c.unregister(out)
	if initialize {
		defer c.initialized()
	}
	exchange, err := way.lane.Call(ctx, e1.Envelope{
		ProfileID: ProfileID, MsgType: uint64(Request), Payload: call.Octets,
		Extensions: append(
			e1.AppendExtensionUvarint(extensions(call.Target, call.Session, call.Params), ExtWindow, uint64(c.m.opts.MaxDue/2)),
			call.Extensions...,
		),
	})
	if err != nil {
		c.opened(out, nil)
		way.failed = true
		return nil, err
	}
	defer exchange.Close()
	c.opened(out, exchange.MsgID())
	if call.Sent != nil {
		call.Sent()
	}

	env, err := exchange.Recv(ctx)
	if err != nil {
		way.failed = ctx.Err() == nil
		return nil, c.ended(ctx, out, &msg, err)
	}
	way.answered = true
	result := &Result{Octets: slices.Clone(env.Payload), Keeps: profiles.EndToEndOf(env)}
	_, result.Draining = env.Extensions.Lookup(profiles.ExtDraining)
	if call.Shared {
		if err := out.answeredBy(result.Octets); err != nil {
			return nil, err
		}
	}
	if status, _, err := profiles.Uvarint(env.Extensions, ExtHTTPStatus); err != nil {
		return nil, err
	} else if n := int(min(status, 1000)); IsAnswerStatus(n) {
		result.Status = n
	}
	if initialize {
		id, _ := env.Extensions.Lookup(ExtSession)
		var response Message
		if response.Scan(result.Octets) == nil && response.Result() != nil {
			result.Session = string(id)
			if way.session, err = c.begin(result.Session, call, way.route, &out.inbox); err != nil {
				return nil, err
			}
		}
	}
	if drained := out.inbox.drained(); drained != nil {
		select {
		case <-drained:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return result, nil
}

// MaxSession limits the name of a session, in octets. They are those of visible ASCII.
const MaxSession = 256

// names returns why a text is no name of a session.
func names(session string) error {
	if session == "" || len(session) > MaxSession || strings.ContainsFunc(session, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return profiles.Errorf(profiles.InvalidMCPPayload, "mcpmap: a session named %.80q, want 1 to %d octets of visible ASCII", session, MaxSession)
	}
	return nil
}

// answeredBy returns why a response does not belong to the call. One that says that the request could
// not be read has no id, or null.
func (out *outgoing) answeredBy(octets []byte) error {
	var response Message
	if err := response.Scan(octets); err != nil {
		return err
	}
	id := response.ID()
	if unread := response.Error() != nil && (len(id) == 0 || string(id) == "null"); TokenKey(id) != out.key && !unread {
		return profiles.Errorf(profiles.InvalidMCPPayload, "mcpmap: a response with the id of another request")
	}
	return nil
}

func extensions(target, session string, params []string) e1.Extensions {
	var ext e1.Extensions
	if target != "" {
		ext = e1.AppendExtension(ext, ExtTarget, []byte(target))
	}
	if session != "" {
		ext = e1.AppendExtension(ext, ExtSession, []byte(session))
	}
	for _, p := range params {
		ext = e1.AppendExtension(ext, ExtMCPParam, []byte(p))
	}
	return ext
}

// ended returns why a call ended without a response, and tells the server if this side
// ended it.
func (c *Client) ended(ctx context.Context, out *outgoing, msg *Message, err error) error {
	if ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	var notice *Cancellation
	var octets []byte
	switch {
	case errors.As(cause, &notice):
		octets = notice.Octets
	case errors.Is(cause, ErrCancelled) || msg.Is(MethodInitialize):
		return cause
	default:
		octets = AppendCancelled(nil, msg.ID())
	}
	sendCtx, cancel := context.WithTimeout(c.c.sess.Context(), cancelTime)
	defer cancel()
	_ = c.sendNotification(sendCtx, out.route, out.target, out.session, out.msgID, octets)
	return cause
}

// AppendCancelled appends the notification that cancels the request with an id, which is
// given octet for octet.
func AppendCancelled(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"`+MethodCancelled+`","params":{"requestId":`...)
	dst = append(dst, id...)
	return append(dst, "}}"...)
}

// Notify sends a notification, octet for octet, to a server or to a session there. A
// cancellation of a call in flight ends it with ErrCancelled. The error is an *Error for a
// malformed notification, or the reason why it was not sent.
func (c *Client) Notify(ctx context.Context, target, session string, octets []byte) error {
	var msg Message
	if err := msg.Scan(octets); err != nil {
		return err
	}
	if err := msg.Check(Notification); err != nil {
		return err
	}
	if msg.Is(MethodCancelled) {
		if out := c.callNamed(target, session, TokenKey(msg.RequestID())); out != nil {
			defer out.route.release()
			<-out.sent // closed at the latest when the context of the call ends
			if out.msgID == nil {
				return nil // there is nothing to cancel
			}
			err := c.sendNotification(ctx, out.route, target, session, out.msgID, octets)
			out.cancel(ErrCancelled)
			return err
		}
	}
	way, err := c.sessionWay(ctx, target, session)
	if err != nil {
		return fmt.Errorf("mcpmap: notification not sent: %w", err)
	}
	if way.route == nil {
		return c.sendNotification(ctx, nil, target, session, nil, octets)
	}
	defer func() { c.leave(way) }()
	err = c.sendNotification(ctx, way.route, target, session, nil, octets)
	way.notified, way.failed = err == nil, err != nil
	return err
}

// callNamed finds a call by its JSON-RPC id. The caller releases its route.
func (c *Client) callNamed(target, session, key string) *outgoing {
	c.mu.Lock()
	defer c.mu.Unlock()
	for out := range c.all {
		if out.target == target && out.session == session && out.key == key && key != "" {
			out.route.users.Add(1)
			return out
		}
	}
	return nil
}

func (c *Client) sendNotification(ctx context.Context, r *route, target, session string, related, octets []byte) error {
	env := e1.Envelope{
		ProfileID: ProfileID, MsgType: uint64(Notification), Payload: octets,
		Extensions: extensions(target, session, nil),
	}
	if related != nil {
		env.Extensions = e1.AppendExtension(env.Extensions, ExtRelated, related)
	}
	var err error
	if r != nil {
		err = r.lane.Send(ctx, env)
	} else {
		err = c.c.sess.Send(ctx, env)
	}
	if err != nil {
		return fmt.Errorf("mcpmap: notification not sent: %w", err)
	}
	return nil
}

// IsAnswerStatus reports whether a forwarded JSON-RPC answer can have an HTTP status. The
// status must be final, be no redirect, allow a body, and not concern credentials: those
// are the credentials of an endpoint on the way, and a client would try to change its own.
func IsAnswerStatus(n int) bool {
	switch n {
	case 204, 205, 401, 403, 407:
		return false
	}
	return n >= 200 && n <= 299 || n >= 400 && n <= 599
}
