package a2ahttp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/slimwire/swp/bridge/upstream"
)

// eventReader reads the data of server-sent events, as the HTML standard (§9.2.6)
// has it. Of their other fields A2A uses none.
type eventReader struct {
	response *upstream.Response
	lines    *bufio.Scanner
}

func newEventReader(r *upstream.Response) *eventReader {
	e := &eventReader{response: r, lines: bufio.NewScanner(r)}
	e.lines.Buffer(make([]byte, 0, 4<<10), maxBody+len("data: \r\n"))
	first := true
	pending := false // the last line ended in CR: an LF that follows belongs to it
	e.lines.Split(func(data []byte, _ bool) (advance int, line []byte, err error) {
		skip := 0
		if first && bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
			skip = 3
		}
		if pending && len(data) > skip && data[skip] == '\n' {
			skip++
		}
		end := bytes.IndexAny(data[skip:], "\r\n")
		if end < 0 {
			return 0, nil, nil // at the end of the stream it is cut off, and none
		}
		end += skip
		first, pending = false, data[end] == '\r'
		return end + 1, data[skip:end], nil
	})
	return e
}

// next returns the data of the next event that has some, the caller's own. An event
// must be complete, or a comment come, in time. At the end of the stream the error
// is io.EOF; an event that it cuts off is none. Errors are final.
func (e *eventReader) next() ([]byte, error) {
	heard := e.response.Await()
	defer func() { heard() }()
	var data []byte
	some := false
	for e.lines.Scan() {
		line := e.lines.Bytes()
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
	switch err := e.lines.Err(); err {
	case nil:
		return nil, io.EOF
	case bufio.ErrTooLong:
		return nil, fmt.Errorf("%w: line above %d octets", upstream.ErrTooLarge, maxBody)
	default:
		return nil, err
	}
}
