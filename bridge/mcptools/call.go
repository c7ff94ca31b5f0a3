package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// call calls a method and returns the members of its result. Names of members
// match exactly.
func (c *conversation) call(ctx context.Context, method string, params map[string]any, events mcpmap.Events) (map[string]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Call)
	defer cancel()
	result, err := c.do(ctx, c.request(method, params), events)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return result, nil
}

// request returns a request under a fresh id. The ids are such as no other client
// of the same process is likely to use.
func (c *conversation) request(method string, params map[string]any) []byte {
	if c.modern {
		params["_meta"] = map[string]any{
			mcpmap.MetaProtocolVersion: mcpmap.ModernVersion, mcpmap.MetaClientInfo: clientInfo, mcpmap.MetaClientCapabilities: struct{}{},
		}
	}
	c.id++
	octets, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": "swpd-tools-" + strconv.Itoa(c.id), "method": method, "params": params,
	})
	if err != nil {
		panic(err) // of texts and numbers of our own
	}
	return octets
}

func (c *conversation) do(ctx context.Context, request []byte, events mcpmap.Events) (map[string]json.RawMessage, error) {
	answer, err := c.client.Do(ctx, &mcpmap.Call{Target: c.opts.Target, Session: c.session, Octets: request, Events: events})
	if err != nil {
		return nil, err
	}
	if answer.Session != "" {
		c.session = answer.Session
	}
	var m mcpmap.Message
	if err := m.Scan(answer.Octets); err != nil {
		return nil, err
	}
	if m.Error() != nil {
		var failure struct {
			Code    json.Number `json:"code"`
			Message string      `json:"message"`
		}
		_ = json.Unmarshal(m.Error(), &failure) // as far as it can be read
		return nil, fmt.Errorf("%.200q (JSON-RPC error %s)", failure.Message, failure.Code)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(m.Result(), &members); err != nil {
		return nil, errors.New("the result is no object")
	}
	return members, nil
}
