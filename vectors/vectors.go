// Package vectors contains the golden vectors of SWP and defines their format: descriptors
// (.json) with the octets of their steps, the octets under test (.bin), and review evidence
// (.evidence.md). docs/conformance.md describes their meaning; package conformance plays
// them.
//
// `go run ./vectors/gen` writes the files, except for the evidence, which a reviewer signs.
// The package imports only the standard library, so that any package can take its fuzz
// seeds from here.
package vectors

import (
	"embed"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
)

//go:embed *.json *.bin *.md
var files embed.FS

// Files returns the vectors as they lie in this directory.
func Files() fs.FS { return files }

// Frames yields the octets of each fixture and step, each with a name: the name of the
// file, or that of the descriptor with a number. Most are one frame, some are several, some
// are deliberately malformed. The caller owns the slice.
func Frames() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		entries, err := files.ReadDir(".")
		if err != nil {
			panic(err) // an embedded directory can be read
		}
		for _, e := range entries {
			octets, err := files.ReadFile(e.Name())
			if err != nil {
				panic(err)
			}
			switch filepath.Ext(e.Name()) {
			case ".bin":
				if !yield(e.Name(), octets) {
					return
				}
			case ".json":
				for i, octets := range inline(octets) {
					if !yield(fmt.Sprintf("%s %d", e.Name(), i+1), octets) {
						return
					}
				}
			}
		}
	}
}

// inline returns the octets that stand in a descriptor.
func inline(text []byte) (list [][]byte) {
	d, err := Parse(text)
	if err != nil {
		return nil // one in the poc_ form, which has none
	}
	add := func(h Hex) {
		if h != nil {
			list = append(list, h)
		}
	}
	f := &d.Expected.Fixture
	for _, s := range f.Transcript {
		add(s.Hex)
	}
	for _, s := range f.Siblings {
		add(s.Hex)
		for _, s := range s.Transcript {
			add(s.Hex)
		}
	}
	return list
}
