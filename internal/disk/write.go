package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Replace writes a file in one step, durably: readers find the old content or all of the new one,
// also after a crash. prepare, if not nil, gives the new file its mode and owner before it has the
// name; without it only this account can read the file. A symbolic link is replaced, not followed.
//
// Errors name the file. After one the file is as before, unless only the last step failed, which
// makes the name durable.
func Replace(name string, octets []byte, prepare func(made *os.File) error) error {
	return write(name, octets, prepare, os.Rename)
}

// Create is Replace for a file that does not exist. Otherwise the error is fs.ErrExist.
func Create(name string, octets []byte, prepare func(made *os.File) error) error {
	return write(name, octets, prepare, os.Link)
}

// Like gives a file the mode, the owner and the group of another one. It is for Replace.
func Like(other fs.FileInfo) func(made *os.File) error {
	return func(made *os.File) error {
		info, err := made.Stat()
		if err != nil {
			return err
		}
		// An account that is not root may change neither owner nor group, not even to the same.
		was, known := other.Sys().(*syscall.Stat_t)
		is, _ := info.Sys().(*syscall.Stat_t)
		if known && is != nil && (is.Uid != was.Uid || is.Gid != was.Gid) {
			err = made.Chown(int(was.Uid), int(was.Gid))
		}
		if err == nil {
			err = made.Chmod(other.Mode().Perm()) // the last, because Chown can clear bits of the mode
		}
		return err
	}
}

func write(name string, octets []byte, prepare func(made *os.File) error, enter func(made, name string) error) error {
	dir := filepath.Dir(name)
	made, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return about(name, err)
	}
	defer func() { _ = os.Remove(made.Name()) }() // it has another name, or something failed
	_, err = made.Write(octets)
	if err == nil && prepare != nil {
		err = prepare(made)
	}
	if err == nil {
		err = made.Sync()
	}
	if closed := made.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = enter(made.Name(), name)
	}
	if err == nil {
		err = SyncDir(dir)
	}
	return about(name, err)
}

// about returns an error about a file for one about the file that takes its place.
func about(name string, err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	} else if at := (*os.LinkError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "write", Path: name, Err: err}
}

// Keep is Replace for a file that only this account can read. It makes the directory if necessary.
func Keep(name string, octets []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return Replace(name, octets, nil)
}
