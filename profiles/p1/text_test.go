package p1_test

import (
	"testing"
	"unicode/utf8"

	"github.com/slimwire/swp/profiles/p1"
)

func TestClipKeepsWholeCharacters(t *testing.T) {
	const text = "aé€𝄞"
	for n := -1; n <= len(text)+1; n++ {
		got := p1.Clip(text, n)
		if !utf8.ValidString(got) || len(got) > max(n, 0) || text[:len(got)] != got {
			t.Errorf("Clip(%q, %d) = %q", text, n, got)
		}
		// The next character would not fit.
		if rest := text[len(got):]; rest != "" {
			if _, size := utf8.DecodeRuneInString(rest); len(got)+size <= n {
				t.Errorf("Clip(%q, %d) = %q, which has room for more", text, n, got)
			}
		}
	}
}
