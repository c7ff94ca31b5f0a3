package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Small makes dir a volume of 8 MiB until the end of the test. Where nothing can be mounted the
// test is skipped.
func Small(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=700"); err != nil {
		t.Skipf("a small volume cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { Unmount(t, dir) })
}

// Unmount removes a volume. It tries again while the volume is busy: a program that another test
// begins has copies of all open files for a moment.
func Unmount(t testing.TB, dir string) {
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		err := syscall.Unmount(dir, 0)
		if errors.Is(err, syscall.EBUSY) && time.Now().Before(end) {
			continue
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
}

// Fill writes a file until the volume of dir is full, and returns its name. Removing it makes
// room.
func Fill(t testing.TB, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return ballast
}
