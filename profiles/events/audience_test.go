package events

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// onlyAll allows an identity the types that begin with it.
type onlyAll struct{}

func (onlyAll) Allowed(identity, _, _, name string) bool { return strings.HasPrefix(name, identity) }

// An event reaches exactly the groups whose filter and rules let it through.
func TestTheAudienceOfAnEventIsWhoGetsIt(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		word := func(n int) string { return strings.Repeat("ab", 2)[random.IntN(2):][:random.IntN(n)] }
		var a audience
		a.init(onlyAll{})
		var groups []*group
		for range 60 {
			var terms []string
			for range random.IntN(4) {
				terms = append(terms, [...]string{
					"type:x" + word(3), "type:" + word(3) + "*", "severity:error", "severity:info+",
					fmt.Sprintf("task:%02x", random.IntN(3)), fmt.Sprintf("rpc:%02x", random.IntN(3)),
				}[random.IntN(6)])
			}
			f, err := ParseFilter(strings.Join(terms, ","))
			if err != nil {
				t.Fatal(err)
			}
			groups = append(groups, a.join([...]string{"", "a", "x"}[random.IntN(3)], f))
		}
		for n := range 200 {
			leaver := random.IntN(len(groups))
			if random.IntN(8) == 0 {
				a.leave(groups[leaver])
				groups = append(groups[:leaver], groups[leaver+1:]...)
			}
			r := &Record{EventID: []byte("1"), Timestamp: 1, MsgID: []byte("1"), EventType: []byte([...]string{"x", "a", "b"}[random.IntN(3)] + word(3)), Severity: []byte([...]string{"info", "error", "debug"}[random.IntN(3)])}
			if random.IntN(2) == 0 {
				r.TaskID = []byte{byte(random.IntN(3))}
			}
			if random.IntN(2) == 0 {
				r.RPCID = []byte{byte(random.IntN(3))}
			}
			if err := r.check(); err != nil {
				t.Fatal(err)
			}
			waits := make(map[*group]*waiting)
			for _, g := range groups {
				waits[g] = g.wait()
			}
			e := newEntry(r)
			e.seq = uint64(n + 1)
			woken := a.reach(e)
			reached := make(map[*waiting]bool)
			for _, w := range woken {
				if reached[w] || w.first != e.seq {
					t.Fatalf("seed %d: reached twice, or first is %d, want %d", seed, w.first, e.seq)
				}
				reached[w] = true
			}
			for g, w := range waits {
				want := g.filter.Match(&e.record) && (g.key.identity == "" || strings.HasPrefix(string(r.EventType), g.key.identity))
				if reached[w] != want || (g.waiting == nil) != want {
					t.Fatalf("seed %d: group %q of %q, event %s: reached %v, want %v", seed, g.key.filter, g.key.identity, r.EventType, reached[w], want)
				}
			}
		}
		for _, g := range groups {
			a.leave(g)
		}
		if n := len(a.groups) + len(a.rights); n > 0 {
			t.Errorf("seed %d: %d groups and rights are left", seed, n)
		}
		for _, in := range []index{a.types, a.begins, a.tasks, a.rpcs} {
			if n := len(in.buckets) + len(in.lengths); n > 0 {
				t.Errorf("seed %d: %d entries of an index are left", seed, n)
			}
		}
	}
}
