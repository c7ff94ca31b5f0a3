package ucr

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/vectors/datatest"
)

func TestCoreHash(t *testing.T) {
	if got := Hash(Core()); got != CoreHash {
		t.Errorf("hash %s, want %s", got, CoreHash)
	}
	if n := len(Core()); n != 46 {
		t.Errorf("%d core anchors, want 46", n)
	}
	shuffled := Core()
	slices.Reverse(shuffled)
	if got := Hash(shuffled); got != CoreHash {
		t.Errorf("the order of anchors changes the hash to %s", got)
	}
}

func TestHashTellsWhatDiffers(t *testing.T) {
	seen := map[string]bool{CoreHash: true, Hash(nil): true}
	for name, change := range map[string]func(*Anchor){
		"index":     func(a *Anchor) { a.Index = 4 },
		"mnemonic":  func(a *Anchor) { a.Mnemonic = "observeState" },
		"canonical": func(a *Anchor) { a.Canonical += "." },
		"coords":    func(a *Anchor) { a.Coords[3]++ },
	} {
		anchors := Core()
		change(&anchors[0])
		hash := Hash(anchors)
		if seen[hash] {
			t.Errorf("another %s gives the same hash", name)
		}
		seen[hash] = true
	}
	if got, want := Hash(nil), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; got != want {
		t.Errorf("hash of no anchors %s, want that of nothing", got)
	}
}

func TestHashLeavesTheOrderOfItsArgument(t *testing.T) {
	anchors := []Anchor{{Index: 2, Mnemonic: "B"}, {Index: 1, Mnemonic: "A"}}
	Hash(anchors)
	if anchors[0].Index != 2 {
		t.Error("Hash sorted what it was given")
	}
}

func TestTableFinds(t *testing.T) {
	scale := Anchor{0x8001, "ScaleCluster", "Größe ändern", Coords{3, 4, 5, 6}}
	table, err := NewTable(scale, Anchor{0x8000, "Ping", "Still there?", Coords{7, 7, 7, 0}})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := table.Named("ScaleCluster"); !ok || got != scale {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := table.At(0x8001); !ok || got != scale {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := table.Named("RequestReview"); !ok || got.Index != 50 {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, name := range []string{"", "requestreview", "RequestReview ", "0x0032"} {
		if a, ok := table.Named(name); ok {
			t.Errorf("%q is %+v", name, a)
		}
	}
	if a, ok := table.At(4); ok {
		t.Errorf("index 4 is %+v", a)
	}
	if all := table.Anchors(); len(all) != 48 || all[46].Mnemonic != "Ping" || all[47] != scale {
		t.Errorf("%d anchors", len(all))
	}
}

func TestCoreNamed(t *testing.T) {
	for _, want := range Core() {
		if got, ok := CoreNamed(want.Mnemonic); !ok || got != want {
			t.Errorf("%s: %+v, %v", want.Mnemonic, got, ok)
		}
	}
	if a, ok := CoreNamed("Ping"); ok {
		t.Errorf("Ping is %+v", a)
	}
}

func TestNearestTakesTheFirstOfThoseAsNear(t *testing.T) {
	table, err := NewTable(Anchor{0x8000, "ReviewTwice", "Review again", Coords{3, 4, 3, 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		at   Coords
		want string
	}{
		{Coords{3, 4, 3, 3}, "RequestReview"},
		{Coords{5, 6, 0, 4}, "CommitTask"}, // and CommitDeadline
		{Coords{7, 0, 4, 7}, "MetaAbort"},
		{Coords{7, 7, 7, 7}, "Accept"}, // and Fallback
		{Coords{0, 0, 0, 0}, "InformStatus"},
	} {
		if got := table.Nearest(test.at); got.Mnemonic != test.want {
			t.Errorf("%v: %s, want %s", test.at, got.Mnemonic, test.want)
		}
	}
}

func TestNewTableRefuses(t *testing.T) {
	good := Anchor{0x8000, "Ping", "Still there?", Coords{7, 4, 7, 0}}
	if _, err := NewTable(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Anchor){
		"a core index":          func(a *Anchor) { a.Index = 0x7fff },
		"a core mnemonic":       func(a *Anchor) { a.Mnemonic = "Accept" },
		"an empty mnemonic":     func(a *Anchor) { a.Mnemonic = "" },
		"an underscore":         func(a *Anchor) { a.Mnemonic = "EXT_1" },
		"a hexadecimal name":    func(a *Anchor) { a.Mnemonic = "0xPing" },
		"a long mnemonic":       func(a *Anchor) { a.Mnemonic = strings.Repeat("a", MaxMnemonic+1) },
		"a coordinate of 8":     func(a *Anchor) { a.Coords[2] = 8 },
		"a bar in the text":     func(a *Anchor) { a.Canonical = "a|b" },
		"a line in the text":    func(a *Anchor) { a.Canonical = "a\nb" },
		"a text that is not":    func(a *Anchor) { a.Canonical = "\xff" },
		"a text that is long":   func(a *Anchor) { a.Canonical = strings.Repeat("a", MaxCanonical+1) },
		"the mnemonic of other": func(a *Anchor) { a.Index = 0x8001 },
		"the index of other":    func(a *Anchor) { a.Mnemonic = "Pong" },
	} {
		bad := good
		change(&bad)
		var err error
		if strings.HasSuffix(name, "of other") {
			_, err = NewTable(good, bad)
		} else {
			_, err = NewTable(bad)
		}
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	at := good
	at.Mnemonic, at.Canonical = strings.Repeat("a", MaxMnemonic), strings.Repeat("a", MaxCanonical)
	if _, err := NewTable(at); err != nil {
		t.Errorf("at the bounds: %v", err)
	}
}

func TestNextIsAboveTheHighest(t *testing.T) {
	for _, test := range []struct {
		taken []uint16
		want  uint16
		ok    bool
	}{{nil, 0x8000, true}, {[]uint16{0x8000}, 0x8001, true}, {[]uint16{0x9000, 0x8000}, 0x9001, true}, {[]uint16{0xfffe}, 0xffff, true}, {[]uint16{0xffff}, 0, false}} {
		var extensions []Anchor
		for i, index := range test.taken {
			extensions = append(extensions, Anchor{Index: index, Mnemonic: "Ext" + string(rune('A'+i))})
		}
		table, err := NewTable(extensions...)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := table.Next(); got != test.want || ok != test.ok {
			t.Errorf("%x: %#x, %v", test.taken, got, ok)
		}
	}
}

// anchorJSON is an anchor as the shared data write it.
type anchorJSON struct {
	Index     uint16 `json:"index"`
	Mnemonic  string `json:"mnemonic"`
	Canonical string `json:"canonical"`
	Coords    Coords `json:"coords"`
}

func fromJSON(list []anchorJSON) []Anchor {
	anchors := make([]Anchor, 0, len(list))
	for _, a := range list {
		anchors = append(anchors, Anchor(a))
	}
	return anchors
}

func TestCoreIsThatOfTheSharedData(t *testing.T) {
	var file struct {
		UCRVersion string       `json:"ucrVersion"`
		UCRHash    string       `json:"ucrHash"`
		Anchors    []anchorJSON `json:"anchors"`
	}
	if err := json.Unmarshal(datatest.Read(t, "slip/ucr-1.0.0.json"), &file); err != nil {
		t.Fatal(err)
	}
	if file.UCRVersion != Version || file.UCRHash != CoreHash {
		t.Errorf("%s %s", file.UCRVersion, file.UCRHash)
	}
	if diff := cmp.Diff(fromJSON(file.Anchors), Core()); diff != "" {
		t.Error(diff)
	}
}

func TestHashesOfTheSharedData(t *testing.T) {
	type row struct {
		ID      string       `json:"id"`
		Anchors []anchorJSON `json:"anchors"`
		UCRHash string       `json:"ucrHash"`
	}
	n := 0
	datatest.Rows(t, "slip/ucrhash.jsonl", func(row row) {
		n++
		if got := Hash(fromJSON(row.Anchors)); got != row.UCRHash {
			t.Errorf("%s: %s, want %s", row.ID, got, row.UCRHash)
		}
	})
	if n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
}
