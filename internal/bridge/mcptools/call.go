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
	octets, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": "swpd-tools-" + strconv.FormatUint(c.id.Add(1), 10), "method": method, "params": params,
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
	result, err := read(answer.Octets)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil {
		return nil, errors.New("the result is no object")
	}
	return members, nil
}

// Failure is a JSON-RPC error of a server, or of an endpoint on the way.
type Failure struct {
	Code    json.Number `json:"code"`
	Message string      `json:"message"`

	// Data describes a failure of an endpoint on the way.
	Data struct {
		Code string `json:"code"` // a canonical code
	} `json:"data"`
}

func (f *Failure) Error() string {
	if f.Data.Code != "" {
		return fmt.Sprintf("%.200s", f.Message)
	}
	return fmt.Sprintf("%.200q (JSON-RPC error %s)", f.Message, f.Code)
}

// read returns the result of a response. The error is a *Failure if it is one.
func read(response []byte) (json.RawMessage, error) {
	var m mcpmap.Message
	if err := m.Scan(response); err != nil {
		return nil, err
	}
	if m.Error() != nil {
		var f Failure
		_ = json.Unmarshal(m.Error(), &f) // as far as it can be read
		return nil, &f
	}
	return m.Result(), nil
}
