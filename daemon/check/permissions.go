package check

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Permissions are the rights of one identity under a configuration.
type Permissions struct {
	Identity string       `json:"identity"`
	Denied   bool         `json:"denied"` // it cannot connect; the lists are empty
	Rules    []Permission `json:"rules"`
	Withheld []Permission `json:"withheld,omitempty"` // rules with wildcards that do not apply, because partners.<name>.named_only is set
	AgentIDs []string     `json:"agent_ids"`          // patterns of agent_ids that it may use
	Servers  []string     `json:"mcp_servers"`        // servers with any right
	Methods  []string     `json:"rpc_methods"`        // built-in and of backends
	Kinds    []string     `json:"a2a_kinds"`          // of workers
	Cards    []string     `json:"agent_cards"`        // configured cards
	Tools    []string     `json:"tools"`              // configured tools, by tool_id

	// MCPTools are the patterns of SERVER/TOOL that it may call. Only the servers know
	// their tools.
	MCPTools []string `json:"mcp_tools"`

	// Partners are the partners that it may use.
	Partners []PartnerReach `json:"partners"`
}

// PartnerReach has the profiles in which the rules here allow requests to a partner. The
// partner's own rules decide as well.
type PartnerReach struct {
	Name     string   `json:"name"`
	Identity string   `json:"identity"` // of the partner
	Profiles []string `json:"profiles"` // in which some request is allowed
}

// Permission is a rule that applies to the identity, as patterns.
type Permission struct {
	For       []string `json:"for,omitempty"` // asserted callers; empty: all, and the identity itself
	Profile   []string `json:"profile"`
	Operation []string `json:"operation"`
	Name      []string `json:"name"`
}

// As returns the rights of an identity under a configuration, by the rules that daemon.Run
// would apply. It does not check whether a trusted authority has issued the identity.
func As(c *config.Config, identity string) (*Permissions, error) {
	policy, err := guard.NewPolicy(&c.Access, time.Now())
	if err != nil {
		return nil, err
	}
	p := &Permissions{
		Identity: identity, Denied: policy.Denied(identity), Rules: []Permission{},
		AgentIDs: []string{}, Servers: []string{}, Methods: []string{}, Kinds: []string{},
		Cards: []string{}, Tools: []string{}, MCPTools: []string{}, Partners: []PartnerReach{},
	}
	if p.Denied {
		return p, nil
	}
	grants := policy.For(identity)
	for _, rule := range grants.Rules {
		p.Rules = append(p.Rules, Permission{rule.For, orAny(rule.Profile), orAny(rule.Operation), orAny(rule.Name)})
	}
	p.AgentIDs = append(p.AgentIDs, grants.AgentIDs...)
	if err := p.withhold(c, grants.Rules); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		if policy.Reaches(identity, "mcp", name) {
			p.Servers = append(p.Servers, name)
		}
	}
	p.Methods = append(p.Methods, all.Open()...)
	for _, name := range slices.Sorted(maps.Keys(c.RPC.Backends)) {
		for _, method := range c.RPC.Backends[name].Methods {
			if policy.Allowed(identity, "rpc", "call", method) {
				p.Methods = append(p.Methods, method)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		for _, kind := range c.A2A.Workers[name].Kinds {
			if policy.Allowed(identity, "a2a", "task", kind) {
				p.Kinds = append(p.Kinds, kind)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		if policy.Allowed(identity, "agdisc", "get", id) {
			p.Cards = append(p.Cards, id)
		}
	}
	for i := range c.TOOLDISC.Tools {
		id := c.TOOLDISC.Tools[i].ToolID
		if policy.Allowed(identity, "tooldisc", "get", id) && !slices.Contains(p.Tools, id) {
			p.Tools = append(p.Tools, id)
		}
	}
	for i := range grants.Rules {
		p.addTools(c, &grants.Rules[i])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Partners)) {
		one := PartnerReach{Name: name, Identity: c.Partners[name].Identity}
		for _, profile := range reachable() {
			if policy.Reaches(identity, profile, name) {
				one.Profiles = append(one.Profiles, profile)
			}
		}
		if len(one.Profiles) > 0 {
			p.Partners = append(p.Partners, one)
		}
	}
	return p, nil
}

// withhold lists the rules that would apply to the identity besides those that do, without named_only.
func (p *Permissions) withhold(c *config.Config, apply []access.Rule) error {
	if !slices.Contains(c.Access.Named, profiles.Link(p.Identity)) {
		return nil
	}
	everybody := c.Access
	everybody.Named = nil
	policy, err := guard.NewPolicy(&everybody, time.Now())
	if err != nil {
		return err
	}
	for _, rule := range policy.For(p.Identity).Rules {
		if !slices.ContainsFunc(apply, func(r access.Rule) bool { return reflect.DeepEqual(r, rule) }) {
			p.Withheld = append(p.Withheld, Permission{rule.For, orAny(rule.Profile), orAny(rule.Operation), orAny(rule.Name)})
		}
	}
	return nil
}

// addTools adds the patterns of a rule that allows calls of MCP tools of a server or
// partner.
func (p *Permissions) addTools(c *config.Config, rule *access.Rule) {
	for _, pattern := range orAny(rule.Name) {
		one, err := access.New(access.Options{Rules: []access.Rule{{
			Identity: []string{anyone}, Profile: rule.Profile, Operation: rule.Operation, Name: []string{pattern},
		}}})
		if err != nil || slices.Contains(p.MCPTools, pattern) {
			continue
		}
		calls := func(name string) bool { return one.AllowedSome(anyone, "mcp", mcpmap.MethodToolsCall, name+"/") }
		deep := strings.Count(pattern, "/") > 1 || strings.Contains(pattern, "**") // partner/server is not a tool
		if slices.ContainsFunc(slices.Collect(maps.Keys(c.MCP.Servers)), calls) || deep && slices.ContainsFunc(slices.Collect(maps.Keys(c.Partners)), calls) {
			p.MCPTools = append(p.MCPTools, pattern)
		}
	}
}

// orAny returns the patterns, by default the pattern for everything.
func orAny(patterns []string) []string {
	if len(patterns) == 0 {
		return []string{"**"}
	}
	return patterns
}
