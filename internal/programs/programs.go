// Package programs builds the programs of this module for the tests that run them.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/slimwire/swp/vectors/datatest"
)

// Build builds packages, given by their paths in the module, and returns the directory of
// the executables, bin/test of the module. An executable that is up to date is not linked
// again. Concurrent calls from several test processes are safe.
func Build(packages ...string) (dir string, err error) {
	root, err := datatest.Root()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	args := []string{"build", "-ldflags=-s -w", "-o", dir + "/"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	build := exec.Command("go", args...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
}

// lock waits for the lock of a file.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock of %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}
