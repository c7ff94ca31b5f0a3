package tooldisc

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Tool is one version of a tool. Nobody changes its Payload.
type Tool struct {
	ID        string // stable, unique with its Version
	Name      string
	Version   string
	SchemaRef string // where the schema of its input is; see CheckRef
	Payload   []byte // what there is to say of it: opaque, may be empty
}

// descriptor returns the tool in the form of the wire.
func (t *Tool) descriptor() Descriptor {
	return Descriptor{
		ToolID: []byte(t.ID), Name: []byte(t.Name), Version: []byte(t.Version), SchemaRef: []byte(t.SchemaRef), DescriptorPayload: t.Payload,
	}
}

// tool returns a descriptor as a Tool of its own.
func (m *Descriptor) tool() Tool {
	return Tool{
		ID: string(m.ToolID), Name: string(m.Name), Version: string(m.Version), SchemaRef: string(m.SchemaRef),
		Payload: bytes.Clone(m.DescriptorPayload),
	}
}

// entry is a Tool in the catalogue.
type entry struct {
	Tool
	server  string    // whose tool it is; empty: it is configured, or a partner's
	partner string    // that lists it; empty: it is here
	schema  []byte    // of its input, nil if it is not known here
	lower   [2]string // tool_id and name, for filters
}

// newEntry returns the entry of a tool. It fails on what a peer would refuse.
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

// fromMCP returns the entry of a tool as an MCP server describes it. The octets
// stay what they are: the schema is a window into them.
func fromMCP(server, version string, octets []byte) (*entry, error) {
	var members map[string]json.RawMessage // names match exactly
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
	if i := bytes.Index(octets, schema); i >= 0 { // the same octets, and not kept twice
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

// namesIn counts the members of an object that some parser takes for its name: many
// ignore case, and of several take the first or the last. octets are JSON.
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
