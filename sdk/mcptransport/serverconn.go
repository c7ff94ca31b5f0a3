package mcptransport

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// serverConn is one connection of the SDK's server: a session of the legacy era, or one
// request of the modern one. It implements mcp.Transport.
//
// Requests get new ids for the SDK, because the SDK does not preserve the octets of every
// id. Answers get the original id of the client back.
type serverConn struct {
	in     *queue
	client mcpmap.Counterpart // nil in the modern era, where the connection ends with its only request

	mu      sync.Mutex
	last    int64
	flights map[int64]*flight
}

// flight is a request that the SDK has not answered.
type flight struct {
	x     *mcpmap.Exchange
	id    []byte // as the client wrote it
	token string // key of its progress token, or ""
}

func newServerConn(client mcpmap.Counterpart) *serverConn {
	return &serverConn{in: newQueue(), client: client, flights: make(map[int64]*flight)}
}

// Connect implements mcp.Transport.
func (c *serverConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection: the session belongs to the mapping.
func (c *serverConn) SessionID() string { return "" }

// Read implements mcp.Connection.
func (c *serverConn) Read(ctx context.Context) (jsonrpc.Message, error) { return c.in.Read(ctx) }

// Close implements mcp.Connection.
func (c *serverConn) Close() error {
	c.in.close()
	return nil
}

// ended is called when the SDK has closed the connection.
func (c *serverConn) ended() {
	c.in.close()
	c.mu.Lock()
	left := c.flights
	c.flights = make(map[int64]*flight)
	c.mu.Unlock()
	for _, f := range left {
		f.x.Fail(profiles.Unavailable(mcp.ErrConnectionClosed))
	}
	if c.client != nil {
		c.client.Ended()
	}
}

// do passes a request to the SDK.
func (c *serverConn) do(x *mcpmap.Exchange) {
	m, err := jsonrpc.DecodeMessage(x.Message.Octets())
	request, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		x.Fail(profiles.Errorf(profiles.InvalidMCPPayload, "the server cannot read the request"))
		c.over()
		return
	}
	f := &flight{x: x, id: slices.Clone(x.Message.ID()), token: mcpmap.TokenKey(x.Message.ProgressToken())}
	c.mu.Lock()
	c.last++
	n := c.last
	c.flights[n] = f
	c.mu.Unlock()
	request.ID, _ = jsonrpc.MakeID(float64(n))
	if !c.in.offer(request) {
		c.take(n)
		x.Fail(profiles.Busy("mcp_queue", "the server does not keep up"))
		c.over()
		return
	}
	x.OnCancel(func([]byte) {
		if c.take(n) == nil {
			return
		}
		c.in.offer(&jsonrpc.Request{Method: mcpmap.MethodCancelled, Params: json.RawMessage(fmt.Sprintf(`{"requestId":%d}`, n))})
		c.over()
	})
}

// take removes a request in flight. It returns nil if it has ended already.
func (c *serverConn) take(n int64) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flights[n]
	delete(c.flights, n)
	return f
}

// over closes a connection that was for one request.
func (c *serverConn) over() {
	if c.client == nil {
		c.in.close()
	}
}

// notify passes a notification to the SDK.
func (c *serverConn) notify(m *mcpmap.Message) {
	if decoded, err := jsonrpc.DecodeMessage(m.Octets()); err == nil {
		c.in.offer(decoded)
	}
}

// Write implements mcp.Connection: it passes a message of the SDK to its request or
// session.
func (c *serverConn) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		return c.respond(m)
	case *jsonrpc.Request:
		octets, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return fmt.Errorf("mcptransport: %w", err)
		}
		var scanned mcpmap.Message
		if err := scanned.Scan(octets); err != nil {
			return fmt.Errorf("mcptransport: %w", err)
		}
		f := c.belongs(&scanned)
		switch {
		case m.IsCall():
			return c.ask(f, m, &scanned)
		case f != nil:
			f.x.Pace(ctx) // backpressure, as on a slow stream
			f.x.Notify(octets)
		case c.client != nil:
			c.client.Notify(octets)
		}
		return nil
	}
	return fmt.Errorf("mcptransport: a message of type %T", m)
}

// respond answers a request and ends it.
func (c *serverConn) respond(m *jsonrpc.Response) error {
	n, ok := m.ID.Raw().(int64)
	if !ok {
		return fmt.Errorf("mcptransport: an answer to %v, which was not asked", m.ID.Raw())
	}
	f := c.take(n)
	if f == nil {
		return nil // it was cancelled
	}
	octets := append([]byte(`{"jsonrpc":"2.0","id":`), f.id...)
	if m.Error != nil {
		text, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: m.ID, Error: m.Error})
		if err != nil {
			return fmt.Errorf("mcptransport: %w", err)
		}
		var encoded mcpmap.Message
		if err := encoded.Scan(text); err != nil {
			return fmt.Errorf("mcptransport: %w", err)
		}
		octets = append(append(octets, `,"error":`...), encoded.Error()...)
	} else {
		octets = append(append(octets, `,"result":`...), m.Result...)
	}
	f.x.Finish(append(octets, '}'))
	c.over()
	return nil
}

// belongs returns the request to which a message of the server belongs: by its progress
// token, else the only one in flight, else nil.
func (c *serverConn) belongs(m *mcpmap.Message) *flight {
	progress := m.Progressed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if progress != nil && m.Is(mcpmap.MethodProgress) {
		key := mcpmap.TokenKey(progress)
		for _, f := range c.flights {
			if f.token == key {
				return f
			}
		}
		return nil
	}
	if len(c.flights) != 1 {
		return nil
	}
	for _, f := range c.flights {
		return f
	}
	return nil
}

// ask sends a request of the server to the client.
func (c *serverConn) ask(f *flight, request *jsonrpc.Request, m *mcpmap.Message) error {
	if c.client == nil {
		c.in.offer(&jsonrpc.Response{ID: request.ID, Error: fmt.Errorf("the client of a request without a session cannot be asked")})
		return nil
	}
	var x *mcpmap.Exchange
	if f != nil {
		x = f.x
	}
	c.client.Request(x, m, func(octets []byte) {
		if answer, err := jsonrpc.DecodeMessage(octets); err == nil {
			c.in.push(answer)
		}
	})
	return nil
}
