// Package boundlog is a log that peers cannot abuse. Each line is one JSON object (or
// one line of text) of at most 8 KiB. Each value has at most 256 octets and no control
// characters. There are at most 100 lines a second: each class of lines has a separate
// rate, and one line a second reports the number of lines left out.
package boundlog

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Classes of lines, used as logger names (zap.Logger.Named). Lines that peers cannot
// provoke have no name.
const (
	Reject   = "reject"   // refused messages
	Security = "security" // handshakes, and what partners do
	Denied   = "denied"   // what the access rules deny to peers that are let in; its writer has a rate and leaves no line out
	Session  = "session"  // connections
	MCP      = "mcp"      // servers and their standard error
	Backend  = "backend"  // calls of other backends for peers
	Health   = "health"   // changes of state of what stands behind the endpoint
)

// class is the token bucket of one class. The rates and bursts of all classes
// together, with those of Denied, stay below 100 lines in any second.
type class struct {
	rate, burst float64
}

var (
	classes = map[string]class{
		Reject:   {7, 5},
		Security: {10, 7},
		Session:  {8, 6},
		MCP:      {6, 6},
		Backend:  {2, 2},
		Health:   {2, 4},
	}
	other = class{6, 14} // and one line a second that reports lines left out
)

// Options configure New.
type Options struct {
	Level  zapcore.LevelEnabler // may change at any time, such as a zap.AtomicLevel; nil means info
	Text   *atomic.Bool         // lines of text instead of JSON; may change at any time; nil means JSON
	Output io.Writer

	// Now is the clock of timestamps and rates. Nil means time.Now.
	Now func() time.Time
}

// New returns a logger and the function that ends it: stop reports the last lines left
// out. Output need not be safe for concurrent use.
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
	people     *atomic.Bool // text instead of JSON
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

// Check asks the gate, so that a line left out is never encoded.
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
		return err
	}
	_, err = c.out.Write(buf.Bytes())
	buf.Free()
	return err
}

func (c *core) Sync() error { return c.out.Sync() }

type clock func() time.Time

func (c clock) Now() time.Time                         { return c() }
func (c clock) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// gate limits each class to its rate and counts the lines left out.
type gate struct {
	now  func() time.Time
	tell func(left []zap.Field)

	mu      sync.Mutex
	buckets map[string]*bucket
	left    map[string]int // lines left out, by class, since the last report
	timer   *time.Timer    // running while lines are left out and not reported
}

type bucket struct {
	tokens float64
	filled time.Time
}

func (g *gate) pass(name string) bool {
	if name == Denied {
		return true
	}
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

// flush reports the lines left out, if there are any.
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
