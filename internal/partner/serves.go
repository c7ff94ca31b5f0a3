package partner

import (
	"slices"

	"github.com/slimwire/swp/profiles/rpc"
)

// Serves reports whether the partner has said that it serves a profile. A message of
// another profile would end the session.
func (l *Link) Serves(up *Up, profile uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(up.info.Profiles, func(p rpc.ProfileInfo) bool { return p.ID == profile })
}
