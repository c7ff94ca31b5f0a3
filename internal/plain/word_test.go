package plain

import "testing"

func TestWordQuotesWhatAShellWouldRead(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "spiffe://a.example/x": "spiffe://a.example/x", "orders.*": "'orders.*'", "two words": "'two words'", "it's": `'it'\''s'`,
	} {
		if got := Word(text); got != want {
			t.Errorf("Word(%q) = %s, want %s", text, got, want)
		}
	}
}
