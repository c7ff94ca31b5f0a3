package proc

import (
	"bytes"
	"io"
	"time"
)

// MaxErrorLine is how much of a line of standard error is kept, in octets.
const MaxErrorLine = 8 << 10

// DrainErrors reads standard error until its end, so that the process never
// blocks, and calls line with each line of it, without its end and cut at
// MaxErrorLine. What line gets is valid until it returns.
func DrainErrors(r io.Reader, line func([]byte)) {
	buf := make([]byte, MaxErrorLine)
	have := 0 // octets of the line in buf; the rest of a longer one is thrown away
	in := make([]byte, 4<<10)
	for {
		n, err := r.Read(in)
		for rest := in[:n]; len(rest) > 0; {
			piece, after, ended := bytes.Cut(rest, []byte{'\n'})
			have += copy(buf[have:], piece)
			if ended {
				line(bytes.TrimSuffix(buf[:have], []byte{'\r'}))
				have = 0
			}
			rest = after
		}
		if err != nil {
			if have > 0 {
				line(buf[:have])
			}
			return
		}
	}
}

// paceLines is how many lines a second of one process are reported.
const paceLines = 50

// Pace lets through what is reported of one process, up to 50 lines a second.
// The zero value is ready; it is used by one goroutine.
type Pace struct {
	since  time.Time
	passed int
}

// Allows counts a line and says whether it is reported.
func (p *Pace) Allows() bool {
	if now := time.Now(); now.Sub(p.since) >= time.Second {
		p.since, p.passed = now, 0
	}
	p.passed++
	return p.passed <= paceLines
}
