package sqlstore

import (
	"os"
	"sync/atomic"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/gather"
)

// Stats returns the current figures.
func (s *Store) Stats() store.Stats {
	c := &s.stats
	stats := s.queue.Stats(&c.Counters)
	stats.Used, stats.Queues, stats.Items = c.used.Load(), int(c.queues.Load()), int(c.items.Load())
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
	gather.Counters
	used, queues, items atomic.Int64
}

// show publishes the tally of work queues.
func (c *counters) show(t tally) {
	c.queues.Store(t.queues)
	c.items.Store(t.items)
}
