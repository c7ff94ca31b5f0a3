// Package access decides who may do what, by rules: identity × profile ×
// operation × name. What no rule allows is denied.
//
// The patterns of a rule are compared octet for octet, in upper or lower case
// as written. In them * stands for any characters but "/", and ** for any
// characters; everything else stands for itself. Wildcards are those of the
// rule only: a star in what a peer asks for is a character like any other, so
// no name can widen what its sender may reach.
package access

import (
	"fmt"
	"reflect"
)

// Rule allows what all four lists match. A list matches what one of its
// patterns matches.
type Rule struct {
	Identity  []string // required
	Profile   []string // empty matches everything
	Operation []string // empty matches everything
	Name      []string // empty matches everything
}

// Agents lets identities use agent_ids.
type Agents struct {
	Identity []string // required
	AgentIDs []string // required
}

// Options are what a Policy is made of. The zero value denies everything.
type Options struct {
	Rules  []Rule
	Agents []Agents
	Deny   []string // identities that may do nothing, whatever a rule says
}

// Policy is a compiled set of rules. It never changes, takes no lock and
// allocates nothing when it is asked, and is safe for concurrent use.
type Policy struct {
	rules  index[*rule]
	agents index[*agents]
	deny   patterns
}

type rule struct {
	number                   int // position in Options.Rules
	source                   Rule
	profile, operation, name patterns
}

type agents struct {
	source Agents
	ids    patterns
}

// New compiles the rules. It fails on a rule without identity, an entry without
// agent_ids, and a pattern that is empty or longer than MaxPattern; the error
// says where.
func New(o Options) (*Policy, error) {
	p := &Policy{}
	var err error
	for i, source := range o.Rules {
		r := &rule{number: i, source: source}
		for _, list := range []struct {
			key   string
			texts []string
			to    *patterns
		}{
			{"profile", source.Profile, &r.profile},
			{"operation", source.Operation, &r.operation},
			{"name", source.Name, &r.name},
		} {
			if *list.to, err = compileAll(list.texts); err != nil {
				return nil, fmt.Errorf("access: rules[%d].%s%w", i, list.key, err)
			}
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
	if p.deny, err = compileAll(o.Deny); err != nil {
		return nil, fmt.Errorf("access: deny%w", err)
	}
	return p, nil
}

// Denied reports whether an identity is not to be let in at all.
func (p *Policy) Denied(identity string) bool { return p.deny.match(identity) }

// Allowed reports whether a rule lets an identity carry out an operation of a
// profile on a name, and the identity is not denied.
func (p *Policy) Allowed(identity, profile, operation, name string) bool {
	return p.Rule(identity, profile, operation, name) >= 0
}

// Rule returns the position in Options.Rules of a rule by which Allowed says yes, and -1
// where it says no.
func (p *Policy) Rule(identity, profile, operation, name string) int {
	if p.Denied(identity) {
		return -1
	}
	for r := range p.rules.of(identity) {
		if r.allows(profile, operation, name) {
			return r.number
		}
	}
	return -1
}

// AllowedBelow reports whether a rule lets an identity carry out an operation of a
// profile on some name that begins with name and a slash. It is for telling the
// identity what there is; what it may do is for Allowed to say.
func (p *Policy) AllowedBelow(identity, profile, operation, name string) bool {
	if p.Denied(identity) {
		return false
	}
	below := name + "/"
	for r := range p.rules.of(identity) {
		if r.profile.orAll(profile) && r.operation.orAll(operation) && (len(r.name) == 0 || r.name.begins(below)) {
			return true
		}
	}
	return false
}

// Differs reports whether two policies have other rules for an identity, in a profile
// and for a name or those that begin with it and a slash. Rules that are written in
// another way or order differ, whatever they come to.
func (p *Policy) Differs(from *Policy, identity, profile, name string) bool {
	return !reflect.DeepEqual(p.about(identity, profile, name), from.about(identity, profile, name))
}

func (p *Policy) about(identity, profile, name string) (list []Rule) {
	if p.Denied(identity) {
		return nil
	}
	for _, r := range p.rules.list(identity) {
		if r.profile.orAll(profile) && (r.name.orAll(name) || r.name.begins(name+"/")) {
			list = append(list, r.source)
		}
	}
	return list
}

func (r *rule) allows(profile, operation, name string) bool {
	return r.profile.orAll(profile) && r.operation.orAll(operation) && r.name.orAll(name)
}

// Reaches reports whether some rule lets an identity do something in a profile
// on a name, or on one that begins with it and a slash. It is for telling the
// identity what there is; what it may do is for Allowed to say.
func (p *Policy) Reaches(identity, profile, name string) bool {
	if p.Denied(identity) {
		return false
	}
	below := name + "/"
	for r := range p.rules.of(identity) {
		if r.profile.orAll(profile) && (r.name.orAll(name) || r.name.begins(below)) {
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
	for a := range p.agents.of(identity) {
		if a.ids.match(agentID) {
			return true
		}
	}
	return false
}

// Grants is everything that a Policy says of one identity.
type Grants struct {
	Denied   bool     // nothing below holds
	Rules    []Rule   // that match the identity, in order
	AgentIDs []string // patterns of those it may use, in order
}

// For returns what the policy says of an identity. The caller must not change
// the lists in it.
func (p *Policy) For(identity string) Grants {
	g := Grants{Denied: p.Denied(identity)}
	for _, r := range p.rules.list(identity) {
		g.Rules = append(g.Rules, r.source)
	}
	for _, a := range p.agents.list(identity) {
		g.AgentIDs = append(g.AgentIDs, a.source.AgentIDs...)
	}
	return g
}
