package telemetry

import (
	"fmt"
	"io"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
)

// Logs are the log, and what it shares with the access log: where both go, and in which
// form.
type Logs struct {
	Log   *zap.Logger
	level zap.AtomicLevel // of Log
	text  *atomic.Bool    // both are for people
	out   zapcore.WriteSyncer
	stop  func()
}

// OpenLogs begins to write.
func OpenLogs(c *config.Log, out io.Writer) (*Logs, error) {
	level, err := zap.ParseAtomicLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	l := &Logs{level: level, text: new(atomic.Bool), out: zapcore.Lock(zapcore.AddSync(out))}
	l.text.Store(c.Format == config.LogText)
	l.Log, l.stop = boundlog.New(boundlog.Options{Level: level, Text: l.text, Output: l.out})
	return l, nil
}

// Close writes what is left. Nothing is logged any more.
func (l *Logs) Close() { l.stop() }

// LogSection is the level and the form of the log.
func LogSection(prepare part.Prepare) part.Section {
	return part.Section{Name: "log", Stays: "the old one stays", Keys: []string{"log.level", "log.format"}, Prepare: prepare}
}

// Prepare has the log write more, or less, and in which form.
func (l *Logs) Prepare(c *config.Config) (part.Change, error) {
	level, err := zapcore.ParseLevel(c.Log.Level)
	return part.Change{
		Fields: []zap.Field{zap.String("level", c.Log.Level), zap.String("format", c.Log.Format)},
		Commit: func() bool {
			l.level.SetLevel(level)
			l.text.Store(c.Log.Format == config.LogText)
			return false
		},
	}, err
}
