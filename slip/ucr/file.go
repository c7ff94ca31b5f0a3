package ucr

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// file is the form in which tables are stored and exchanged (B4).
type file struct {
	Version string       `json:"version"`
	Anchors []anchorFile `json:"anchors"`
}

type anchorFile struct {
	Index     *int64  `json:"index"`
	Mnemonic  *string `json:"mnemonic"`
	Canonical *string `json:"canonical"`
	Coords    []int   `json:"coords"`
	IsCore    *bool   `json:"is_core,omitempty"`
}

// Read reads anchors: a JSON object with the member anchors, or only that array. It does
// not check that the core anchors are those of UCR 1.0.0, so that Hash can be computed for
// foreign ones. It refuses a missing member, an index above LastExtension, a duplicate
// index or mnemonic, coordinates other than four numbers from 0 to MaxCoord, a text that
// cannot be hashed, and a wrong is_core.
func Read(octets []byte) ([]Anchor, error) {
	f, err := readFile(octets)
	if err != nil {
		return nil, err
	}
	anchors := make([]Anchor, 0, len(f.Anchors))
	indexes, names := map[uint16]bool{}, map[string]bool{}
	for _, from := range f.Anchors {
		a, err := from.anchor()
		switch {
		case err != nil:
			return nil, err
		case indexes[a.Index]:
			return nil, fmt.Errorf("ucr: anchor %.100q: index %#04x is taken", a.Mnemonic, a.Index)
		case names[a.Mnemonic]:
			return nil, fmt.Errorf("ucr: anchor %#04x: mnemonic %.100q is taken", a.Index, a.Mnemonic)
		}
		indexes[a.Index], names[a.Mnemonic] = true, true
		anchors = append(anchors, a)
	}
	return anchors, nil
}

func readFile(octets []byte) (f file, err error) {
	var into any = &f
	if strings.HasPrefix(strings.TrimLeft(string(octets[:min(len(octets), 1<<10)]), " \t\r\n"), "[") {
		into = &f.Anchors
	}
	if err := json.Unmarshal(octets, into); err != nil {
		return f, fmt.Errorf("ucr: a table: %w", err)
	}
	if f.Anchors == nil {
		return f, fmt.Errorf("ucr: a table without anchors")
	}
	return f, nil
}

func (from *anchorFile) anchor() (Anchor, error) {
	switch {
	case from.Mnemonic == nil || *from.Mnemonic == "":
		return Anchor{}, fmt.Errorf("ucr: an anchor without a mnemonic")
	case from.Index == nil:
		return Anchor{}, fmt.Errorf("ucr: anchor %.100q: no index", *from.Mnemonic)
	case *from.Index < 0 || *from.Index > LastExtension:
		return Anchor{}, fmt.Errorf("ucr: anchor %.100q: index %d, want 0 to %d", *from.Mnemonic, *from.Index, LastExtension)
	case from.Canonical == nil:
		return Anchor{}, fmt.Errorf("ucr: anchor %.100q: no canonical text", *from.Mnemonic)
	}
	a := Anchor{Index: uint16(*from.Index), Mnemonic: *from.Mnemonic, Canonical: *from.Canonical}
	if len(from.Coords) != len(a.Coords) {
		return a, fmt.Errorf("ucr: anchor %.100q: %d coordinates, want %d", a.Mnemonic, len(from.Coords), len(a.Coords))
	}
	for i, c := range from.Coords {
		if c < 0 || c > MaxCoord {
			return a, fmt.Errorf("ucr: anchor %.100q: coordinate %d, want 0 to %d", a.Mnemonic, c, MaxCoord)
		}
		a.Coords[i] = uint8(c)
	}
	if from.IsCore != nil && *from.IsCore == a.Extension() {
		return a, fmt.Errorf("ucr: anchor %.100q: is_core is %v with index %#04x", a.Mnemonic, *from.IsCore, a.Index)
	}
	if !isText(a.Canonical) || !isText(a.Mnemonic) {
		return a, fmt.Errorf("ucr: anchor %.100q: a text with \"|\", control characters or octets that are no UTF-8", a.Mnemonic)
	}
	return a, nil
}

// isText reports whether text has an unambiguous hash. U+FFFD may be a replacement for
// invalid UTF-8.
func isText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '|' || r == utf8.RuneError })
}

// Load reads a table that Save has written. Core anchors may be absent; otherwise they must
// be those of UCR 1.0.0.
func Load(octets []byte) (*Table, error) {
	f, err := readFile(octets)
	if err != nil {
		return nil, err
	}
	if f.Version != "" && f.Version != Version {
		return nil, fmt.Errorf("ucr: a table of version %.40q, want %s", f.Version, Version)
	}
	anchors, err := Read(octets)
	if err != nil {
		return nil, err
	}
	var extensions []Anchor
	for _, a := range anchors {
		if a.Extension() {
			extensions = append(extensions, a)
		} else if !slices.Contains(core[:], a) {
			return nil, fmt.Errorf("ucr: anchor %#04x %.100q is none of UCR %s", a.Index, a.Mnemonic, Version)
		}
	}
	return NewTable(extensions...)
}

// Save writes the table as Load reads it.
func (t *Table) Save() ([]byte, error) {
	f := file{Version, make([]anchorFile, 0, len(t.anchors))}
	for _, a := range t.anchors {
		index, isCore := int64(a.Index), !a.Extension()
		coords := make([]int, len(a.Coords))
		for i, c := range a.Coords {
			coords[i] = int(c)
		}
		f.Anchors = append(f.Anchors, anchorFile{&index, &a.Mnemonic, &a.Canonical, coords, &isCore})
	}
	octets, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("ucr: %w", err)
	}
	return append(octets, '\n'), nil
}

// With returns the table with additional anchors of the installation.
func (t *Table) With(extensions ...Anchor) (*Table, error) {
	return NewTable(append(t.extensions(), extensions...)...)
}

// Import returns the table with the extensions of another installation, each at the next
// free index. Anchors whose mnemonics are known are skipped and returned. Core anchors
// among foreign are ignored.
func (t *Table) Import(foreign []Anchor) (table *Table, skipped []Anchor, err error) {
	all := t.extensions()
	next, ok := t.Next()
	names := map[string]bool{}
	for _, a := range foreign {
		if !a.Extension() {
			continue
		}
		if _, known := t.Named(a.Mnemonic); known || names[a.Mnemonic] {
			skipped = append(skipped, a)
			continue
		}
		if !ok {
			return nil, nil, fmt.Errorf("ucr: anchor %.100q: the extension range is full at %#04x", a.Mnemonic, LastExtension)
		}
		names[a.Mnemonic] = true
		a.Index = next
		all = append(all, a)
		if ok = next < LastExtension; ok {
			next++
		}
	}
	table, err = NewTable(all...)
	return table, skipped, err
}

// extensions are the anchors of the installation.
func (t *Table) extensions() []Anchor { return slices.Clone(t.anchors[len(core):]) }
