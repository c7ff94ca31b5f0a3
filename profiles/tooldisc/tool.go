package tooldisc

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Tool is one version of a tool. Its Payload must not be changed.
type Tool struct {
	ID        string // stable, unique with its Version
	Name      string
	Version   string
	SchemaRef string // reference to the schema of its input; see CheckRef
	Payload   []byte // description: opaque, may be empty

	// Stale is the time for which the partner with the tool has been unreachable, 0 if it
	// is reachable. Only Find sets it.
	Stale time.Duration
}

// Octets is how many octets the fields have.
func (t *Tool) Octets() int {
	return len(t.ID) + len(t.Name) + len(t.Version) + len(t.SchemaRef) + len(t.Payload)
}

// descriptor returns the message for the tool.
func (t *Tool) descriptor() Descriptor {
	return Descriptor{
		ToolID: []byte(t.ID), Name: []byte(t.Name), Version: []byte(t.Version), SchemaRef: []byte(t.SchemaRef), DescriptorPayload: t.Payload,
	}
}

// tool returns a copy of a descriptor as a Tool.
func (m *Descriptor) tool() Tool {
	return Tool{
		ID: string(m.ToolID), Name: string(m.Name), Version: string(m.Version), SchemaRef: string(m.SchemaRef),
		Payload: bytes.Clone(m.DescriptorPayload),
	}
}

// entry is a Tool in the catalogue.
type entry struct {
	Tool
	server  string    // its MCP server; empty for a configured tool or a partner's
	partner string    // the partner that lists it; empty for a local tool
	schema  []byte    // of its input, nil if it is unknown here
	lower   [2]string // tool_id and name, for filters
}

// newEntry returns the entry of a tool. It fails if a peer would refuse the tool.
func newEntry(t Tool, server string, schema []byte) (*entry, error) {
	d := t.descriptor()
	resp := GetResp{Tool: d}
	if err := resp.Decode(resp.Append(nil)); err != nil {
		return nil, err
	}
	return &entry{Tool: t, server: server, schema: schema, lower: [2]string{strings.ToLower(t.ID), strings.ToLower(t.Name)}}, nil
}

// matches reports whether a filter in lower case is part of the tool_id or the
// name.
func (e *entry) matches(filter string) bool {
	return filter == "" || strings.Contains(e.lower[0], filter) || strings.Contains(e.lower[1], filter)
}

// Configured is a tool that is described by configuration.
type Configured struct {
	Tool

	// Schema is the schema of the input. If it is not nil, SchemaRef is its hash.
	Schema []byte
}

func (c *Configured) entry() (*entry, error) {
	t := c.Tool
	if c.Schema != nil {
		t.SchemaRef = RefOf(c.Schema)
	}
	return newEntry(t, "", c.Schema)
}

// fromMCP returns the entry of a tool of an MCP server. The octets are not changed: the
// schema is a window into them.
func fromMCP(server, version string, octets []byte) (*entry, error) {
	var members map[string]json.RawMessage // case-sensitive names
	if err := json.Unmarshal(octets, &members); err != nil {
		return nil, fmt.Errorf("tooldisc: a tool of %s: %w", server, err)
	}
	var name string
	if err := json.Unmarshal(members["name"], &name); err != nil || name == "" || strings.ContainsRune(name, utf8.RuneError) {
		return nil, fmt.Errorf("tooldisc: a tool of %s has no name: %.80q", server, members["name"])
	}
	if namesIn(octets) != 1 {
		return nil, fmt.Errorf("tooldisc: tool %.80q of %s has several names, and parsers disagree about which one counts", name, server)
	}
	schema := []byte(members["inputSchema"])
	if len(schema) == 0 || schema[0] != '{' {
		return nil, fmt.Errorf("tooldisc: tool %.80q of %s has no inputSchema that is an object", name, server)
	}
	if i := bytes.Index(octets, schema); i >= 0 { // a window, so that the octets are not stored twice
		schema = octets[i : i+len(schema) : i+len(schema)]
	}
	e, err := newEntry(Tool{
		ID: server + "/" + name, Name: name, Version: version, SchemaRef: RefOf(schema), Payload: octets,
	}, server, schema)
	if err != nil {
		return nil, fmt.Errorf("tooldisc: tool %.80q of %s: %w", name, server, err)
	}
	return e, nil
}

// namesIn counts the members of an object that some parser would take for its name: many
// parsers ignore case, and use the first or the last of several. octets are JSON.
func namesIn(octets []byte) (n int) {
	d := json.NewDecoder(bytes.NewReader(octets))
	_, _ = d.Token() // the brace
	for d.More() {
		name, err := d.Token()
		if text, ok := name.(string); err == nil && ok && strings.EqualFold(text, "name") {
			n++
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return 0
		}
	}
	return n
}

// digest is the SHA-256 of a schema.
type digest = [sha256.Size]byte
