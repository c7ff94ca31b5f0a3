package check

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/all"
)

// idle warns of settings that take no effect.
func (p *Plan) idle(c *config.Config, now time.Time) {
	warn := func(format string, args ...any) { p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...)) }
	h := &c.HTTP
	if h.Address == config.HTTPOff {
		var keys []string
		for key, set := range map[string]bool{
			"callers": len(h.Callers) > 0, "anonymous": h.Anonymous != "", "hosts": len(h.Hosts) > 0, "origins": len(h.Origins) > 0,
			"tls": h.TLS.Cert != "", "url": h.URL != "", "a2a.default": h.A2A.Default != "",
		} {
			if set {
				keys = append(keys, "http."+key)
			}
		}
		if slices.Sort(keys); len(keys) > 0 {
			warn("http.address is off, so %s take no effect", strings.Join(keys, ", "))
		}
	}
	expired := func(key string, tokens []string) {
		for i, text := range tokens {
			if _, until, err := gate.ParseToken(text); err == nil && !until.IsZero() && !now.Before(until) {
				warn("%s.tokens[%d] has expired at %s; remove it, or give the caller a new one", key, i, until.UTC().Format(time.RFC3339))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Callers)) {
		expired("http.callers."+name, h.Callers[name].Tokens)
	}
	expired("metrics", c.Metrics.Tokens)
	caller := func(key string, identities config.List) (all bool) {
		all = len(identities) > 0
		for _, pattern := range identities {
			name, front := strings.CutPrefix(pattern, gate.Prefix)
			all = all && front
			if _, ok := h.Callers[name]; front && !ok && name != h.Anonymous && !strings.Contains(name, "*") {
				warn("%s: %.200q is nobody, because http.callers has no %s", key, pattern, name)
			}
		}
		return all
	}
	for i := range c.Access.Rules {
		rule := &c.Access.Rules[i]
		key := c.Access.RuleKey(i)
		if caller(key+".identity", rule.Identity) && len(rule.For) > 0 {
			warn("%s.for: the rule is for nobody, because callers of the HTTP front do not ask for others", key)
		}
		p.unknown(c, key, rule)
		if !slices.Equal(rule.Profile, config.List{"mcp"}) || len(c.MCP.Servers) == 0 {
			continue // or the rules were written before the servers
		}
		for _, pattern := range rule.Name {
			name, _, _ := strings.Cut(pattern, "/")
			_, server := c.MCP.Servers[name]
			if _, partner := c.Partners[name]; !server && !partner && !strings.Contains(name, "*") {
				warn("%s.name: %.200q is nothing, because neither mcp.servers nor partners has a %s", key, pattern, name)
			}
		}
	}
	for i, denial := range c.Access.Deny {
		key := c.Access.DenyKey(i)
		if caller(key+".identity", denial.Identity) && len(denial.For) > 0 {
			warn("%s.for: this denies nobody, because callers of the HTTP front do not ask for others", key)
		}
	}
	for i, agent := range c.Access.Agents {
		caller(fmt.Sprintf("access.agents[%d].identity", i), agent.Identity)
	}
	if file, err := filepath.Abs(c.Source); err == nil && c.Store != config.StoreMemory && c.Source != "" && filepath.Dir(file) == filepath.Clean(c.Data) {
		warn("data is the directory of %s; name one that holds nothing else, such as data", filepath.Base(c.Source))
	}
}

// unknown warns of names of a rule that are nothing here, where the configuration says all names: of RPC
// methods, and of agents, teams and kinds if no peer may use an agent_id.
func (p *Plan) unknown(c *config.Config, key string, rule *config.AccessRule) {
	var what, where string
	var names []string
	switch {
	case slices.Equal(rule.Profile, config.List{"rpc"}):
		what, where, names = "method", "no method of swpd or of rpc.backends", slices.Concat(methodsOf(c), ruledMethods(c))
	case slices.Equal(rule.Profile, config.List{"a2a"}) && len(c.Access.Agents) == 0:
		what, where, names = "agent", "none of a2a.workers, a2a.agents and teams", agentsOf(c)
	default:
		return
	}
	for _, name := range rule.Name {
		first, _, deeper := strings.Cut(name, "/")
		_, partner := c.Partners[first]
		there := slices.Contains(names, name) || what == "agent" && slices.Contains(names, first)
		if strings.Contains(name, "*") || deeper && partner || there {
			continue
		}
		hint := ""
		if best := plain.Meant(name, names); best != "" {
			hint = "; did you mean " + best + "?"
		}
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s.name: %.200q is nothing, because %s has this name, and neither has a partner%s", key, name, where, hint))
	}
}

// ruledMethods returns the methods of all profiles.
func ruledMethods(c *config.Config) (names []string) {
	for _, p := range slices.Concat(all.Tables(), c.Profiles) {
		for i := range p.Methods {
			names = append(names, p.Methods[i].Name)
		}
	}
	return names
}

// agentsOf returns the agents, the teams and the kinds of workers of a configuration.
func agentsOf(c *config.Config) (names []string) {
	names = slices.Concat(slices.Collect(maps.Keys(c.A2A.Agents)), slices.Collect(maps.Keys(c.Teams)))
	for _, worker := range c.A2A.Workers {
		names = append(names, worker.Kinds...)
	}
	slices.Sort(names)
	return names
}
