package sqlstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/slimwire/swp/store"
)

// lock locks the store against other processes and other stores of this process, until the
// returned file is closed.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s", store.ErrLocked, path)
	}
	return nil, fmt.Errorf("sqlstore: %s: %w", path, err)
}
