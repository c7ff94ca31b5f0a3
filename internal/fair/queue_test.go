package fair_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// pushed has an item of each identity in a text such as "a a b", numbered for each.
func pushed(text string) *fair.Queue[string] {
	q, n := new(fair.Queue[string]), map[string]int{}
	for _, name := range strings.Fields(text) {
		n[name]++
		q.Push(identity(name), name+string(rune('0'+n[name])))
	}
	return q
}

// identity is p for a name p, and p for c for a name p/c.
func identity(name string) string {
	peer, caller, asserted := strings.Cut(name, "/")
	if !asserted {
		return peer
	}
	return profiles.OnBehalf(peer, caller)
}

func popped(q *fair.Queue[string], may func(string) bool) string {
	var list []string
	for {
		v, ok := q.Pop(may)
		if !ok {
			return strings.Join(list, " ")
		}
		list = append(list, v)
	}
}

func TestIdentitiesAreServedInTurnThenInOrder(t *testing.T) {
	for _, test := range []struct{ in, out string }{
		{"", ""},
		{"a a a", "a1 a2 a3"},
		{"a a a b", "a1 b1 a2 a3"},
		{"a a b b c", "a1 b1 c1 a2 b2"},
		{"p/x p/x p/x p/y a a a", "p/x1 a1 p/y1 a2 p/x2 a3 p/x3"},
		{"p p/x p/y a a", "p1 a1 p/x1 a2 p/y1"},
	} {
		if got := popped(pushed(test.in), nil); got != test.out {
			t.Errorf("%q is served as %q, want %q", test.in, got, test.out)
		}
	}
}

func TestAnIdentityThatMayNotBeServedKeepsItsTurn(t *testing.T) {
	q := pushed("a a b b")
	if got := popped(q, func(identity string) bool { return identity != "a" }); got != "b1 b2" {
		t.Errorf("without a: %q", got)
	}
	q.Push("b", "b3")
	if got := popped(q, nil); got != "a1 b3 a2" {
		t.Errorf("then: %q", got)
	}
}

func TestFindTakesTheFirstItemThatCanBeServed(t *testing.T) {
	q := pushed("a a b b")
	may := func(v string) bool { return v != "a1" && v != "b1" }
	for _, want := range []string{"a2", "b2", ""} {
		if got, ok := q.Find(may); got != want || ok != (want != "") {
			t.Errorf("found %q, %v, want %q", got, ok, want)
		}
	}
	if got := popped(q, nil); got != "a1 b1" {
		t.Errorf("left: %q", got)
	}
}

func TestAnItemThatIsRemovedCostsNoTurn(t *testing.T) {
	q := pushed("a a b p/x")
	for _, test := range []struct {
		name, item string
		there      bool
	}{{"a", "a2", true}, {"a", "a2", false}, {"p/x", "p/x1", true}, {"c", "c1", false}} {
		if there := q.Remove(identity(test.name), func(v string) bool { return v == test.item }); there != test.there {
			t.Errorf("%s was there: %v", test.item, there)
		}
	}
	if got := maps.Collect(q.Waiting()); !maps.Equal(got, map[string]int{"a": 1, "b": 1}) {
		t.Errorf("waiting: %v", got)
	}
	if got := popped(q, nil); got != "a1 b1" || q.Len() != 0 {
		t.Errorf("left: %q", got)
	}
}

// plainQueue is a Queue in a slow and obvious form.
type plainQueue struct {
	turns []string // of peers
	lines map[string][]string
	items map[string][]int
}

func (q *plainQueue) push(identity string, v int) {
	peer := profiles.Link(identity)
	if !slices.Contains(q.turns, peer) {
		q.turns = append(q.turns, peer)
	}
	if !slices.Contains(q.lines[peer], identity) {
		q.lines[peer] = append(q.lines[peer], identity)
	}
	q.items[identity] = append(q.items[identity], v)
}

func (q *plainQueue) find(may func(int) bool, served bool) (int, bool) {
	for _, peer := range q.turns {
		for _, identity := range q.lines[peer] {
			for i, v := range q.items[identity] {
				if !may(v) {
					continue
				}
				q.items[identity] = slices.Delete(q.items[identity], i, i+1)
				left := len(q.items[identity]) > 0
				is := func(x string) func(string) bool { return func(y string) bool { return x == y } }
				if served || !left {
					q.lines[peer] = slices.DeleteFunc(q.lines[peer], is(identity))
				}
				if served && left {
					q.lines[peer] = append(q.lines[peer], identity)
				}
				left = len(q.lines[peer]) > 0
				if served || !left {
					q.turns = slices.DeleteFunc(q.turns, is(peer))
				}
				if served && left {
					q.turns = append(q.turns, peer)
				}
				return v, true
			}
		}
	}
	return 0, false
}

func TestAQueueIsWhatItsPlainFormIs(t *testing.T) {
	identities := []string{"a", "b", "p", "p for x", "p for y", "q for x", "q for z for x"}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var q fair.Queue[int]
		plain := plainQueue{lines: map[string][]string{}, items: map[string][]int{}}
		owner := map[int]string{}
		for i := range 2000 {
			switch r.IntN(7) {
			case 0, 1, 2:
				who := identities[r.IntN(len(identities))]
				owner[i] = who
				q.Push(who, i)
				plain.push(who, i)
			case 3, 4:
				not := identities[r.IntN(len(identities))]
				got, ok := q.Pop(func(who string) bool { return who != not })
				want, wantOK := plain.find(func(v int) bool { return owner[v] != not }, true)
				if got != want || ok != wantOK {
					t.Fatalf("seed %d, operation %d: popped %d %v, want %d %v", seed, i, got, ok, want, wantOK)
				}
			case 5:
				odd := func(v int) bool { return v%2 == 1 }
				got, ok := q.Find(odd)
				want, wantOK := plain.find(odd, true)
				if got != want || ok != wantOK {
					t.Fatalf("seed %d, operation %d: found %d %v, want %d %v", seed, i, got, ok, want, wantOK)
				}
			case 6:
				who := identities[r.IntN(len(identities))]
				even := func(v int) bool { return owner[v] == who && v%2 == 0 }
				got := q.Remove(who, even)
				if _, want := plain.find(even, false); got != want {
					t.Fatalf("seed %d, operation %d: removed %v, want %v", seed, i, got, want)
				}
			}
		}
	}
}

func TestTurnsAllocateNothing(t *testing.T) {
	var q fair.Queue[int]
	who := []string{"a", "p for x", "p for y"}
	allocs := testing.AllocsPerRun(1000, func() {
		for i := range 30 {
			q.Push(who[i%3], i)
		}
		for range 30 {
			q.Pop(nil)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
