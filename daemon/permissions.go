package daemon

import (
	"maps"
	"slices"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/all"
)

// Permissions is what one identity may do under a configuration.
type Permissions struct {
	Identity string       `json:"identity"`
	Denied   bool         `json:"denied"` // it is not let in; the lists are empty
	Rules    []Permission `json:"rules"`
	AgentIDs []string     `json:"agent_ids"`   // patterns of those it may use
	Servers  []string     `json:"mcp_servers"` // that it may do something with
	Methods  []string     `json:"rpc_methods"` // built-in and of backends
	Kinds    []string     `json:"a2a_kinds"`   // of workers
	Cards    []string     `json:"agent_cards"` // that are configured
	Tools    []string     `json:"tools"`       // likewise, by tool_id
}

// Permission is a rule that holds for the identity, as patterns.
type Permission struct {
	Profile   []string `json:"profile"`
	Operation []string `json:"operation"`
	Name      []string `json:"name"`
}

// CheckAs says what an identity may do under a configuration, by the rules that
// Run would apply. Whether the trusted authorities vouch for it is not asked.
func CheckAs(c *config.Config, identity string) (*Permissions, error) {
	policy, err := newPolicy(&c.Access)
	if err != nil {
		return nil, err
	}
	p := &Permissions{
		Identity: identity, Denied: policy.Denied(identity), Rules: []Permission{},
		AgentIDs: []string{}, Servers: []string{}, Methods: []string{}, Kinds: []string{},
		Cards: []string{}, Tools: []string{},
	}
	if p.Denied {
		return p, nil
	}
	grants := policy.For(identity)
	for _, rule := range grants.Rules {
		p.Rules = append(p.Rules, Permission{orAny(rule.Profile), orAny(rule.Operation), orAny(rule.Name)})
	}
	p.AgentIDs = append(p.AgentIDs, grants.AgentIDs...)
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
	return p, nil
}

// orAny spells out what an empty list of a rule means.
func orAny(patterns []string) []string {
	if len(patterns) == 0 {
		return []string{"**"}
	}
	return patterns
}
