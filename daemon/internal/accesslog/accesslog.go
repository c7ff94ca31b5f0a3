// Package accesslog writes one line for each exchange that a peer opened: identity,
// operation, outcome, size and duration. It writes no part of a payload.
//
// The end of an exchange never waits for the disk: lines collect in a buffer of 1 MiB,
// and one goroutine writes the buffer. A line is left out if the buffer is full. If
// only denials are logged, it is also left out above the rate of its identity. Lines
// that were left out are counted, and at most once a second a line reports the counts.
package accesslog

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/internal/boundlog"
)

// Mode says which exchanges get a line.
type Mode uint32

// The modes.
const (
	Off    Mode = iota
	Denied      // exchanges that the access rules denied, 20 a second of each identity
	All         // all exchanges
)

// Bounds of the log.
const (
	BufferSize = 1 << 20 // octets of lines that wait to be written
	DeniedRate = 20      // lines a second of one identity in mode Denied

	told = time.Second // between lines that report lines left out
)

// Options configure New.
type Options struct {
	Text *atomic.Bool // lines of text instead of JSON; may change at any time; nil means JSON

	// Output gets the lines unless Reopen names a file. Its Write may block.
	Output io.Writer
}

// Left is the number of lines left out, by reason.
type Left struct {
	Rate   uint64 // the identity has reached its rate
	Buffer uint64 // the buffer was full
	Failed uint64 // the file could not be written
}

// Log is an access log. It is safe for concurrent use. Only Close and the goroutine
// of the writer wait for the output.
type Log struct {
	mode atomic.Uint32
	text *atomic.Bool
	out  output

	mu     sync.Mutex
	rates  rates
	buf    []byte // lines not yet written
	spare  []byte // the buffer written last
	wake   chan struct{}
	tell   *time.Timer // runs while there are lines left out and not yet reported
	closed bool

	lines, rate, full atomic.Uint64
	said              Left // the counts reported last; only the writer uses them

	done chan struct{}
}

// New returns a Log in mode Off that writes to its Output.
func New(o Options) *Log {
	if o.Text == nil {
		o.Text = new(atomic.Bool)
	}
	l := &Log{text: o.Text, wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.out.fallback = o.Output
	go l.write()
	return l
}

var (
	encoding = zapcore.EncoderConfig{
		TimeKey: "ts", NameKey: "class", MessageKey: "msg", LevelKey: zapcore.OmitKey, StacktraceKey: zapcore.OmitKey,
		EncodeTime: zapcore.RFC3339NanoTimeEncoder, ConsoleSeparator: "  ",
	}
	asJSON, asText = zapcore.NewJSONEncoder(encoding), zapcore.NewConsoleEncoder(encoding)
)

// encoder returns the current encoder. Encoders are safe for concurrent use.
func (l *Log) encoder() zapcore.Encoder {
	if l.text.Load() {
		return asText
	}
	return asJSON
}

// Use sets the mode.
func (l *Log) Use(m Mode) { l.mode.Store(uint32(m)) }

// Mode returns the mode.
func (l *Log) Mode() Mode { return Mode(l.mode.Load()) }

// Lines returns the number of lines accepted so far.
func (l *Log) Lines() uint64 { return l.lines.Load() }

// Left returns the number of lines left out so far.
func (l *Log) Left() Left {
	return Left{Rate: l.rate.Load(), Buffer: l.full.Load(), Failed: l.out.failed.Load()}
}

// Line is one exchange. Its strings may come from a peer: they are escaped and
// truncated.
type Line struct {
	Time      time.Time // end of the exchange
	Identity  string    // of the peer
	For       string    // the caller that it has asserted; empty if none
	Profile   string
	Operation string
	Name      string
	Partner   string // empty if the exchange ended at this endpoint
	Outcome   string
	Denied    bool
	In, Out   uint64 // octets
	Took      time.Duration
	Transport string
	Session   uint64
	Trace     string // trace id; empty without one
}

// Wants reports whether Write accepts a line. Callers ask before they make the Line.
func (l *Log) Wants(denied bool) bool {
	switch l.Mode() {
	case All:
		return true
	case Denied:
		return denied
	}
	return false
}

// Write adds a line. It does not wait.
func (l *Log) Write(line *Line) {
	mode := l.Mode()
	if !l.Wants(line.Denied) {
		return
	}
	l.mu.Lock()
	allowed := mode == All || l.rates.pass(line.Identity, line.Time)
	l.mu.Unlock()
	if !allowed {
		l.leaveOut(&l.rate)
		return
	}
	buf, err := l.encoder().EncodeEntry(zapcore.Entry{Time: line.Time, LoggerName: "access", Message: "exchange"}, line.fields())
	if err != nil {
		l.leaveOut(&l.full)
		return
	}
	if l.push(buf.Bytes()) {
		l.lines.Add(1)
	} else {
		l.leaveOut(&l.full)
	}
	buf.Free()
}

// fields are the members of a line, in order.
func (line *Line) fields() []zap.Field {
	f := make([]zap.Field, 0, 14)
	text := func(key, value string) {
		if value != "" {
			f = append(f, zap.String(key, boundlog.Clean(value)))
		}
	}
	text("peer", line.Identity)
	text("for", line.For)
	text("profile", line.Profile)
	text("operation", line.Operation)
	text("name", line.Name)
	text("partner", line.Partner)
	text("outcome", line.Outcome)
	f = append(f,
		zap.Uint64("in", line.In), zap.Uint64("out", line.Out),
		zap.Float64("ms", float64(line.Took.Microseconds())/1000))
	text("transport", line.Transport)
	f = append(f, zap.Uint64("session", line.Session))
	text("trace", line.Trace)
	return f
}

// push appends a line to the buffer, if there is room.
func (l *Log) push(line []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.buf)+len(line) > BufferSize {
		return false
	}
	l.buf = append(l.buf, line...)
	l.poke()
	return true
}

// poke wakes the writer. The caller holds mu.
func (l *Log) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// leaveOut counts a line left out, and has the count reported within a second.
func (l *Log) leaveOut(counter *atomic.Uint64) {
	counter.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tell == nil && !l.closed {
		l.tell = time.AfterFunc(told, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.tell = nil
			if !l.closed {
				l.poke()
			}
		})
	}
}

// write is the goroutine of the writer. It ends after Close.
func (l *Log) write() {
	defer close(l.done)
	defer l.out.close()
	for range l.wake {
		l.mu.Lock()
		lines, due := l.buf, l.tell == nil || l.closed
		l.buf, l.spare = l.spare[:0], nil
		l.mu.Unlock()
		if due {
			lines = l.appendLeft(lines)
		}
		l.out.write(lines)
		l.mu.Lock()
		l.spare = lines[:0]
		l.mu.Unlock()
	}
}

// appendLeft appends the line that reports lines left out, if there are any.
func (l *Log) appendLeft(lines []byte) []byte {
	now := l.Left()
	since := Left{now.Rate - l.said.Rate, now.Buffer - l.said.Buffer, now.Failed - l.said.Failed}
	if since == (Left{}) {
		return lines
	}
	l.said = now
	buf, err := l.encoder().EncodeEntry(zapcore.Entry{Time: time.Now(), LoggerName: "access", Message: "lines left out"}, []zap.Field{
		zap.Uint64("rate", since.Rate), zap.Uint64("buffer", since.Buffer), zap.Uint64("failed", since.Failed),
	})
	if err != nil {
		return lines
	}
	defer buf.Free()
	return append(lines, buf.Bytes()...)
}

// Close writes the buffer, and ends the Log. Later lines are left out.
func (l *Log) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		if l.tell != nil {
			l.tell.Stop()
		}
		l.poke()
		close(l.wake)
	}
	l.mu.Unlock()
	<-l.done
}
