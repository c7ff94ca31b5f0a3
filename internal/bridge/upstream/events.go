package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Event is one server-sent event.
type Event struct {
	Kind string // "" means "message"
	Data []byte // its lines joined with a line feed; valid until the next call to Next
}

// Position is where a stream of events is, so that it can be taken up there.
type Position struct {
	ID    string        // of the last event that had one, if it can be sent back in a header
	Retry time.Duration // what the server wants clients to wait; 0: it did not say
	Moved bool          // an event came since this was last set to false
}

// maxEventID bounds an id that is sent back. A longer one cannot be taken up.
const maxEventID = 1 << 10

// Events decodes a stream of server-sent events, as the HTML standard (§9.2.6) has
// it: lines end in LF, CR or CRLF, data of several lines is joined with LF, an event
// that the end of the stream cuts off is none.
type Events struct {
	r     *bufio.Reader
	limit int // octets of an event on the wire, line ends excepted
	at    *Position

	// await starts the time within which an event or a comment has to be complete.
	// heard stops it.
	await func() (heard func())

	begun bool // the byte order mark has been looked for
	// Of line and of data, in the budget.
	lineRoom, dataRoom room

	cr   bool // the last line ended in CR: an LF that follows belongs to it
	line []byte
	data []byte
	size int    // octets of the event that is being read
	id   string // counts once the event is complete
}

// eventBuffer is how much is read at once. What one line or event needs beyond it
// grows as it comes, and is not kept above keptBuffer.
const (
	eventBuffer = 4 << 10
	keptBuffer  = 64 << 10
)

// Events reads the body as server-sent events, each of at most limit octets on the
// wire, line ends excepted. An event has to be complete, or a comment to come, within
// Options.Silence. at, unless nil, is kept up to date. It does not mix with Body, Line
// and Read.
func (r *Response) Events(limit int, at *Position) *Events {
	if at == nil {
		at = new(Position)
	}
	d := newEvents(r, limit, at, r.Await)
	d.lineRoom.held, d.dataRoom.held = r.held, r.held
	return d
}

func newEvents(r io.Reader, limit int, at *Position, await func() (heard func())) *Events {
	return &Events{r: bufio.NewReaderSize(r, eventBuffer), limit: limit, at: at, await: await}
}

// Next returns the next event that has data. At the end of the stream the error is
// io.EOF. Errors are final.
func (d *Events) Next() (Event, error) {
	heard := d.await()
	defer func() { heard() }()
	if cap(d.data) > keptBuffer {
		d.data = nil
		d.dataRoom.drop()
	}
	d.data, d.size, d.id = d.data[:0], 0, d.at.ID
	var ev Event
	some := false // a field was read
	for {
		line, err := d.readLine()
		if err != nil {
			return Event{}, err
		}
		switch {
		case len(line) == 0 && !some:
			d.size = 0
		case len(line) == 0:
			d.at.ID, d.at.Moved = d.id, true
			if n := len(d.data); n > 0 {
				ev.Data = d.data[: n-1 : n-1]
				return ev, nil
			}
			ev, some, d.size = Event{}, false, 0
		case line[0] == ':':
			heard()
			heard = d.await()
			if !some {
				d.size = 0
			}
		default:
			some = true
			if err := d.dataRoom.need(len(d.data) + len(line)); err != nil {
				return Event{}, err
			}
			d.field(line, &ev)
		}
	}
}

// field takes a line of an event.
func (d *Events) field(line []byte, ev *Event) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		d.data = append(append(d.data, value...), '\n')
	case "event":
		ev.Kind = string(value[:min(len(value), maxEventID)])
	case "id":
		switch {
		case bytes.IndexByte(value, 0) >= 0: // the standard ignores it
		case len(value) > maxEventID || !IsHeaderValue(string(value)):
			d.id = "" // not one to send back
		default:
			d.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			d.at.Retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// readLine returns the next line without its end, valid until the next call.
func (d *Events) readLine() ([]byte, error) {
	if cap(d.line) > keptBuffer {
		d.line = nil
		d.lineRoom.drop()
	}
	d.line = d.line[:0]
	for {
		if _, err := d.r.Peek(1); err != nil {
			return nil, err // io.EOF, too: a line that is cut off is none
		}
		part, _ := d.r.Peek(d.r.Buffered())
		if d.cr && part[0] == '\n' {
			d.cr = false
			_, _ = d.r.Discard(1)
			continue
		}
		d.cr = false
		if !d.begun && d.mark(part) {
			continue
		}
		end := bytes.IndexAny(part, "\r\n")
		n := end
		if end < 0 {
			n = len(part)
		}
		if d.size += n; d.size > d.limit {
			return nil, fmt.Errorf("%w: an event above %d octets", ErrTooLarge, d.limit)
		}
		if err := d.lineRoom.need(len(d.line) + n); err != nil {
			return nil, err
		}
		d.line = append(d.line, part[:n]...)
		if end >= 0 {
			d.cr = part[end] == '\r'
			n++
		}
		_, _ = d.r.Discard(n)
		if end >= 0 {
			return d.line, nil
		}
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// mark takes a byte order mark off the start of the stream; it returns true if it
// took one, or has to wait for the rest of a possible one.
func (d *Events) mark(part []byte) bool {
	head := part[:min(len(part), len(byteOrderMark))]
	if !bytes.HasPrefix(byteOrderMark, head) {
		d.begun = true
		return false
	}
	if len(head) < len(byteOrderMark) {
		if _, err := d.r.Peek(len(head) + 1); err != nil {
			d.begun = true
			return false
		}
		return true
	}
	d.begun = true
	_, _ = d.r.Discard(len(byteOrderMark))
	return true
}

// IsHeaderValue reports whether a text can be the value of a header unchanged.
// Octets above ASCII can: the SDKs of MCP write them so.
func IsHeaderValue(s string) bool {
	return s == strings.Trim(s, " \t") && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
