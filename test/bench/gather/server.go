// Package gather is the echo that the others are measured against: frames of a
// length and a body on one ordered stream, answered in order, with as few reads
// and writes as possible. It has no envelope, no identifiers and no matching of
// answers, and so it is about the least that any protocol with frames can do.
package gather

import (
	"io"

	"github.com/slimwire/swp/test/bench/echo"
)

const (
	// window is how much is read at once.
	window = 64 << 10

	// gathered is how many octets of answers are written at once.
	gathered = 48 << 10

	// large is the size of a body from which it is written from where it lies
	// instead of being copied behind others.
	large = 32 << 10
)

// Serve answers every frame of the stream with itself. It returns at the end of
// the stream: nil if that was between two frames.
func Serve(stream io.ReadWriter) error {
	s := server{stream: stream, in: make([]byte, window), out: make([]byte, 0, window)}
	for {
		whole, err := s.answerWhole()
		switch {
		case err != nil:
			return err
		case whole > window:
			if err := s.answerLarge(whole); err != nil {
				return err
			}
			continue
		}
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.fill(); err == io.EOF && s.start == s.end {
			return nil
		} else if err != nil {
			return err
		}
	}
}

type server struct {
	stream     io.ReadWriter
	in         []byte
	start, end int // unread octets are in[start:end]
	out        []byte
	big        []byte // a frame that does not fit in the window, kept for the next
}

// answerWhole collects the answers to all complete frames. It returns the size of the
// incomplete frame after them, if known.
func (s *server) answerWhole() (whole int, err error) {
	for s.end-s.start >= echo.HeaderSize {
		n, err := echo.Length(s.in[s.start:])
		if err != nil {
			return 0, err
		}
		whole := echo.HeaderSize + n
		if s.end-s.start < whole {
			return whole, nil
		}
		s.out = append(s.out, s.in[s.start:s.start+whole]...)
		s.start += whole
		if len(s.out) >= gathered {
			if err := s.flush(); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// answerLarge reads the rest of a frame that the window cannot hold, then writes
// it back at once.
func (s *server) answerLarge(whole int) error {
	if cap(s.big) < whole {
		s.big = make([]byte, whole)
	}
	frame := s.big[:whole]
	n := copy(frame, s.in[s.start:s.end])
	s.start, s.end = 0, 0
	if err := s.flush(); err != nil {
		return err
	}
	if _, err := io.ReadFull(s.stream, frame[n:]); err != nil {
		return err
	}
	_, err := s.stream.Write(frame)
	return err
}

func (s *server) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	_, err := s.stream.Write(s.out)
	s.out = s.out[:0]
	return err
}

// fill reads once, behind the incomplete frame moved to the front.
func (s *server) fill() error {
	copy(s.in, s.in[s.start:s.end])
	s.start, s.end = 0, s.end-s.start
	n, err := s.stream.Read(s.in[s.end:])
	s.end += n
	if n > 0 {
		return nil
	}
	return err
}
