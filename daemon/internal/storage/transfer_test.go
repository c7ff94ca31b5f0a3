package storage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/store"
)

func configOf(t *testing.T, data string) *config.Config {
	t.Helper()
	c, err := config.Load("", []string{"SWPD_DATA=" + data, "SWPD_DURABILITY=process", "HOME=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openIn(t *testing.T, data string) *Storage {
	t.Helper()
	s, err := Open(t.Context(), Options{Config: configOf(t, data), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// told waits for the done function of an operation.
func told(t *testing.T, submit func(done func(bool, error))) {
	t.Helper()
	result := make(chan error, 1)
	submit(func(ok bool, err error) {
		if err == nil && !ok {
			err = errors.New("not done")
		}
		result <- err
	})
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

var content = bytes.Repeat([]byte("octets of an artifact "), 20_000)

// filled makes a store with content in a directory.
func filled(t *testing.T, data string) {
	t.Helper()
	s := openIn(t, data)
	told(t, func(done func(bool, error)) {
		s.Put("space", "key", 0, "owner", []byte("value"), time.Time{}, func(r store.PutResult) { done(r.Wrote, r.Err) })
	})
	told(t, func(done func(bool, error)) {
		s.Append("space", "log", "id", "owner", []byte("data"), time.Time{}, func(r store.AppendResult) { done(r.Fresh, r.Err) })
	})
	told(t, func(done func(bool, error)) {
		s.Add("space", "queue", "id", "mark", "owner", []byte("data"), time.Time{}, time.Time{}, func(r store.AddResult) { done(r.Fresh, r.Err) })
	})
	for _, name := range []string{"sealed", "part"} {
		told(t, func(done func(bool, error)) {
			s.blobs.Begin(name, "owner", uint64(len(content)), []byte("tag"), []byte("note"), time.Hour, done)
		})
		told(t, func(done func(bool, error)) { s.blobs.Append(name, 0, 7, content, done) })
	}
	told(t, func(done func(bool, error)) { s.blobs.Seal("sealed", sha256.Sum256(content), 0, done) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func transfer(t *testing.T, data string) *Transfer {
	return &Transfer{Config: configOf(t, data), Log: t.Output()}
}

func exportOf(t *testing.T, data string) []byte {
	t.Helper()
	var file bytes.Buffer
	n, err := transfer(t, data).Export(t.Context(), &file)
	want := Transferred{Data: data, Records: 1, Logs: 1, Entries: 1, Items: 1, Artifacts: 2, Bytes: int64(file.Len())}
	if err != nil || n != want {
		t.Fatalf("Export = %+v, %v, want %+v", n, err, want)
	}
	return file.Bytes()
}

func TestAnImportHasTheStoreAndTheArtifactsOfAnExport(t *testing.T) {
	old, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	filled(t, old)
	file := exportOf(t, old)
	if err := os.MkdirAll(filepath.Join(data, dirStore), 0o700); err != nil { // an empty directory is none
		t.Fatal(err)
	}
	steps := 0
	to := transfer(t, data)
	to.Progress = func(Transferred) { steps++ }
	n, err := to.Import(t.Context(), bytes.NewReader(file))
	if err != nil || n.Artifacts != 2 || n.Bytes != int64(len(file)) || steps < 8 {
		t.Fatalf("Import = %+v after %d steps, %v", n, steps, err)
	}
	left, err := os.ReadDir(data)
	if err != nil || len(left) != 2 {
		t.Errorf("the data directory has %v, %v", left, err)
	}
	s := openIn(t, data)
	if _, value, err := s.Get(t.Context(), "space", "key"); string(value) != "value" || err != nil {
		t.Errorf("the record has %q, %v", value, err)
	}
	b, found, err := s.blobs.Blob(t.Context(), "sealed")
	if !found || err != nil || b.Mark != 7 || string(b.Tag) != "tag" {
		t.Errorf("the artifact is %+v, %t, %v", b, found, err)
	}
	got := make([]byte, b.Size)
	if _, found, err := s.blobs.ReadAt(t.Context(), "sealed", b.Version, got, 0); !found || err != nil || !bytes.Equal(got, content) {
		t.Errorf("the octets of the artifact are others: %t, %v", found, err)
	}
	told(t, func(done func(bool, error)) { s.blobs.Append("part", uint64(len(content)), 8, []byte("end"), done) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantNoStore expects that an import has left nothing.
func wantNoStore(t *testing.T, what, data string) {
	t.Helper()
	left, err := os.ReadDir(data)
	if err != nil || len(left) > 0 {
		t.Errorf("%s: the data directory has %v, %v", what, left, err)
	}
}

func TestST04ADamagedExportLeavesNoStore(t *testing.T) {
	old, data := t.TempDir(), t.TempDir()
	filled(t, old)
	file := exportOf(t, old)
	for i := range 24 {
		at := i * (len(file) - 1) / 23
		changed := bytes.Clone(file)
		changed[at] ^= 4
		for what, in := range map[string][]byte{"changed": changed, "cut": file[:at]} {
			_, err := transfer(t, data).Import(t.Context(), bytes.NewReader(in))
			if err == nil || !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), "nothing was imported") {
				t.Errorf("%s at octet %d of %d: %v", what, at, len(file), err)
			}
			wantNoStore(t, what, data)
		}
	}
	broken := errors.New("broken")
	_, err := transfer(t, data).Import(t.Context(), io.MultiReader(bytes.NewReader(file[:len(file)/2]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || errors.Is(err, store.ErrDamaged) {
		t.Errorf("a source that breaks: %v", err)
	}
	wantNoStore(t, "a source that breaks", data)
	if _, err := transfer(t, data).Import(t.Context(), bytes.NewReader(file)); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestAnImportNeedsADirectoryWithoutAStore(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	file := exportOf(t, data)
	if _, err := transfer(t, data).Import(t.Context(), bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), "store is not empty") {
		t.Errorf("over a store: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(data, dirStore)); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer(t, data).Import(t.Context(), bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), "artifacts is not empty") {
		t.Errorf("over artifacts: %v", err)
	}
	other := t.TempDir()
	if err := os.Mkdir(filepath.Join(other, dirStaging), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer(t, other).Import(t.Context(), bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), "another import or copy runs or was killed") {
		t.Errorf("beside another import: %v", err)
	}
}

func TestAnExportNeedsAStoreThatNobodyUses(t *testing.T) {
	data := t.TempDir()
	if _, err := transfer(t, data).Export(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "there is no store in "+data) {
		t.Errorf("without a store: %v", err)
	}
	wantNoStore(t, "without a store", data)
	kept := filepath.Join(data, dirStore)
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer(t, data).Export(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "there is no store in "+data) {
		t.Errorf("with an empty directory: %v", err)
	}
	wantNoStore(t, "with an empty directory", kept)
	s := openIn(t, data)
	if _, err := transfer(t, data).Export(t.Context(), io.Discard); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "perhaps another swpd") {
		t.Errorf("beside a swpd: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	memory := transfer(t, data)
	memory.Config.Store = config.StoreMemory
	_, exported := memory.Export(t.Context(), io.Discard)
	_, imported := memory.Import(t.Context(), strings.NewReader(""))
	for _, err := range []error{exported, imported} {
		if err == nil || !strings.HasPrefix(err.Error(), "data: the store is in memory") {
			t.Errorf("in memory: %v", err)
		}
	}
}

// A new store in place of an import that was killed would be empty.
func TestNoStoreIsMadeBesideAnUnfinishedImport(t *testing.T) {
	data := t.TempDir()
	staging := filepath.Join(data, dirStaging)
	if err := os.Mkdir(staging, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, existing := range []bool{false, true} { // also an empty directory is no store
		if existing {
			if err := os.Mkdir(filepath.Join(data, dirStore), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(t.Context(), Options{Config: configOf(t, data), Log: zap.NewNop()})
		if err == nil || !strings.Contains(err.Error(), "remove "+staging) {
			t.Errorf("with a directory %t: %v", existing, err)
		}
	}
	if err := os.Remove(staging); err != nil {
		t.Fatal(err)
	}
	filled(t, data)
	if err := os.Mkdir(staging, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := openIn(t, data).Close(); err != nil { // there is a store: nothing can be imported
		t.Error(err)
	}
}

func TestAnExportOfADamagedStoreSaysWhatToDo(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	harmed := 0
	err := filepath.Walk(filepath.Join(data, dirArtifacts), func(path string, info os.FileInfo, err error) error {
		if err != nil || info.Size() < int64(len(content)) {
			return err
		}
		octets, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		octets[len(octets)/2] ^= 1
		harmed++
		return os.WriteFile(path, octets, 0o600)
	})
	if err != nil || harmed != 2 {
		t.Fatalf("%d files are damaged, %v", harmed, err)
	}
	if _, err := transfer(t, data).Export(t.Context(), io.Discard); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "--accept-damage") {
		t.Errorf("Export: %v", err)
	}
}

func TestAnEmptyExportIsNamed(t *testing.T) {
	data := t.TempDir()
	if _, err := transfer(t, data).Import(t.Context(), strings.NewReader("")); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("Import: %v", err)
	}
}
