// Package disk locks and syncs the directories of stores, and replaces files in one step.
package disk

import (
	"errors"
	"os"
	"syscall"

	"github.com/slimwire/swp/store"
)

// Lock is a locked file.
type Lock struct{ file *os.File }

// Acquire locks a file, which it creates if necessary, against other processes and other
// stores of this process, until Close. The error is store.ErrLocked if it is locked.
func Acquire(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &Lock{file}, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = store.ErrLocked
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}

// Close unlocks and closes the file. Closing alone does not unlock it while a child process
// that is just being started has a copy of the descriptor.
func (l *Lock) Close() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
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
