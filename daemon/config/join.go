package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slimwire/swp/internal/disk"
)

// Shared is the name of the MCP server that a partner may use by the rule that Join
// writes.
const Shared = "shared"

// Joined is a partner that Join adds to a configuration.
type Joined struct {
	Name      string
	Identity  string
	Addresses []Address // empty if the partner dials
	Trust     string    // file, relative to the configuration
}

// Entry returns the lines for the section partners, each with an indent.
func (j *Joined) Entry(indent string) string {
	var addresses []string
	for _, a := range j.Addresses {
		addresses = append(addresses, a.String())
	}
	return indent + j.Name + ":\n" +
		indent + "  identity: " + j.Identity + "\n" +
		indent + "  addresses: [" + strings.Join(addresses, ", ") + "]\n" +
		indent + "  trust: [" + j.Trust + "]\n" +
		indent + "  named_only: true   # of the rules, only those that name it\n"
}

// Rule returns the line for access.rules.
func (j *Joined) Rule(indent string) string {
	return fmt.Sprintf("%s- {identity: %q, profile: mcp, name: [%s, \"%s/**\"]}   # what the partner %s may do here\n",
		indent, j.Identity, Shared, Shared, j.Name)
}

// Join adds a partner to the configuration in file, and a rule that lets the partner use
// the MCP server Shared. It returns the new text, with the same comments and layout. The
// file of j.Trust must exist. If the layout of the text does not allow the change, the
// error contains the lines to add by hand.
func Join(file string, text []byte, j Joined) ([]byte, error) {
	needs, partners := Needs{Keys: []string{"partners", "access"}, Files: []string{"partners." + j.Name}}, readPartners(file, nil)
	before, _, err := needs.parse(file, text, partners, nil)
	if err != nil {
		return nil, err
	}
	if _, taken := before.Partners[j.Name]; taken {
		return nil, fmt.Errorf("%s: partners.%s exists already; choose another name with NAME=, or remove it", file, j.Name)
	}
	joined, err := j.insert(text)
	if err != nil {
		return nil, j.byHand(file, err)
	}
	after, _, err := needs.parse(file, joined, partners, nil)
	if err != nil {
		return nil, err
	}
	// Nothing else may have changed.
	if n := len(after.Access.Rules); len(after.Partners) != len(before.Partners)+1 || after.Partners[j.Name].Identity != j.Identity || n != len(before.Access.Rules)+1 {
		return nil, j.byHand(file, fmt.Errorf("its layout is not understood"))
	}
	rest := *after
	rest.Partners, rest.Access.Rules, rest.Access.Named, rest.Access.Asserting = before.Partners, before.Access.Rules, before.Access.Named, before.Access.Asserting
	rest.Places = before.Places // lines have moved
	if !reflect.DeepEqual(&rest, before) {
		return nil, j.byHand(file, fmt.Errorf("its layout is not understood"))
	}
	return joined, nil
}

func (j *Joined) byHand(file string, why error) error {
	return fmt.Errorf("%s: %w; add to partners:\n%sand to access.rules:\n%s", file, why, j.Entry("  "), j.Rule("    "))
}

// insertion is text to insert after a line.
type insertion struct {
	line int
	text string
}

func (j *Joined) insert(text []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) != 1 {
		return nil, fmt.Errorf("is not one YAML document")
	}
	lines := strings.SplitAfter(string(text), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n"
	}
	rules := under(under(doc.Content[0], "access"), "rules")
	if rules == nil || rules.Kind != yaml.SequenceNode || rules.Style&yaml.FlowStyle != 0 || len(rules.Content) == 0 {
		return nil, fmt.Errorf("access.rules is no list with a line for each rule")
	}
	edits := []insertion{{lastLine(rules), j.Rule(strings.Repeat(" ", rules.Column-1))}}
	switch partners := under(doc.Content[0], "partners"); {
	case partners == nil:
		edits = append(edits, insertion{len(lines), "\n# Endpoints of other organisations: what is there is NAME/server here.\npartners:\n" + j.Entry("  ")})
	case partners.Kind != yaml.MappingNode || partners.Style&yaml.FlowStyle != 0 || len(partners.Content) == 0:
		return nil, fmt.Errorf("partners is no mapping with lines for each partner")
	default:
		edits = append(edits, insertion{lastLine(partners), j.Entry(strings.Repeat(" ", partners.Column-1))})
	}
	slices.SortFunc(edits, func(a, b insertion) int { return cmp.Compare(b.line, a.line) })
	for _, e := range edits {
		lines = slices.Insert(lines, e.line, e.text)
	}
	return []byte(strings.Join(lines, "")), nil
}

// under returns the value of a key in a mapping, or nil.
func under(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// lastLine is the last line on which something of n begins.
func lastLine(n *yaml.Node) int {
	line := n.Line
	for _, c := range n.Content {
		line = max(line, lastLine(c))
	}
	return line
}

// Rewrite replaces a file with text, and keeps its mode, owner and group. A reader never sees an
// incomplete file.
func Rewrite(file string, text []byte) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return disk.Replace(file, text, disk.Like(info))
}
