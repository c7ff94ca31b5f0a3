package conformance

import (
	"slices"
	"strings"
)

// Namespace is a set of official vectors: those whose ids begin with its name
// and an underscore.
type Namespace struct {
	Name    string
	Vectors int // how many there are
}

// Namespaces are the namespaces of the official vectors, in the order of the
// specification.
//
// Specification: docs/conformance.md §1 and §2.
func Namespaces() []Namespace {
	return []Namespace{
		{"core", 33}, {"e1", 8}, {"s1", 6}, {"mcp", 15}, {"a2a", 15}, {"agdisc", 6}, {"tooldisc", 6}, {"rpc", 7}, {"events", 6},
		{"artifact", 7}, {"cred", 6}, {"policyhint", 6}, {"state", 6}, {"obs", 5}, {"relay", 6},
	}
}

// Class is a set of namespaces that can be claimed together.
type Class struct {
	Name       string // C0 to C5
	Title      string
	Namespaces []string // all that the table of the specification asks for
}

// Classes are the classes of the specification, the lower ones first. C1, C2 and
// C3 are each C0 and something, so that no class implies C1 or C2.
//
// Specification: docs/conformance.md §1.
func Classes() []Class {
	c0 := []string{"core", "e1", "s1"}
	c3 := append(slices.Clone(c0), "rpc", "events", "obs")
	c4 := append(slices.Clone(c3), "artifact", "state")
	return []Class{
		{"C0", "Core baseline", c0},
		{"C1", "MCP bridge", append(slices.Clone(c0), "mcp")},
		{"C2", "A2A baseline", append(slices.Clone(c0), "a2a")},
		{"C3", "Runtime primitives", c3},
		{"C4", "Data plane", c4},
		{"C5", "Federation", append(slices.Clone(c4), "agdisc", "tooldisc", "cred", "policyhint", "relay")},
	}
}

// NamespaceOf is the namespace that a vector_id names, known or not.
func NamespaceOf(vectorID string) string {
	name, _, _ := strings.Cut(vectorID, "_")
	return name
}
