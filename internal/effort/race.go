//go:build race

package effort

// Watched reports whether the race detector is on. It empties pools at random, so that
// allocations cannot be counted, and code that reads every octet takes ten to twenty times
// as long.
const Watched = true
