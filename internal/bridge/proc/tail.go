package proc

import (
	"errors"
	"os"
	"time"
)

// Tail reads the output of a process to its end. Once the process is gone,
// reading from the pipe has a deadline, because another process may hold it
// open; but octets that are in the pipe by then are read, however long the
// octets before them took to be passed on.
type Tail struct {
	f    *os.File
	late bool // the deadline has passed
	read int  // octets read since
}

const (
	// pipeSize is as much as a pipe can hold that no privileged process made
	// larger.
	pipeSize = 1 << 20

	// lateTime is how long a read after the deadline waits; octets in the pipe
	// are there at once.
	lateTime = 10 * time.Millisecond
)

// NewTail returns a reader of the standard output, or the standard error, of a Process.
func NewTail(f *os.File) *Tail { return &Tail{f: f} }

// Read implements io.Reader. After the deadline the error is os.ErrDeadlineExceeded.
func (t *Tail) Read(b []byte) (int, error) {
	if !t.late {
		n, err := t.f.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		t.late = true
	}
	if t.read >= pipeSize {
		return 0, os.ErrDeadlineExceeded
	}
	_ = t.f.SetReadDeadline(time.Now().Add(lateTime))
	n, err := t.f.Read(b)
	t.read += n
	return n, err
}
