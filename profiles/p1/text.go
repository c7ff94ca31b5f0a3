package p1

import (
	"bytes"
	"unicode/utf8"
)

// Clip returns the beginning of UTF-8 text, at most n octets without cutting a character,
// for messages of limited length.
func Clip[T ~[]byte | ~string](text T, n int) T {
	if n >= len(text) {
		return text
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Blank reports whether a text has nothing but white space.
func Blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }
