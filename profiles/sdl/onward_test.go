package sdl

import (
	"fmt"
	"testing"
)

func TestPassagesForgetThoseThatWereUsedLongestAgo(t *testing.T) {
	const bound = 8
	p := passages{bound: bound}
	at := func(n int) passage { return passage{"spiffe://partner", fmt.Sprint(n)} }
	for n := range 3 * bound {
		p.set(at(n), "spiffe://caller")
		if p.get(at(0)) == "" {
			t.Fatalf("after %d others one that is used all the time was forgotten", n)
		}
		if got := len(p.young) + len(p.old); got > bound {
			t.Fatalf("%d are remembered, want at most %d", got, bound)
		}
	}
	if p.get(at(1)) != "" {
		t.Error("one that was not used again is remembered")
	}
	if p.get(at(3*bound-1)) == "" {
		t.Error("the last one was forgotten")
	}
}
