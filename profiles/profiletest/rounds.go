package profiletest

import (
	"os"
	"testing"
)

// Long reports whether tests take the time that they may take before a release: make
// test-long sets SWP_LONG.
func Long() bool { return os.Getenv("SWP_LONG") != "" }

// Rounds returns how often a test does the same with other random numbers: full times,
// but a fifth of that under the race detector where tests are not Long.
func Rounds(full int) int {
	if Long() || !Watched {
		return full
	}
	return (full + 4) / 5
}

// Unwatched skips a test of many megabytes under the race detector, unless tests are Long.
// UNWATCHED in the Makefile names it, so that it is run without the detector.
func Unwatched(t testing.TB) {
	t.Helper()
	if Watched && !Long() {
		t.Skip("moves many megabytes; it is run without the race detector")
	}
}
