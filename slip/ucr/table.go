package ucr

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of an anchor that is added, in octets.
const (
	MaxMnemonic  = 64
	MaxCanonical = 1024
)

// Table has the core anchors and those of one installation. It is immutable and safe for
// concurrent use.
type Table struct {
	anchors []Anchor // by index
	named   map[string]int
}

// NewTable returns a table with the core anchors and the anchors of an installation. It
// refuses an anchor outside the extension range, an index or mnemonic in use, a mnemonic
// that no message can carry, a coordinate above MaxCoord, and a text that cannot be hashed:
// one with "|", control characters or invalid UTF-8.
func NewTable(extensions ...Anchor) (*Table, error) {
	t := &Table{anchors: Core(), named: make(map[string]int, len(core)+len(extensions))}
	for _, a := range extensions {
		if err := a.check(); err != nil {
			return nil, err
		}
		if _, taken := t.At(a.Index); taken {
			return nil, fmt.Errorf("ucr: anchor %q: index %#04x is taken", a.Mnemonic, a.Index)
		}
		i, _ := t.find(a.Index)
		t.anchors = slices.Insert(t.anchors, i, a)
	}
	for i, a := range t.anchors {
		if _, taken := t.named[a.Mnemonic]; taken {
			return nil, fmt.Errorf("ucr: anchor %#04x: mnemonic %q is taken", a.Index, a.Mnemonic)
		}
		t.named[a.Mnemonic] = i
	}
	return t, nil
}

// check returns the fault of an anchor of an installation.
func (a Anchor) check() error {
	switch {
	case !a.Extension():
		return fmt.Errorf("ucr: anchor %q: index %#04x is not in the extension range, from %#04x to %#04x",
			a.Mnemonic, a.Index, FirstExtension, LastExtension)
	case !IsMnemonic(a.Mnemonic) || len(a.Mnemonic) > MaxMnemonic:
		return fmt.Errorf("ucr: mnemonic %.100q: want 1 to %d letters and digits, not beginning with 0x", a.Mnemonic, MaxMnemonic)
	case slices.Max(a.Coords[:]) > MaxCoord:
		return fmt.Errorf("ucr: anchor %q: coordinates %v, want at most %d", a.Mnemonic, a.Coords, MaxCoord)
	case len(a.Canonical) > MaxCanonical:
		return fmt.Errorf("ucr: anchor %q: a text of %d octets, want at most %d", a.Mnemonic, len(a.Canonical), MaxCanonical)
	case !isText(a.Canonical):
		return fmt.Errorf("ucr: anchor %q: a text with \"|\", control characters or octets that are no UTF-8", a.Mnemonic)
	}
	return nil
}

// IsMnemonic reports whether messages can name an anchor by this name: letters and digits,
// but not in the form of a hexadecimal index.
func IsMnemonic(name string) bool {
	other := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	return name != "" && !strings.ContainsFunc(name, other) && !IsHex(name)
}

// IsHex reports whether a name has the form of an index, which messages must not use (C4).
func IsHex(name string) bool { return strings.HasPrefix(name, "0x") || strings.HasPrefix(name, "0X") }

func (t *Table) find(index uint16) (int, bool) {
	return slices.BinarySearchFunc(t.anchors, index, func(a Anchor, index uint16) int { return int(a.Index) - int(index) })
}

// At returns the anchor of an index.
func (t *Table) At(index uint16) (Anchor, bool) {
	i, ok := t.find(index)
	if !ok {
		return Anchor{}, false
	}
	return t.anchors[i], true
}

// Named returns the anchor with a mnemonic.
func (t *Table) Named(mnemonic string) (Anchor, bool) {
	i, ok := t.named[mnemonic]
	if !ok {
		return Anchor{}, false
	}
	return t.anchors[i], true
}

// Nearest returns the anchor with the smallest distance from coordinates; of several, the
// one with the lowest index.
func (t *Table) Nearest(at Coords) Anchor {
	best := t.anchors[0]
	for _, a := range t.anchors[1:] {
		if a.Coords.Distance(at) < best.Coords.Distance(at) {
			best = a
		}
	}
	return best
}

// Anchors returns all anchors, by index. The slice is the caller's.
func (t *Table) Anchors() []Anchor { return slices.Clone(t.anchors) }

// Next returns the lowest index above all anchors of the installation. ok is false if the
// range is full.
func (t *Table) Next() (uint16, bool) {
	last := t.anchors[len(t.anchors)-1]
	switch {
	case !last.Extension():
		return FirstExtension, true
	case last.Index == LastExtension:
		return 0, false
	}
	return last.Index + 1, true
}
