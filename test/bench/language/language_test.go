package language_test

import (
	"slices"
	"testing"

	"github.com/slimwire/swp/test/bench/language"
)

func TestEveryCaseReadsItsMessage(t *testing.T) {
	var names []string
	for _, c := range cases(t) {
		if err := c.Run(2); err != nil {
			t.Error(err)
		}
		if c.Subject != "" && !slices.Contains(names, c.Subject) {
			t.Errorf("%s is compared with %q, which does not come before it", c.Name, c.Subject)
		}
		if slices.Contains(names, c.Name) {
			t.Errorf("two cases are called %q", c.Name)
		}
		names = append(names, c.Name)
	}
}

// TestReadingSLIPAllocatesNothing holds what is promised of the decoders' fast paths.
func TestReadingSLIPAllocatesNothing(t *testing.T) {
	for _, c := range cases(t) {
		if c.Name != language.NSLIPText && c.Name != language.NSLIPBinary && c.Name != language.SLIPv1 {
			continue
		}
		if n, err := c.Allocations(); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", c.Name, n, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, c := range cases(b) {
		b.Run(c.Name, func(b *testing.B) {
			b.ReportAllocs()
			if err := c.Run(b.N); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func cases(t testing.TB) []language.Case {
	t.Helper()
	all, err := language.Cases()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
