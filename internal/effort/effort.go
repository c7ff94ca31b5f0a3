// Package effort selects how much work tests do: a short run for developers, or the full
// run before a release.
package effort

import (
	"os"
	"testing"
)

// Long reports whether tests do all of their work: make test-long sets SWP_LONG.
func Long() bool { return os.Getenv("SWP_LONG") != "" }

// Rounds returns how often a test repeats itself with other random numbers or with more
// data: full times where tests are Long, otherwise one time in five, or in ten under the
// race detector.
func Rounds(full int) int {
	switch {
	case Long():
		return full
	case Watched:
		return (full + 9) / 10
	}
	return (full + 4) / 5
}

// Due reports whether case i of an exhaustive test is to be run: each where tests are
// Long, otherwise one in n.
func Due(i, n int) bool { return Long() || i%n == 0 }

// Release skips a test unless tests are Long: it goes over what other tests look at one by
// one, as a whole and as users do it.
func Release(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skip("it is run before a release, with SWP_LONG=1")
	}
}

// Unwatched skips a test of many megabytes, or of the number of allocations, under the race
// detector, unless tests are Long. make test repeats the tests that call this or read
// Watched without the race detector.
func Unwatched(t testing.TB) {
	t.Helper()
	if Watched && !Long() {
		t.Skip("it is run without the race detector")
	}
}
