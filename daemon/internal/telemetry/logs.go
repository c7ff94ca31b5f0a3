package telemetry

import (
	"io"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
)

// Logs is the log, with the destination and the format that it shares with the access log.
type Logs struct {
	Log   *zap.Logger
	level zap.AtomicLevel // of Log
	text  *atomic.Bool    // whether both use the text format
	out   zapcore.WriteSyncer
	stop  func()
}

// OpenLogs starts the log.
func OpenLogs(c *config.Log, out io.Writer) (*Logs, error) {
	level, err := zap.ParseAtomicLevel(c.Level)
	if err != nil {
		return nil, err
	}
	l := &Logs{level: level, text: new(atomic.Bool), out: zapcore.Lock(zapcore.AddSync(out))}
	l.text.Store(c.Format == config.LogText)
	l.Log, l.stop = boundlog.New(boundlog.Options{Level: level, Text: l.text, Output: l.out})
	return l, nil
}

// Close flushes the log. Log nothing after it.
func (l *Logs) Close() { l.stop() }

// LogSection is the reloadable part of the configuration: level and format.
func LogSection(prepare part.Prepare) part.Section {
	return part.Section{Name: "log", Stays: "the old one stays", Keys: []string{"log.level", "log.format"}, Prepare: prepare}
}

// Prepare changes level and format.
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
