package mcpstdio

import (
	"bytes"
	"io"
	"time"
)

const (
	// maxErrorLine is how much of a line of standard error is kept.
	maxErrorLine = 8 << 10

	// maxErrorLines is how many lines a second of one child are reported. The
	// rest is read, so that the child never blocks, and counted.
	maxErrorLines = 50
)

// pace lets through what is reported of one child, up to maxErrorLines a second.
type pace struct {
	since  time.Time
	passed int
}

func (p *pace) allows() bool {
	if now := time.Now(); now.Sub(p.since) >= time.Second {
		p.since, p.passed = now, 0
	}
	p.passed++
	return p.passed <= maxErrorLines
}

// readErrors drains the standard error of a child until its end.
func (c *child) readErrors(r io.Reader) {
	buf := make([]byte, maxErrorLine)
	have := 0 // octets of the line in buf; the rest of a longer one is thrown away
	var rate pace
	line := func() {
		if rate.allows() {
			c.observe(Stderr, bytes.TrimSuffix(buf[:have], []byte{'\r'}), nil)
		} else {
			c.s.stats.unlogged.Add(1)
		}
		have = 0
	}
	in := make([]byte, 4<<10)
	for {
		n, err := r.Read(in)
		for rest := in[:n]; len(rest) > 0; {
			piece, after, ended := bytes.Cut(rest, []byte{'\n'})
			have += copy(buf[have:], piece)
			if ended {
				line()
			}
			rest = after
		}
		if err != nil {
			if have > 0 {
				line()
			}
			return
		}
	}
}
