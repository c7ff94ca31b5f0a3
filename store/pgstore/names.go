package pgstore

import (
	"context"

	"github.com/slimwire/swp/store/internal/gather"
)

// Kinds of counts of schema1.sql.
const (
	countAll   = 0
	countOwner = 1
	countQueue = 2
)

const (
	queuesAfter = `SELECT name, sum(items)::bigint FROM counts WHERE kind = $1 AND space = $2 AND name > $3
		GROUP BY name HAVING sum(items) > 0 ORDER BY name LIMIT $4`
	ownersAfter = `SELECT name, sum(octets)::bigint FROM counts WHERE kind = $1 AND name > $2 GROUP BY name ORDER BY name LIMIT $3`
)

// Queues calls yield with the queues of a space that have unfinished items and whose names are greater
// than after, in the order of their octets, until yield returns false or ctx ends.
func (s *Store) Queues(ctx context.Context, space, after string, yield func(name string, items int64) bool) error {
	if err := gather.CheckSizes(space, after, "", "", 0); err != nil {
		return err
	}
	return s.counted(ctx, after, yield, func(after []byte) call {
		return call{queuesAfter, []any{countQueue, []byte(space), after, pageRows}}
	})
}

// Owners calls yield with the owners whose names are greater than after, in the order of their octets,
// and the octets that count against their quotas, until yield returns false or ctx ends.
func (s *Store) Owners(ctx context.Context, after string, yield func(name string, used int64) bool) error {
	return s.counted(ctx, after, yield, func(after []byte) call {
		return call{ownersAfter, []any{countOwner, after, pageRows}}
	})
}

// counted reads names with a number a page at a time: no connection is held while yield runs.
func (s *Store) counted(ctx context.Context, after string, yield func(name string, n int64) bool, page func(after []byte) call) error {
	type counted struct {
		name string
		n    int64
	}
	for {
		var list []counted
		var name []byte
		var n int64
		err := s.rows(ctx, func() error {
			list = append(list, counted{string(name), n})
			return nil
		}, page([]byte(after)), &name, &n)
		if err != nil {
			return err
		}
		for _, c := range list {
			if !yield(c.name, c.n) {
				return nil
			}
			after = c.name
		}
		if len(list) < pageRows {
			return nil
		}
	}
}

// QueueNames returns the first names of queues in a space that begin with prefix and have unfinished
// items, in the order of their octets, and at most most.
func (s *Store) QueueNames(ctx context.Context, space, prefix string, most int) (names []string, err error) {
	if err := gather.CheckSizes(space, prefix, "", "", 0); err != nil {
		return nil, err
	}
	var name []byte
	var items int64
	err = s.rows(ctx, func() error {
		names = append(names, string(name))
		return nil
	}, call{queuesFrom, []any{countQueue, []byte(space), []byte(prefix), successor(prefix), most}}, &name, &items)
	return names, err
}

const queuesFrom = `SELECT name, sum(items)::bigint FROM counts WHERE kind = $1 AND space = $2 AND name >= $3 AND ($4::bytea IS NULL OR name < $4)
	GROUP BY name HAVING sum(items) > 0 ORDER BY name LIMIT $5`
