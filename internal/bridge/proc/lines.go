package proc

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// ErrLineTooLong ends a program that writes a line without an end.
var ErrLineTooLong = errors.New("proc: line above the limit")

// smallLine is the buffer that a reader returns to when a long line is done:
// one answer of 8 MiB should not pin 8 MiB for as long as the program lives.
const smallLine = 16 << 10

// Lines reads lines of at most Limit octets. R and Limit are required.
type Lines struct {
	R     io.Reader
	Limit int

	// Pay is called with the octets of each buffer of a long line before there is one, and
	// with the negative number after its end. Next returns the error of the former. It
	// may be nil.
	Pay func(n int) error

	// Buffers lend the buffers of long lines. Nil: they are allocated.
	Buffers Buffers

	buf        []byte
	start, end int // unread octets
	searched   int // of them, known to hold no line feed
}

// Buffers lend and take back large buffers. *memory.Budget does.
type Buffers interface {
	Lend(n int) []byte
	Return(buf []byte)
}

// Next returns the next line without its end, "\n" or "\r\n". It is a window
// into the buffer, valid until the next call. At the end of input the error is
// that of R, io.EOF if it ended well, and Rest has what followed the last line
// end; a line above the limit is ErrLineTooLong. The buffer grows only as octets
// arrive.
func (l *Lines) Next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(l.buf[l.start+l.searched:l.end], '\n'); i >= 0 {
			line := l.buf[l.start : l.start+l.searched+i]
			l.start += l.searched + i + 1
			l.searched = 0
			if len(line) > l.Limit {
				return nil, ErrLineTooLong
			}
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return slices.Clip(line), nil
		}
		l.searched = l.end - l.start
		if l.searched > l.Limit {
			return nil, ErrLineTooLong
		}
		if err := l.makeRoom(); err != nil {
			return nil, err
		}
		n, err := l.R.Read(l.buf[l.end:])
		l.end += n
		if n == 0 && err != nil {
			return nil, err
		}
	}
}

// Rest returns what is unread, valid until the next call of Next. After the end
// of input that is an unfinished line.
func (l *Lines) Rest() []byte { return l.buf[l.start:l.end:l.end] }

// Close gives up the buffer. Next is not called afterwards.
func (l *Lines) Close() { l.become(nil) }

// makeRoom sees to it that something can be read: into the rest of the buffer,
// after moving what is unread to the front, or into a larger one.
func (l *Lines) makeRoom() error {
	unread := l.end - l.start
	switch most := l.Limit + smallLine; {
	case unread == 0 && cap(l.buf) != smallLine:
		l.become(make([]byte, smallLine))
	case l.end < len(l.buf):
		return nil
	case unread < len(l.buf)/2 || len(l.buf) >= most:
		copy(l.buf, l.buf[l.start:l.end])
	default:
		size := min(2*len(l.buf), most)
		if l.Pay != nil {
			if err := l.Pay(size); err != nil {
				return err
			}
		}
		bigger := l.lend(size)
		copy(bigger, l.buf[l.start:l.end])
		l.become(bigger)
	}
	l.start, l.end = 0, unread
	return nil
}

// become replaces the buffer. One of a long line was paid for.
func (l *Lines) become(buf []byte) {
	if old := len(l.buf); old > smallLine && l.Pay != nil {
		_ = l.Pay(-old) // no error for less
	}
	if l.Buffers != nil && l.buf != nil {
		l.Buffers.Return(l.buf)
	}
	l.buf = buf
}

func (l *Lines) lend(n int) []byte {
	if l.Buffers == nil {
		return make([]byte, n)
	}
	return l.Buffers.Lend(n)
}
