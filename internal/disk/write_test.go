package disk_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/internal/disk/disktest"
)

func TestAReplacedFileHasTheNewContentAndTheModeItIsGiven(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	for _, test := range []struct {
		text    string
		prepare func(*os.File) error
		mode    fs.FileMode
	}{
		{"first", nil, 0o600},
		{"second", func(made *os.File) error { return made.Chmod(0o644) }, 0o644},
		{"third", nil, 0o600},
	} {
		if err := disk.Replace(name, []byte(test.text), test.prepare); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if text := read(t, name); text != test.text || info.Mode() != test.mode {
			t.Errorf("%q with mode %v, want %q with %v", text, info.Mode(), test.text, test.mode)
		}
	}
	alone(t, name)
}

func TestAFileLikeAnotherHasItsModeOwnerAndGroup(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(name, 4711, 4712); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Replace(name, []byte("new"), disk.Like(before)); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
	if os.SameFile(before, after) || after.Mode() != before.Mode() || is.Uid != was.Uid || is.Gid != was.Gid {
		t.Errorf("mode %v, owner %d, group %d; want a new file with %v, %d and %d",
			after.Mode(), is.Uid, is.Gid, before.Mode(), was.Uid, was.Gid)
	}
}

func TestACreatedFileReplacesNone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "offer")
	if err := disk.Create(name, []byte("old"), nil); err != nil {
		t.Fatal(err)
	}
	err := disk.Create(name, []byte("new"), nil)
	if !errors.Is(err, fs.ErrExist) || err.Error() != "write "+name+": file exists" {
		t.Errorf("the error is %q", err)
	}
	if text := read(t, name); text != "old" {
		t.Errorf("the file is %q", text)
	}
	alone(t, name)
}

func TestAFailedWriteLeavesTheFileAndNamesIt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		prepare func(made *os.File) error
		want    error
	}{
		{"owner", func(made *os.File) error { return os.Chown(made.Name()+"/", 0, 0) }, syscall.ENOTDIR},
		{"closed", func(made *os.File) error { return made.Close() }, os.ErrClosed},
		{"gone", func(made *os.File) error { return os.Remove(made.Name()) }, syscall.ENOENT},
	} {
		err := disk.Replace(name, []byte("new"), test.prepare)
		if !errors.Is(err, test.want) || err.Error() != "write "+name+": "+test.want.Error() {
			t.Errorf("%s: the error is %q", test.name, err)
		}
		if text := read(t, name); text != "old" {
			t.Errorf("%s: the file is %q", test.name, text)
		}
		alone(t, name)
	}
	if err := disk.Replace(filepath.Join(name, "below"), nil, nil); !errors.Is(err, syscall.ENOTDIR) || strings.Contains(err.Error(), ".new") {
		t.Errorf("in what is no directory: %v", err)
	}
}

func TestAFullDiskLeavesTheOldFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	disktest.Small(t, dir)
	name := filepath.Join(dir, "bundle")
	if err := disk.Replace(name, []byte("old"), nil); err != nil {
		t.Fatal(err)
	}
	err := disk.Replace(name, bytes.Repeat([]byte("x"), 9<<20), nil)
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "write "+name+": ") {
		t.Errorf("the error is %v", err)
	}
	if text := read(t, name); text != "old" {
		t.Errorf("the file has %d octets", len(text))
	}
	alone(t, name)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alone checks that a directory has one file.
func alone(t *testing.T, name string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Name() != filepath.Base(name) {
		t.Errorf("the directory has %v", list)
	}
}
