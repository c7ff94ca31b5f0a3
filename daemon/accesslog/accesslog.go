// Package accesslog writes one line for each exchange that a peer opened: who asked
// for what, how it ended, how large it was and how long it took. No payload, and
// nothing of one, is written.
//
// Whoever ends an exchange never waits for the disk: lines collect in a buffer of
// 1 MiB that one goroutine writes. What has no room is left out, and so is what
// exceeds the rate of an identity where only denials are logged. Lines that were
// left out are counted, and once a second a line says how many there were.
package accesslog

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/boundlog"
)

// Mode says which exchanges get a line.
type Mode uint32

// The modes.
const (
	Off    Mode = iota
	Denied      // those that the access rules denied, 20 a second of each identity
	All         // every one
)

// Bounds of the log.
const (
	BufferSize = 1 << 20 // octets of lines that wait to be written
	DeniedRate = 20      // lines a second of one identity in mode Denied

	told = time.Second // how often a line says what was left out
)

// Options configure New.
type Options struct {
	Text *atomic.Bool // for people, instead of JSON; may change meanwhile; nil means JSON

	// Output is where lines go unless Reopen names a file. Its Write may block.
	Output io.Writer
}

// Left is how many lines were left out, by why.
type Left struct {
	Rate   uint64 // the identity had its lines of the second
	Buffer uint64 // the writer did not keep up
	Failed uint64 // the file could not be written
}

// Log is an access log. It is safe for concurrent use; only Close and the
// goroutine of the writer wait for the output.
type Log struct {
	mode atomic.Uint32
	text *atomic.Bool
	out  output

	mu     sync.Mutex
	rates  rates
	buf    []byte // lines that wait
	spare  []byte // the buffer written last
	wake   chan struct{}
	tell   *time.Timer // runs while something is left out that no line has said
	closed bool

	lines, rate, full atomic.Uint64
	said              Left // by the last line that counted; the writer's

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

// encoder is that of the form in force. Encoders may be used by many at once.
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

// Lines returns how many lines were taken so far.
func (l *Log) Lines() uint64 { return l.lines.Load() }

// Left returns what was left out so far.
func (l *Log) Left() Left {
	return Left{Rate: l.rate.Load(), Buffer: l.full.Load(), Failed: l.out.failed.Load()}
}

// Line is one exchange. Its strings may hold what a peer wrote: they are escaped
// and cut.
type Line struct {
	Time      time.Time // of its end
	Identity  string
	Profile   string
	Operation string
	Name      string
	Partner   string // empty: it ended here
	Outcome   string
	Denied    bool
	In, Out   uint64 // octets
	Took      time.Duration
	Transport string
	Session   uint64
	Trace     string // trace id; empty if there is none
}

// Wants reports whether Write would take a line, before it is made.
func (l *Log) Wants(denied bool) bool {
	switch l.Mode() {
	case All:
		return true
	case Denied:
		return denied
	}
	return false
}

// Write takes a line. It does not wait.
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
	f := make([]zap.Field, 0, 13)
	text := func(key, value string) {
		if value != "" {
			f = append(f, zap.String(key, boundlog.Clean(value)))
		}
	}
	text("peer", line.Identity)
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

// push appends octets to what waits, if there is room.
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

// leaveOut counts a line that is not written, and has that said within a second.
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

// write is the goroutine that writes what waits, until Close.
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

// appendLeft appends the line that counts, if there is something to count.
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

// Close writes what waits, and ends the Log. Lines that come later are left out.
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
