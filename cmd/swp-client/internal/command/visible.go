package command

import (
	"fmt"
	"strings"
	"unicode"
)

// visible returns what a peer wrote fit for a terminal: control and format
// characters other than line breaks and tabs are shown as escapes, so that no
// peer moves the cursor, changes colours or hides text.
func visible(s string) string {
	hidden := func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
	}
	if !strings.ContainsFunc(s, hidden) {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
