// Package access evaluates access rules: identity × caller × profile × operation × name.
// Everything that no rule allows is denied.
//
// An identity is that of a peer, or of a peer and the caller that it has asserted
// (profiles.OnBehalf). Patterns of identities are compared with the peer alone, those of
// callers with the caller.
//
// Patterns of rules are case-sensitive and compared octet for octet. In a pattern, *
// matches any characters except "/", and ** matches any characters; all others match
// themselves. Wildcards exist only in rules: a star in a requested name is an ordinary
// character, so no name can widen the rights of its sender.
package access

import (
	"fmt"
	"reflect"

	"github.com/slimwire/swp/profiles"
)

// Rule allows a request that all lists match. A list matches if one of its patterns
// matches.
type Rule struct {
	Identity  []string // required
	For       []string // asserted callers; empty matches every request, other lists none without a caller
	Profile   []string // empty matches everything
	Operation []string // empty matches everything
	Name      []string // empty matches everything

	// Implied are further operations on names that the rule allows in its profiles.
	Implied []Implied
}

// Implied are operations on names.
type Implied struct {
	Operation []string // empty matches everything
	Name      []string // empty matches everything
}

// Agents lets identities use agent_ids.
type Agents struct {
	Identity []string // required
	AgentIDs []string // required
}

// Options configure a Policy. The zero value denies everything.
type Options struct {
	Rules  []Rule
	Agents []Agents
	Deny   []Denial // takes precedence over rules

	// Named are identities to which only those entries of Rules and Agents apply that name them
	// without wildcards. Deny applies to them as to all.
	Named []string
}

// Denial lets identities do nothing.
type Denial struct {
	Identity []string // required
	For      []string // only on behalf of these callers: as in a Rule, or the name of the caller alone
}

// Policy is a compiled set of rules. It is immutable and safe for concurrent use. Queries
// take no lock and do not allocate.
type Policy struct {
	rules  index[*rule]
	agents index[*agents]
	deny   []denial
}

type denial struct{ identity, caller patterns }

type rule struct {
	number                   int // position in Options.Rules
	source                   Rule
	caller                   patterns
	profile, operation, name patterns
	implied                  []implied
}

type implied struct{ operation, name patterns }

type agents struct {
	source Agents
	ids    patterns
}

// New compiles the rules. It fails for a rule without identity, an Agents entry without
// agent_ids, and a pattern that is empty or longer than MaxPattern; the error gives the
// position.
func New(o Options) (*Policy, error) {
	p := &Policy{}
	if len(o.Named) > 0 {
		p.rules.named = make(map[string]bool, len(o.Named))
		for _, identity := range o.Named {
			p.rules.named[identity] = true
		}
		p.agents.named = p.rules.named
	}
	var err error
	for i, source := range o.Rules {
		r := &rule{number: i, source: source}
		for _, list := range []struct {
			key   string
			texts []string
			to    *patterns
		}{
			{"for", source.For, &r.caller},
			{"profile", source.Profile, &r.profile},
			{"operation", source.Operation, &r.operation},
			{"name", source.Name, &r.name},
		} {
			if *list.to, err = compileAll(list.texts); err != nil {
				return nil, fmt.Errorf("access: rules[%d].%s%w", i, list.key, err)
			}
		}
		for _, source := range source.Implied {
			var more implied
			if more.operation, err = compileAll(source.Operation); err == nil {
				more.name, err = compileAll(source.Name)
			}
			if err != nil {
				return nil, fmt.Errorf("access: rules[%d]: implied%w", i, err)
			}
			r.implied = append(r.implied, more)
		}
		if err := p.rules.add(source.Identity, r); err != nil {
			return nil, fmt.Errorf("access: rules[%d].identity%w", i, err)
		}
	}
	for i, source := range o.Agents {
		a := &agents{source: source}
		if a.ids, err = compileAll(source.AgentIDs); err != nil {
			return nil, fmt.Errorf("access: agents[%d].agent_ids%w", i, err)
		}
		if len(a.ids) == 0 {
			return nil, fmt.Errorf("access: agents[%d].agent_ids: none", i)
		}
		if err := p.agents.add(source.Identity, a); err != nil {
			return nil, fmt.Errorf("access: agents[%d].identity%w", i, err)
		}
	}
	for i, source := range o.Deny {
		var d denial
		if d.identity, err = compileAll(source.Identity); err != nil {
			return nil, fmt.Errorf("access: deny[%d].identity%w", i, err)
		}
		if d.caller, err = compileAll(source.For); err != nil {
			return nil, fmt.Errorf("access: deny[%d].for%w", i, err)
		}
		if len(d.identity) == 0 {
			return nil, fmt.Errorf("access: deny[%d].identity: none", i)
		}
		p.deny = append(p.deny, d)
	}
	return p, nil
}

// Denied reports whether an identity may not do anything. Such a peer may not connect.
func (p *Policy) Denied(identity string) bool { return p.denial(identity) >= 0 }

// denial returns the position in Options.Deny of the first entry for an identity, or -1.
func (p *Policy) denial(identity string) int {
	for i := range p.deny {
		if p.deny[i].denies(identity) {
			return i
		}
	}
	return -1
}

func (d *denial) denies(identity string) bool {
	if !d.identity.match(profiles.Link(identity)) {
		return false
	}
	if len(d.caller) == 0 {
		return true
	}
	who := profiles.For(identity)
	return who != "" && (d.caller.match(who) || d.caller.match(profiles.Origin(who)))
}

// Allowed reports whether a rule allows an identity to use an operation of a profile on a
// name, and the identity is not denied.
func (p *Policy) Allowed(identity, profile, operation, name string) bool {
	return p.Rule(identity, profile, operation, name) >= 0
}

// Rule returns the position in Options.Rules of a rule that allows the request, or -1 if
// Allowed returns false.
func (p *Policy) Rule(identity, profile, operation, name string) int {
	if p.Denied(identity) {
		return -1
	}
	who := profiles.For(identity)
	for r := range p.rules.of(profiles.Link(identity)) {
		if r.is(who) && r.allows(profile, operation, name) {
			return r.number
		}
	}
	return -1
}

// AllowedSome reports whether a rule allows the identity to use an operation of a profile
// on some name with a beginning. Use it to decide what to list; use Allowed to decide a
// request for one name.
func (p *Policy) AllowedSome(identity, profile, operation, beginning string) bool {
	if p.Denied(identity) {
		return false
	}
	who := profiles.For(identity)
	for r := range p.rules.of(profiles.Link(identity)) {
		if r.is(who) && r.some(profile, operation, beginning) {
			return true
		}
	}
	return false
}

// Differs reports whether two policies have different rules for an identity in a profile,
// for name and names that begin with it and a slash. It compares the text and order of the
// rules, not their effect.
func (p *Policy) Differs(from *Policy, identity, profile, name string) bool {
	return !reflect.DeepEqual(p.about(identity, profile, name), from.about(identity, profile, name))
}

func (p *Policy) about(identity, profile, name string) (list []Rule) {
	if p.Denied(identity) {
		return nil
	}
	who := profiles.For(identity)
	for _, r := range p.rules.list(profiles.Link(identity)) {
		if r.is(who) && r.profile.orAll(profile) && (r.name.orAll(name) || r.name.begins(name+"/")) {
			list = append(list, r.source)
		}
	}
	return list
}

// is reports whether the rule is for a caller; empty: none was asserted.
func (r *rule) is(who string) bool { return len(r.caller) == 0 || who != "" && r.caller.match(who) }

func (r *rule) allows(profile, operation, name string) bool {
	if !r.profile.orAll(profile) {
		return false
	}
	return r.operation.orAll(operation) && r.name.orAll(name) ||
		len(r.implied) > 0 && r.implies(operation, func(names patterns) bool { return names.orAll(name) })
}

// some is allows for some name with a beginning.
func (r *rule) some(profile, operation, beginning string) bool {
	if !r.profile.orAll(profile) {
		return false
	}
	return r.operation.orAll(operation) && r.name.someOrAll(beginning) ||
		len(r.implied) > 0 && r.implies(operation, func(names patterns) bool { return names.someOrAll(beginning) })
}

// implies reports whether an operation is implied on names that named selects.
func (r *rule) implies(operation string, named func(patterns) bool) bool {
	for i := range r.implied {
		if r.implied[i].operation.orAll(operation) && named(r.implied[i].name) {
			return true
		}
	}
	return false
}

// Reaches reports whether a rule allows the identity to do anything in a profile on name,
// or on a name that begins with it and a slash. Use it to decide what to list; use Allowed
// to decide a request.
func (p *Policy) Reaches(identity, profile, name string) bool {
	if p.Denied(identity) {
		return false
	}
	below, who := name+"/", profiles.For(identity)
	for r := range p.rules.of(profiles.Link(identity)) {
		if r.is(who) && r.profile.orAll(profile) && (r.name.orAll(name) || r.name.begins(below)) {
			return true
		}
	}
	return false
}

// HasAny reports whether any rule allows the identity anything.
func (p *Policy) HasAny(identity string) bool {
	return p.has(identity, func(*rule) bool { return true })
}

// Has reports whether any rule of a profile allows the identity anything.
func (p *Policy) Has(identity, profile string) bool {
	return p.has(identity, func(r *rule) bool { return r.profile.orAll(profile) })
}

func (p *Policy) has(identity string, is func(r *rule) bool) bool {
	if p.Denied(identity) {
		return false
	}
	who := profiles.For(identity)
	for r := range p.rules.of(profiles.Link(identity)) {
		if r.is(who) && is(r) {
			return true
		}
	}
	return false
}

// MayUse reports whether an identity may use an agent_id as its own. An
// identity that no entry of Agents names may use none.
func (p *Policy) MayUse(identity, agentID string) bool {
	if p.Denied(identity) {
		return false
	}
	for a := range p.agents.of(profiles.Link(identity)) {
		if a.ids.match(agentID) {
			return true
		}
	}
	return false
}

// Grants is all that a Policy says about one identity.
type Grants struct {
	Denied   bool     // if true, the other fields have no effect
	Rules    []Rule   // rules that match the identity, in order; without a caller, those for its callers too
	AgentIDs []string // patterns of allowed agent_ids, in order
}

// For returns the Grants of an identity. The caller must not modify the lists.
func (p *Policy) For(identity string) Grants {
	g := Grants{Denied: p.Denied(identity)}
	who := profiles.For(identity)
	for _, r := range p.rules.list(profiles.Link(identity)) {
		if who != "" && !r.is(who) {
			continue
		}
		g.Rules = append(g.Rules, r.source)
	}
	for _, a := range p.agents.list(profiles.Link(identity)) {
		g.AgentIDs = append(g.AgentIDs, a.source.AgentIDs...)
	}
	return g
}
