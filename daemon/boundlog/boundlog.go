// Package boundlog is a log that peers cannot abuse. Whatever they make swpd
// say, each line is one JSON object (or one line of text) of at most 8 KiB, each
// value has at most 256 octets and no control characters, and however fast they
// are there are at most 100 lines a second: each class of line has a rate of its
// own, and what is left out is counted in a line of its own.
package boundlog

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Classes of lines, used as logger names (zap.Logger.Named). What peers cannot
// provoke has no name.
const (
	Reject   = "reject"   // refused messages
	Security = "security" // the audit trail
	Session  = "session"  // connections
	MCP      = "mcp"      // servers and their standard error
	Backend  = "backend"  // what else is called for peers
)

// class is the token bucket of one class. The rates and bursts of all classes
// together stay below 100 lines in any second.
type class struct {
	rate, burst float64
}

var (
	classes = map[string]class{
		Reject:   {12, 8},
		Security: {12, 8},
		Session:  {10, 6},
		MCP:      {8, 6},
		Backend:  {2, 2},
	}
	other = class{8, 16} // and one line a second that counts
)

// Options configure New.
type Options struct {
	Level  zapcore.LevelEnabler // may change meanwhile, as a zap.AtomicLevel does; nil means info
	Text   *atomic.Bool         // for people, instead of JSON; may change meanwhile; nil means JSON
	Output io.Writer

	// Now is the clock of timestamps and rates. Nil means time.Now.
	Now func() time.Time
}

// New returns a logger and what ends it: stop writes how many lines were left
// out at last. Output need not be safe for concurrent use.
func New(o Options) (log *zap.Logger, stop func()) {
	if o.Level == nil {
		o.Level = zapcore.InfoLevel
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Text == nil {
		o.Text = new(atomic.Bool)
	}
	g := &gate{buckets: make(map[string]*bucket), left: make(map[string]int), now: o.Now}
	core := &core{json: zapcore.NewJSONEncoder(encoding()), text: zapcore.NewConsoleEncoder(encoding()), people: o.Text, out: zapcore.Lock(zapcore.AddSync(o.Output)), level: o.Level, gate: g}
	g.tell = func(left []zap.Field) {
		_ = core.write(zapcore.Entry{Level: zapcore.WarnLevel, Time: o.Now(), Message: "lines left out"}, left)
	}
	return zap.New(core, zap.WithClock(clock(o.Now)), zap.ErrorOutput(core.out)), g.flush
}

func encoding() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey: "ts", LevelKey: "level", NameKey: "class", MessageKey: "msg", StacktraceKey: zapcore.OmitKey,
		EncodeLevel:      zapcore.LowercaseLevelEncoder,
		EncodeTime:       zapcore.RFC3339NanoTimeEncoder,
		EncodeDuration:   zapcore.StringDurationEncoder,
		ConsoleSeparator: "  ",
	}
}

// core is a zapcore.Core that cleans every entry and asks the gate.
type core struct {
	json, text zapcore.Encoder
	people     *atomic.Bool // it is text
	out        zapcore.WriteSyncer
	level      zapcore.LevelEnabler
	gate       *gate
	with       []zap.Field
}

func (c *core) Enabled(l zapcore.Level) bool { return c.level.Enabled(l) }

func (c *core) With(fields []zap.Field) zapcore.Core {
	child := *c
	child.with = append(slices.Clip(c.with), fields...)
	return &child
}

// Check asks the gate, so that a line that is left out costs nothing more.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) || !c.gate.pass(e.LoggerName) {
		return ce
	}
	return ce.AddCore(e, c)
}

func (c *core) Write(e zapcore.Entry, fields []zap.Field) error {
	return c.write(e, append(slices.Clip(c.with), fields...))
}

func (c *core) write(e zapcore.Entry, fields []zap.Field) error {
	e.Message = Clean(e.Message)
	enc := c.json
	if c.people.Load() {
		enc = c.text
	}
	buf, err := enc.EncodeEntry(e, clean(fields))
	if err != nil {
		return fmt.Errorf("boundlog: %w", err)
	}
	_, err = c.out.Write(buf.Bytes())
	buf.Free()
	return err
}

func (c *core) Sync() error { return c.out.Sync() }

type clock func() time.Time

func (c clock) Now() time.Time                         { return c() }
func (c clock) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// gate holds each class to its rate and counts what it does not let through.
type gate struct {
	now  func() time.Time
	tell func(left []zap.Field)

	mu      sync.Mutex
	buckets map[string]*bucket
	left    map[string]int // by class, since the last line that counted
	timer   *time.Timer    // running while something is left out
}

type bucket struct {
	tokens float64
	filled time.Time
}

func (g *gate) pass(name string) bool {
	limit, known := classes[name]
	if !known {
		name, limit = "other", other
	}
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.buckets[name]
	if b == nil {
		b = &bucket{tokens: limit.burst, filled: now}
		g.buckets[name] = b
	}
	b.tokens = min(limit.burst, b.tokens+limit.rate*max(0, now.Sub(b.filled).Seconds()))
	b.filled = now
	if b.tokens >= 1 {
		b.tokens--
		return true
	}
	g.left[name]++
	if g.timer == nil {
		g.timer = time.AfterFunc(time.Second, g.flush)
	}
	return false
}

// flush writes the line that counts, if there is something to count.
func (g *gate) flush() {
	g.mu.Lock()
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	var fields []zap.Field
	for name, n := range g.left {
		fields = append(fields, zap.Int(name, n))
	}
	clear(g.left)
	g.mu.Unlock()
	if len(fields) > 0 {
		g.tell(fields)
	}
}
