package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// ReadFile is os.ReadFile for a file that the command line names. If the file cannot be
// read, the error is a UsageError: so it is in all programs.
func ReadFile(name string) ([]byte, error) {
	octets, err := os.ReadFile(name)
	return octets, Unreadable(err)
}

// Open is os.Open for a file that the command line names, as ReadFile.
func Open(name string) (*os.File, error) {
	file, err := os.Open(name)
	return file, Unreadable(err)
}

// Readable returns why a file that the command line names cannot be read, as ReadFile.
func Readable(name string) error {
	file, err := Open(name)
	if err != nil {
		return err
	}
	return file.Close()
}

// Unreadable makes a UsageError of the error of a file that the command line names, and
// returns other errors as they are.
func Unreadable(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return &usageError{text: err.Error()}
	}
	return err
}

// Input returns standard input, for a command that reads it to the end. A Read ends when ctx does. A Read of
// stdin itself could wait for ever at a pipe or a terminal; the one under way when ctx ends continues on
// a goroutine until Close and the next octet.
func Input(ctx context.Context, stdin io.Reader) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, stdin)
		_ = w.CloseWithError(err) // it returns no error
	}()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	return r
}
