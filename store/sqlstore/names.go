package sqlstore

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"

	"github.com/slimwire/swp/store/internal/gather"
)

const (
	selectLinesAfter  = `SELECT id, live, kept, sum, space, name FROM line WHERE space = ? AND name > ? ORDER BY name`
	selectOwnersAfter = `SELECT id, name, used, sum FROM owner WHERE name > ? ORDER BY name`
)

// Queues calls yield with the queues of a space that have unfinished items and whose names are greater
// than after, in the order of their octets, until yield returns false or ctx ends. yield must not use
// the store.
func (s *Store) Queues(ctx context.Context, space, after string, yield func(name string, items int64) bool) error {
	if err := gather.CheckSizes(space, after, "", "", 0); err != nil {
		return err
	}
	return s.read(ctx, func(c *conn) error {
		var fault error
		err := c.rowsWithin(ctx, func(row []driver.Value) bool {
			var q *line
			if q, fault = c.readLine(s, row); fault != nil {
				return false
			}
			return q.live == 0 || yield(string(q.name), q.live)
		}, selectLinesAfter, []byte(space), []byte(after))
		return errors.Join(err, fault)
	})
}

// Owners calls yield with the owners whose names are greater than after, in the order of their octets,
// and the octets that count against their quotas, until yield returns false or ctx ends. yield must
// not use the store.
func (s *Store) Owners(ctx context.Context, after string, yield func(name string, used int64) bool) error {
	return s.read(ctx, func(c *conn) error {
		var fault error
		err := c.rowsWithin(ctx, func(row []driver.Value) bool {
			var o *owner
			if o, fault = c.readOwner(s, row); fault != nil {
				return false
			}
			return yield(o.name, o.used)
		}, selectOwnersAfter, []byte(after))
		return errors.Join(err, fault)
	})
}

const selectLinesFrom = `SELECT id, live, kept, sum, space, name FROM line WHERE space = ? AND name >= ? ORDER BY name LIMIT ?`

// QueueNames returns the first names of queues in a space that begin with prefix and have
// unfinished items, in the order of their octets. It reads at most most queues, with and
// without items.
func (s *Store) QueueNames(ctx context.Context, space, prefix string, most int) (names []string, err error) {
	if err := gather.CheckSizes(space, prefix, "", "", 0); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		var fault error
		err := c.rows(func(row []driver.Value) bool {
			var q *line
			if q, fault = c.readLine(s, row); fault != nil || !bytes.HasPrefix(q.name, []byte(prefix)) {
				return false
			}
			if q.live > 0 {
				names = append(names, string(q.name))
			}
			return true
		}, selectLinesFrom, []byte(space), []byte(prefix), int64(most))
		return errors.Join(err, fault)
	})
	return names, err
}
