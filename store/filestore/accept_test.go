package filestore_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
)

// flip changes one bit of a file.
func flip(t testing.TB, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// newFile returns the path of the file that f makes.
func newFile(t testing.TB, dir string, f func()) string {
	t.Helper()
	before := files(t, dir)
	f()
	added := slices.DeleteFunc(files(t, dir), func(path string) bool { return slices.Contains(before, path) })
	if len(added) != 1 {
		t.Fatalf("%q were made, want one file", added)
	}
	return added[0]
}

// Accepting damage is about what there is at the start: that is left out for good,
// and what is found later is reported as ever.
func TestST04AcceptedDamageIsLeftOutAndLaterDamageReported(t *testing.T) {
	dir, octets := t.TempDir(), random(200_000)
	s := open(t, dir, filestore.Options{})
	flipped := newFile(t, dir, func() { put(t, s, "flipped", octets) })
	unread := newFile(t, dir, func() { put(t, s, "unreadable", octets) })
	later := newFile(t, dir, func() { put(t, s, "later", octets) })
	part := newFile(t, dir, func() {
		begin(t, s, "part")
		if err := grow(t, s, "part", 0, octets); err != nil {
			t.Fatal(err)
		}
	})
	put(t, s, "intact", octets)
	version, value, err := s.records.Get(t.Context(), "blobs", "unreadable")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	s.records.Put("blobs", "unreadable", version, "", value[:20], time.Time{}, func(r store.PutResult) { told <- r.Err })
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, flipped, 100_000)
	flip(t, part, 100_000)
	if _, err := tryOpen(t, dir, filestore.Options{}); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `"unreadable"`) {
		t.Fatalf("Open: %v, want ErrDamaged with the name", err)
	}

	var notices []string
	s = open(t, dir, filestore.Options{AcceptDamage: true, Notice: func(text string) { notices = append(notices, text) }})
	for path, name := range map[string]string{flipped: "flipped", unread: "unreadable", part: "part"} {
		if _, found, err := s.Blob(t.Context(), name); found || err != nil {
			t.Errorf("%q is there", name)
		}
		if _, err := os.Stat(filepath.Join(dir, "blobs", "lost", filepath.Base(path))); err != nil {
			t.Errorf("the file of %q is not kept: %v", name, err)
		}
		if !strings.Contains(strings.Join(notices, "\n"), `"`+name+`"`) {
			t.Errorf("notices %q, want one about %q", notices, name)
		}
	}
	if text := strings.Join(notices, "\n"); !strings.Contains(text, "2 blobs and 1 unfinished parts that are damaged were left out") {
		t.Errorf("notices: %s", text)
	}
	if _, found, err := s.Part(t.Context(), "part"); found || err != nil {
		t.Error("the damaged part is there")
	}
	if got, err := read(t, s, "intact"); err != nil || !bytes.Equal(got, octets) {
		t.Errorf("what is intact: %v", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check of what was accepted: %v", err)
	}
	for _, name := range []string{"flipped", "unreadable", "part"} {
		put(t, s, name, octets)
		if got, err := read(t, s, name); err != nil || !bytes.Equal(got, octets) {
			t.Errorf("%q, put again: %v", name, err)
		}
	}
	flip(t, later, 100_000)
	if _, err := read(t, s, "later"); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("damage that came later: %v, want ErrDamaged", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `"later"`) {
		t.Errorf("Check: %v, want ErrDamaged with the name", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, filestore.Options{})
	defer s.Close()
	if got, err := read(t, s, "flipped"); err != nil || !bytes.Equal(got, octets) {
		t.Errorf("opened without accepting: %v", err)
	}
}
