// Package vectors holds the golden vectors of SWP and the form they are
// written in: descriptors (.json), the exact octets that go on the wire (.bin)
// and review evidence (.evidence.md). What they mean is in docs/conformance.md;
// package conformance plays them.
//
// The files are written by `go run ./vectors/gen`, except for the evidence,
// which a reviewer signs. The package uses the standard library only, so that
// any package can take its fuzz seeds from here.
package vectors

import (
	"embed"
	"io/fs"
	"iter"
	"strings"
)

//go:embed *.json *.bin *.md
var files embed.FS

// Files returns the vectors as they lie in this directory.
func Files() fs.FS { return files }

// Frames yields the name and the octets of each fixture, in the order of their
// names. Most hold one frame, some several, some a deliberately broken one. The
// slice is the caller's own.
func Frames() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		entries, err := files.ReadDir(".")
		if err != nil {
			panic(err) // an embedded directory can be read
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".bin") {
				continue
			}
			octets, err := files.ReadFile(e.Name())
			if err != nil {
				panic(err)
			}
			if !yield(e.Name(), octets) {
				return
			}
		}
	}
}
