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

// Client is the mcp.Transport by which an mcp.Client reaches a server of a peer, in
// either era. It outlives the connections to the peer, see package mcpclient: an
// mcp.ClientSession survives an outage or restart of the peer. It is for one call of
// mcp.Client.Connect, as the SDK has it; any number of them share a peer.
type Client struct {
	// Peer is where the server is. It stays when the transport is closed.
	Peer Peer

	// Target is the name of the server; empty means the default of the peer. A name
	// is sent only to peers that say in swp.info that they tell servers apart.
	Target string

	// Complain gets errors that cannot be returned to the SDK, such as a notification
	// that was not sent. It may be nil.
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

// Write implements mcp.Connection. A request has been sent when it returns, so that
// the next message follows it. It does not report the end of a connection, because the
// SDK would take that for the end of the session: the request is answered with an
// error instead.
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

// take gives a message to the SDK. One that the SDK does not understand is dropped,
// as it would be on any other transport.
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
