// Package move is the contract between the comparison of artifacts and the systems
// that are compared: a file goes to a server and comes back, and has reached the
// disk when it is said to be there.
package move

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/slimwire/swp/test/bench/cert"
)

// Mover moves a file to one server and back, on a connection of its own each time.
// It is used by one goroutine.
type Mover interface {
	// Upload sends the octets of a file and returns when they are on the disk of
	// the server, which has nothing beforehand.
	Upload(ctx context.Context, path string) error

	// Download gets what was uploaded into a file that is not there, and returns
	// when it is on this disk.
	Download(ctx context.Context, path string) error

	// Clear has the server forget what was uploaded. There may be nothing.
	Clear(ctx context.Context) error
}

// New returns what moves files to a server and back.
type New func(addr string, files cert.Files) Mover

// Piece is how many octets the systems read, write or send at once, where that is
// for them to choose: as many as a chunk of swpd has by default.
const Piece = 256 << 10

// Keep writes what is read, up to its end, into a new file and returns when it is on
// the disk. One that is there is replaced in the end.
func Keep(path string, from io.Reader) (err error) {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	// The wrappers hide ReadFrom and WriteTo, which would copy with other buffers.
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{from}, make([]byte, Piece))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}

// Pass writes the octets of a file to w.
func Pass(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, make([]byte, Piece))
	return err
}
