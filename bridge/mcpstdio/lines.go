package mcpstdio

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// errLineTooLong ends a child that writes a message without an end.
var errLineTooLong = errors.New("mcpstdio: line above the limit")

// smallLine is the buffer that a reader returns to when a long line is done:
// one answer of 8 MiB should not pin 8 MiB for as long as the child lives.
const smallLine = 16 << 10

// lineReader reads lines of at most limit octets.
type lineReader struct {
	r     io.Reader
	limit int

	buf        []byte
	start, end int // unread octets
	searched   int // of them, known to hold no line feed
}

// next returns the next line without its end, "\n" or "\r\n". It is a window
// into the buffer, valid until the next call. At the end of input an unfinished
// line is dropped and the error is io.EOF; a line above the limit is
// errLineTooLong. The buffer grows only as octets arrive.
func (l *lineReader) next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(l.buf[l.start+l.searched:l.end], '\n'); i >= 0 {
			line := l.buf[l.start : l.start+l.searched+i]
			l.start += l.searched + i + 1
			l.searched = 0
			if len(line) > l.limit {
				return nil, errLineTooLong
			}
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return slices.Clip(line), nil
		}
		l.searched = l.end - l.start
		if l.searched > l.limit {
			return nil, errLineTooLong
		}
		l.makeRoom()
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		if n == 0 && err != nil {
			return nil, err
		}
	}
}

// makeRoom sees to it that something can be read: into the rest of the buffer,
// after moving what is unread to the front, or into a larger one.
func (l *lineReader) makeRoom() {
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

// lineOf returns a copy of a message with its line feed. Raw carriage returns
// and line feeds, which JSON allows between tokens only, become spaces; replaced
// says how many. Nothing else is changed.
func lineOf(message []byte) (line []byte, replaced uint64) {
	line = append(make([]byte, 0, len(message)+1), message...)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
			replaced++
		}
	}
	return append(line, '\n'), replaced
}
