// Package datatest opens, for tests, the data that comes with the specifications. The data
// is outside the repository; if it is missing, tests are skipped.
package datatest

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Path returns where a file or folder of the data is, such as "sdl/keys.json". It
// skips the test if that is not there.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "..", "shared", "data", filepath.FromSlash(name))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the data of the specifications is not here: %s", name)
	}
	return path
}

// Read returns the octets of a file.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	octets, err := os.ReadFile(Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

// Glob returns the files of a folder whose names match a pattern, sorted. It skips the
// test if there is none.
func Glob(t testing.TB, folder, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Path(t, folder), pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("the data of the specifications is not here: %s/%s", folder, pattern)
	}
	return files
}

// Rows calls each with the JSON values of a file, in their order.
func Rows[T any](t testing.TB, name string, each func(row T)) {
	t.Helper()
	f, err := os.Open(Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for dec := json.NewDecoder(f); ; {
		var row T
		if err := dec.Decode(&row); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("datatest: %s: %v", name, err)
		}
		each(row)
	}
}

// Root returns the folder of the repository: the nearest one with a go.mod, from that of
// the test upwards.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("datatest: no go.mod above the test")
		}
		dir = up
	}
}
