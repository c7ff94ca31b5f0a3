package cli

import (
	"errors"
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
