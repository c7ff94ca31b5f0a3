package mcptransport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// maxAsked is how many requests of a server wait for their answers at once.
const maxAsked = 512

// Client is the mcp.Transport by which an mcp.Client reaches a server of a peer, in
// either era. It is for one call of mcp.Client.Connect, as the SDK has it; any
// number of them share a session.
type Client struct {
	// Session is the connection to the peer. It stays open when the transport is
	// closed; when it ends, so does the transport.
	Session profiles.Session

	// MCP calls the servers of that peer. It is the Client of a mcpmap.Mapping for
	// Session.
	MCP *mcpmap.Client

	// Target is the name of the server; empty means the default of the peer. A name
	// is for peers only that say in swp.info that they tell servers apart.
	Target string
}

// Connect implements mcp.Transport.
func (t *Client) Connect(context.Context) (mcp.Connection, error) {
	c := &clientConn{t: t, in: newQueue(), asked: make(map[jsonrpc.ID]*mcpmap.Asked)}
	c.ctx, c.cancel = context.WithCancel(t.Session.Context())
	context.AfterFunc(c.ctx, c.in.close)
	return c, nil
}

type clientConn struct {
	t      *Client
	in     *queue
	ctx    context.Context // of all calls
	cancel context.CancelFunc
	calls  sync.WaitGroup
	once   sync.Once

	mu      sync.Mutex
	closed  bool
	session string                       // legacy
	asked   map[jsonrpc.ID]*mcpmap.Asked // requests of the server
}

// Read implements mcp.Connection.
func (c *clientConn) Read(ctx context.Context) (jsonrpc.Message, error) { return c.in.Read(ctx) }

// SessionID implements mcp.Connection. It is empty in the modern era, and before
// the answer to initialize.
func (c *clientConn) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Write implements mcp.Connection. A request has been sent when it returns, so
// that what is written next comes after it.
func (c *clientConn) Write(ctx context.Context, m jsonrpc.Message) error {
	octets, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("mcptransport: %w", err)
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		return c.answer(m, octets)
	case *jsonrpc.Request:
		if m.IsCall() {
			return c.call(ctx, octets)
		}
		return c.t.MCP.Notify(ctx, c.t.Target, c.SessionID(), octets)
	}
	return fmt.Errorf("mcptransport: a message of type %T", m)
}

// call sends a request; what comes back is read later.
func (c *clientConn) call(ctx context.Context, octets []byte) error {
	var request mcpmap.Message
	if err := request.Scan(octets); err != nil {
		return fmt.Errorf("mcptransport: %w", err)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return mcp.ErrConnectionClosed
	}
	c.calls.Add(1)
	session := c.session
	c.mu.Unlock()
	if request.Modern() {
		session = ""
	}
	sent := make(chan struct{})
	var once sync.Once
	told := func() { once.Do(func() { close(sent) }) }
	go func() {
		defer c.calls.Done()
		defer told()
		result, err := c.t.MCP.Do(c.ctx, &mcpmap.Call{
			Target: c.t.Target, Session: session, Octets: octets, Sent: told,
			Events: mcpmap.Events{Notification: c.take, Request: c.ask},
		})
		switch {
		case errors.Is(err, mcpmap.ErrCancelled) || c.ctx.Err() != nil:
		case err != nil:
			c.take(mcpmap.AppendFailure(nil, request.ID(), err))
		default:
			if result.Session != "" {
				c.mu.Lock()
				c.session = result.Session
				c.mu.Unlock()
			}
			c.take(result.Octets)
		}
	}()
	select {
	case <-sent:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take gives a message to the SDK. One that the SDK does not understand is dropped,
// as it would be on any other transport.
func (c *clientConn) take(octets []byte) {
	if m, err := jsonrpc.DecodeMessage(octets); err == nil {
		c.in.push(m)
	}
}

// ask gives a request of the server to the SDK.
func (c *clientConn) ask(a *mcpmap.Asked) {
	m, err := jsonrpc.DecodeMessage(a.Message.Octets())
	request, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		a.Refuse(profiles.Errorf(profiles.InvalidMCPPayload, "the client can not read the request"))
		return
	}
	c.mu.Lock()
	_, taken := c.asked[request.ID]
	full := len(c.asked) >= maxAsked
	if !taken && !full {
		c.asked[request.ID] = a
	}
	c.mu.Unlock()
	switch {
	case taken:
		a.Refuse(&profiles.Error{Code: profiles.DuplicateMsgID, Text: "a request with this id waits for its answer"})
	case full:
		a.Refuse(profiles.Busy("mcp_asked", "the client has too many requests to answer"))
	default:
		c.in.push(request)
	}
}

// answer passes an answer of the SDK to the request it belongs to.
func (c *clientConn) answer(m *jsonrpc.Response, octets []byte) error {
	c.mu.Lock()
	a := c.asked[m.ID]
	delete(c.asked, m.ID)
	c.mu.Unlock()
	if a == nil {
		return fmt.Errorf("mcptransport: an answer to %v, which the server did not ask or which is answered", m.ID.Raw())
	}
	return a.Answer(octets)
}

// Close implements mcp.Connection: it cancels what is in flight, and ends a legacy
// session at the peer.
func (c *clientConn) Close() error {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		session := c.session
		c.mu.Unlock()
		c.cancel()
		c.calls.Wait()
		if session == "" {
			return
		}
		if params, err := json.Marshal(map[string]string{"target": c.t.Target, "session": session}); err == nil {
			ctx, cancel := context.WithTimeout(c.t.Session.Context(), closeTime)
			defer cancel()
			_, _ = rpc.Call(ctx, c.t.Session, mcpmap.MethodRPCClose, params) // else the peer ends it after a while
		}
		c.t.MCP.Leave(c.t.Target, session)
	})
	return nil
}
