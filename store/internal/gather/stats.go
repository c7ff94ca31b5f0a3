package gather

import (
	"errors"
	"sync/atomic"

	"github.com/slimwire/swp/store"
)

// Counters are what the writer of an engine counts.
type Counters struct {
	Commits, Swept, Damaged atomic.Uint64
	operations, failed      atomic.Uint64
}

// Count counts the operations of a batch, which ended with err.
func (c *Counters) Count(err error, operations int) {
	if errors.Is(err, store.ErrUnavailable) {
		c.failed.Add(uint64(operations))
		return
	}
	c.operations.Add(uint64(operations))
}

// Stats returns the figures of a queue and of the writer behind it.
func (q *Queue[O]) Stats(c *Counters) store.Stats {
	stats := store.Stats{
		Commits: c.Commits.Load(), Operations: c.operations.Load(), Failed: c.failed.Load(), Refused: q.refusal.Load(),
		Swept: c.Swept.Load(), Damaged: c.Damaged.Load(),
	}
	stats.Queued, stats.QueuedOctets = q.Load()
	return stats
}
