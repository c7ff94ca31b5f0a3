package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CanHold returns why a directory at a path cannot hold files: a file is in the way, or the
// kernel shows its own data there, as in /proc. It changes nothing. Permissions are not
// examined: another user may make the directory.
func CanHold(path string) error {
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
			continue
		case errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil:
			return err
		case !info.IsDir():
			return &os.PathError{Op: "use as a directory", Path: dir, Err: syscall.ENOTDIR}
		case ofKernel(dir):
			return &os.PathError{Op: "keep files in", Path: dir, Err: errOfKernel}
		}
		return nil
	}
}

var errOfKernel = errors.New("the kernel shows its own data there")
