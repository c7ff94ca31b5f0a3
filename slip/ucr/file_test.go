package ucr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func extension(index uint16, mnemonic string) Anchor {
	return Anchor{index, mnemonic, "What " + mnemonic + " means: Größe", Coords{1, 2, 3, 4}}
}

func table(t *testing.T, extensions ...Anchor) *Table {
	t.Helper()
	table, err := NewTable(extensions...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestLoadReadsWhatSaveWrote(t *testing.T) {
	for _, want := range []*Table{table(t), table(t, extension(0x8000, "Ping"), extension(0xffff, "Pong"))} {
		octets, err := want.Save()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Load(octets)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Anchors(), got.Anchors()); diff != "" {
			t.Error(diff)
		}
		anchors, err := Read(octets)
		if err != nil || Hash(anchors) != Hash(want.Anchors()) {
			t.Errorf("%d anchors, %v", len(anchors), err)
		}
	}
}

func TestLoadTakesExtensionsAlone(t *testing.T) {
	got, err := Load([]byte(` [{"index":32768,"mnemonic":"Ping","canonical":"Still there?","coords":[7,4,7,0]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := got.Named("Ping"); !ok || a.Index != 0x8000 || len(got.Anchors()) != 47 {
		t.Errorf("%+v, %v", a, ok)
	}
}

func TestReadTakesTablesOfOthers(t *testing.T) {
	anchors, err := Read([]byte(`{"ucrVersion":"9","anchors":[{"index":7,"mnemonic":"EXT_7","canonical":"","coords":[0,0,0,7],"more":1}]}`))
	if diff := cmp.Diff([]Anchor{{7, "EXT_7", "", Coords{0, 0, 0, 7}}}, anchors); diff != "" || err != nil {
		t.Errorf("%s %v", diff, err)
	}
	if anchors, err = Read([]byte(`{"anchors":[]}`)); err != nil || len(anchors) != 0 {
		t.Errorf("%v, %v", anchors, err)
	}
}

func TestReadRefuses(t *testing.T) {
	good := `{"index":32768,"mnemonic":"Ping","canonical":"x","coords":[1,2,3,4]}`
	for name, anchors := range map[string]string{
		"no JSON":                 `[`,
		"no anchors":              ``,
		"an index above the last": `{"index":65536,"mnemonic":"A","canonical":"x","coords":[1,2,3,4]}`,
		"a negative index":        `{"index":-1,"mnemonic":"A","canonical":"x","coords":[1,2,3,4]}`,
		"no index":                `{"mnemonic":"A","canonical":"x","coords":[1,2,3,4]}`,
		"no mnemonic":             `{"index":1,"canonical":"x","coords":[1,2,3,4]}`,
		"no canonical text":       `{"index":1,"mnemonic":"A","coords":[1,2,3,4]}`,
		"no coordinates":          `{"index":1,"mnemonic":"A","canonical":"x"}`,
		"octets that are no text": `{"index":1,"mnemonic":"A","canonical":"` + "\xff" + `","coords":[1,2,3,4]}`,
		"half of a surrogate":     `{"index":1,"mnemonic":"A","canonical":"\ud800","coords":[1,2,3,4]}`,
		"three coordinates":       `{"index":1,"mnemonic":"A","canonical":"x","coords":[1,2,3]}`,
		"five coordinates":        `{"index":1,"mnemonic":"A","canonical":"x","coords":[1,2,3,4,5]}`,
		"a coordinate of 8":       `{"index":1,"mnemonic":"A","canonical":"x","coords":[1,2,3,8]}`,
		"a coordinate of -1":      `{"index":1,"mnemonic":"A","canonical":"x","coords":[1,2,3,-1]}`,
		"a bar":                   `{"index":1,"mnemonic":"A","canonical":"a|b","coords":[1,2,3,4]}`,
		"a bar in a mnemonic":     `{"index":1,"mnemonic":"A|b","canonical":"x","coords":[1,2,3,4]}`,
		"a line break":            `{"index":1,"mnemonic":"A","canonical":"a\nb","coords":[1,2,3,4]}`,
		"core as extension":       `{"index":1,"mnemonic":"A","canonical":"x","coords":[1,2,3,4],"is_core":false}`,
		"extension as core":       `{"index":32769,"mnemonic":"A","canonical":"x","coords":[1,2,3,4],"is_core":true}`,
		"the index of another":    good + `,{"index":32768,"mnemonic":"A","canonical":"x","coords":[1,2,3,4]}`,
		"the mnemonic of another": good + `,{"index":32769,"mnemonic":"Ping","canonical":"x","coords":[1,2,3,4]}`,
	} {
		octets := `{"anchors":[` + anchors + `]}`
		if name == "no anchors" {
			octets = `{"version":"1.0.0"}`
		}
		if got, err := Read([]byte(octets)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	octets, err := table(t).Save()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"another version":     {`"version": "1.0.0"`, `"version": "2.0.0"`},
		"another meaning":     {"Report a detected change", "Report a change"},
		"another core anchor": {`"index": 2,`, `"index": 4,`},
	} {
		bad := strings.Replace(string(octets), change[0], change[1], 1)
		if _, err := Load([]byte(bad)); err == nil || bad == string(octets) {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := Load([]byte(`[{"index":32768,"mnemonic":"EXT_1","canonical":"","coords":[1,2,3,4]}]`)); err == nil {
		t.Error("a mnemonic that no message can carry was taken")
	}
}

func TestWithLeavesTheTableAsItIs(t *testing.T) {
	before := table(t, extension(0x8000, "Ping"))
	after, err := before.With(extension(0x8001, "Pong"))
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Anchors()) != 47 || len(after.Anchors()) != 48 {
		t.Errorf("%d and %d anchors", len(before.Anchors()), len(after.Anchors()))
	}
	if _, err := after.With(extension(0x8001, "Peng")); err == nil {
		t.Error("an index that is taken")
	}
	if _, err := after.With(extension(0x7fff, "Peng")); err == nil {
		t.Error("a core index")
	}
}

func TestImportGivesIndexesOfItsOwn(t *testing.T) {
	foreign := append(Core(), extension(0x8000, "Fork"), extension(0x8005, "Ping"), extension(0x9000, "Join"))
	got, skipped, err := table(t, extension(0x8000, "Ping")).Import(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Anchor{extension(0x8000, "Ping"), extension(0x8001, "Fork"), extension(0x8002, "Join")}, got.extensions()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Anchor{extension(0x8005, "Ping")}, skipped); diff != "" {
		t.Error(diff)
	}
	if _, _, err := table(t).Import([]Anchor{extension(0x8000, "EXT_1")}); err == nil {
		t.Error("a mnemonic that no message can carry was taken")
	}
}

func TestImportIntoAFullRange(t *testing.T) {
	almost := table(t, extension(0xfffe, "Ping"))
	got, _, err := almost.Import([]Anchor{extension(0x8000, "Fork")})
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := got.Named("Fork"); !ok || a.Index != 0xffff {
		t.Errorf("%+v, %v", a, ok)
	}
	if _, _, err := almost.Import([]Anchor{extension(0x8000, "Fork"), extension(0x8001, "Join")}); err == nil {
		t.Error("two anchors for one index")
	}
	if _, skipped, err := got.Import([]Anchor{extension(0x8000, "Fork")}); err != nil || len(skipped) != 1 {
		t.Errorf("%v, %v", skipped, err)
	}
}
