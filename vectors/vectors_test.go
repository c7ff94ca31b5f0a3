package vectors_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/vectors"
)

func TestEveryFileIsEmbedded(t *testing.T) {
	for _, kind := range []string{"*.json", "*.bin", "*.evidence.md"} {
		there, _ := filepath.Glob(kind)
		embedded, _ := fs.Glob(vectors.Files(), kind)
		if len(there) == 0 || len(there) != len(embedded) {
			t.Errorf("%s: %d files, %d embedded", kind, len(there), len(embedded))
		}
	}
	n, steps := 0, 0
	for name, octets := range vectors.Frames() {
		if strings.Contains(name, ".json ") {
			steps++
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil || string(want) != string(octets) {
			t.Errorf("%s: %v", name, err)
		}
		n++
	}
	if there, _ := filepath.Glob("*.bin"); n != len(there) {
		t.Errorf("Frames yields %d files of %d", n, len(there))
	}
	if steps < 1000 {
		t.Errorf("Frames yields the octets of %d steps, want 1000 at least", steps)
	}
}

// Whoever opens the folder finds a vector and not its steps.
func TestStepsStandInTheirDescriptors(t *testing.T) {
	files, _ := filepath.Glob("*")
	if len(files) > 420 {
		t.Errorf("%d files, want 420 at most", len(files))
	}
	parts, _ := filepath.Glob("*.[0-9][0-9].bin")
	for _, name := range parts {
		if info, err := os.Stat(name); err != nil || info.Size() <= 4<<10 {
			t.Errorf("%s: a file for octets that fit the descriptor, %v", name, err)
		}
	}
}

// A fixture that no descriptor names is dead, one that two name has two owners.
func TestEveryFixtureBelongsToOneDescriptor(t *testing.T) {
	owner := make(map[string]string)
	pocs, _ := filepath.Glob("poc_*.bin")
	for _, name := range pocs {
		owner[name] = strings.TrimSuffix(name, ".bin")
	}
	for id, d := range all(t) {
		f := &d.Expected.Fixture
		names := []string{f.BinFile, f.EvidenceFile}
		for _, s := range f.Transcript {
			names = append(names, s.BinFile)
		}
		for _, s := range f.Siblings {
			names = append(names, s.BinFile)
			for _, s := range s.Transcript {
				names = append(names, s.BinFile)
			}
		}
		for _, name := range names {
			switch {
			case name == "":
			case owner[name] != "" && owner[name] != id:
				t.Errorf("%s belongs to %s and %s", name, owner[name], id)
			default:
				owner[name] = id
			}
		}
	}
	for _, kind := range []string{"*.bin", "*.evidence.md"} {
		files, _ := filepath.Glob(kind)
		for _, name := range files {
			if owner[name] == "" {
				t.Errorf("no descriptor names %s", name)
			}
		}
	}
}

func TestDescriptorsSayWhyAndCarryTheirNames(t *testing.T) {
	for id, d := range all(t) {
		if d.VectorID != id || d.Description == "" || d.Group == "" || !strings.HasPrefix(id, d.Category+"_") {
			t.Errorf("%s: id %q, group %q, category %q, description %q", id, d.VectorID, d.Group, d.Category, d.Description)
		}
		f := &d.Expected.Fixture
		steps := f.Transcript
		for _, s := range f.Siblings {
			if s.Why == "" {
				t.Errorf("%s: a sibling does not say why", id)
			}
			steps = append(steps, s.Transcript...)
		}
		for _, s := range steps {
			if s.Why == "" {
				t.Errorf("%s: a step does not say why: %+v", id, s)
			}
		}
		if rejects := d.Expected.Outcome == "reject"; rejects != (d.Expected.ErrorCode != "") || rejects != (d.Expected.RejectionReason != "") {
			t.Errorf("%s: outcome %q, canonical code %q, reason %q", id, d.Expected.Outcome, d.Expected.ErrorCode, d.Expected.RejectionReason)
		}
	}
}

func all(t *testing.T) map[string]*vectors.Descriptor {
	t.Helper()
	names, err := fs.Glob(vectors.Files(), "*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no descriptors: %v", err)
	}
	list := make(map[string]*vectors.Descriptor)
	for _, name := range names {
		text, err := fs.ReadFile(vectors.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		id := strings.TrimSuffix(name, ".json")
		if strings.HasPrefix(name, "poc_") {
			p, err := vectors.ParsePoC(text)
			if err != nil || p.Name != id || p.Bin != id+".bin" {
				t.Fatalf("%s: %+v, %v", name, p, err)
			}
			continue
		}
		d, err := vectors.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list[id] = d
	}
	return list
}

func FuzzParse(f *testing.F) {
	names, _ := fs.Glob(vectors.Files(), "*.json")
	for _, name := range names {
		text, _ := fs.ReadFile(vectors.Files(), name)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := vectors.Parse(text); (d == nil) == (err == nil) {
			t.Errorf("descriptor %v, error %v", d, err)
		}
	})
}
