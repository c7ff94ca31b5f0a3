package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/slimwire/swp/store"
)

// lockName is the file that keeps others out.
const lockName = "lock"

// lock keeps other processes, and other stores of this one, out of a directory for
// as long as the file it returns is open: they would remove files that they do not
// know.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s", store.ErrLocked, path)
	}
	return nil, fmt.Errorf("filestore: %s: %w", path, err)
}
