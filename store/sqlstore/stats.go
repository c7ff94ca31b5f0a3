package sqlstore

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/slimwire/swp/store"
)

// Stats are figures of a store for metrics. Counters begin with Open.
type Stats struct {
	Used         int64  // octets that owners hold, as quotas reckon them
	FileSize     int64  // octets of the database and its log; 0 in memory
	Queued       int    // operations that wait or are being written
	QueuedOctets int    // and their size
	Queues       int    // work queues with items that are not done
	Items        int    // and those items
	Commits      uint64 // transactions, each with one fsync at store.Power
	Operations   uint64 // that were written or answered
	Failed       uint64 // that failed because the medium did
	Refused      uint64 // because the queue was full
	Swept        uint64 // rows deleted after they had expired or were cut off
	Damaged      uint64 // times that something damaged was met
}

// Stats returns the figures of now.
func (s *Store) Stats() Stats {
	c := &s.stats
	stats := Stats{
		Used: c.used.Load(), Commits: c.commits.Load(), Operations: c.operations.Load(), Failed: c.failed.Load(),
		Refused: c.refused.Load(), Swept: c.swept.Load(), Damaged: c.damaged.Load(),
	}
	stats.Queues, stats.Items = int(c.queues.Load()), int(c.items.Load())
	stats.Queued, stats.QueuedOctets = s.queue.load()
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
	refused, swept, damaged     atomic.Uint64
}

// show notes what waits in work queues.
func (c *counters) show(t tally) {
	c.queues.Store(t.queues)
	c.items.Store(t.items)
}

// count notes a batch.
func (c *counters) count(err error, operations int) {
	if errors.Is(err, store.ErrUnavailable) {
		c.failed.Add(uint64(operations))
		return
	}
	c.operations.Add(uint64(operations))
}
