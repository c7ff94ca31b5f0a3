package mcpfront

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// tools are what this front has learned of tools whose arguments have to be headers,
// too: from the lists that went through it. A server on standard streams sees no
// headers, so they are checked against the body here. What one caller was told counts
// for no other one, and takes no room from it. The zero value is ready.
type tools struct {
	mu sync.Mutex
	of map[string]*learned // by caller
}

// learned is what one caller was told.
type learned struct {
	octets int
	of     map[toolKey][]binding
}

// toolKey is a tool as a caller knows it.
type toolKey struct{ target, name string }

// binding is an argument that is a header, too.
type binding struct {
	path   []string // of the argument
	header string   // in the form in which net/http keeps it
}

// maxLearned limits the memory for one caller: octets of names, and perEntry for each name.
// Above it everything is forgotten, and learned again from the next list. A list that
// exceeds it alone is not stored. maxBindings limits the bindings of a tool, and maxNested
// the depth of its arguments.
const (
	maxLearned  = 256 << 10
	perEntry    = 64
	maxBindings = 64
	maxNested   = 16
)

// sizeOf is how much of maxLearned a tool takes.
func sizeOf(key toolKey, bindings []binding) int {
	n := perEntry + len(key.target) + len(key.name)
	for _, b := range bindings {
		n += perEntry + len(b.header)
		for _, name := range b.path {
			n += perEntry/4 + len(name)
		}
	}
	return n
}

// set remembers the bindings of a tool in place of those before.
func (l *learned) set(key toolKey, bindings []binding) {
	if before := l.of[key]; before != nil {
		l.octets -= sizeOf(key, before)
		delete(l.of, key)
	}
	n := sizeOf(key, bindings)
	if len(bindings) == 0 || n > maxLearned {
		return
	}
	if l.octets+n > maxLearned {
		l.octets = 0
		clear(l.of)
	}
	l.octets += n
	l.of[key] = bindings
}

// property is what counts of a JSON Schema.
type property struct {
	Header     json.RawMessage     `json:"x-mcp-header"`
	Properties map[string]property `json:"properties"`
}

// learn takes note of the answer to tools/list.
func (t *tools) learn(caller, target string, response []byte) {
	var m mcpmap.Message
	var list struct {
		Tools []struct {
			Name   string   `json:"name"`
			Schema property `json:"inputSchema"`
		} `json:"tools"`
	}
	if m.Scan(response) != nil || m.Result() == nil {
		return
	}
	t.mu.Lock()
	known := t.of[caller] != nil
	t.mu.Unlock()
	if !known && !bytes.Contains(response, []byte("x-mcp-header")) || json.Unmarshal(m.Result(), &list) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[string]*learned)
	}
	l := t.of[caller]
	if l == nil {
		l = &learned{of: make(map[toolKey][]binding)}
		t.of[caller] = l
	}
	for i := range list.Tools {
		l.set(toolKey{target, list.Tools[i].Name}, list.Tools[i].Schema.bindings(nil, nil))
	}
	if len(l.of) == 0 {
		delete(t.of, caller)
	}
}

// bindings appends the bindings of a schema for the arguments at path.
func (p *property) bindings(list []binding, path []string) []binding {
	for name, child := range p.Properties {
		at := append(slices.Clip(path), name)
		var header string
		if json.Unmarshal(child.Header, &header) == nil && header != "" && len(list) < maxBindings {
			list = append(list, binding{at, http.CanonicalHeaderKey(mcpheader.Param + header)})
		}
		if len(at) < maxNested {
			list = child.bindings(list, at)
		}
	}
	return list
}

// mismatch says what is wrong with the Mcp-Param-* headers of a call, as far as its
// tool is known.
func (t *tools) mismatch(r *http.Request, caller, target string, m *mcpmap.Message) (refusal, bool) {
	if !m.Is(mcpmap.MethodToolsCall) {
		return refusal{}, false
	}
	t.mu.Lock()
	var bindings []binding
	if l := t.of[caller]; l != nil {
		bindings = l.of[toolKey{target, string(m.Tool())}]
	}
	t.mu.Unlock()
	if len(bindings) == 0 {
		return refusal{}, false
	}
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(m.Params(), &params) // or without arguments
	for _, b := range bindings {
		if why := b.mismatch(r, params.Arguments); why != "" {
			return refusal{code: codeHeaderMismatch, text: b.header + why, id: m.ID()}, true
		}
	}
	return refusal{}, false
}

// mismatch holds one header against its argument.
func (b *binding) mismatch(r *http.Request, arguments json.RawMessage) string {
	value := arguments
	for _, name := range b.path {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			object = nil
		}
		value = object[name]
	}
	given := r.Header.Values(b.header)
	absent := len(value) == 0 || string(value) == "null"
	switch {
	case len(given) > 1:
		return " is there more than once"
	case absent && len(given) > 0:
		return " is there, but its argument is not"
	case absent:
		return ""
	case len(given) == 0:
		return " is missing"
	}
	text, ok := mcpheader.Decode(given[0])
	if !ok || !same(text, value) {
		return " is not what the arguments say"
	}
	return ""
}

// same says whether a header has the value of an argument: a string, a boolean, or a
// whole number that every client can hold.
func same(text string, value json.RawMessage) bool {
	const most = 1<<53 - 1
	var v any
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return text == v
	case bool:
		return text == strconv.FormatBool(v)
	case float64:
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		return err == nil && n == v && n == math.Trunc(n) && math.Abs(n) <= most
	}
	return false
}
