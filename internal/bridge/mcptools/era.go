package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// legacyVersion is the newest version with sessions.
const legacyVersion = "2025-11-25"

// Names of the members that are read.
const (
	methodChanged      = "notifications/tools/list_changed"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
	metaServerInfo     = "io.modelcontextprotocol/serverInfo"
)

// clientInfo is how this client names itself.
var clientInfo = json.RawMessage(`{"name":"swpd","version":"1"}`)

// open learns the era of the server and its description of itself.
func (c *conversation) open(ctx context.Context) error {
	c.modern = true
	result, err := c.call(ctx, mcpmap.MethodDiscover, map[string]any{}, mcpmap.Events{})
	if err == nil {
		var versions []string
		if json.Unmarshal(result["supportedVersions"], &versions) == nil && slices.Contains(versions, mcpmap.ModernVersion) {
			var meta map[string]json.RawMessage
			_ = json.Unmarshal(result["_meta"], &meta) // if missing, the version is empty
			return c.meet(result, meta[metaServerInfo])
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.modern = false
	return c.initialize(ctx)
}

// initialize opens a session, in which the server tells of changes unasked.
func (c *conversation) initialize(ctx context.Context) error {
	result, err := c.call(ctx, mcpmap.MethodInitialize, map[string]any{
		"protocolVersion": legacyVersion, "capabilities": struct{}{}, "clientInfo": clientInfo,
	}, mcpmap.Events{Notification: c.hear, Request: answer})
	if err != nil {
		return err
	}
	if err := c.meet(result, result["serverInfo"]); err != nil {
		return err
	}
	return c.client.Notify(ctx, c.opts.Target, c.session, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
}

// meet records capabilities, and the version in serverInfo, which may be nil.
func (c *conversation) meet(result map[string]json.RawMessage, serverInfo []byte) error {
	var capabilities struct {
		Tools *struct {
			ListChanged bool `json:"listChanged"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(result["capabilities"], &capabilities); err != nil {
		return errors.New("the server has not sent its capabilities")
	}
	if c.server.tools = capabilities.Tools != nil; c.server.tools {
		c.server.tells = capabilities.Tools.ListChanged && !c.opts.Brief
	}
	var info map[string]json.RawMessage
	if json.Unmarshal(serverInfo, &info) == nil {
		_ = json.Unmarshal(info["version"], &c.server.version) // without one it stays empty
	}
	return nil
}

// hear is told what the server says in its session, or of its subscription.
func (c *conversation) hear(octets []byte) {
	var m mcpmap.Message
	if m.Scan(octets) != nil || !m.Is(methodChanged) {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default: // it is known already
	}
}

// answer answers what the server asks in its session: it is there, and can
// nothing.
func answer(asked *mcpmap.Asked) {
	id, outcome := asked.Message.ID(), `"error":{"code":-32601,"message":"this client has no capabilities"}`
	if asked.Message.Is("ping") {
		outcome = `"result":{}`
	}
	response := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	_ = asked.Answer(append(append(append(response, ','), outcome...), '}')) // a server that is gone needs none
}

// subscribeTime is how long a server may take to acknowledge a subscription.
const subscribeTime = 5 * time.Second

// subscribe has a server of the stateless era tell of changes. ended gets why it
// does so no more. A server that refuses it announces no changes.
func (c *conversation) subscribe(ctx context.Context) (ended <-chan error, err error) {
	if !c.modern || !c.server.tells {
		return nil, nil
	}
	acknowledged, over := make(chan bool, 1), make(chan error, 1)
	hear := func(octets []byte) {
		if ok, is := acknowledges(octets); is {
			select {
			case acknowledged <- ok:
			default:
			}
			return
		}
		c.hear(octets)
	}
	request := c.request(mcpmap.MethodListen, map[string]any{"notifications": map[string]any{"toolsListChanged": true}})
	c.work.Go(func() {
		_, err := c.do(ctx, request, mcpmap.Events{Notification: hear})
		if err == nil {
			err = errors.New("in order")
		}
		over <- err
	})
	timeout := time.NewTimer(subscribeTime)
	defer timeout.Stop()
	select {
	case c.server.tells = <-acknowledged:
		return over, nil
	case <-over: //nolint:errcheck // any answer means no announcements
		c.server.tells = false
		return nil, nil
	case <-timeout.C:
		return nil, errors.New("no acknowledgement of " + mcpmap.MethodListen)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// acknowledges reads what a server acknowledges of a subscription.
func acknowledges(octets []byte) (tools, is bool) {
	var m mcpmap.Message
	if m.Scan(octets) != nil || !m.Is(methodAcknowledged) {
		return false, false
	}
	var params struct {
		Notifications struct {
			ToolsListChanged bool `json:"toolsListChanged"`
		} `json:"notifications"`
	}
	return json.Unmarshal(m.Params(), &params) == nil && params.Notifications.ToolsListChanged, true
}
