package gather

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/slimwire/swp/test/bench/echo"
)

// ErrClosed is the error of calls on a client that was closed.
var ErrClosed = errors.New("gather: closed")

// Stream is what a Client runs on.
type Stream interface {
	io.ReadWriter
	Close() error
}

// Client makes many exchanges at once on one stream. It is an echo.Conn.
type Client struct {
	stream Stream
	wake   chan struct{} // one slot: output is waiting
	gone   chan struct{} // closed with the client

	writing sync.Mutex // held while writing; taken before mu

	mu      sync.Mutex
	out     []byte    // what the flusher writes next
	waiting []*caller // whose answers are due, in order
	err     error     // why the client ended
	spare   []byte    // the flusher's other buffer; under writing
	stop    func() bool
}

// NewClient returns a client that owns the stream. It ends with ctx.
func NewClient(ctx context.Context, stream Stream) *Client {
	c := &Client{stream: stream, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	c.stop = context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	go c.flushLoop()
	go c.readLoop()
	return c
}

// Close ends the client and its stream.
func (c *Client) Close() error {
	c.stop()
	c.fail(ErrClosed)
	return nil
}

// Caller returns what one goroutine makes its exchanges with.
func (c *Client) Caller() echo.Caller {
	return &caller{client: c, done: make(chan struct{}, 1)}
}

type caller struct {
	client *Client
	answer []byte
	done   chan struct{} // one slot: the answer is there
}

func (w *caller) Echo(payload []byte, use func([]byte) error) error {
	send := w.client.send
	if len(payload) >= large {
		send = w.client.sendLarge
	}
	if err := send(payload, w); err != nil {
		return err
	}
	select {
	case <-w.done:
		return use(w.answer)
	case <-w.client.gone:
		return w.client.err
	}
}

// send leaves the frame to the flusher.
func (c *Client) send(payload []byte, w *caller) error {
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return err
	}
	c.out = append(echo.AppendHeader(c.out, len(payload)), payload...)
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // the flusher is awake already
	}
	return nil
}

// sendLarge writes the header behind what is gathered, then the payload from
// where it lies.
func (c *Client) sendLarge(payload []byte, w *caller) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return err
	}
	c.out = echo.AppendHeader(c.out, len(payload))
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	if err := c.writeOut(); err != nil {
		return err
	}
	_, err := c.stream.Write(payload)
	return err
}

// flushLoop writes the collected messages. It yields once before, so that all callers woken
// by the same read can add theirs: without the yield each message is a record and a system
// call of its own.
func (c *Client) flushLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.gone:
			return
		}
		runtime.Gosched()
		c.writing.Lock()
		err := c.writeOut()
		c.writing.Unlock()
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// writeOut swaps the two buffers and writes the full one.
func (c *Client) writeOut() error {
	c.mu.Lock()
	out := c.out
	c.out = c.spare[:0]
	c.mu.Unlock()
	c.spare = out
	if len(out) == 0 {
		return nil
	}
	_, err := c.stream.Write(out)
	return err
}

// readLoop hands the answers to their callers.
func (c *Client) readLoop() {
	r := reader{stream: c.stream, in: make([]byte, window)}
	var due []*caller // taken from waiting; those before next are answered
	next := 0
	for {
		n, err := r.next()
		if err != nil {
			c.fail(err)
			return
		}
		if next == len(due) {
			c.mu.Lock()
			due, c.waiting, next = c.waiting, due[:0], 0
			c.mu.Unlock()
		}
		if next == len(due) {
			c.fail(errors.New("gather: an answer that nobody asked for"))
			return
		}
		w := due[next]
		next++
		if w.answer, err = r.body(w.answer[:0], n); err != nil {
			c.fail(err)
			return
		}
		w.done <- struct{}{}
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.gone)
	_ = c.stream.Close()
}

// reader reads headers from a window, and the rest of a body that is not wholly
// in it straight into the memory of its receiver.
type reader struct {
	stream     io.Reader
	in         []byte
	start, end int
}

// next returns the length of the body that follows.
func (r *reader) next() (int, error) {
	for r.end-r.start < echo.HeaderSize {
		copy(r.in, r.in[r.start:r.end])
		r.start, r.end = 0, r.end-r.start
		n, err := r.stream.Read(r.in[r.end:])
		r.end += n
		if n == 0 && err != nil {
			return 0, err
		}
	}
	n, err := echo.Length(r.in[r.start:])
	r.start += echo.HeaderSize
	return n, err
}

// body appends the n octets of a body to dst.
func (r *reader) body(dst []byte, n int) ([]byte, error) {
	have := min(n, r.end-r.start)
	dst = append(dst, r.in[r.start:r.start+have]...)
	r.start += have
	if have == n {
		return dst, nil
	}
	if cap(dst) < n {
		dst = append(make([]byte, 0, n), dst...)
	}
	dst = dst[:n]
	_, err := io.ReadFull(r.stream, dst[have:])
	return dst, err
}
