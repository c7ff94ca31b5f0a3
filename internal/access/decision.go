package access

import (
	"slices"

	"github.com/slimwire/swp/profiles"
)

// Decision is the answer of a Policy to a request, with its reason.
type Decision struct {
	Allowed bool

	// Rule is the position in Options.Rules, or for DecideUse in Options.Agents, of the
	// first entry that allows the request; -1 if there is none.
	Rule int

	// Deny is the position in Options.Deny of the first entry that matches the identity;
	// -1 if there is none. It takes precedence over Rule.
	Deny int

	// Nearest are the entries closest to the request if none matches, closest first, at
	// most three. Only rules that match at least profile and identity, or all but
	// identity and caller, are listed.
	Nearest []Miss
}

// Miss is a rule that does not allow a request, and its lists that do not match.
type Miss struct {
	Rule                     int // position in Options.Rules
	Identity, For            bool
	Profile, Operation, Name bool
}

// maxNearest limits Decision.Nearest.
const maxNearest = 3

// Decide is Allowed with a reason. It checks every rule and allocates: use it for
// diagnosis, not for each message.
func (p *Policy) Decide(identity, profile, operation, name string) Decision {
	return p.decide(identity, profile, operation, func(names patterns) bool { return names.orAll(name) })
}

// DecideSome is AllowedSome with a reason.
func (p *Policy) DecideSome(identity, profile, operation, beginning string) Decision {
	return p.decide(identity, profile, operation, func(names patterns) bool { return names.someOrAll(beginning) })
}

func (p *Policy) decide(identity, profile, operation string, named func(patterns) bool) Decision {
	d := Decision{Rule: -1, Deny: p.denial(identity)}
	link, who := profiles.Link(identity), profiles.For(identity)
	for i := range p.rules.all {
		e := &p.rules.all[i]
		r := e.value
		m := Miss{
			Rule: r.number, Identity: !p.rules.matches(e, link), For: !r.is(who), Profile: !r.profile.orAll(profile),
			Operation: !r.operation.orAll(operation), Name: !named(r.name),
		}
		if (m.Operation || m.Name) && r.implies(operation, named) {
			m.Operation, m.Name = false, false
		}
		switch {
		case m == Miss{Rule: r.number}:
			if d.Rule < 0 {
				d.Rule = r.number
			}
		case m.near():
			d.Nearest = append(d.Nearest, m)
		}
	}
	d.Allowed = d.Rule >= 0 && d.Deny < 0
	if d.Rule >= 0 {
		d.Nearest = nil
	}
	slices.SortStableFunc(d.Nearest, func(a, b Miss) int { return a.distance() - b.distance() })
	d.Nearest = d.Nearest[:min(len(d.Nearest), maxNearest)]
	return d
}

// DecideUse is MayUse with a reason.
func (p *Policy) DecideUse(identity, agentID string) Decision {
	d := Decision{Rule: -1, Deny: p.denial(identity)}
	for i := range p.agents.all {
		if e := &p.agents.all[i]; d.Rule < 0 && p.agents.matches(e, profiles.Link(identity)) && e.value.ids.match(agentID) {
			d.Rule = i
		}
	}
	d.Allowed = d.Rule >= 0 && d.Deny < 0
	return d
}

// near reports whether a rule is close enough to the request to be listed.
func (m *Miss) near() bool {
	if m.Identity || m.For {
		return !m.Profile && !m.Operation && !m.Name
	}
	return !m.Profile
}

// distance orders rules by the lists that do not match. A mismatch of the identity counts
// more than one of operation or name, and less than both.
func (m *Miss) distance() int {
	n := 0
	for _, missed := range []bool{m.Identity || m.For, m.Operation, m.Name} {
		if missed {
			n += 2
		}
	}
	if m.Identity || m.For {
		n++
	}
	return n
}
