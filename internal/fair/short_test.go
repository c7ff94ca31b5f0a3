package fair_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

func TestLongIdentitiesBecomeShortWithTheirPeers(t *testing.T) {
	fits, long := strings.Repeat("a", fair.ShortSize), strings.Repeat("a", fair.ShortSize+1)
	for _, identity := range []string{"", "peer", fits, profiles.OnBehalf("peer", "caller"), profiles.OnBehalf(fits, fits)} {
		if got := fair.Short(identity); got != identity {
			t.Errorf("Short(%q) = %q", identity, got)
		}
	}
	seen := make(map[string]string)
	for _, identity := range []string{
		long, long + "b", profiles.OnBehalf(long, "caller"), profiles.OnBehalf(long, "other"), profiles.OnBehalf("peer", long),
		profiles.OnBehalf("peer", profiles.OnBehalf("endpoint", long)), profiles.OnBehalf(long, long),
	} {
		got := fair.Short(identity)
		if len(got) > 2*fair.ShortSize+len(" for ") || fair.Short(got) != got || seen[got] != "" {
			t.Errorf("Short(%q) = %q, as of %q", identity, got, seen[got])
		}
		if profiles.Link(got) != fair.Short(profiles.Link(identity)) || (profiles.For(got) == "") != (profiles.For(identity) == "") {
			t.Errorf("Short(%q) = %q is of another peer", identity, got)
		}
		seen[got] = identity
	}
}
