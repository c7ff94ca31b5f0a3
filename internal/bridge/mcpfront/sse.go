package mcpfront

import (
	"net/http"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
)

// writeJSON answers with one message. The client has Options.Write to take it;
// net/http takes the deadline back when the response is over.
func (f *Front) writeJSON(w http.ResponseWriter, status int, octets []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(f.opts.Write)) // not every ResponseWriter knows of deadlines
	w.Header().Set("Content-Type", mcpheader.JSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(octets) //nolint:gosec // JSON, which no browser takes for a page: see the type
}

// eventWriter writes a response as server-sent events, one message each. It is used
// by one goroutine at a time.
type eventWriter struct {
	f     *Front
	w     http.ResponseWriter
	begun bool
	buf   []byte
}

// begin sends the head of the response, once.
func (e *eventWriter) begin() {
	if e.begun {
		return
	}
	e.begun = true
	e.f.counts.streams.Add(1)
	h := e.w.Header()
	h.Set("Content-Type", mcpheader.Events)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
}

// end is called when the response is over.
func (e *eventWriter) end() {
	if e.begun {
		e.f.counts.streams.Add(-1)
	}
}

// add appends a message to the buffer of flush. A raw line break can only stand
// between tokens; there it becomes a space. id may be empty.
func (e *eventWriter) add(id string, octets []byte) {
	if id != "" {
		e.buf = append(append(append(e.buf, "id: "...), id...), '\n')
	}
	e.buf = append(e.buf, "event: message\ndata: "...)
	from := len(e.buf)
	e.buf = append(e.buf, octets...)
	for i, b := range e.buf[from:] {
		if b == '\n' || b == '\r' {
			e.buf[from+i] = ' '
		}
	}
	e.buf = append(e.buf, "\n\n"...)
}

// retry is the pause, in milliseconds, before a client takes a stream up again.
const retry = "1000"

// prime appends an event without a message, whose id says where the stream begins, so that it can be taken
// up again before its first message (MCP 2025-11-25, Streamable HTTP).
func (e *eventWriter) prime(id string) {
	e.buf = append(append(append(e.buf, "id: "...), id...), "\nretry: "+retry+"\ndata: \n\n"...)
}

// comment appends a line that says nothing but that the stream is alive.
func (e *eventWriter) comment() { e.buf = append(e.buf, ":\n\n"...) }

// flush writes what was added, and begins the response with it. The client has
// Options.Write to take it.
func (e *eventWriter) flush() error {
	e.begin()
	rc := http.NewResponseController(e.w)
	_ = rc.SetWriteDeadline(time.Now().Add(e.f.opts.Write)) // not every ResponseWriter knows of deadlines
	_, err := e.w.Write(e.buf)                              //nolint:gosec // events, which no browser takes for a page
	if err == nil {
		err = rc.Flush()
	}
	_ = rc.SetWriteDeadline(time.Time{})
	if e.buf = e.buf[:0]; cap(e.buf) > 64<<10 {
		e.buf = nil
	}
	return err
}
