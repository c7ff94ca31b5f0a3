package sqlstore

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/slimwire/swp/store"
)

// Stats are figures for metrics. Counters start at Open.
type Stats struct {
	Used         int64  // octets that count against quotas
	FileSize     int64  // octets of the database and its log; 0 in memory
	Queued       int    // operations that wait or are being written
	QueuedOctets int    // their size
	Queues       int    // work queues with unfinished items
	Items        int    // unfinished items
	Commits      uint64 // transactions, each with one fsync at store.Power
	Operations   uint64 // completed operations
	Failed       uint64 // operations that failed because of the medium
	Refused      uint64 // operations refused because the queue was full
	Swept        uint64 // expired or cut off rows that were deleted
	Damaged      uint64 // times that damage was found
}

// Stats returns the current figures.
func (s *Store) Stats() Stats {
	c := &s.stats
	stats := Stats{
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
