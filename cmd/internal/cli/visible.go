package cli

import (
	"fmt"
	"strings"
	"unicode"
)

// Visible returns what a peer wrote fit for a terminal: control and format
// characters other than line breaks and tabs are shown as escapes, so that no
// peer moves the cursor, changes colours or hides text.
func Visible(s string) string { return escaped(s, "\n\t") }

// Field is Visible for a part of a line: line breaks and tabs are escapes, too,
// so that no peer writes another line or column.
func Field(s string) string { return escaped(s, "") }

// escaped returns s with its control and format characters, other than those in
// kept, as escapes.
func escaped(s, kept string) string {
	hidden := func(r rune) bool {
		return (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) && !strings.ContainsRune(kept, r)
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
