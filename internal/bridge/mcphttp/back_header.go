package mcphttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Media types of Streamable HTTP.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// Names of headers, in the form in which net/http keeps them.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerLast    = "Last-Event-Id"
)

// CheckHeaders says what is wrong with headers that BackendOptions.Headers would
// return. The error names no value.
func CheckHeaders(h http.Header) error {
	for name, values := range h {
		if !token(name) {
			return fmt.Errorf("mcphttp: %.64q is no name of a header", name)
		}
		switch n := strings.ToLower(name); {
		case n == "host", n == "connection", n == "te", n == "trailer", n == "transfer-encoding", n == "upgrade", n == "last-event-id",
			strings.HasPrefix(n, "content-"), strings.HasPrefix(n, "accept"), strings.HasPrefix(n, "mcp-"):
			return fmt.Errorf("mcphttp: header %.64q belongs to the protocol", name)
		}
		for _, v := range values {
			if !upstream.IsHeaderValue(v) {
				return fmt.Errorf("mcphttp: the value of header %.64q has characters that a header can not have", name)
			}
		}
	}
	return nil
}

// header returns the headers of a request to the server: the configured ones, and
// what is sent with any.
func (b *Backend) header(accept string) (http.Header, error) {
	configured, err := b.opts.Headers()
	if err == nil {
		err = CheckHeaders(configured)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCredentials, err)
	}
	h := make(http.Header, len(configured)+8)
	for name, values := range configured {
		h[http.CanonicalHeaderKey(name)] = values
	}
	h.Set("Accept", accept)
	return h, nil
}

// posted is header for a POST.
func (b *Backend) posted() (http.Header, error) {
	h, err := b.header(typeJSON + ", " + typeEvents)
	if err == nil {
		h.Set("Content-Type", typeJSON)
	}
	return h, err
}

// mirror sets the headers in which a modern request repeats what its body says.
func mirror(h http.Header, m *mcpmap.Message, params [][]byte) error {
	if v := m.Version(); v != "" {
		if err := mirrored(h, headerVersion, v); err != nil {
			return err
		}
	}
	if err := mirrored(h, headerMethod, string(m.Method())); err != nil {
		return err
	}
	if name, ok := nameOf(m); ok {
		if err := mirrored(h, headerName, name); err != nil {
			return err
		}
	}
	for _, p := range params {
		if err := setParam(h, p); err != nil {
			return err
		}
	}
	return nil
}

// maxMirrored bounds the value of a header that comes from a body, in octets.
const maxMirrored = 8 << 10

// mirrored sets a header to text of a body, in Base64 where it can not stand as it
// is (MCP 2026-07-28: encoding of header values).
func mirrored(h http.Header, name, value string) error {
	if len(value) > maxMirrored {
		return &profiles.Error{
			Code: profiles.InvalidMCPPayload, Detail: "mcp_header",
			Text: fmt.Sprintf("%s has to be a header, and has %d octets, above %d", name, len(value), maxMirrored),
		}
	}
	const before, after = "=?base64?", "?="
	if !upstream.IsHeaderValue(value) || strings.HasPrefix(value, before) && strings.HasSuffix(value, after) {
		value = before + base64.StdEncoding.EncodeToString([]byte(value)) + after
	}
	h.Set(name, value)
	return nil
}

// nameOf returns what a request is about, which MCP has a client say in Mcp-Name.
func nameOf(m *mcpmap.Message) (string, bool) {
	var member string
	switch string(m.Method()) {
	case mcpmap.MethodToolsCall:
		return string(m.Tool()), m.Tool() != nil
	case "prompts/get":
		member = "name"
	case "resources/read":
		member = "uri"
	default:
		return "", false
	}
	var params map[string]json.RawMessage // names match exactly
	var name string
	if json.Unmarshal(m.Params(), &params) != nil || json.Unmarshal(params[member], &name) != nil {
		return "", false // for the server to refuse
	}
	return name, true
}

// setParam sets a header from a parameter beside the request (extension 19):
// "mcp-param-<name>:value". Any other name is refused: what a peer supplies is no
// header of its own choice.
func setParam(h http.Header, param []byte) error {
	name, value, ok := bytes.Cut(param, []byte{':'})
	rest := ""
	if len(name) > len(headerParam) && strings.EqualFold(string(name[:len(headerParam)]), headerParam) {
		rest = string(name[len(headerParam):])
	}
	text := strings.Trim(string(value), " \t")
	if !ok || !token(rest) || !upstream.IsHeaderValue(text) {
		return &profiles.Error{
			Code: profiles.InvalidEnvelope, Detail: "mcp_param", Text: "a parameter beside the request is no mcp-param-<name>:value",
		}
	}
	h.Add(headerParam+rest, text)
	return nil
}

// token says whether a text can be the name of a header, or a part of one.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// visible says whether a text consists of visible ASCII, as the id of a session
// does.
func visible(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' })
}
