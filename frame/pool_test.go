package frame_test

import (
	"slices"
	"testing"

	"github.com/slimwire/swp/frame"
)

type lender struct{ lent, returned []int }

func (l *lender) Lend(n int) []byte {
	l.lent = append(l.lent, n)
	return make([]byte, n, n+8)
}

func (l *lender) Return(b []byte) { l.returned = append(l.returned, cap(b)) }

func TestLargeBuffersOfAPoolAreLent(t *testing.T) {
	l := new(lender)
	p := frame.Pool{Large: l}
	for _, n := range []int{1, 64<<10 + 64, 64<<10 + 65, 8 << 20, 16<<20 + 64, 16<<20 + 65} {
		b := p.Get(n)
		if len(b) != 0 || cap(b) < n {
			t.Errorf("%d of %d octets for %d", len(b), cap(b), n)
		}
		p.Put(b)
	}
	want := []int{128<<10 + 64, 8<<20 + 64, 16<<20 + 64}
	if !slices.Equal(l.lent, want) || !slices.Equal(l.returned, want) {
		t.Errorf("%v were lent and %v returned, want %v", l.lent, l.returned, want)
	}
}
