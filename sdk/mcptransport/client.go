package mcptransport

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/internal/bridge/mcpclient"
)

// Peer is the endpoint in front of a server. A *client.Kept is one.
type Peer = mcpclient.Peer

// Client is the mcp.Transport by which an mcp.Client reaches a server of a peer, in either
// era. It replaces lost connections (see package mcpclient), so an mcp.ClientSession
// survives an outage or restart of the peer. Use a Client for one call of
// mcp.Client.Connect, as the SDK requires; any number of them may share a peer.
type Client struct {
	// Peer is the endpoint in front of the server. Closing the transport does not close it.
	Peer Peer

	// Target is the name of the server; empty means the default of the peer. A name needs a
	// peer whose swp.info says that it supports names of servers.
	Target string

	// Complain is called with errors that cannot be returned to the SDK, such as a
	// notification that was not sent. It may be nil.
	Complain func(string)
}

// Connect implements mcp.Transport.
func (t *Client) Connect(context.Context) (mcp.Connection, error) {
	c := &clientConn{in: newQueue()}
	c.talk = mcpclient.New(context.Background(), mcpclient.Options{Peer: t.Peer, Target: t.Target, Write: c.take, Complain: t.Complain})
	return c, nil
}

type clientConn struct {
	in   *queue
	talk *mcpclient.Conversation
	once sync.Once

	sending sync.Mutex
	closed  bool
}

// Read implements mcp.Connection.
func (c *clientConn) Read(ctx context.Context) (jsonrpc.Message, error) { return c.in.Read(ctx) }

// SessionID implements mcp.Connection. It is empty in the modern era, and before
// the answer to initialize.
func (c *clientConn) SessionID() string { return c.talk.Session() }

// Write implements mcp.Connection. When it returns, a request has been sent, so that the
// next message follows it. It does not return the error of a lost connection, because the
// SDK would then end the session; the request is answered with an error instead.
func (c *clientConn) Write(_ context.Context, m jsonrpc.Message) error {
	octets, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("mcptransport: %w", err)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.closed {
		return mcp.ErrConnectionClosed
	}
	c.talk.Send(octets)
	return nil
}

// take passes a message to the SDK. If the SDK cannot parse it, the message is dropped, as
// on other transports.
func (c *clientConn) take(octets []byte) {
	if m, err := jsonrpc.DecodeMessage(octets); err == nil {
		c.in.push(m)
	}
}

// Close implements mcp.Connection: it cancels what is in flight, and ends a legacy
// session at the peer.
func (c *clientConn) Close() error {
	c.once.Do(func() {
		c.in.close()
		c.talk.Cancel()
		c.sending.Lock()
		c.closed = true
		c.sending.Unlock()
		c.talk.Close()
	})
	return nil
}
