package fair_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// fill takes places one by one until they are refused, and returns their number and the
// refusal.
func fill(s *fair.Shares, identity string) (n int, why fair.Answer) {
	for {
		if why = s.Take(identity, 1); why != fair.Taken {
			return n, why
		}
		n++
	}
}

func TestAloneAnIdentityMayUseSevenEighths(t *testing.T) {
	for capacity, want := range map[int]int{0: 0, 1: 1, 7: 7, 8: 7, 16: 14, 64: 56, 1000: 875} {
		s := fair.NewShares(capacity)
		if n, _ := fill(&s, "a"); n != want {
			t.Errorf("of %d places, %d, want %d", capacity, n, want)
		}
	}
}

func TestANewcomerFindsPlacesAndComesIntoItsShare(t *testing.T) {
	s := fair.NewShares(64)
	fill(&s, "a")
	if n, why := fill(&s, "b"); n != 8 || why != fair.Full {
		t.Fatalf("b found %d places, then %v; want the 8 that were free, and an excuse", n, why)
	}
	for range 28 {
		s.Give("a", 1)
		if got := s.Take("a", 1); got != fair.Above {
			t.Fatalf("a, which has %d places, got another: %v", s.Of("a"), got)
		}
		s.Take("b", 1)
	}
	if a, b := s.Of("a"), s.Of("b"); a != 28 || b != 28 {
		t.Errorf("a has %d places and b %d, want 28", a, b)
	}
	if got := s.Take("b", 1); got != fair.Above {
		t.Errorf("b may have more than a: %v", got)
	}
	if got := s.Take("c", 1); got != fair.Taken {
		t.Errorf("c finds nothing: %v", got)
	}
}

func TestAShareThatIsNotWantedGoesToOthers(t *testing.T) {
	s := fair.NewShares(64)
	s.Take("a", 6)
	if n, why := fill(&s, "b"); n != 50 || why != fair.Above {
		t.Errorf("beside 6 places of a, b has %d, then %v", n, why)
	}
}

func TestACallerHasAShareOfTheShareOfItsPeer(t *testing.T) {
	s := fair.NewShares(64)
	if n, why := fill(&s, "p for x"); n != 49 || why != fair.Above {
		t.Fatalf("x alone has %d places, then %v; want seven eighths of 56", n, why)
	}
	if n, why := fill(&s, "p for y"); n != 7 || why != fair.Full {
		t.Errorf("y has %d places, then %v", n, why)
	}
	for i := range 100 {
		s.Take(profiles.OnBehalf("p", fmt.Sprint("made up ", i)), 1)
	}
	if n := s.Used(); n != 56 {
		t.Errorf("with many callers, a peer has %d places, want 56", n)
	}
	if n, _ := fill(&s, "a"); n != 8 {
		t.Errorf("a finds %d places, want the 8 that were free", n)
	}
}

func TestAPlaceIsYieldedToWhoHasLess(t *testing.T) {
	s := fair.NewShares(64)
	for identity, n := range map[string]int{"a": 3, "b": 2, "p for x": 4, "p for y": 1} {
		s.Force(identity, n)
	}
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"a", "b", false}, {"a", "c", true}, {"c", "a", false}, {"b", "a", false}, {"p for y", "a", true}, {"p for x", "p for y", true},
		{"p for y", "p for x", false}, {"p for y", "p for z", false}, {"b", "p for z", false},
	} {
		if got := s.Yields(test.from, test.to); got != test.want {
			t.Errorf("%s yields to %s: %v", test.from, test.to, got)
		}
	}
}

func TestALargePieceIsTakenByWhoHasNothing(t *testing.T) {
	s := fair.NewShares(80)
	for i := range 9 {
		s.Take(fmt.Sprint(i), 6)
	}
	if got := s.Take("a", 20); got != fair.Taken {
		t.Errorf("got %v", got)
	}
	if got := s.Take("a", 1); got != fair.Above {
		t.Errorf("then got %v", got)
	}
}

func TestRS21OnlyWhoIsAboveItsShareIsToBlame(t *testing.T) {
	fault := profiles.Busy("places", "no place")
	if fair.Taken.Refuse(fault) != nil || !fair.Full.Refuse(fault).Excused || fair.Above.Refuse(fault).Excused || fault.Excused {
		t.Error("the wrong refusals are excused")
	}
}

func TestNothingIsTakenAndReturned(t *testing.T) {
	s := fair.NewShares(8)
	s.Take("a", 0)
	s.Take("a", 1)
	s.Give("a", 1)
	s.Give("a", 0)
	if len(s.Top(1)) != 0 || s.Used() != 0 {
		t.Errorf("left: %v", s.Top(1))
	}
}

func TestTopNamesWhoUsesMost(t *testing.T) {
	var s fair.Shares
	s.Bound(100)
	for identity, n := range map[string]int{"a": 3, "p": 1, "p for x": 5, "b": 3} {
		s.Force(identity, n)
	}
	want := []fair.Use{{Identity: "p for x", Used: 5}, {Identity: "a", Used: 3}, {Identity: "b", Used: 3}}
	if got := s.Top(3); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// level divides a capacity by max–min fairness: the highest level at which the demands, cut
// to it, fit.
func level(capacity int, demands []int) (l int) {
	for {
		total := 0
		for _, d := range demands {
			total += min(d, l+1)
		}
		if total > capacity || l > capacity {
			return l
		}
		l++
	}
}

// Property: whatever was taken before, identities that keep asking for what they want, while
// places are given back one at a time by anybody, end with max–min shares.
func TestSharesComeToMaxMin(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		capacity := 8 + r.IntN(200)
		s := fair.NewShares(capacity)
		who := make([]string, 1+r.IntN(6))
		wants := make([]int, len(who))
		for i := range who {
			who[i] = fmt.Sprint("peer", i)
			wants[i] = r.IntN(2 * capacity)
		}
		usable := capacity - capacity/8
		for range 60 * capacity {
			i := r.IntN(len(who))
			if r.IntN(3) == 0 && s.Of(who[i]) > 0 {
				s.Give(who[i], 1)
			}
			for range 3 {
				i = r.IntN(len(who))
				if s.Of(who[i]) < wants[i] {
					before := s.Used()
					switch s.Take(who[i], 1) {
					case fair.Taken:
					case fair.Full:
						if before < capacity {
							t.Fatalf("seed %d: full with %d of %d", seed, before, capacity)
						}
					case fair.Above:
						if before < usable {
							t.Fatalf("seed %d: above its share with %d of %d used", seed, before, usable)
						}
					}
				}
			}
			if s.Used() > capacity {
				t.Fatalf("seed %d: %d of %d used", seed, s.Used(), capacity)
			}
		}
		for i := range who { // nobody gives back any more
			for s.Of(who[i]) < wants[i] && s.Take(who[i], 1) == fair.Taken {
			}
		}
		l := level(usable, wants)
		for i := range who {
			if got := s.Of(who[i]); got > wants[i] || got < min(wants[i], l)-1 {
				t.Errorf("seed %d: capacity %d, wants %v: %s has %d, want about %d", seed, capacity, wants, who[i], got, min(wants[i], l))
			}
		}
	}
}

// Property: the callers of a peer together never have more than a peer alone, and what is
// given back is all that was taken.
func TestCallersNeverHaveMoreThanTheirPeer(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		capacity := 8 + r.IntN(100)
		s := fair.NewShares(capacity)
		who := []string{"p", "p for x", "p for y", "p for e for z", "q"}
		for i := range 8 {
			who = append(who, fmt.Sprint("p for caller", i))
		}
		have := map[string]int{}
		for range 4000 {
			i := who[r.IntN(len(who))]
			n := 1 + r.IntN(3)
			if r.IntN(4) == 0 && have[i] >= n {
				s.Give(i, n)
				have[i] -= n
			} else if s.Take(i, n) == fair.Taken {
				have[i] += n
			}
			of, total := 0, 0
			for identity, n := range have {
				total += n
				if profiles.Link(identity) == "p" {
					of += n
				}
				if s.Of(identity) != n {
					t.Fatalf("seed %d: %s has %d, want %d", seed, identity, s.Of(identity), n)
				}
			}
			if total != s.Used() || of > capacity-capacity/8 {
				t.Fatalf("seed %d: %d used, counted %d; of p %d of %d", seed, s.Used(), total, of, capacity)
			}
		}
	}
}

func TestSharesAllocateNothing(t *testing.T) {
	s := fair.NewShares(64)
	allocs := testing.AllocsPerRun(1000, func() {
		for _, identity := range []string{"a", "b", "p for x", "p for y"} {
			for range 16 {
				s.Take(identity, 1)
			}
		}
		for _, identity := range []string{"a", "b", "p for x", "p for y"} {
			s.Give(identity, s.Of(identity))
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkTakeAndGive(b *testing.B) {
	for _, full := range []bool{false, true} {
		b.Run(fmt.Sprintf("full=%v", full), func(b *testing.B) {
			s := fair.NewShares(1024)
			for i := range 100 {
				s.Take(fmt.Sprint("peer", i), 1)
			}
			if full {
				fill(&s, "hog")
			}
			for b.Loop() {
				if s.Take("peer1", 1) == fair.Taken {
					s.Give("peer1", 1)
				}
			}
		})
	}
}

func TestRS35APeerAndItsCallersHaveOneBound(t *testing.T) {
	s := fair.NewShares(1000)
	apart := func(peer string) bool { return peer == "partner" }
	s.Force("peer", 3)
	s.Force("peer for a", 4)
	s.Force("partner", 3)
	s.Force("partner for a", 4)
	for _, row := range []struct {
		identity string
		n        int
		exceeds  bool
	}{
		{"peer", 3, false}, {"peer", 4, true}, {"peer for a", 3, false}, {"peer for a", 4, true}, {"peer for b", 3, false}, {"peer for b", 4, true},
		{"partner", 7, false}, {"partner", 8, true}, {"partner for a", 6, false}, {"partner for a", 7, true}, {"partner for b for c", 10, false}, {"partner for b for c", 11, true},
		{"other", 10, false}, {"other", 11, true},
	} {
		if got := s.Exceeds(row.identity, row.n, 10, apart); got != row.exceeds {
			t.Errorf("%d more of %s: exceeds = %v", row.n, row.identity, got)
		}
	}
	if !s.Exceeds("partner for b", 4, 10, nil) {
		t.Error("without a peer that may assert, a caller has a bound of its own")
	}
}

func TestAPlacePassesWhateverTheSharesAre(t *testing.T) {
	s := fair.NewShares(16)
	fill(&s, "a")
	fill(&s, "b")
	if got := s.Take("a", 1); got != fair.Above {
		t.Fatalf("a, which is above its share: %v", got)
	}
	s.Pass("a", "a")
	s.Pass("a", "b")
	s.Pass("a", "p for x")
	for identity, want := range map[string]int{"a": 12, "b": 3, "p for x": 1} {
		if got := s.Of(identity); got != want {
			t.Errorf("%s has %d places, want %d", identity, got, want)
		}
	}
	own := fair.NewOwn(8)
	own.Take("", 1)
	own.Pass("", "")
	if used := own.Used(); used != 1 {
		t.Errorf("the owner has %d places, want 1", used)
	}
}
