package pgstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/gather"
)

// statsWait limits the wait of Stats for the database.
const statsWait = time.Second

// figures are for metrics.
type figures struct {
	gather.Counters                             // of this process
	shared          atomic.Pointer[store.Stats] // of the database, when it was last read
}

const sharedStats = `SELECT
	(SELECT coalesce(sum(octets), 0)::bigint FROM counts WHERE kind = $1),
	pg_database_size(current_database()),
	(SELECT count(*) FROM (SELECT FROM counts WHERE kind = $2 GROUP BY space, name HAVING sum(items) > 0) busy),
	(SELECT coalesce(sum(items), 0)::bigint FROM counts WHERE kind = $2)`

// Stats returns the current figures: Used, FileSize, Queues and Items of the database, the others of
// this process. Figures of the database are the last known while it does not answer.
func (s *Store) Stats() store.Stats {
	ctx, cancel := context.WithTimeout(context.Background(), statsWait)
	defer cancel()
	found := new(store.Stats)
	_, err := s.row(ctx, call{sharedStats, []any{countAll, countQueue}}, &found.Used, &found.FileSize, &found.Queues, &found.Items)
	if err == nil {
		s.stats.shared.Store(found)
	}
	stats := s.queue.Stats(&s.stats.Counters)
	if last := s.stats.shared.Load(); last != nil {
		stats.Used, stats.FileSize, stats.Queues, stats.Items = last.Used, last.FileSize, last.Queues, last.Items
	}
	return stats
}

const topOwners = `SELECT name, sum(octets)::bigint AS used FROM counts WHERE kind = $1 GROUP BY name ORDER BY used DESC LIMIT 5`

// Pools returns who uses the octets of the store, and whose operations of this node wait. If the
// database does not answer before ctx ends, the octets have no names.
func (s *Store) Pools(ctx context.Context) []fair.Pool {
	octets := fair.Pool{Name: "store octets", Used: int(s.Stats().Used), Capacity: int(s.bounds.Load().Quota)}
	var name []byte
	var used int64
	_ = s.rows(ctx, func() error {
		octets.Most = append(octets.Most, fair.Use{Identity: string(name), Used: int(used)})
		return nil
	}, call{topOwners, []any{countOwner}}, &name, &used)
	return []fair.Pool{octets, s.queue.Pool()}
}
