//go:build !race

package profiletest

// Watched reports whether the race detector watches: whatever looks at every octet takes
// some twenty times as long.
const Watched = false
