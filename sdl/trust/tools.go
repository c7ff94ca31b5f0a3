package trust

import (
	"errors"
	"fmt"
	"slices"

	"github.com/slimwire/swp/sdl/canonical"
)

// ToolPolicy says which agent may call which tool (§7.4). The zero value allows nothing.
// Its fields must not change while in use.
type ToolPolicy struct {
	// Tools are the tools that may be called; if empty, ByAgent alone decides.
	Tools []string

	// ByAgent are the tools of each agent. If there are any, an agent that is not
	// listed may call none.
	ByAgent map[string][]string

	// Scopes is the required scope of a tool, by tool. A caller must request it in
	// authz.scopes and must have been granted it.
	Scopes map[string]string

	// Granted are the scopes that each agent has been granted.
	Granted map[string][]string

	// AssertedScopes treats the scopes that a caller requests as granted.
	AssertedScopes bool

	// MaxArgsBytes is the most octets of args as canonical JSON, default 4096.
	MaxArgsBytes int
}

// MaxArgs returns how many octets of canonical JSON args may have.
func (p *ToolPolicy) MaxArgs() int {
	if p == nil || p.MaxArgsBytes == 0 {
		return 4096
	}
	return p.MaxArgsBytes
}

// ErrScope is the error where only the scope of a tool is missing.
var ErrScope = errors.New("trust: the scope of the tool is not granted")

// Allow returns nil if a verified agent may call a tool with the authz of its payload. A
// nil policy allows nothing.
func (p *ToolPolicy) Allow(agent, tool string, authz canonical.Value) error {
	switch {
	case p == nil:
		return errors.New("trust: no tool policy")
	case len(p.Tools) == 0 && len(p.ByAgent) == 0:
		return errors.New("trust: the tool policy names no tool")
	case len(p.Tools) > 0 && !slices.Contains(p.Tools, tool):
		return fmt.Errorf("trust: tool %.100q is not allowed", tool)
	case len(p.ByAgent) > 0 && !slices.Contains(p.ByAgent[agent], tool):
		return fmt.Errorf("trust: tool %.100q is not allowed to %.100q", tool, agent)
	}
	scope, ok := p.Scopes[tool]
	if ok && (!asksFor(authz, scope) || !p.AssertedScopes && !slices.Contains(p.Granted[agent], scope)) {
		return fmt.Errorf("%w: tool %.100q, scope %q", ErrScope, tool, scope)
	}
	return nil
}

// Named returns the names in the policy that an agent may call, if it has their scopes.
func (p *ToolPolicy) Named(agent string) []string {
	switch {
	case p == nil:
		return nil
	case len(p.ByAgent) > 0:
		return p.ByAgent[agent]
	}
	return p.Tools
}

// Scope returns the scope that a tool requires; empty if it requires none.
func (p *ToolPolicy) Scope(tool string) string {
	if p == nil {
		return ""
	}
	return p.Scopes[tool]
}

// asksFor reports whether authz.scopes contains a scope.
func asksFor(authz canonical.Value, scope string) bool {
	for s := range authz.Get("scopes").All() {
		if text, ok := s.Text(); ok && text == scope {
			return true
		}
	}
	return false
}
