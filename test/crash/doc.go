// Package crash kills swpd at random moments while it works, and holds what it
// has acknowledged against what it still knows: nothing acknowledged is lost,
// nothing is done twice. Publishers and consumers of its relay are killed as well.
// It has no code but tests.
//
// SWP_CRASH says how long; `make soak` sets it.
package crash
