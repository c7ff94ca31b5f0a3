package rawtls

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

// ListenSynced starts a server that appends each frame to a file of its connection, beside
// the certificates, and answers it after fdatasync.
func ListenSynced(ctx context.Context, files cert.Files) (string, error) {
	dir, err := os.MkdirTemp(filepath.Dir(files.CA), "synced-")
	if err != nil {
		return "", err
	}
	return listen(ctx, files, func(conn *tls.Conn) { _ = serveSynced(conn, dir) })
}

func serveSynced(conn *tls.Conn, dir string) (err error) {
	kept, err := os.CreateTemp(dir, "frames-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(kept)) }()
	frame := make([]byte, 4<<10)
	for {
		if _, err := io.ReadFull(conn, frame[:echo.HeaderSize]); err != nil {
			return err
		}
		n, err := echo.Length(frame)
		if err != nil {
			return err
		}
		if n += echo.HeaderSize; n > len(frame) {
			frame = append(frame, make([]byte, n-len(frame))...)
		}
		if _, err := io.ReadFull(conn, frame[echo.HeaderSize:n]); err != nil {
			return err
		}
		if err := Keep(kept, frame[:n]); err != nil {
			return err
		}
		if _, err := conn.Write(frame[:n]); err != nil {
			return err
		}
	}
}

// DialSynced connects to the server of ListenSynced.
func DialSynced(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	return Dial(ctx, addr, files)
}

// Keep appends octets to a file and returns when they are on the disk.
func Keep(f *os.File, octets []byte) error {
	if _, err := f.Write(octets); err != nil {
		return err
	}
	return unix.Fdatasync(int(f.Fd())) //nolint:gosec // a descriptor is an int
}

// discard closes and removes a file.
func discard(f *os.File) error { return errors.Join(f.Close(), os.Remove(f.Name())) }

// DialFile connects to nothing: an exchange is one write of the payload and fdatasync. Each caller
// has a file, beside the certificates.
func DialFile(_ context.Context, _ string, files cert.Files) (echo.Conn, error) {
	dir, err := os.MkdirTemp(filepath.Dir(files.CA), "bare-")
	if err != nil {
		return nil, err
	}
	return &fileConn{dir: dir}, nil
}

type fileConn struct {
	dir   string
	files []*os.File
}

func (c *fileConn) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

func (c *fileConn) Caller() echo.Caller {
	f, err := os.CreateTemp(c.dir, "payloads-")
	if err == nil {
		c.files = append(c.files, f)
	}
	return fileCaller{f, err}
}

type fileCaller struct {
	f   *os.File
	err error // why there is no file
}

func (c fileCaller) Echo(payload []byte, use func([]byte) error) error {
	if c.err != nil {
		return c.err
	}
	if err := Keep(c.f, payload); err != nil {
		return err
	}
	return use(payload)
}
