package telemetry

import (
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

func TestLogChangesItsForm(t *testing.T) {
	l := &Logs{level: zap.NewAtomicLevel(), text: new(atomic.Bool)}
	for _, format := range []string{config.LogText, "json"} {
		c := config.Default()
		c.Log.Format = format
		change, err := l.Prepare(c)
		if err != nil || change.Commit() || l.text.Load() != (format == config.LogText) {
			t.Errorf("%s: text is %v, %v", format, l.text.Load(), err)
		}
	}
}
