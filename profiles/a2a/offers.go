package a2a

import (
	"fmt"
	"slices"
	"strings"
)

// maxOffers is how many kinds a Result names for a kind that nobody carries out.
const maxOffers = 16

// unsupported says that nobody carries out a task, and what its owner may ask for
// instead. What rules hide from the owner is not named.
func (t *task) unsupported() string {
	whom := ""
	if t.Agent != "" {
		whom = fmt.Sprintf(" as agent %q", t.Agent)
	}
	offers := slices.DeleteFunc(t.s.kinds(), func(name string) bool {
		return delegated(name[strings.IndexByte(name, '/')+1:]) || delegated(name) || !t.s.opts.Access.Allowed(t.Owner, "a2a", "task", name)
	})
	said := "this identity may ask for no other kind"
	if len(offers) > 0 {
		said = "this identity may ask for " + strings.Join(offers[:min(len(offers), maxOffers)], ", ")
	}
	if more := len(offers) - maxOffers; more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	reason := fmt.Sprintf("%s: nobody here carries out %q%s; %s", reasonUnsupported, t.Kind, whom, said)
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

// kinds returns the names of what is carried out here and by agents that are known,
// as rules name them, in order.
func (s *Service) kinds() []string {
	var names []string
	for of := range s.pools {
		name := of.kind
		if of.agent != "" {
			name = of.agent + "/" + of.kind
		}
		names = append(names, name)
	}
	s.mu.Lock()
	for _, a := range s.agents {
		names = append(names, a.kinds...)
	}
	s.mu.Unlock()
	slices.Sort(names)
	return slices.Compact(names)
}
