// Package mcpecho is the echo as an MCP call: tools/call of one tool that returns its text,
// in the era without sessions, over Streamable HTTP and on stdio.
//
// Client and server write JSON by hand for this one call, so that the benchmark measures
// the transport between them and not an SDK.
package mcpecho

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

const (
	version = "2026-07-28"
	method  = "tools/call"
	tool    = "echo"
)

// appendRequest appends the call with a payload, in Base64 because text is what MCP
// carries.
func appendRequest(dst []byte, id uint64, payload []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendUint(dst, id, 10)
	dst = append(dst, `,"method":"`+method+`","params":{"name":"`+tool+`","arguments":{"text":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, payload)
	return append(dst, `"},"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+`",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"swp-bench","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`...)
}

// response is what the client reads.
type response struct {
	ID     uint64 `json:"id"`
	Result struct {
		Content []struct {
			Text []byte `json:"text"` // in Base64
		} `json:"content"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// readResponse returns the payload in the response to the call of an id.
func readResponse(octets []byte, id uint64) ([]byte, error) {
	var r response
	if err := json.Unmarshal(octets, &r); err != nil {
		return nil, fmt.Errorf("mcpecho: %w", err)
	}
	if r.Error != nil || r.ID != id || len(r.Result.Content) != 1 {
		return nil, fmt.Errorf("mcpecho: not the response to call %d: %.300q", id, octets)
	}
	return r.Result.Content[0].Text, nil
}

// request is what the server reads.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string `json:"name"`
		Arguments struct {
			Text json.RawMessage `json:"text"`
		} `json:"arguments"`
	} `json:"params"`
}

// appendResponse appends the response to a message, or nothing if it wants none.
func appendResponse(dst, octets []byte) ([]byte, error) {
	var r request
	if err := json.Unmarshal(octets, &r); err != nil {
		return nil, fmt.Errorf("mcpecho: %w", err)
	}
	if r.ID == nil {
		return dst, nil
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), r.ID...)
	switch {
	case r.Method == method && r.Params.Name == tool && r.Params.Arguments.Text != nil:
		dst = append(dst, `,"result":{"resultType":"complete","content":[{"type":"text","text":`...)
		return append(append(dst, r.Params.Arguments.Text...), `}]}}`...), nil
	case r.Method == "server/discover":
		return append(dst, `,"result":{"resultType":"complete","supportedVersions":["`+version+`"],`+
			`"capabilities":{"tools":{}},"serverInfo":{"name":"mcpecho","version":"1"}}}`...), nil
	case r.Method == "tools/list":
		return append(dst, `,"result":{"resultType":"complete","tools":[{"name":"`+tool+`","inputSchema":`+
			`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]}}`...), nil
	}
	return append(dst, `,"error":{"code":-32601,"message":"only the tool echo is here"}}`...), nil
}
