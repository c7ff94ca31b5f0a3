package partner

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// Limits of the unsent messages of a conversation.
const (
	maxDue       = 1024
	maxDueOctets = 16 << 20
)

// goodbye limits the time for closing a session at the partner, and for opening one whose
// client has left.
const goodbye = 5 * time.Second

// conversation connects a legacy MCP session here to one at a partner: it maps the session
// id here to the session id there. It survives the loss of the connection for as long as
// the partner keeps the session, and ends with the link, because another link may lead to
// another endpoint. It implements mcpmap.Conversation.
type conversation struct {
	server *server
	client mcpmap.Counterpart
	ctx    context.Context // ends with Close or errLost
	cancel context.CancelCauseFunc

	hearing context.Context // ends after the partner was told of Close
	deafen  context.CancelFunc
	manner  context.Context // of hearing, ends when listens changes
	change  context.CancelFunc

	mu      sync.Mutex
	begun   bool       // the first request was passed on
	open    int        // unanswered requests
	listens bool       // the client waits for messages that belong to no request
	leaving bool       // the link has ended; the conversation ends after its last request
	due     []outgoing // unsent messages, in order
	octets  int        // in due
	sending bool       // a goroutine is sending
	up      *Up        // the connection on which the partner knows the session
	id      string     // the session id at the partner
	parted  func()     // after part: up may end, since the partner was told
}

// outgoing is a message to the partner. Exactly one of x and notification is set.
type outgoing struct {
	x            *mcpmap.Exchange
	call         *mcpmap.Call
	passage      profiles.Passage
	ctx          context.Context
	cancel       context.CancelCauseFunc
	notification []byte
}

func (o *outgoing) size() int {
	if o.x != nil {
		return len(o.call.Octets)
	}
	return len(o.notification)
}

func newConversation(s *server, client mcpmap.Counterpart) *conversation {
	c := &conversation{server: s, client: client}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.hearing, c.deafen = context.WithCancel(context.Background())
	c.manner, c.change = context.WithCancel(c.hearing)
	s.link.join(c)
	return c
}

// leave ends the conversation after the link has ended, when requests in flight are
// answered. When the whole endpoint stops, it does nothing.
func (c *conversation) leave() {
	if c.server.link.draining.Err() != nil {
		return
	}
	c.mu.Lock()
	c.leaving = true
	c.part()
	last := c.open == 0
	c.mu.Unlock()
	if last {
		c.client.Ended()
	}
}

// part keeps the connection until the partner was told of the end, if there is something to tell.
// It does so once, also if Close and the end of the link meet. The caller holds mu.
func (c *conversation) part() {
	if c.id != "" && c.parted == nil {
		c.parted = c.up.Session.Linger()
	}
}

// answered counts an answered request.
func (c *conversation) answered() {
	c.mu.Lock()
	c.open--
	last := c.leaving && c.open == 0
	c.mu.Unlock()
	if last {
		c.client.Ended()
	}
}

// Do implements mcpmap.Conversation. The first request must open a session: a partner would
// assign a request without a session to the latest session of the link, and the link
// carries the sessions of all clients.
func (c *conversation) Do(x *mcpmap.Exchange) {
	c.mu.Lock()
	stray, leaving := !c.begun && !x.Message.Is(mcpmap.MethodInitialize), c.leaving
	c.begun = true
	c.mu.Unlock()
	if leaving {
		x.FailStatus(errEnded, http.StatusNotFound)
		return
	}
	if stray {
		x.Fail(&profiles.Error{Code: profiles.InvalidEnvelope, Detail: "partner_session", Text: "a server of a partner wants initialize first"})
		c.client.Ended()
		return
	}
	o := outgoing{x: x, call: c.server.call(x), passage: x.Passage()}
	o.call.Events.Request = func(a *mcpmap.Asked) { c.asked(x, a) }
	o.ctx, o.cancel = cancellable(x)
	if !c.push(o) {
		o.cancel(nil)
		x.Fail(profiles.Busy("partner_due", "too much is waiting for the partner"))
	}
}

// Notify implements mcpmap.Conversation.
func (c *conversation) Notify(m *mcpmap.Message) {
	c.push(outgoing{notification: bytes.Clone(m.Octets())})
}

// Listen implements mcpmap.Listened.
func (c *conversation) Listen(listens bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listens != listens {
		c.listens = listens
		c.change()
		c.manner, c.change = context.WithCancel(c.hearing)
	}
}

// Close implements mcpmap.Conversation.
func (c *conversation) Close() {
	c.server.link.forget(c)
	c.cancel(errEnded)
	c.mu.Lock()
	c.part()
	up, id, parted := c.up, c.id, c.parted
	c.mu.Unlock()
	if id == "" {
		c.deafen()
		return
	}
	go func() {
		defer parted()
		defer c.deafen()
		ctx, cancel := context.WithTimeout(up.Session.Context(), goodbye)
		defer cancel()
		_, _ = rpc.Call(ctx, up.Session, mcpmap.MethodRPCClose, mcpmap.SessionParams(c.server.target, id)) // on failure the session at the partner expires
		c.server.client(up.Session).Leave(c.server.target, id)
	}()
}

func (c *conversation) push(o outgoing) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil || len(c.due) >= maxDue || len(c.due) > 0 && c.octets+o.size() > maxDueOctets {
		return false
	}
	c.due = append(c.due, o)
	c.octets += o.size()
	if o.x != nil {
		c.open++
	}
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return true
}

// send sends the unsent messages, each after the previous one was sent.
func (c *conversation) send() {
	for {
		c.mu.Lock()
		if len(c.due) == 0 {
			c.sending, c.due = false, nil
			c.mu.Unlock()
			return
		}
		o := c.due[0]
		c.due[0] = outgoing{}
		c.due = c.due[1:]
		c.octets -= o.size()
		c.mu.Unlock()
		switch {
		case o.x == nil:
			c.notify(o.notification)
		case o.x.Initialize():
			c.request(o) // the following messages need the session
		default:
			sent := make(chan struct{})
			var once sync.Once
			o.call.Sent = func() { once.Do(func() { close(sent) }) }
			go func() {
				defer o.call.Sent()
				c.request(o)
			}()
			<-sent
		}
	}
}

func (c *conversation) request(o outgoing) {
	defer c.answered()
	defer o.cancel(nil)
	defer context.AfterFunc(c.ctx, func() { o.cancel(context.Cause(c.ctx)) })()
	var sent atomic.Bool
	tell := o.call.Sent
	o.call.Sent = func() {
		sent.Store(true)
		if tell != nil {
			tell()
		}
	}
	ctx := o.ctx
	if o.x.Initialize() {
		// The client may leave. The session is awaited for a moment nevertheless, so that it
		// can be closed.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), o.passage.Deadline)
		defer cancel()
		defer context.AfterFunc(o.ctx, func() { time.AfterFunc(goodbye, cancel) })()
		o.call.Events = c.events()
	}
	up, id, err := c.join(ctx)
	if err == nil {
		o.call.Session = id
		var opened string
		if opened, err = c.server.pass(ctx, up, o.x, o.passage, o.call); opened != "" {
			c.opened(up, opened)
		}
	}
	switch {
	case errors.Is(err, errLost) && !sent.Load():
		o.x.FailStatus(errEnded, http.StatusNotFound)
	case err != nil:
		o.x.Fail(mcpmap.Failure(err))
	}
}

// errEnded is the error of a request for a session that has ended; errLost is the one of a
// request in flight when the partner restarted.
var (
	errEnded = &profiles.Error{Code: profiles.NotFound, Detail: "mcp_session", Text: "the session has ended"}
	errLost  = profiles.LinkFault("partner_session", "the partner has lost the session; whether this was carried out is not known", false, nil)
)

func (c *conversation) notify(octets []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, goodbye)
	defer cancel()
	if up, id, err := c.join(ctx); err == nil && id != "" {
		_ = c.server.client(up.Session).Notify(ctx, c.server.target, id, octets) // a notification has no answer
	}
}

// asked passes a request of the server to the client, and returns the answer.
func (c *conversation) asked(x *mcpmap.Exchange, a *mcpmap.Asked) {
	c.client.Request(x, &a.Message, func(octets []byte) {
		if err := a.Answer(octets); err != nil && !errors.Is(err, profiles.ErrFinished) {
			a.Refuse(profiles.AsError(err))
		}
	})
}

// join returns the connection to the partner, and the session id there if it has one. After
// a loss of the link the session continues on the next connection.
func (c *conversation) join(ctx context.Context) (*Up, string, error) {
	now, err := c.server.ready(ctx)
	if err != nil {
		return nil, "", err
	}
	if !profiles.Heeds(now.Session, mcpmap.ProfileID, mcpmap.ExtSession) {
		return nil, "", c.server.link.ignorant(now, "extension 17 of MCP, sessions")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == "" || c.up == now {
		return now, c.id, nil
	}
	if err := c.server.client(now.Session).Resume(ctx, c.server.target, c.id, c.events()); err != nil {
		return nil, "", err
	}
	c.server.client(c.up.Session).Leave(c.server.target, c.id)
	c.up = now
	return now, c.id, nil
}

// on returns ctx for streams on behalf of the client.
func (c *conversation) on(ctx context.Context) context.Context {
	return c.server.link.on(ctx, c.client.Peer().Identity)
}

// events returns the handlers for messages of the session outside calls.
func (c *conversation) events() mcpmap.Events {
	return mcpmap.Events{
		Notification: func(octets []byte) {
			_ = c.client.Pace(c.ctx) // above its bounds, and at the end of ctx, Notify counts a loss
			c.client.Notify(octets)
		},
		Request: func(a *mcpmap.Asked) { c.asked(nil, a) },
	}
}

// opened records the session that initialize has opened, and listens to it.
func (c *conversation) opened(up *Up, id string) {
	c.mu.Lock()
	c.up, c.id = up, id
	if c.leaving {
		c.part()
	}
	c.mu.Unlock()
	if c.ctx.Err() != nil {
		c.Close() // Close came before there was a session
		return
	}
	go c.listen()
}

// listen receives the messages that the server starts, and the end of the session there, on
// any connection of the link.
func (c *conversation) listen() {
	draining := c.server.link.draining
	failures := 0 // streams in a row that have ended at once
	for c.ctx.Err() == nil && draining.Err() == nil {
		began := time.Now()
		ctx, cancel := context.WithTimeout(c.ctx, listenPatience)
		up, id, err := c.join(ctx)
		cancel()
		if err == nil {
			err = c.hear(up, id)
		}
		var gone *rpc.Error
		if failures++; time.Since(began) >= listenPauses.Longest {
			failures = 0
		}
		switch {
		case draining.Err() != nil, errors.Is(err, errManner):
		case profiles.IsUnserved(err): // messages of the server arrive during calls only
			return
		case errors.As(err, &gone) && !gone.Retryable:
			c.cancel(errLost)
			c.client.Ended()
			return
		case err != nil:
			// The link returns, or the client gives up. io.EOF means that the session has
			// ended, or that an older connection served the previous listener.
			_ = c.server.link.wrong(err, Wrong{Profile: "mcp", Operation: mcpmap.MethodRPCListen, Name: c.server.target})
			select {
			case <-time.After(backoff.Jitter(listenPauses.After(failures - 1))):
			case <-draining.Done():
			case <-c.ctx.Done():
			}
		}
	}
}

const listenPatience = 10 * time.Second

// listenPauses are the pauses after streams that ended before the longest of them.
var listenPauses = backoff.Exponential{First: 250 * time.Millisecond, Longest: 5 * time.Second}

// errManner: the client has begun or ceased to listen, of which the partner is told by another call.
var errManner = errors.New("partner: the client listens in another manner")

// hear calls swp.mcp.listen on a connection while that is the current one. The conversations of a
// connection share a stream for it. If the client does not listen, the session may be idle at the
// partner, too.
func (c *conversation) hear(up *Up, id string) error {
	c.mu.Lock()
	manner, standby := c.manner, !c.listens
	c.mu.Unlock()
	ctx, cancel := c.server.link.while(manner, up)
	defer cancel()
	stream, err := rpc.Open(ctx, up.Session.Listening(), mcpmap.MethodRPCListen, mcpmap.ListenParams(c.server.target, id, standby))
	for err == nil {
		_, err = stream.Recv(ctx)
		if err != nil {
			stream.Close()
		}
	}
	if manner.Err() != nil && c.hearing.Err() == nil {
		return errManner
	}
	return err
}
