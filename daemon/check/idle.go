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
