package mcpheader

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// Tools are what one end has learned of tools whose arguments have to be headers, too: from
// the lists that went through it. With them it holds the headers of a call against the body.
// What one caller was told counts for no other one. The zero value is ready; safe for
// concurrent use.
type Tools struct {
	mu     sync.Mutex
	octets int                 // of all callers
	of     map[string]*learned // by caller
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
// Above it everything of the caller is forgotten, and learned again from the next list. A
// tool that exceeds it alone is not stored. maxTotal does the same for all callers. maxBindings limits the bindings of a tool, and maxNested
// the depth of its arguments.
const (
	maxLearned  = 256 << 10
	maxTotal    = 8 << 20
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

// Learn takes note of the answer to tools/list that a caller gets of a target.
func (t *Tools) Learn(caller, target string, response []byte) {
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
	l := t.of[caller]
	if l == nil {
		l = &learned{of: make(map[toolKey][]binding)}
	}
	t.octets -= l.octets
	for i := range list.Tools {
		l.set(toolKey{target, list.Tools[i].Name}, list.Tools[i].Schema.bindings(nil, nil))
	}
	if t.octets+l.octets > maxTotal {
		t.octets = 0
		clear(t.of)
	}
	if len(l.of) == 0 {
		delete(t.of, caller)
		return
	}
	if t.of == nil {
		t.of = make(map[string]*learned)
	}
	t.of[caller] = l
	t.octets += l.octets
}

// bindings appends the bindings of a schema for the arguments at path.
func (p *property) bindings(list []binding, path []string) []binding {
	for name, child := range p.Properties {
		at := append(slices.Clip(path), name)
		var header string
		if json.Unmarshal(child.Header, &header) == nil && header != "" && len(list) < maxBindings {
			list = append(list, binding{at, http.CanonicalHeaderKey(Param + header)})
		}
		if len(at) < maxNested {
			list = child.bindings(list, at)
		}
	}
	return list
}

// Mismatch returns what is wrong with the Mcp-Param headers of a call, or "". The arguments
// of a tool that the caller has listed decide, and if required is set none of their headers
// may be missing. Of other tools each header must have the value of some argument.
func (t *Tools) Mismatch(h http.Header, caller, target string, m *mcpmap.Message, required bool) string {
	if !m.Is(mcpmap.MethodToolsCall) {
		return ""
	}
	t.mu.Lock()
	var bindings []binding
	if l := t.of[caller]; l != nil {
		bindings = l.of[toolKey{target, string(m.Tool())}]
	}
	t.mu.Unlock()
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if len(bindings) == 0 {
		return stray(h, m)
	}
	_ = json.Unmarshal(m.Params(), &params) // or without arguments
	for _, b := range bindings {
		if why := b.mismatch(h, params.Arguments, required); why != "" {
			return b.header + why
		}
	}
	return ""
}

// mismatch holds one header against its argument.
func (b *binding) mismatch(h http.Header, arguments json.RawMessage, required bool) string {
	value := arguments
	for _, name := range b.path {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			object = nil
		}
		value = object[name]
	}
	given := h.Values(b.header)
	absent := len(value) == 0 || string(value) == "null"
	switch {
	case len(given) > 1:
		return " is there more than once"
	case absent && len(given) > 0:
		return " is there, but its argument is not"
	case absent:
		return ""
	case len(given) == 0:
		if required {
			return " is missing"
		}
		return ""
	}
	text, ok := Decode(given[0])
	var v any
	if !ok || json.Unmarshal(value, &v) != nil || !same(text, v) {
		return " is not what the arguments say"
	}
	return ""
}

// stray returns what is wrong with headers of which it is not known for which arguments they
// are.
func stray(h http.Header, m *mcpmap.Message) string {
	var params struct {
		Arguments any `json:"arguments"`
	}
	read := false
	for name, values := range h {
		if !strings.HasPrefix(name, Param) {
			continue
		}
		if !read {
			read = true
			_ = json.Unmarshal(m.Params(), &params) // or without arguments
		}
		for _, value := range values {
			if text, ok := Decode(value); !ok || !holds(params.Arguments, text) {
				return name + " is not the value of an argument"
			}
		}
	}
	return ""
}

// holds says whether a text is some value in v.
func holds(v any, text string) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			if holds(value, text) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(v, func(value any) bool { return holds(value, text) })
	}
	return same(text, v)
}

// same says whether a header has the value of an argument: a string, a boolean, or a
// whole number that every client can hold.
func same(text string, v any) bool {
	const most = 1<<53 - 1
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
