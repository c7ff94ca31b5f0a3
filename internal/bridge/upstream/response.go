package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/slimwire/swp/internal/memory"
)

// Response is a call under way. It is used by one goroutine at a time.
type Response struct {
	Status int
	Header http.Header

	client *Client
	http   *http.Response
	ctx    context.Context
	stop   context.CancelCauseFunc
	end    func()

	held     *memory.Hold // nil before the head has come
	lines    *bufio.Reader
	line     []byte
	lineRoom room
	total    int64
}

// MediaType returns the media type of the body in lower case, without parameters; empty if
// the server names none.
func (r *Response) MediaType() string {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// Await gives the server Options.Silence from now on, until the function that it
// returns is called. Body and Line do so by themselves; it is for those who Read.
func (r *Response) Await() (heard func()) {
	d := r.client.opts.Silence
	t := time.AfterFunc(d, func() { r.stop(fmt.Errorf("%w: %v", ErrSilent, d)) })
	return func() { t.Stop() }
}

// Body reads the body whole. It is the caller's own.
func (r *Response) Body() ([]byte, error) { return r.body(nil) }

// Document is Body for a body that is one JSON object. It fails as soon as check refuses the object, or something
// follows it: such a body may have no end. check is called with nil for a body that is something else.
func (r *Response) Document(check func(object []byte) error) ([]byte, error) {
	return r.body((&document{check: check}).look)
}

func (r *Response) body(check func(body []byte) error) ([]byte, error) {
	limit := r.client.opts.MaxBody
	// The announced length serves only to refuse without reading.
	if r.http.ContentLength > int64(limit) {
		return nil, fmt.Errorf("%w: body of %d octets, limit %d", ErrTooLarge, r.http.ContentLength, limit)
	}
	defer r.Await()()
	wait := min(roomTime, r.client.opts.Silence/2)
	body, err := r.held.ReadAll(r.ctx, memory.Body{
		Reader: io.LimitReader(r.http.Body, int64(limit)+1), Announced: r.http.ContentLength, Wait: wait, Conn: yields{r}, Answer: true,
		Check: check,
	})
	switch {
	case errors.Is(err, memory.ErrFull) && context.Cause(r.ctx) == nil:
		return nil, errRoom
	case err != nil:
		return nil, r.failed(err)
	case len(body) > limit:
		return nil, fmt.Errorf("%w: body above %d octets", ErrTooLarge, limit)
	}
	return body, nil
}

// yields ends a call whose answer stalls while others wait for its room.
type yields struct{ r *Response }

func (y yields) SetReadDeadline(time.Time) error {
	y.r.stop(errRoom)
	return nil
}

// Line returns the next line of the body that is not empty, without its line
// break, valid until the next call. Empty lines pass the time: they are how a
// server that has nothing to say shows that it is alive. At the end of the body
// the error is io.EOF; whether everything has come only the lines themselves
// can tell. Errors are final.
func (r *Response) Line() ([]byte, error) {
	if r.lines == nil {
		r.lines = bufio.NewReaderSize(r.http.Body, 4<<10)
	}
	for {
		line, err := r.readLine()
		if line = bytes.TrimRight(line, "\r\n"); len(line) > r.client.opts.MaxLine {
			return nil, r.tooLong()
		}
		if len(line) > 0 || err != nil {
			return line, err
		}
	}
}

// Read reads the body as it comes, for messages of a form that this package does
// not know: the caller says with Await how long one may take. It does not mix with
// Body and Line. Options.MaxLines bounds the whole. At the end of the body the error
// is io.EOF.
func (r *Response) Read(p []byte) (int, error) {
	n, err := r.http.Body.Read(p)
	if r.total += int64(n); r.total > r.client.opts.MaxLines {
		return n, fmt.Errorf("%w: above %d octets", ErrTooLarge, r.client.opts.MaxLines)
	}
	if err != nil && err != io.EOF {
		err = r.failed(err)
	}
	return n, err
}

func (r *Response) readLine() ([]byte, error) {
	defer r.Await()()
	if cap(r.line) > keptBuffer {
		r.line = nil
		r.lineRoom.drop()
	}
	r.line = r.line[:0]
	opts := &r.client.opts
	for {
		part, err := r.lines.ReadSlice('\n')
		r.total += int64(len(part))
		switch {
		case len(r.line)+len(part) > opts.MaxLine+len("\r\n"):
			return nil, r.tooLong()
		case r.total > opts.MaxLines:
			return nil, fmt.Errorf("%w: lines above %d octets", ErrTooLarge, opts.MaxLines)
		}
		if err := r.lineRoom.need(len(r.line) + len(part)); err != nil {
			return nil, err
		}
		r.line = append(r.line, part...)
		switch {
		case err == nil, err == io.EOF && len(r.line) > 0:
			return r.line, nil
		case err == io.EOF:
			return nil, io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, r.failed(err)
		}
	}
}

func (r *Response) tooLong() error {
	return fmt.Errorf("%w: line above %d octets", ErrTooLarge, r.client.opts.MaxLine)
}

// Close ends the call, at the server, too, unless it has said all it had to
// say. It must be called once.
func (r *Response) Close() {
	// A body that was read to its end gives the connection back; any other has it
	// closed.
	_ = r.http.Body.Close()
	r.end()
}
