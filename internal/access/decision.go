package access

import "slices"

// Decision is what a Policy says of one question, and why.
type Decision struct {
	Allowed bool

	// Rule is the position in Options.Rules, or in Options.Agents for DecideUse, of
	// the first entry that allows it; -1 if none does.
	Rule int

	// Deny is the position in Options.Deny of the first pattern that matches the
	// identity, whatever a rule says; -1 if none does.
	Deny int

	// Nearest are the entries that come closest where none matches, the closest
	// first: at most three, and none that has less than profile and identity, or
	// all but the identity, in common with the question.
	Nearest []Miss
}

// Miss is a rule that does not allow something, and which of its lists do not match.
type Miss struct {
	Rule                               int // position in Options.Rules
	Identity, Profile, Operation, Name bool
}

// maxNearest is how many rules a Decision names that nearly match.
const maxNearest = 3

// Decide is Allowed with the reason. It looks at every rule and allocates: it is for
// people who ask, not for each message.
func (p *Policy) Decide(identity, profile, operation, name string) Decision {
	d := Decision{Rule: -1, Deny: p.deny.first(identity)}
	for i := range p.rules.all {
		e := &p.rules.all[i]
		r := e.value
		m := Miss{
			Rule: r.number, Identity: !e.identity.match(identity), Profile: !r.profile.orAll(profile),
			Operation: !r.operation.orAll(operation), Name: !r.name.orAll(name),
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

// DecideUse is MayUse with the reason.
func (p *Policy) DecideUse(identity, agentID string) Decision {
	d := Decision{Rule: -1, Deny: p.deny.first(identity)}
	for i := range p.agents.all {
		if e := &p.agents.all[i]; d.Rule < 0 && e.identity.match(identity) && e.value.ids.match(agentID) {
			d.Rule = i
		}
	}
	d.Allowed = d.Rule >= 0 && d.Deny < 0
	return d
}

// near reports whether a rule has enough in common with a question to be named.
func (m *Miss) near() bool {
	if m.Identity {
		return !m.Profile && !m.Operation && !m.Name
	}
	return !m.Profile
}

// distance orders rules by how much of them does not match. One for somebody else is
// farther than one that lacks the operation or the name, and nearer than one that
// lacks both.
func (m *Miss) distance() int {
	n := 0
	for _, missed := range []bool{m.Identity, m.Operation, m.Name} {
		if missed {
			n += 2
		}
	}
	if m.Identity {
		n++
	}
	return n
}

// first returns the position of the first pattern that matches, -1 if none does.
func (l patterns) first(name string) int {
	return slices.IndexFunc(l, func(p *pattern) bool { return p.match(name) })
}
