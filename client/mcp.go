package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// Info asks the peer what it offers.
func (c *Client) Info(ctx context.Context) (*rpc.Info, error) {
	if c.mute.Load() {
		return nil, fmt.Errorf("%s does not say what it offers: it did not answer swp.info, and is not asked again on this connection", c.address)
	}
	info, err := c.offer(ctx)
	return info, c.Explain(err)
}

// offer is Info with an error as it comes.
func (c *Client) offer(ctx context.Context) (*rpc.Info, error) {
	var info rpc.Info
	if err := rpc.CallJSON(ctx, c.peer, rpc.MethodInfo, nil, &info); err != nil {
		return nil, err
	}
	c.peer.Known().Learn(info.Offer())
	return &info, nil
}

// Partners returns the partners of the endpoint that the address names, as far as the rules
// there let this identity act on their objects.
func (c *Client) Partners(ctx context.Context) ([]string, error) {
	var info rpc.Info
	if err := rpc.CallJSON(ctx, c.Session, rpc.MethodInfo, nil, &info); err != nil {
		return nil, c.Explain(err)
	}
	return info.Partners, nil
}

// honours reports whether the peer says that it supports an extension type.
func (c *Client) honours(ctx context.Context, profile, extension uint64) (bool, error) {
	if info := c.info.Load(); info != nil {
		return slices.Contains(info.Extensions[profile], extension), nil
	}
	info, err := c.Info(ctx)
	if unknown := (*rpc.Error)(nil); errors.As(err, &unknown) && unknown.Code == rpc.CodeUnknownMethod {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.Contains(info.Extensions[profile], extension), nil
}

// CheckChain returns an error if the peer does not say that it checks the chain of credentials
// that a message names, whatever its profile: such a peer would do without the credentials.
func (c *Client) CheckChain(ctx context.Context) error {
	checks, err := c.honours(ctx, 0, profiles.ExtChain)
	if err == nil && !checks {
		err = fmt.Errorf("%s does not announce that it checks credentials in every profile (extension 50), so it would act without them; leave out --chain", c.address)
	}
	return err
}

// CheckTarget returns an error if the peer ignores the name of a server: such a peer would
// run the call on another server.
func (c *Client) CheckTarget(ctx context.Context, target string) error {
	if target == "" {
		return nil
	}
	honoured, err := c.honours(ctx, mcpmap.ProfileID, mcpmap.ExtTarget)
	if err != nil {
		return err
	}
	if !honoured {
		return fmt.Errorf("%s does not support names of servers, so a call for %q could reach another server; leave the name out", c.address, target)
	}
	return nil
}

// tellsServersApart reports whether a peer supports names of servers.
func tellsServersApart(info *rpc.Info) bool {
	return slices.Contains(info.Extensions[mcpmap.ProfileID], mcpmap.ExtTarget)
}

// MCP is a conversation with one MCP server behind the peer, in the era of that server. One
// goroutine at a time may call its methods.
type MCP struct {
	c       *Client
	target  string
	session string // legacy
	modern  bool
	id      int

	// Version is the protocol version in use.
	Version string
}

// MCPError is the JSON-RPC error of a server.
type MCPError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`

	// Author is the endpoint that wrote the error. It is empty for an error of the server.
	Author

	action Action // that was answered with this error
}

func (e *MCPError) Error() string {
	s := fmt.Sprintf("%s (JSON-RPC error %d)", e.Message, e.Code)
	code, _ := e.endpoint()
	if by := e.Author.Said(code); by != "" {
		s += "; " + by
	}
	return s
}

// Verbatim returns the message of an error that the server wrote.
func (e *MCPError) Verbatim() string {
	if code, _ := e.endpoint(); code != "" {
		return ""
	}
	return e.Message
}

// endpoint returns the code of an error that an endpoint wrote, and its identity if given.
// Both are empty for an error of the server.
func (e *MCPError) endpoint() (code, identity string) {
	var data struct {
		Code     string `json:"code"`
		Endpoint string `json:"endpoint"`
	}
	if json.Unmarshal(e.Data, &data) != nil || !strings.HasPrefix(data.Code, "ERR_") {
		return "", ""
	}
	return data.Code, data.Endpoint
}

// legacyVersion is the newest version with sessions.
const legacyVersion = "2025-11-25"

// OpenMCP starts a conversation: a modern one if the server answers server/discover, else a
// session. The caller closes it.
func (c *Client) OpenMCP(ctx context.Context, target string) (*MCP, error) {
	if err := c.CheckTarget(ctx, target); err != nil {
		return nil, err
	}
	m := &MCP{c: c, target: target, modern: true, Version: mcpmap.ModernVersion}
	result, err := m.Call(ctx, mcpmap.MethodDiscover, nil, nil)
	if err == nil {
		var found struct {
			Versions []string `json:"supportedVersions"`
		}
		if json.Unmarshal(result, &found) == nil && slices.Contains(found.Versions, m.Version) {
			return m, nil
		}
	} else if !errors.As(err, new(*MCPError)) {
		return nil, err
	}
	m.modern, m.Version = false, legacyVersion
	return m, m.initialize(ctx)
}

// clientInfo is how this client names itself.
var clientInfo = json.RawMessage(`{"name":"swp-client","version":"1"}`)

func (m *MCP) initialize(ctx context.Context) error {
	result, err := m.Call(ctx, mcpmap.MethodInitialize, map[string]any{
		"protocolVersion": legacyVersion, "capabilities": struct{}{}, "clientInfo": clientInfo,
	}, nil)
	if err != nil {
		return err
	}
	var agreed struct {
		Version string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(result, &agreed); err != nil {
		return fmt.Errorf("client: initialize: %w", err)
	}
	m.Version = agreed.Version
	if err := m.c.MCP().Notify(ctx, m.target, m.session, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		return m.c.ExplainAbout(err, m.target)
	}
	return nil
}

// Call calls a method and returns the result unchanged. Until then notification, which may
// be nil, is called with the messages of the server.
func (m *MCP) Call(ctx context.Context, method string, params map[string]any, notification func(octets []byte)) (json.RawMessage, error) {
	if m.modern {
		params = m.withMeta(params)
	}
	m.id++
	request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.id, "method": method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	result, err := m.c.MCP().Do(ctx, &mcpmap.Call{
		Target: m.target, Session: m.session, Octets: request,
		Events: mcpmap.Events{Notification: notification},
	})
	if err != nil {
		return nil, m.c.unless(ctx, err, m.target)
	}
	if result.Session != "" {
		m.session = result.Session
	}
	var response struct {
		Result json.RawMessage `json:"result"`
		Error  *MCPError       `json:"error"`
	}
	switch err := json.Unmarshal(result.Octets, &response); {
	case err != nil:
		return nil, fmt.Errorf("client: %s: answer: %w", method, err)
	case response.Error != nil:
		_, endpoint := response.Error.endpoint()
		response.Error.Author = m.c.author(endpoint, m.target)
		response.Error.action = m.action(method, params)
		return nil, response.Error
	}
	return response.Result, nil
}

// action is a request of this conversation in the words of access rules.
func (m *MCP) action(method string, params map[string]any) Action {
	name := m.target
	if tool, ok := params["name"].(string); ok && method == mcpmap.MethodToolsCall && name != "" {
		name += "/" + tool
	}
	return Action{"mcp", method, name}
}

// withMeta adds the metadata of a modern request.
func (m *MCP) withMeta(params map[string]any) map[string]any {
	out := make(map[string]any, len(params)+1)
	meta := map[string]any{
		mcpmap.MetaProtocolVersion:           m.Version,
		mcpmap.MetaClientCapabilities:        struct{}{},
		"io.modelcontextprotocol/clientInfo": clientInfo,
	}
	maps.Copy(out, params)
	if given, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, given)
	}
	out["_meta"] = meta
	return out
}

// Tool is a server's description of a tool.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	InputSchema struct {
		Properties map[string]struct {
			Type        any    `json:"type"`
			Description string `json:"description"`
		} `json:"properties"`
		Required []string `json:"required"`
	} `json:"inputSchema"`

	Octets json.RawMessage `json:"-"` // the whole description, unchanged
}

// maxPages bounds how many pages a server may announce.
const maxPages = 1000

// Tools lists the tools of the server, from all pages.
func (m *MCP) Tools(ctx context.Context) ([]Tool, error) {
	tools, cursor := []Tool{}, ""
	for range maxPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		result, err := m.Call(ctx, "tools/list", params, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []json.RawMessage `json:"tools"`
			Next  string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("client: tools/list: %w", err)
		}
		for _, octets := range page.Tools {
			tool := Tool{Octets: octets}
			if err := json.Unmarshal(octets, &tool); err != nil {
				return nil, fmt.Errorf("client: tools/list: %w", err)
			}
			tools = append(tools, tool)
		}
		if page.Next == "" || page.Next == cursor {
			return tools, nil
		}
		cursor = page.Next
	}
	return nil, errors.New("client: tools/list: more than " + strconv.Itoa(maxPages) + " pages")
}

// Close ends a session on the server. Without a session it does nothing.
func (m *MCP) Close(ctx context.Context) {
	if !m.modern {
		m.c.closeSession(ctx, m.target, m.session)
	}
}

// closeSession ends a legacy session. A failure does no harm: the server ends the session
// after a while.
func (c *Client) closeSession(ctx context.Context, target, session string) {
	if session != "" {
		_, _ = rpc.Call(ctx, c.Session, mcpmap.MethodRPCClose, mcpmap.SessionParams(target, session))
	}
	c.MCP().Leave(target, session)
}
