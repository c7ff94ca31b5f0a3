package cli

import "testing"

func TestTextOfPeersIsShownWithoutControlCharacters(t *testing.T) {
	for _, tc := range []struct{ in, visible, field string }{
		{"orders.new, größer", "orders.new, größer", "orders.new, größer"},
		{"a\nb\tc", "a\nb\tc", `a\u000ab\u0009c`},
		{"\x1b[31m\u009b2J", `\u001b[31m\u009b2J`, `\u001b[31m\u009b2J`},
		{"a\rb\u202ec\u200bd\u2028e", `a\u000db\u202ec\u200bd\u2028e`, `a\u000db\u202ec\u200bd\u2028e`},
		{"bad \xff octet", "bad \uFFFD octet", "bad \uFFFD octet"},
		{"\x1b\xff", "\\u001b\uFFFD", "\\u001b\uFFFD"},
	} {
		if got := Visible(tc.in); got != tc.visible {
			t.Errorf("Visible(%q) is %q, want %q", tc.in, got, tc.visible)
		}
		if got := Field(tc.in); got != tc.field {
			t.Errorf("Field(%q) is %q, want %q", tc.in, got, tc.field)
		}
	}
}
