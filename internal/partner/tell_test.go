package partner

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

const (
	selfID = "spiffe://a.example/swpd"
	thatID = "spiffe://b.example/swpd"
)

// tellingTo is the teller of a link to a partner that knows assertions or not.
func tellingTo(t *testing.T, tell Tell, knows bool) *teller {
	t.Helper()
	l, err := New(Options{
		Name: "b", Identity: thatID, Self: func() string { return selfID }, Tell: tell,
		Pseudonym: func(identity string) string { return "pseudonym:" + fmt.Sprint(len(identity)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := transport.Pipe()
	s := ep.Attach(ours)
	t.Cleanup(func() {
		_ = theirs.Close(0)
		_ = ep.Close()
		set.Close()
		l.Close()
	})
	if knows {
		profiles.Learn(s, profiles.Offer{Extensions: map[uint64][]uint64{0: {profiles.ExtCaller}}})
	}
	own := transporttest.NewCA(t).Issue(t, transporttest.Named(selfID))
	return &teller{link: l, session: s, leaves: transport.Leaves{Own: own}}
}

func (tl *teller) must(t *testing.T, identity string) (string, *caller.Claim) {
	t.Helper()
	jwt, err := tl.assertion(identity)
	if err != nil {
		t.Fatal(err)
	}
	claim, _, err := caller.Verify(jwt, tl.leaves.Own.Leaf, selfID, thatID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return string(jwt), claim
}

func TestAnAssertionIsMadeAgainOnlyWhenItIsAboutToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := tellingTo(t, TellCaller, true)
		first, _ := tl.must(t, "http:alice")
		time.Sleep(caller.Valid - remake - time.Nanosecond)
		if again, _ := tl.must(t, "http:alice"); again != first {
			t.Error("made again too early")
		}
		if other, _ := tl.must(t, "http:bob"); other == first {
			t.Error("two callers have one assertion")
		}
		time.Sleep(time.Nanosecond)
		if again, _ := tl.must(t, "http:alice"); again == first {
			t.Error("not made again")
		}
	})
}

func TestAClaimNamesEachEndpointOfTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		identity := profiles.OnBehalf("spiffe://x.example/swpd", profiles.OnBehalf("spiffe://y.example/swpd", "http:alice"))
		chain := []string{selfID, "spiffe://x.example/swpd", "spiffe://y.example/swpd"}
		for tell, want := range map[Tell]string{TellCaller: "http:alice", TellPseudonym: "pseudonym:" + fmt.Sprint(len(identity))} {
			_, claim := tellingTo(t, tell, true).must(t, identity)
			if claim.Caller != want || !slices.Equal(claim.Chain, chain) {
				t.Errorf("%+v", claim)
			}
		}
	})
}

func TestTheEndpointAfterTheEighthIsToldOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := tellingTo(t, TellPseudonym, true)
		identity := "http:alice"
		for i := range caller.MaxChain {
			if _, claim := tl.must(t, identity); len(claim.Chain) != i+1 {
				t.Errorf("%d endpoints, want %d", len(claim.Chain), i+1)
			}
			identity = profiles.OnBehalf("e", identity)
		}
		if _, err := tl.assertion(identity); !errors.Is(err, caller.ErrChain) {
			t.Errorf("nine endpoints: %v", err)
		}
	})
}

func TestAnOlderPartnerGetsNoAssertion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if jwt, err := tellingTo(t, TellCaller, false).assertion("http:alice"); jwt != nil || err != nil {
			t.Errorf("%s, %v", jwt, err)
		}
	})
}

func TestAssertionsAreKeptUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := tellingTo(t, TellCaller, true)
		for i := range maxMade + 2 {
			tl.must(t, fmt.Sprintf("http:c%d", i))
		}
		if n := len(tl.now) + len(tl.older); n > maxMade || n < maxMade/2 {
			t.Errorf("%d are kept, want at most %d", n, maxMade)
		}
	})
}
