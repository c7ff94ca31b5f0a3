package a2afront

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/slimwire/swp/internal/memory"
)

// Media types.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// writeJSON answers with the octets given.
func (f *Front) writeJSON(w http.ResponseWriter, status int, octets []byte) {
	f.bound(w)
	h := w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(octets)))
	w.WriteHeader(status)
	_, _ = bytes.NewReader(octets).WriteTo(w) // or the client is gone
}

// bound gives the client Options.Write to take the response. net/http takes the
// deadline back when that is over.
func (f *Front) bound(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(f.opts.Write)) // where there is one
}

// writeStatus answers with an error that is about HTTP, in the form of REST.
func (f *Front) writeStatus(w http.ResponseWriter, status int, name, message string) {
	f.writeJSON(w, status, fmt.Appendf(nil, `{"error":{"code":%d,"status":%q,"message":%q}}`, status, name, message))
}

// events writes a response as server-sent events, from its first event or comment on.
// It is used by one goroutine.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
	begun   bool
	buf     []byte
	held    *memory.Hold
}

func (f *Front) newEvents(w http.ResponseWriter, held *memory.Hold) *events {
	return &events{w: w, control: http.NewResponseController(w), within: f.opts.Write, held: held}
}

// begin sends the head of the response, once.
func (e *events) begin() {
	if e.begun {
		return
	}
	e.begun = true
	h := e.w.Header()
	h.Set("Content-Type", typeEvents)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
}

// start sends the head of the response before there is an event.
func (e *events) start() error {
	e.begin()
	return e.control.Flush()
}

// write sends octets as one event. A line feed in them, which can stand between tokens
// only, ends a line of data, which receivers undo; a carriage return cannot be sent.
func (e *events) write(octets []byte) error {
	both := 2 * len(octets) // they and their event
	if !e.held.Add(both) {
		return memory.ErrFull
	}
	defer e.held.Sub(both)
	e.buf = e.buf[:0]
	for line := range bytes.SplitSeq(octets, []byte{'\n'}) {
		e.buf = append(e.buf, "data: "...)
		from := len(e.buf)
		e.buf = append(e.buf, line...)
		for i, b := range e.buf[from:] {
			if b == '\r' {
				e.buf[from+i] = ' '
			}
		}
		e.buf = append(e.buf, '\n')
	}
	e.buf = append(e.buf, '\n')
	return e.flush()
}

// comment sends an SSE comment, which clients ignore but proxies on the way see.
func (e *events) comment() error {
	e.buf = append(e.buf[:0], ": waiting\n\n"...)
	return e.flush()
}

func (e *events) flush() error {
	e.begin()
	_ = e.control.SetWriteDeadline(time.Now().Add(e.within)) // where there is one
	if _, err := e.w.Write(e.buf); err != nil {
		return err
	}
	if cap(e.buf) > keptBuffer {
		e.buf = nil
	}
	return e.control.Flush()
}

// keptBuffer is how much is kept for the next event.
const keptBuffer = 64 << 10
