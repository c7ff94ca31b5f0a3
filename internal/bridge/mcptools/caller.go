package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// methodCall is the method that calls a tool.
const methodCall = "tools/call"

// ErrInput is the error of a tool that wants to ask the user something first, which
// nobody here could answer.
var ErrInput = errors.New("mcptools: the tool wants input")

// Caller calls the tools of one server for one peer. The era of the server is learned
// with the first call; a session of the era that has them is kept for the next ones.
// It is safe for concurrent use.
type Caller struct {
	client *mcpmap.Client
	opts   Options

	mu   sync.Mutex
	open chan struct{} // closed once conv or err is there; nil before the first call
	conv *conversation
}

// NewCaller returns a Caller of the server that is called target at the other end of
// client. The sessions that it opens end with the connection.
func NewCaller(client *mcpmap.Client, target string) *Caller {
	return &Caller{client: client, opts: Options{Target: target}.withDefaults()}
}

// Call calls a tool with arguments, a JSON object, and returns the CallToolResult as
// the server wrote it. Whether the tool failed is said there. The error is an
// *Failure if the server answered with one, ErrInput, that of ctx, or why the server
// could not be asked. A call is sent once, unless the session that it was for is gone.
func (c *Caller) Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	for again := false; ; again = true {
		conv, err := c.conversation(ctx)
		if err != nil {
			return nil, fmt.Errorf("mcptools: %s: %w", c.opts.Target, err)
		}
		result, err := conv.callTool(ctx, tool, args)
		if conv.ended(err) {
			c.forget(conv)
			if !again {
				continue // the server has not seen it
			}
		}
		if err != nil {
			return nil, fmt.Errorf("mcptools: %s: %w", c.opts.Target, err)
		}
		return result, nil
	}
}

// conversation returns how the server is talked to, and finds out if nobody does.
func (c *Caller) conversation(ctx context.Context) (*conversation, error) {
	for {
		c.mu.Lock()
		if c.conv != nil {
			defer c.mu.Unlock()
			return c.conv, nil
		}
		opening := c.open
		if opening == nil {
			c.open = make(chan struct{})
			c.mu.Unlock()
			return c.begin(ctx)
		}
		c.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// begin opens a conversation. Those who wait for it try for themselves if it fails.
func (c *Caller) begin(ctx context.Context) (*conversation, error) {
	conv := &conversation{opts: &c.opts, client: c.client}
	err := conv.open(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.open)
	c.open = nil
	if err != nil {
		return nil, err
	}
	c.conv = conv
	return conv, nil
}

// forget makes the next call start over.
func (c *Caller) forget(conv *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conv == conv {
		c.conv = nil
	}
}

// callTool is Caller.Call in one conversation, which many do at once.
func (c *conversation) callTool(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	request := c.request(methodCall, map[string]any{"name": tool, "arguments": args})
	answer, err := c.client.Do(ctx, &mcpmap.Call{Target: c.opts.Target, Session: c.session, Octets: request, Events: mcpmap.Events{Request: answer}})
	if err != nil {
		return nil, err
	}
	result, err := read(answer.Octets)
	if err != nil {
		return nil, err
	}
	var kind struct {
		Type string `json:"resultType"`
	}
	if err := json.Unmarshal(result, &kind); err != nil {
		return nil, errors.New("the result is no object")
	}
	if kind.Type == "input_required" {
		return nil, ErrInput
	}
	return result, nil
}

// ended reports whether an error says that the session is gone, so that the server
// has not seen the call.
func (c *conversation) ended(err error) bool {
	failure, ok := errors.AsType[*Failure](err)
	return ok && c.session != "" && failure.Data.Code == profiles.NotFound.String()
}
