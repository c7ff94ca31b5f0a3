package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/term"
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

// input is standard input, of which a Read ends when ctx does: one of stdin itself could wait
// for ever at a pipe or a terminal. Nothing is read before the first Read. The one under way
// when ctx ends continues on a goroutine until Close and the next octet.
type input struct {
	ctx   context.Context
	stdin io.Reader
	begin sync.Once
	r     *io.PipeReader
	w     *io.PipeWriter
}

func newInput(ctx context.Context, stdin io.Reader) *input {
	in := &input{ctx: ctx, stdin: stdin}
	in.r, in.w = io.Pipe()
	return in
}

func (in *input) Read(b []byte) (int, error) {
	in.begin.Do(func() {
		go func() {
			_, err := io.Copy(in.w, in.stdin)
			_ = in.w.CloseWithError(err) // it returns no error
		}()
		context.AfterFunc(in.ctx, func() { _ = in.w.CloseWithError(context.Cause(in.ctx)) })
	})
	return in.r.Read(b)
}

// Close makes further Reads fail.
func (in *input) Close() error { return in.r.Close() }

// IsTerminal reports whether the standard input of a command is a terminal.
func IsTerminal(stdin io.Reader) bool {
	if in, ok := stdin.(*input); ok {
		stdin = in.stdin
	}
	f, ok := stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
