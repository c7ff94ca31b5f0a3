// Package effort selects how much work tests do: a short run for developers, or the full
// run before a release, for which make test-long and make test-release set SWP_LONG. Only
// there:
//
//   - the race detector watches every package, also those that run whole programs, thousands
//     of vectors or a disk (make test-long);
//   - every expectation of every vector is changed, and octets of every accepted frame, and
//     every fuzz target begins with every frame of the vectors; otherwise one in ten or twenty;
//   - every combination of transport, kind of server and era carries the corpus of exact octets
//     through the programs; otherwise half of them;
//   - random models run five times as many steps or seeds, event tests use hundreds of
//     thousands of events, artifacts have 160 MiB, swpd is killed repeatedly for a minute with
//     400 MiB in its store, and mcp stdio is idle for ten idle limits of a connection;
//   - a call at a partner lasts a week of virtual time, otherwise two hours;
//   - artifacts are in a bucket of an S3 server, too, which is built first;
//   - the programs are installed from a module proxy, and docs/embedding.md is a program of another
//     module (Release);
//   - the first hour is run as the documents print it, the conformance targets and their
//     archive, the stores at durability process, and the crash test of two organisations
//     (Release);
//   - a store of 400 MiB is migrated, once interrupted, and one is copied to PostgreSQL and back, with
//     time and memory (Release).
package effort

import (
	"flag"
	"os"
	"strconv"
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

// AtOnce has as many parallel tests of a program run at a time, unless its flag -parallel says
// it. Call it in TestMain of tests that wait for most of their time: the number of cores, which is
// the default, is then no measure.
func AtOnce(tests int) {
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err) // it is not called from a test
	}
}
