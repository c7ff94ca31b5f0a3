package sharedblobs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/slimwire/swp/internal/disk"
)

// Directory is a directory as Objects. Several machines may mount it if they all see the
// results of fsync, link and rename as soon as these return: NFS 4 with the option hard, or
// CephFS. It needs no file locks.
type Directory struct{ path string }

var _ Objects = (*Directory)(nil)

// NewDirectory returns the Directory of an existing path. It does not create the path: a
// file system that is not mounted must not look like an empty one.
func NewDirectory(path string) (*Directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sharedblobs: %w", err)
	}
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, fmt.Errorf("sharedblobs: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("sharedblobs: %s: %w", path, syscall.ENOTDIR)
	}
	return &Directory{path}, nil
}

// String implements Objects.
func (d *Directory) String() string { return d.path }

// Close implements Objects.
func (d *Directory) Close() error { return nil }

// unfinished begins the name of a file that is being written.
const unfinished = "new-"

// Put implements Objects.
func (d *Directory) Put(ctx context.Context, key string, octets []byte) error {
	return d.write(ctx, key, octets, os.Rename)
}

// Create implements Objects.
func (d *Directory) Create(ctx context.Context, key string, octets []byte) (made bool, err error) {
	err = d.write(ctx, key, octets, func(from, to string) error {
		err := os.Link(from, to)
		_ = os.Remove(from) // it is left only after a crash
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// write writes a file under another name, and then moves it.
func (d *Directory) write(ctx context.Context, key string, octets []byte, move func(from, to string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to := d.file(key)
	dir := filepath.Dir(to)
	if err := d.mkdir(dir); err != nil {
		return err
	}
	from := filepath.Join(dir, unfinished+randomHex())
	f, err := os.OpenFile(from, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // Delete has removed the empty directory
		if err = d.mkdir(dir); err == nil {
			f, err = os.OpenFile(from, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		}
	}
	if err != nil {
		return unreachable(err)
	}
	_, err = f.Write(octets)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = move(from, to)
	}
	if err != nil {
		_ = os.Remove(from)
		return unreachable(err)
	}
	return unreachable(disk.SyncDir(dir))
}

// mkdir makes a directory below the path. It does not make the path itself.
func (d *Directory) mkdir(dir string) error {
	if dir == d.path {
		return nil
	}
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != d.path:
		if err = d.mkdir(filepath.Dir(dir)); err == nil {
			return d.mkdir(dir)
		}
		return err
	case err != nil:
		return unreachable(err)
	}
	return unreachable(disk.SyncDir(filepath.Dir(dir)))
}

// unreachable converts an error of a write: there, a missing directory is not a missing
// object.
func unreachable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(err.Error())
	}
	return err
}

// ReadAt implements Objects.
func (d *Directory) ReadAt(ctx context.Context, key string, p []byte, at int64) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	f, err := os.Open(d.file(key))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it is read
	return f.ReadAt(p, at)
}

// Delete implements Objects.
func (d *Directory) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := os.Remove(d.file(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if dir := filepath.Dir(d.file(key)); dir != d.path {
			_ = os.Remove(dir) // it fails unless it is empty
		}
	}
	return nil
}

// List implements Objects. It also yields files that a crash has left unfinished.
func (d *Directory) List(ctx context.Context, prefix string, yield func(key string, written time.Time) bool) error {
	root := d.file(prefix)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != root:
			return nil // removed meanwhile
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case entry.IsDir():
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !yield(filepath.ToSlash(strings.TrimPrefix(path, d.path+string(filepath.Separator))), info.ModTime()) {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(d.path) // there is no object with this prefix
	}
	return err
}

func (d *Directory) file(key string) string { return filepath.Join(d.path, filepath.FromSlash(key)) }

func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never returns an error
	return hex.EncodeToString(b[:])
}
