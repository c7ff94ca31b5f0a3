// Package mcpheader has the headers of MCP over Streamable HTTP, for both of its ends.
//
// Specification: MCP 2026-07-28, Streamable HTTP.
package mcpheader

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Media types of Streamable HTTP.
const (
	JSON   = "application/json"
	Events = "text/event-stream"
)

// Names of headers, in the form in which net/http keeps them.
const (
	Version = "Mcp-Protocol-Version"
	Session = "Mcp-Session-Id"
	Method  = "Mcp-Method"
	Name    = "Mcp-Name"
	Param   = "Mcp-Param-" // and a name
	Last    = "Last-Event-Id"
)

// NameOf returns the value of Name for a request: the tool, the prompt, the URI of the
// resource, or the id of the task. ok is false if the request has none.
func NameOf(m *mcpmap.Message) (name string, ok bool) {
	var member string
	switch string(m.Method()) {
	case mcpmap.MethodToolsCall:
		return string(m.Tool()), m.Tool() != nil
	case "tasks/get", "tasks/update", "tasks/cancel":
		return string(m.Task()), m.Task() != nil
	case "prompts/get":
		member = "name"
	case "resources/read":
		member = "uri"
	default:
		return "", false
	}
	var params map[string]json.RawMessage // names match exactly
	if json.Unmarshal(m.Params(), &params) != nil || json.Unmarshal(params[member], &name) != nil {
		return "", false // for the server to refuse
	}
	return name, true
}

// What encloses a value in Base64.
const (
	before = "=?base64?"
	after  = "?="
)

// Encode returns the value of a header that stands for text: in Base64 where text cannot
// stand in a header, or could be taken for Base64.
func Encode(text string) string {
	if upstream.IsHeaderValue(text) && !(strings.HasPrefix(text, before) && strings.HasSuffix(text, after)) {
		return text
	}
	return before + base64.StdEncoding.EncodeToString([]byte(text)) + after
}

// Decode returns the text that the value of a header stands for. ok is false if it is
// enclosed as Base64 and is none.
func Decode(value string) (text string, ok bool) {
	rest, ok := strings.CutPrefix(value, before)
	if !ok {
		return value, true
	}
	if rest, ok = strings.CutSuffix(rest, after); !ok {
		return value, true
	}
	octets, err := base64.StdEncoding.DecodeString(rest)
	return string(octets), err == nil
}
