// Package mcpclient is the way of one MCP client to one server of a peer. For the
// client there is one server that is always there; connections to the peer come and go
// behind it. Messages pass octet for octet.
//
// Requests in flight when a connection ends are answered with a JSON-RPC error: whether
// the server has executed them is unknown. Only a message that has certainly not left is
// sent again, over the next connection. The answer of a client to a server that asked
// over a connection that has ended is dropped.
//
// A modern request (from 2026-07-28) stands alone, so that nothing has to be taken up. A
// session (up to 2025-11-25) is taken up on the next connection if the peer still has
// it, which it says before anything else of the session is sent. If the peer does not
// have it any more, a new one is opened by the client's own octets: initialize,
// notifications/initialized, the last logging/setLevel, and resources/subscribe of each
// resource. The client sees nothing of that, but for the notifications by which a server
// says that its lists have changed, where the server says that it sends those. If the
// server then speaks another version, or offers less than the client was told, the
// session has ended: its requests are answered with an error that says so, until the
// client initializes again. Other state of the old session is lost, as with the restart
// of a server that the client runs as a command.
//
// Specification: MCP mapping §1 to §3.
package mcpclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// maxCalls is how many calls a client has in flight at once, and how many requests of
// the server wait for it; more are refused.
const maxCalls = 512

// Link is a connection to a peer.
type Link struct {
	Session profiles.Session
	MCP     *mcpmap.Client // of that session
	RPC     bool           // the peer is known to serve profile 12
	Targets bool           // the peer says that it tells servers apart
}

// Peer is the endpoint in front of the server. It is safe for concurrent use.
// *client.Kept is one.
type Peer interface {
	// Link returns the connection, a new one if the last has ended.
	Link(ctx context.Context) (Link, error)

	// Hold keeps the connection from ending because it is idle, and Watch has it end
	// soon when the peer is gone without a word, until release is called.
	Hold() (release func())
	Watch() (release func())
}

// Options configure a Conversation. Peer and Write are required.
type Options struct {
	Peer   Peer
	Target string // name of the server, or empty for the peer's default

	// Write gets each message for the client, one at a time. octets are the callee's.
	Write func(octets []byte)

	// Complain gets errors that cannot be sent to the client. It may be nil.
	Complain func(string)
}

// Conversation is the exchange of messages of a client and its server. Send is for one
// goroutine, which determines the order of messages; other goroutines write the
// answers.
type Conversation struct {
	o       Options
	ctx     context.Context // of all that is under way
	cancel  context.CancelCauseFunc
	calls   sync.WaitGroup
	slots   chan struct{}  // one for each call in flight
	session *clientSession // of the legacy era

	writing sync.Mutex

	mu      sync.Mutex
	asked   map[string]question // requests of the server that wait for the client, by key of their id
	endless map[*context.CancelFunc]bool
}

// New returns a Conversation, whose calls end with ctx. The caller closes it.
func New(ctx context.Context, o Options) *Conversation {
	if o.Complain == nil {
		o.Complain = func(string) {}
	}
	c := &Conversation{
		o: o, slots: make(chan struct{}, maxCalls),
		asked: make(map[string]question), endless: make(map[*context.CancelFunc]bool),
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.session = newSession(c)
	return c
}

// Send takes a message of the client. A request has been sent or answered when it
// returns, so that the next message follows it. Malformed messages and failures are
// answered with an error. octets belong to the callee from then on.
func (c *Conversation) Send(octets []byte) {
	var m mcpmap.Message
	err := m.Scan(octets)
	if err == nil && m.Kind() == mcpmap.Request {
		err = m.Check(mcpmap.Request)
	}
	if err != nil {
		c.write(mcpmap.AppendMalformed(nil, m.ID(), err))
		return
	}
	switch m.Kind() {
	case mcpmap.Request:
		c.request(&m, octets)
	case mcpmap.Response:
		c.response(&m, octets)
	default:
		if err := c.notify(&m, octets); err != nil {
			c.o.Complain("notification not sent: " + err.Error())
		}
	}
}

// Session is the name of the legacy session at the peer, or empty.
func (c *Conversation) Session() string { return c.session.name() }

// Drain ends the conversation gracefully: it cancels endless requests, waits for the
// others until ctx ends, and ends the session at the peer. Nothing may be sent any more.
func (c *Conversation) Drain(ctx context.Context) {
	c.mu.Lock()
	for cancel := range c.endless {
		(*cancel)()
	}
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
	c.calls.Wait()
	stop()
	c.session.leave(ctx)
	c.cancel(nil)
	c.session.work.Wait()
}

// goodbye bounds how long the end of a session may take.
const goodbye = 5 * time.Second

// Cancel cancels what is in flight, and what waits to leave. It does not wait.
func (c *Conversation) Cancel() { c.cancel(nil) }

// Close cancels what is in flight, which is answered, and ends the session at the peer.
// Nothing may be sent any more.
func (c *Conversation) Close() {
	c.cancel(nil)
	c.calls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	c.session.leave(ctx)
	c.session.work.Wait()
}

// Unreached says of an error that kept a connection from being made that nothing was
// done, unless the peer itself has said what is wrong. A JSON-RPC error is made of it.
func Unreached(err error) error {
	if err == nil || errors.As(err, new(*profiles.Error)) || errors.Is(err, context.Canceled) {
		return err
	}
	return &profiles.Error{
		Code: profiles.Internal, Detail: "mcp_link", Text: "the endpoint cannot be reached now", Retryable: true, Cause: err,
	}
}

// request starts a call.
func (c *Conversation) request(m *mcpmap.Message, octets []byte) {
	select {
	case c.slots <- struct{}{}:
	default: // to wait would keep the client from cancelling what it waits for
		c.refuse(m.ID(), profiles.Busy("mcp_calls", "too many calls in flight"))
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	if m.Is(mcpmap.MethodListen) {
		c.mu.Lock()
		c.endless[&cancel] = true
		c.mu.Unlock()
	}
	sent := make(chan struct{})
	told := sync.OnceFunc(func() { close(sent) })
	message := *m
	c.calls.Go(func() {
		defer func() { <-c.slots }()
		defer func() {
			c.mu.Lock()
			delete(c.endless, &cancel)
			c.mu.Unlock()
			cancel()
		}()
		defer told()
		result, err := c.call(ctx, &message, octets, told)
		switch {
		case errors.Is(err, mcpmap.ErrCancelled): // who cancels wants no answer
		case err != nil:
			c.refuse(message.ID(), err)
		default:
			c.write(result.Octets)
		}
	})
	<-sent
}

// call carries a request out, over another connection if the first has ended before the
// request left, or the peer drains it and has refused the request.
func (c *Conversation) call(ctx context.Context, m *mcpmap.Message, octets []byte, told func()) (*mcpmap.Result, error) {
	defer c.o.Peer.Watch()()
	for again := true; ; {
		link, id, err := c.way(ctx, m)
		if err != nil {
			return nil, err
		}
		sent := false
		call := &mcpmap.Call{Target: c.o.Target, Session: id, Octets: octets, Sent: func() {
			sent = true
			told()
		}}
		call.Events = c.events(link)
		result, err := link.MCP.Do(ctx, call)
		switch {
		case err == nil && result.Draining && again:
			again = false
		case err == nil:
			return c.session.answered(m, octets, link, id, result)
		case sent || ctx.Err() != nil || errors.As(err, new(*profiles.Error)) || !ended(link):
			return nil, err
		}
	}
}

// endTime is how much later than a stream of its the end of a connection may show.
const endTime = time.Second

// ended reports whether a connection takes no further requests, or does so in a moment.
func ended(link Link) bool {
	select {
	case <-profiles.Leaving(link.Session).Done():
		return true
	case <-time.After(endTime):
		return false
	}
}

// way returns the connection for a message, and the session there that it belongs to: a
// modern request stands alone.
func (c *Conversation) way(ctx context.Context, m *mcpmap.Message) (Link, string, error) {
	link, err := c.o.Peer.Link(ctx)
	switch {
	case err != nil:
		return Link{}, "", Unreached(err)
	case c.o.Target != "" && !link.Targets:
		return Link{}, "", &profiles.Error{
			Code: profiles.Internal, Detail: "mcp_target", Text: "the endpoint does not say that it tells servers apart",
		}
	case m.Kind() == mcpmap.Request && (m.Modern() || m.Is(mcpmap.MethodInitialize)):
		return link, "", nil
	}
	id, err := c.session.on(ctx, link)
	return link, id, err
}

// notify passes a notification on, over another connection if the first has ended before
// it left.
func (c *Conversation) notify(m *mcpmap.Message, octets []byte) error {
	for {
		link, id, err := c.way(c.ctx, m)
		if err != nil {
			return err
		}
		err = link.MCP.Notify(c.ctx, c.o.Target, id, octets)
		if err == nil {
			c.session.notified(m, octets)
			return nil
		}
		if c.ctx.Err() != nil || !ended(link) {
			return err
		}
	}
}

// events of a connection are written to the client.
func (c *Conversation) events(link Link) mcpmap.Events {
	return mcpmap.Events{Notification: c.write, Request: func(a *mcpmap.Asked) { c.ask(question{a, link.Session}) }}
}

// question is a request of the server, and the connection that it came over.
type question struct {
	*mcpmap.Asked
	session profiles.Session
}

// ask passes a request of the server to the client. One whose connection ends stays
// until the client has answered it, so that the answer is not taken for one to a request
// of the next connection with the same id.
func (c *Conversation) ask(q question) {
	key := mcpmap.TokenKey(q.Message.ID())
	c.mu.Lock()
	_, taken := c.asked[key]
	full := len(c.asked) >= maxCalls
	if !taken && !full {
		c.asked[key] = q
	}
	c.mu.Unlock()
	switch {
	case taken:
		q.Refuse(&profiles.Error{Code: profiles.DuplicateMsgID, Text: "a request with this id waits for its answer"})
	case full:
		q.Refuse(profiles.Busy("mcp_asked", "the client has too many requests to answer"))
	default:
		c.write(q.Message.Octets())
	}
}

// response passes the client's answer to the request that it belongs to.
func (c *Conversation) response(m *mcpmap.Message, octets []byte) {
	key := mcpmap.TokenKey(m.ID())
	c.mu.Lock()
	q, ok := c.asked[key]
	delete(c.asked, key)
	c.mu.Unlock()
	switch {
	case !ok:
		c.o.Complain("an answer of the client matches no request of the server")
		return
	case q.session.Context().Err() != nil:
		c.o.Complain("an answer of the client was dropped: the connection that the server asked over has ended")
		return
	}
	if err := q.Answer(octets); err != nil {
		c.o.Complain("an answer of the client was dropped: " + err.Error())
		q.Refuse(profiles.AsError(err))
	}
}

// Refuse answers what the caller could not read as a message.
func (c *Conversation) Refuse(err error) { c.refuse(nil, err) }

// refuse answers a request, or a malformed message, with a JSON-RPC error.
func (c *Conversation) refuse(id []byte, err error) { c.write(mcpmap.AppendFailure(nil, id, err)) }

func (c *Conversation) write(octets []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.o.Write(octets)
}
