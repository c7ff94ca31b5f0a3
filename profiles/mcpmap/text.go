package mcpmap

import (
	"unicode/utf16"
	"unicode/utf8"
)

// appendUnescaped appends the unescaped content of a JSON string, given without its quotes.
// ok is false if it has half a surrogate pair; U+FFFD is written in
// its place.
func appendUnescaped(dst, s []byte) (out []byte, ok bool) {
	ok = true
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(s[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
					low, _ := hex4(s[i+3:])
					pair = utf16.DecodeRune(r, low)
				}
				if pair == utf8.RuneError {
					ok = false
				} else {
					i += 6
				}
				r = pair
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst, ok
}

// hex4 reads the four digits of a \u escape.
func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
