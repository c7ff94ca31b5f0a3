// Package disk locks and syncs the directories of stores.
package disk

import (
	"errors"
	"os"
	"syscall"

	"github.com/slimwire/swp/store"
)

// Lock locks a file, which it creates if there is none, against other processes and other
// stores of this process, until the returned file is closed. The error is store.ErrLocked if
// it is locked.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = store.ErrLocked
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}

// SyncDir makes the entries of a directory durable.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if closed := dir.Close(); err == nil {
		err = closed
	}
	return err
}
