package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/slimwire/swp/store"
)

const lockName = "lock"

// lock locks a directory against other processes and other stores of this process until the
// returned file is closed: another store would remove files that it does not know.
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
