package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ParseOffer reads PROFILE:NAME as a rule that lets a partner use what has the name: an MCP
// server with all its tools, or one tool SERVER/TOOL; the kinds of an agent; a method, a topic, an
// event_type. NAME may be a pattern.
func ParseOffer(text string) (PartnerRule, error) {
	profile, name, ok := strings.Cut(text, ":")
	if !ok || profile == "" || name == "" {
		return PartnerRule{}, fmt.Errorf("%.200q is no offer, want PROFILE:NAME, such as mcp:files, mcp:files/read_file, rpc:orders.find or a2a:planner", text)
	}
	r := PartnerRule{Profile: List{profile}, Name: List{name}}
	_, _, part := strings.Cut(name, "/")
	switch {
	case profile == "mcp" && part:
		r.Operation = List{"tools/call"} // and what it implies
	case profile == "mcp":
		r.Name = append(r.Name, name+"/**")
	case profile == "a2a" && !part:
		r.Operation, r.Name = List{"task"}, append(r.Name, name+"/**")
	case profile == "a2a":
		r.Operation = List{"task"}
	case profile == "rpc":
		r.Operation = List{"call"}
	}
	return r, nil
}

// String says what a rule lets a partner use.
func (r *PartnerRule) String() string {
	all := func(list List, none string) string {
		if len(list) == 0 {
			return none
		}
		return strings.Join(list, ", ")
	}
	s := all(r.Profile, "every profile") + ": " + all(r.Name, "every name")
	if len(r.Operation) > 0 {
		s += " (" + strings.Join(r.Operation, ", ") + ")"
	}
	if len(r.For) > 0 {
		s += " for " + strings.Join(r.For, ", ")
	}
	return s
}

// MarshalJSON writes the keys of a rule that are set, in the form that the configuration has
// in one line.
func (r PartnerRule) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		For       List `json:"for,omitempty"`
		Profile   List `json:"profile,omitempty"`
		Operation List `json:"operation,omitempty"`
		Name      List `json:"name,omitempty"`
	}{r.For, r.Profile, r.Operation, r.Name})
}

// NewPartner is what is written into a file of PartnersDir.
type NewPartner struct {
	Identity   string
	Addresses  []string
	Trust      string        // file, relative to the directory
	Allow      []PartnerRule // and nothing else, unless a rule names the identity
	ValidUntil string
	ReviewBy   string
	OwnsData   bool
}

// Text returns the content of the file.
func (p *NewPartner) Text() []byte {
	quoted := func(v any) string {
		text, _ := json.Marshal(v) // strings, and rules of them; YAML reads JSON
		return string(text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "identity: %s\n", quoted(p.Identity))
	if len(p.Addresses) > 0 {
		fmt.Fprintf(&b, "addresses: %s\n", quoted(p.Addresses))
	}
	fmt.Fprintf(&b, "trust: [%s]\n", quoted(p.Trust))
	if len(p.Allow) > 0 {
		b.WriteString("allow: # what it may do here\n")
		for _, r := range p.Allow {
			fmt.Fprintf(&b, "  - %s\n", quoted(r))
		}
	}
	b.WriteString("named_only: true # rules for everybody, or for a pattern, do not apply to it\n")
	if p.OwnsData {
		b.WriteString("owns_data: true # that is stored here under its identity\n")
	}
	for _, date := range [][2]string{{"valid_until", p.ValidUntil}, {"review_by", p.ReviewBy}} {
		if date[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", date[0], date[1])
		}
	}
	return []byte(b.String())
}
