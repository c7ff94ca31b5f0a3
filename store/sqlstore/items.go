package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/gather"
)

const (
	itemColumns  = `line, n, space, id, mark, owner, done, lease, tries, due, expires, keep, size, sum`
	itemByID     = `SELECT ` + itemColumns + ` FROM item WHERE space = ? AND id = ?`
	itemByNumber = `SELECT ` + itemColumns + ` FROM item WHERE line = ? AND n = ?`
	itemsOfLine  = `SELECT ` + itemColumns + ` FROM item WHERE line = ? AND n > ? AND done = 0 ORDER BY n LIMIT ?`
	idsAfter     = `SELECT id FROM item WHERE space = ? AND id > ? ORDER BY id LIMIT ?`
	insertItem   = `INSERT OR IGNORE INTO item (` + itemColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateLease  = `UPDATE item SET lease = ?, tries = ?, due = ?, sum = ? WHERE line = ? AND n = ?`
	finishItem   = `UPDATE item SET done = 1, lease = 0, due = 0, expires = 0, size = 0, sum = ? WHERE line = ? AND n = ?`
	deleteItem   = `DELETE FROM item WHERE line = ? AND n = ?`
	selectBody   = `SELECT sum, data FROM body WHERE n = ?`
	insertBody   = `INSERT INTO body (n, sum, data) VALUES (?, ?, ?)`
	deleteBody   = `DELETE FROM body WHERE n = ?`
)

// item is a verified row of the table of items.
type item struct {
	line, n, owner    int64
	done              bool
	lease, tries, due int64
	expires, keep     int64
	size              int64
	space, id, mark   []byte
}

// cost is the number of octets that an item counts against a quota; name is the length of
// the name of its queue.
func (it *item) cost(name int) int64 {
	return cost(len(it.space)+name+len(it.id)+len(it.mark), int(it.size))
}

func (c *conn) sumItem(it *item) int64 {
	return c.sum(checksum.Item, []int64{
		it.line, it.n, it.owner, flag(it.done), it.lease, it.tries, it.due, it.expires, it.keep, it.size,
	}, nil, it.space, it.id, it.mark)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// readItem returns the item of a row.
func (c *conn) readItem(s *Store, row []driver.Value) (*item, error) {
	it := &item{
		line: number(row[0]), n: number(row[1]), space: octets(row[2]), id: octets(row[3]), mark: octets(row[4]),
		owner: number(row[5]), done: number(row[6]) != 0, lease: number(row[7]), tries: number(row[8]), due: number(row[9]),
		expires: number(row[10]), keep: number(row[11]), size: number(row[12]),
	}
	if number(row[13]) != c.sumItem(it) {
		return nil, s.damaged("item %q in space %q", it.id, it.space)
	}
	return it, nil
}

func (c *conn) sumBody(n int64, data []byte) int64 { return c.sum(checksum.Body, []int64{n}, data) }

// readBody returns the data of an item, never nil.
func (c *conn) readBody(s *Store, it *item) ([]byte, error) {
	row, err := c.row(selectBody, it.n)
	if err != nil {
		return nil, err
	}
	if row == nil || number(row[0]) != c.sumBody(it.n, octets(row[1])) || int64(len(octets(row[1]))) != it.size {
		return nil, s.damaged("data of item %q in space %q", it.id, it.space)
	}
	return octets(row[1]), nil
}

// findItem returns an item; nil if its id is not known. A done item counts as unknown after
// its time of remembrance.
func (c *conn) findItem(s *Store, space, id string, now int64) (*item, error) {
	row, err := c.row(itemByID, []byte(space), []byte(id))
	if row == nil || err != nil {
		return nil, err
	}
	it, err := c.readItem(s, row)
	if err == nil && it.done && it.keep <= now {
		return nil, nil
	}
	return it, err
}

// insertItem writes a new item with its data. It returns false and writes nothing if the space knows
// the id.
func (w *writer) insertItem(it *item, data []byte) (fresh bool, err error) {
	w.state.ids++
	it.n, it.size = w.state.ids, int64(len(data))
	return w.writeItem(it, data)
}

// writeItem is insertItem for an item that has its number.
func (w *writer) writeItem(it *item, data []byte) (fresh bool, err error) {
	n, err := w.conn.exec(insertItem, it.line, it.n, it.space, it.id, given(it.mark), it.owner, flag(it.done), it.lease, it.tries,
		it.due, it.expires, it.keep, it.size, w.conn.sumItem(it))
	if n == 0 || err != nil {
		return false, err
	}
	if !it.done {
		_, err = w.conn.exec(insertBody, it.n, w.conn.sumBody(it.n, data), given(data))
	}
	return true, err
}

// updateLease writes the lease of an item. It sets no other column, because SQLite writes each index
// with a column that a statement sets.
func (w *writer) updateLease(it *item) error {
	_, err := w.conn.exec(updateLease, it.lease, it.tries, it.due, w.conn.sumItem(it), it.line, it.n)
	return err
}

// removeItem removes an item, its data and its id.
func (w *writer) removeItem(it *item) error {
	w.lines.lookAgain()
	q, err := w.lineByID(it.line)
	if err != nil {
		return err
	}
	if err := w.refund(it.owner, it.cost(len(q.name))); err != nil {
		return err
	}
	w.lines.went(q, it, -1)
	if _, err = w.conn.exec(deleteItem, it.line, it.n); err == nil && !it.done {
		_, err = w.conn.exec(deleteBody, it.n)
	}
	return err
}

// Item implements store.Queues.
func (s *Store) Item(ctx context.Context, space, id string) (queue, state string, tries int, err error) {
	if err := gather.CheckSizes(space, id, "", "", 0); err != nil {
		return "", "", 0, err
	}
	err = s.read(ctx, func(c *conn) error {
		now := s.clock.Now()
		it, err := c.findItem(s, space, id, now)
		if it == nil || err != nil {
			return err
		}
		row, err := c.row(selectLineID, it.line)
		if err != nil {
			return err
		}
		if row == nil {
			return s.damaged("queue number %d", it.line)
		}
		q, err := c.readLine(s, row)
		if err != nil {
			return err
		}
		queue, state, tries = string(q.name), store.Waiting, int(it.tries)
		switch {
		case it.done:
			state = store.Done
		case it.lease != 0 && it.due > now:
			state = store.Leased
		}
		return nil
	})
	return queue, state, tries, err
}

// IDs implements store.Queues.
func (s *Store) IDs(ctx context.Context, space, after string, most int) (ids []string, err error) {
	if err := gather.CheckSizes(space, after, "", "", 0); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		return c.rows(func(row []driver.Value) bool {
			ids = append(ids, string(octets(row[0])))
			return true
		}, idsAfter, []byte(space), []byte(after), int64(most))
	})
	return ids, err
}

// Data implements store.Queues.
func (s *Store) Data(ctx context.Context, space, id string) (data []byte, err error) {
	if err := gather.CheckSizes(space, id, "", "", 0); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		it, err := c.findItem(s, space, id, s.clock.Now())
		if it == nil || it.done || err != nil {
			return err
		}
		data, err = c.readBody(s, it)
		return err
	})
	return data, err
}

// Items implements store.Queues. It reads a page at a time: no connection is held
// while yield runs.
func (s *Store) Items(ctx context.Context, space, queue string, after uint64,
	yield func(n uint64, id string, tries int, data []byte) bool,
) error {
	if err := gather.CheckSizes(space, queue, "", "", 0); err != nil {
		return err
	}
	type held struct {
		*item
		data []byte
	}
	var page []held
	from := int64(min(after, everything))
	for {
		page = page[:0]
		more := false
		err := s.read(ctx, func(c *conn) error {
			row, err := c.row(selectLine, []byte(space), []byte(queue))
			if row == nil || err != nil {
				return err
			}
			q, err := c.readLine(s, row)
			if err != nil {
				return err
			}
			var fault error
			size := 0
			err = c.rows(func(row []driver.Value) bool {
				var it *item
				if it, fault = c.readItem(s, row); fault != nil {
					return false
				}
				page = append(page, held{item: it})
				size += int(it.size)
				more = len(page) == pageRows || size >= pageOctets
				return !more
			}, itemsOfLine, q.id, from, int64(pageRows))
			if err = errors.Join(err, fault); err != nil {
				return err
			}
			for i := range page {
				if page[i].data, err = c.readBody(s, page[i].item); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, h := range page {
			from = h.n
			if !yield(uint64(h.n), string(h.id), int(h.tries), h.data) {
				return nil
			}
		}
		if !more {
			return nil
		}
	}
}
