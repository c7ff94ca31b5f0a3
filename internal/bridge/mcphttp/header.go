package mcphttp

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
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
				return fmt.Errorf("mcphttp: the value of header %.64q has characters that a header cannot have", name)
			}
		}
	}
	return nil
}

// header returns the headers of a request to the server: the configured ones, and
// those of every request.
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
	h, err := b.header(mcpheader.JSON + ", " + mcpheader.Events)
	if err == nil {
		h.Set("Content-Type", mcpheader.JSON)
	}
	return h, err
}

// mirror sets the headers in which a modern request repeats what its body says.
func mirror(h http.Header, m *mcpmap.Message, params [][]byte) error {
	if v := m.Version(); v != "" {
		if err := mirrored(h, mcpheader.Version, v); err != nil {
			return err
		}
	}
	if err := mirrored(h, mcpheader.Method, string(m.Method())); err != nil {
		return err
	}
	if name, ok := mcpheader.NameOf(m); ok {
		if err := mirrored(h, mcpheader.Name, name); err != nil {
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

// mirrored sets a header to text of a body, in Base64 if it is not a valid value
// (MCP 2026-07-28: encoding of header values).
func mirrored(h http.Header, name, value string) error {
	if len(value) > maxMirrored {
		return &profiles.Error{
			Code: profiles.InvalidMCPPayload, Detail: "mcp_header",
			Text: fmt.Sprintf("%s has to be a header, and has %d octets, above %d", name, len(value), maxMirrored),
		}
	}
	h.Set(name, mcpheader.Encode(value))
	return nil
}

// setParam sets a header from a parameter beside the request (extension 19):
// "mcp-param-<name>:value". Any other name is refused: a peer must not choose
// headers.
func setParam(h http.Header, param []byte) error {
	name, value, ok := bytes.Cut(param, []byte{':'})
	rest := ""
	if len(name) > len(mcpheader.Param) && strings.EqualFold(string(name[:len(mcpheader.Param)]), mcpheader.Param) {
		rest = string(name[len(mcpheader.Param):])
	}
	text := strings.Trim(string(value), " \t")
	if !ok || !token(rest) || !upstream.IsHeaderValue(text) {
		return &profiles.Error{
			Code: profiles.InvalidEnvelope, Detail: "mcp_param", Text: "a parameter beside the request is no mcp-param-<name>:value",
		}
	}
	h.Add(mcpheader.Param+rest, text)
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
