package mcpfront

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// accepts says whether a client takes responses of all of the types.
func accepts(r *http.Request, types ...string) bool {
	var given []string
	for _, line := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			if t, _, err := mime.ParseMediaType(part); err == nil {
				given = append(given, t)
			}
		}
	}
	for _, t := range types {
		kind, _, _ := strings.Cut(t, "/")
		if !slices.Contains(given, t) && !slices.Contains(given, kind+"/*") && !slices.Contains(given, "*/*") {
			return false
		}
	}
	return true
}

// prefersEvents says whether a client would rather have events than one JSON document,
// where either will do: it names them first.
func prefersEvents(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	events, single := strings.Index(accept, mcpheader.Events), strings.Index(accept, mcpheader.JSON)
	return events >= 0 && single > events
}

// sendsJSON says whether the body of a request is plain JSON.
func sendsJSON(r *http.Request) bool {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encoding := r.Header.Get("Content-Encoding")
	return err == nil && t == mcpheader.JSON && (encoding == "" || strings.EqualFold(encoding, "identity"))
}

// modern says whether the version in the headers is one without sessions.
func modern(r *http.Request) bool { return r.Header.Get(mcpheader.Version) >= mcpmap.ModernVersion }

// legacyVersions are those that have a header, and are not what a session has
// agreed upon.
var legacyVersions = []string{"2025-03-26", "2025-06-18", "2025-11-25"}

// mismatch holds the headers of a modern request against its body, and says what
// is wrong. The version, and the rest of _meta, are the server's business.
func mismatch(r *http.Request, m *mcpmap.Message) (refusal, bool) {
	wrong := func(text string) (refusal, bool) {
		return refusal{code: codeHeaderMismatch, text: text, id: m.ID()}, true
	}
	for _, name := range []string{mcpheader.Version, mcpheader.Method, mcpheader.Name} {
		if len(r.Header.Values(name)) > 1 {
			return wrong(name + " is there more than once")
		}
	}
	version := r.Header.Get(mcpheader.Version)
	switch {
	case version == "":
		return wrong("MCP-Protocol-Version is missing")
	case m.Version() == "":
		return refusal{code: mcpmap.CodeInvalidParams, text: "_meta does not name the protocol version", id: m.ID()}, true
	case m.Version() != version:
		return wrong("MCP-Protocol-Version is not what _meta says")
	case r.Header.Get(mcpheader.Method) == "":
		return wrong("Mcp-Method is missing")
	case r.Header.Get(mcpheader.Method) != string(m.Method()):
		return wrong("Mcp-Method is not the method of the body")
	}
	if name, ok := mcpheader.NameOf(m); ok {
		given, ok := mcpheader.Decode(r.Header.Get(mcpheader.Name))
		switch {
		case r.Header.Get(mcpheader.Name) == "":
			return wrong("Mcp-Name is missing")
		case !ok || given != name:
			return wrong("Mcp-Name is not the name in the body")
		}
	}
	return refusal{}, false
}

// maxParams limits the parameters that are sent as extensions of a request: it leaves room
// for the extensions of the link.
const maxParams = 3 << 10

// params returns the Mcp-Param-* headers of a request, sorted, as "name:value". ok is
// false if they are too much.
func params(r *http.Request) (list []string, ok bool) {
	for name, values := range r.Header {
		if !strings.HasPrefix(name, mcpheader.Param) {
			continue
		}
		for _, v := range values {
			list = append(list, strings.ToLower(name)+":"+v)
		}
	}
	slices.Sort(list)
	var ext e1.Extensions
	for _, p := range list {
		if ext = e1.AppendExtension(ext, mcpmap.ExtMCPParam, []byte(p)); len(ext) > maxParams {
			return nil, false
		}
	}
	return list, true
}
