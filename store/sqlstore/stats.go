package sqlstore

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/slimwire/swp/store"
)

// Stats returns the current figures.
func (s *Store) Stats() store.Stats {
	c := &s.stats
	stats := store.Stats{
		Used: c.used.Load(), Commits: c.commits.Load(), Operations: c.operations.Load(), Failed: c.failed.Load(),
		Refused: s.queue.Refused(), Swept: c.swept.Load(), Damaged: c.damaged.Load(),
	}
	stats.Queues, stats.Items = int(c.queues.Load()), int(c.items.Load())
	stats.Queued, stats.QueuedOctets = s.queue.Load()
	if s.file != "" {
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(s.file + suffix); err == nil {
				stats.FileSize += info.Size()
			}
		}
	}
	return stats
}

type counters struct {
	used                        atomic.Int64
	queues, items               atomic.Int64
	commits, operations, failed atomic.Uint64
	swept, damaged              atomic.Uint64
}

// show publishes the tally of work queues.
func (c *counters) show(t tally) {
	c.queues.Store(t.queues)
	c.items.Store(t.items)
}

// count counts a batch.
func (c *counters) count(err error, operations int) {
	if errors.Is(err, store.ErrUnavailable) {
		c.failed.Add(uint64(operations))
		return
	}
	c.operations.Add(uint64(operations))
}
