package proc

import (
	"bytes"
	"io"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/masked"
)

// MaxErrorLine is how much of a line of standard error is read, in octets.
const MaxErrorLine = 8 << 10

// Bounds of the last lines that Errors keeps.
const (
	lastLines  = 10
	lastOctets = 2 << 10 // of all
	lastLine   = 1 << 10 // of each
)

// Errors is the standard error of one process. It passes lines on and keeps the last ones. Both are masked (package
// masked).
type Errors struct {
	// Line gets a line without its end, cut at MaxErrorLine before it is masked, up to 50 times a second.
	Line func(line string)

	// Over, if not nil, is called in place of Line for each line above that rate.
	Over func()

	mask masked.Lines
	pace Pace
	last []kept // as a ring
	next int    // where the next line goes
}

// kept is one of the last lines.
type kept struct {
	line []byte
	done bool // it is masked
}

// Drain reads to the end of r, so that the process never blocks.
func (e *Errors) Drain(r io.Reader) {
	buf := make([]byte, MaxErrorLine)
	have := 0 // octets of the line in buf; the rest of a longer one is thrown away
	in := make([]byte, 4<<10)
	for {
		n, err := r.Read(in)
		for rest := in[:n]; len(rest) > 0; {
			piece, after, ended := bytes.Cut(rest, []byte{'\n'})
			have += copy(buf[have:], piece)
			if ended {
				e.take(bytes.TrimSuffix(buf[:have], []byte{'\r'}))
				have = 0
			}
			rest = after
		}
		if err != nil {
			if have > 0 {
				e.take(buf[:have])
			}
			return
		}
	}
}

// take takes the next line. Lines above the rate are masked only if they are among the last ones.
func (e *Errors) take(line []byte) {
	inside := e.mask.Inside(line)
	if inside {
		line = []byte(masked.Mark)
	}
	if !e.pace.Allows() {
		e.keep(line, inside)
		if e.Over != nil {
			e.Over()
		}
		return
	}
	text := string(line)
	if !inside {
		text = masked.Text(text)
	}
	e.keep([]byte(text), true)
	e.Line(text)
}

// keep keeps a line that is not blank.
func (e *Errors) keep(line []byte, done bool) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if len(e.last) < lastLines {
		e.last = append(e.last, kept{})
	}
	slot := &e.last[e.next]
	slot.line, slot.done = append(slot.line[:0], line[:min(len(line), lastLine)]...), done
	e.next = (e.next + 1) % lastLines
}

// Last returns the last lines that are not blank, the oldest first: at most ten, and 2 KiB of them. It is called after Drain.
func (e *Errors) Last() (list []string) {
	octets := 0
	for i := range e.last {
		slot := e.last[(e.next-1-i+2*lastLines)%lastLines]
		text := string(slot.line)
		if !slot.done {
			text = masked.Text(text)
		}
		if octets += len(text); octets > lastOctets {
			break
		}
		list = append(list, text)
	}
	slices.Reverse(list)
	return list
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
