package a2ahttp

import (
	"bufio"
	"bytes"
	"fmt"

	"github.com/slimwire/swp/bridge/upstream"
)

// eventReader reads the data of server-sent events, as the HTML standard (§9.2.6)
// has it. Of their other fields A2A uses none.
type eventReader struct {
	response *upstream.Response
	in       *bufio.Reader
	line     []byte
	begun    bool // a byte order mark has been looked for
	cr       bool // the last line ended in CR: an LF that follows belongs to it
}

func newEventReader(r *upstream.Response) *eventReader {
	return &eventReader{response: r, in: bufio.NewReader(r)}
}

// next returns the data of the next event that has some, the caller's own. An event
// must be complete, or a comment come, in time. At the end of the stream the error
// is io.EOF; an event that it cuts off is none. Errors are final.
func (e *eventReader) next() ([]byte, error) {
	heard := e.response.Await()
	defer func() { heard() }()
	var data []byte
	some := false
	for {
		line, err := e.readLine()
		if err != nil {
			return nil, err
		}
		switch {
		case len(line) == 0:
			if some {
				return data, nil
			}
		case line[0] == ':':
			heard()
			heard = e.response.Await()
		default:
			name, value, _ := bytes.Cut(line, []byte{':'})
			if string(name) != "data" {
				continue
			}
			if some {
				data = append(data, '\n')
			}
			some = true
			if data = append(data, bytes.TrimPrefix(value, []byte{' '})...); len(data) > maxBody {
				return nil, fmt.Errorf("%w: event above %d octets", upstream.ErrTooLarge, maxBody)
			}
		}
	}
}

// keptLine is the capacity above which the buffer of a long line is not kept.
const keptLine = 64 << 10

// readLine returns the next line without its end, valid until the next call. What is
// cut off by the end of the stream is no line.
func (e *eventReader) readLine() ([]byte, error) {
	if cap(e.line) > keptLine {
		e.line = nil
	}
	e.line = e.line[:0]
	for {
		if _, err := e.in.Peek(1); err != nil {
			return nil, err // io.EOF too
		}
		part, _ := e.in.Peek(e.in.Buffered())
		if e.cr && part[0] == '\n' {
			e.cr = false
			_, _ = e.in.Discard(1)
			continue
		}
		e.cr = false
		end := bytes.IndexByte(part, '\n')
		if end >= 0 {
			part = part[:end]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			end, part, e.cr = cr, part[:cr], true
		}
		if len(e.line)+len(part) > maxBody+len("data: ") {
			return nil, fmt.Errorf("%w: line above %d octets", upstream.ErrTooLarge, maxBody)
		}
		e.line = append(e.line, part...)
		n := len(part)
		if end >= 0 {
			n++
		}
		_, _ = e.in.Discard(n)
		if end >= 0 {
			if !e.begun {
				e.begun = true
				return bytes.TrimPrefix(e.line, []byte("\xef\xbb\xbf")), nil
			}
			return e.line, nil
		}
	}
}
