package all

import (
	"slices"

	"github.com/slimwire/swp/profiles"
)

// Open returns the RPC methods that every peer may call regardless of the access rules,
// sorted by name: the Open methods of the profiles in this list.
func Open() []string { return openOf(Tables()) }

func openOf(list []*profiles.Profile) []string {
	var names []string
	for _, p := range list {
		for i := range p.Methods {
			if p.Methods[i].Open {
				names = append(names, p.Methods[i].Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// withOpen is an Access that allows everyone to call the open methods.
type withOpen struct {
	profiles.Access
	methods map[string]bool
}

func (o withOpen) Allowed(identity, profile, operation, name string) bool {
	if profile == "rpc" && operation == "call" && o.methods[name] {
		return true
	}
	return o.Access.Allowed(identity, profile, operation, name)
}
