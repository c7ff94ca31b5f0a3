package trust

import "github.com/slimwire/swp/sdl/canonical"

// Applied reports whether exactly this proposal was applied before, so that applying
// it again changes nothing.
func (r *Registry) Applied(p Proposal) bool {
	return r.state.Load().applied[p.ID] == canonical.Hash(p.document())
}
