package sqlstore

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
)

const selectLinesFrom = `SELECT id, live, kept, sum, space, name FROM line WHERE space = ? AND name >= ? ORDER BY name LIMIT ?`

// QueueNames returns the first names of queues in a space that begin with prefix and have
// unfinished items, in the order of their octets. It reads at most most queues, with and
// without items.
func (s *Store) QueueNames(ctx context.Context, space, prefix string, most int) (names []string, err error) {
	if err := checkSizes(space, prefix, "", "", 0); err != nil {
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
