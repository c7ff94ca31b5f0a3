package fair

import (
	"crypto/sha256"
	"fmt"

	"github.com/slimwire/swp/profiles"
)

// ShortSize limits the octets of a peer or a caller in the result of Short.
const ShortSize = 40

// Short returns a name of an identity for tables with many identities. A peer or a caller that
// is longer than ShortSize is replaced by a digest. So callers of the same peer keep the same
// peer, and Short of a result is the result.
func Short(identity string) string {
	peer := short(profiles.Link(identity))
	if caller := profiles.For(identity); caller != "" {
		return profiles.OnBehalf(peer, short(caller))
	}
	return peer
}

func short(name string) string {
	if len(name) <= ShortSize {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("sha256:%x", sum[:16])
}
