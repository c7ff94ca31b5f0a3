package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/store"
)

func TestALockIsExclusiveUntilItIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := disk.Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Acquire(path); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a second lock: %v, want %v", err, store.ErrLocked)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := disk.Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// Between fork and exec a child has a copy of every descriptor of its parent.
func TestAClosedLockIsFreeWhileACopyOfItsDescriptorIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := disk.Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range descriptorsOf(t, path) {
		of, err := syscall.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(of)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := disk.Acquire(path)
	if err != nil {
		t.Fatalf("the lock was closed, but %v", err)
	}
	_ = again.Close()
}

// descriptorsOf returns the descriptors of this process for a file.
func descriptorsOf(t *testing.T, path string) (list []int) {
	t.Helper()
	want, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for fd := range 1 << 10 {
		var stat syscall.Stat_t
		if syscall.Fstat(fd, &stat) == nil && stat.Ino == want.Sys().(*syscall.Stat_t).Ino {
			list = append(list, fd)
		}
	}
	if len(list) == 0 {
		t.Fatal("no descriptor is open for the lock")
	}
	return list
}
