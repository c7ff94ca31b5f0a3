package mcpmap

import (
	"math"
	"strconv"
)

// TokenKey returns a key that is equal for two ids or progress tokens which a real server
// might confuse: the characters of a string, the nearest float64 of a number. It returns ""
// for null and an absent token.
//
// Answers are matched by raw token, then by decoded string or exact number, then as
// float64, because servers rewrite ids: 1.0 comes back as 1, 9007199254740993 as …992. Each
// step is coarser than the previous one. If no two tokens in flight have the same key,
// matching by key alone gives the same result.
func TokenKey(token []byte) string {
	if len(token) == 0 || token[0] == 'n' {
		return ""
	}
	if token[0] == '"' {
		key, _ := appendUnescaped([]byte{'s'}, token[1:len(token)-1])
		return string(key)
	}
	f, _ := strconv.ParseFloat(string(token), 64) // beyond the range it is ±Inf, or 0
	if f == 0 {
		f = 0 // -0 is 0
	}
	return "n" + strconv.FormatUint(math.Float64bits(f), 16)
}
