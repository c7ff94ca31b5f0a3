package partner

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
)

// One caller begins exclusive work over a link, more than there is room for, and ends it piece by
// piece.
func TestRS31ClaimsOfOneCallerLeavePlacesForAnother(t *testing.T) {
	claims := func(flooded bool) int {
		var c claims
		n, open := 0, map[string][]string{}
		begin := func(who string) {
			n++
			if on := fmt.Sprint(n); c.take(profiles.Sole{On: on, Begins: true}, who) == nil {
				open[who] = append(open[who], on)
			}
		}
		if flooded {
			for range maxClaims {
				begin(fairtest.Mallory)
			}
		}
		for range maxClaims {
			begin(fairtest.Alice)
			if mine := open[fairtest.Mallory]; len(mine) > len(open[fairtest.Alice]) {
				if fault := c.take(profiles.Sole{On: mine[0], Ends: true}, fairtest.Mallory); fault != nil {
					t.Fatal(fault)
				}
				open[fairtest.Mallory] = mine[1:]
			}
			if flooded {
				begin(fairtest.Mallory)
			}
		}
		if len(c.held) > maxClaims || c.places.Used() != len(c.held) {
			t.Errorf("%d claims, %d places", len(c.held), c.places.Used())
		}
		return len(open[fairtest.Alice])
	}
	fairtest.Row(t, "partner: exclusive work over a link", "claims of 4,096", claims(false), claims(true))
}

func TestAClaimThatHasExpiredMakesRoomAndMayBeTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c claims
		begin := func(on, who string) bool { return c.take(profiles.Sole{On: on, Begins: true}, who) == nil }
		for n := range maxClaims {
			if taken := begin(fmt.Sprint(n), "alice"); taken != (n < maxClaims-maxClaims/8) {
				t.Fatalf("claim %d: %v", n, taken)
			}
		}
		if begin("0", "bob") {
			t.Error("a claim is taken over while its owner is at it")
		}
		time.Sleep(claimed)
		if !begin("0", "bob") || !begin("new", "alice") || c.take(profiles.Sole{On: "0"}, "alice") == nil {
			t.Error("an expired claim stays that of its owner")
		}
		if c.places.Used() != len(c.held) {
			t.Errorf("%d claims", len(c.held))
		}
	})
}
