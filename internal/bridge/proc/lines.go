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

// Lines reads lines of at most Limit octets. Both fields are required.
type Lines struct {
	R     io.Reader
	Limit int

	buf        []byte
	start, end int // unread octets
	searched   int // of them, known to hold no line feed
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
		l.makeRoom()
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

// makeRoom sees to it that something can be read: into the rest of the buffer,
// after moving what is unread to the front, or into a larger one.
func (l *Lines) makeRoom() {
	unread := l.end - l.start
	switch {
	case unread == 0 && cap(l.buf) != smallLine:
		l.buf = make([]byte, smallLine)
	case l.end < len(l.buf):
		return
	case unread < len(l.buf)/2:
		copy(l.buf, l.buf[l.start:l.end])
	default:
		bigger := make([]byte, 2*len(l.buf))
		copy(bigger, l.buf[l.start:l.end])
		l.buf = bigger
	}
	l.start, l.end = 0, unread
}
