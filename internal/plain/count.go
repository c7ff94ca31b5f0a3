package plain

import (
	"fmt"
	"strings"
)

// Count returns a number of things in words, such as 1 delivery and 2 deliveries. The word
// is that of one thing.
func Count[N ~int | ~int64 | ~uint64](n N, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %s", n, Several(word))
}

// Several returns the plural of a word.
func Several(word string) string {
	if stem, ok := strings.CutSuffix(word, "y"); ok && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return stem + "ies"
	}
	return word + "s"
}
