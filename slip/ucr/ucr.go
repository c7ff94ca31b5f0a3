// Package ucr is the Universal Concept Reference: the anchors that SLIP messages name, and
// a hash by which two sides check that they use the same anchors.
//
// The core anchors are those of UCR 1.0.0 and never change. An installation can add anchors
// in the extension range. Those are not part of the compared hash, so that sides with
// different extensions can still communicate.
//
// Specification: Slipstream B3 to B5.
package ucr

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// Version is the version of the core anchors.
const Version = "1.0.0"

// CoreHash is the Hash of the core anchors, which an endpoint declares and compares.
const CoreHash = "sha256:19bb36792d59061553d1b63cc4d56ec3e8748b7b059737754057fa3e7abbc700"

// Ranges of indexes. The first anchor of an installation has FirstExtension.
const (
	FirstExtension = 0x8000
	LastExtension  = 0xFFFF
)

// Anchor is a concept that a message can name.
type Anchor struct {
	Index     uint16 // never on the wire
	Mnemonic  string // its name in messages, case-sensitive
	Canonical string // what it means, in words
	Coords    Coords
}

// Extension reports whether it is an anchor of an installation.
func (a Anchor) Extension() bool { return a.Index >= FirstExtension }

// Coords place an anchor: action, polarity, domain and urgency, each from 0 to 7.
type Coords [4]uint8

// MaxCoord is the largest coordinate in each dimension.
const MaxCoord = 7

// Distance returns the sum of the absolute differences.
func (c Coords) Distance(d Coords) (sum int) {
	for i := range c {
		sum += max(int(c[i])-int(d[i]), int(d[i])-int(c[i]))
	}
	return sum
}

// Core returns the 46 anchors of UCR 1.0.0, by index. The slice is the caller's.
func Core() []Anchor { return slices.Clone(core[:]) }

// CoreNamed returns the core anchor of a mnemonic, for those without a Table.
func CoreNamed(mnemonic string) (Anchor, bool) {
	for _, a := range core {
		if a.Mnemonic == mnemonic {
			return a, true
		}
	}
	return Anchor{}, false
}

// Hash is the ucrHash of anchors, in any order: the SHA-256 of one line for each, sorted by
// index and joined by LF (B5). It covers exactly the given anchors; an endpoint declares
// CoreHash.
func Hash(anchors []Anchor) string {
	anchors = slices.Clone(anchors)
	slices.SortStableFunc(anchors, func(a, b Anchor) int { return int(a.Index) - int(b.Index) })
	var text []byte
	for i, a := range anchors {
		if i > 0 {
			text = append(text, '\n')
		}
		text = a.appendLine(text)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// appendLine appends index|mnemonic|canonical|coords.
func (a Anchor) appendLine(dst []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(a.Index), 10)
	dst = append(append(dst, '|'), a.Mnemonic...)
	dst = append(append(dst, '|'), a.Canonical...)
	for i, c := range a.Coords {
		sep := byte(',')
		if i == 0 {
			sep = '|'
		}
		dst = strconv.AppendUint(append(dst, sep), uint64(c), 10)
	}
	return dst
}
