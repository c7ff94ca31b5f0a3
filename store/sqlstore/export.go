package sqlstore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/clock"
)

// All lists follow an index, so that nothing is sorted: an export of any size needs the memory of
// a few rows.
const (
	exportRecords = `SELECT version, owner, expires, sum, value, space, key FROM record ORDER BY space, key`
	exportLogs    = `SELECT id, owner, last, trimmed, sum, space, name FROM log INDEXED BY sqlite_autoindex_log_1 ORDER BY space, name`
	exportChunks  = `SELECT n, seq, expires, data FROM chunk WHERE log = ? AND seq > ? ORDER BY seq`
	exportLines   = `SELECT id, live, kept, sum, space, name FROM line INDEXED BY sqlite_autoindex_line_1 ORDER BY space, name`
	exportItems   = `SELECT ` + itemColumns + ` FROM item WHERE line = ? ORDER BY n`
)

var (
	_ store.Exporter = (*Store)(nil)
	_ store.Importer = (*Store)(nil)
)

// Export implements store.Exporter. It uses one of Options.Readers until it ends. Until then the
// write-ahead log cannot restart, and grows with each write.
func (s *Store) Export(ctx context.Context, yield func(store.Piece) error) error {
	x := &exporting{s: s, yield: store.Yielding(ctx, s.gone, yield), names: make(map[int64]string)}
	err := s.read(ctx, func(c *conn) error {
		x.conn = c
		return x.run()
	})
	return cmp.Or(x.refused, err)
}

// exporting is an export. Its methods return errEnded if refused has the reason.
type exporting struct {
	s     *Store
	conn  *conn
	yield func(store.Piece) error

	now     int64
	names   map[int64]string // of owners
	refused error
}

var errEnded = errors.New("sqlstore: the export has ended")

func (x *exporting) run() error {
	st, err := x.conn.readState(x.s) // the first read: all others see the same state
	if err != nil {
		return err
	}
	x.now = x.s.clock.Now()
	err = x.give(&store.Start{Clock: uint64(x.now), Versions: uint64(st.versions), Items: uint64(st.ids)})
	for _, part := range []func() error{x.records, x.logs, x.items} {
		if err == nil {
			err = part()
		}
	}
	return err
}

func (x *exporting) give(p store.Piece) error {
	if x.refused = x.yield(p); x.refused != nil {
		return errEnded
	}
	return nil
}

// each calls f with the rows of a statement until it returns an error.
func (x *exporting) each(f func(row []driver.Value) error, statement string, args ...driver.Value) error {
	var ended error
	err := x.conn.rows(func(row []driver.Value) bool {
		ended = f(row)
		return ended == nil
	}, statement, args...)
	return cmp.Or(ended, err)
}

// owner returns the name of an owner.
func (x *exporting) owner(id int64) (string, error) {
	if name, known := x.names[id]; known {
		return name, nil
	}
	row, err := x.conn.row(selectOwnerID, id)
	switch {
	case err != nil:
		return "", err
	case row == nil:
		return "", x.s.damaged("owner number %d", id)
	}
	o, err := x.conn.readOwner(x.s, row)
	if err != nil {
		return "", err
	}
	if len(x.names) >= maxOwners {
		clear(x.names)
	}
	x.names[id] = o.name
	return o.name, nil
}

func (x *exporting) records() error {
	return x.each(func(row []driver.Value) error {
		space, key := octets(row[5]), octets(row[6])
		r, err := x.conn.readRecord(x.s, row, space, key)
		if err != nil || clock.Expired(r.expires, x.now) {
			return err
		}
		owner, err := x.owner(r.owner)
		if err != nil {
			return err
		}
		return x.give(&store.Record{
			Space: string(space), Key: string(key), Owner: owner,
			Version: uint64(r.version), Expires: uint64(r.expires), Value: r.value,
		})
	}, exportRecords)
}

func (x *exporting) logs() error {
	return x.each(func(row []driver.Value) error {
		g, err := x.conn.readLog(x.s, row)
		if err != nil {
			return err
		}
		newest, err := x.conn.row(lastEntry, g.id)
		if err != nil {
			return err
		}
		owner, err := x.owner(g.owner)
		if err != nil {
			return err
		}
		err = x.give(&store.Log{
			Space: string(g.space), Name: string(g.name), Owner: owner,
			Last: uint64(max(g.kept, g.trimmed, number(newest[0]))),
		})
		if err != nil {
			return err
		}
		return x.each(func(row []driver.Value) error { return x.chunk(g, readChunk(row)) }, exportChunks, g.id, g.trimmed)
	}, exportLogs)
}

func (x *exporting) chunk(g *log, k *chunk) (err error) {
	damaged := x.conn.eachEntry(x.s, g, k, g.trimmed, func(e *entry) bool {
		if clock.Expired(e.expires, x.now) {
			return true
		}
		var owner string
		if owner, err = x.owner(e.owner); err == nil {
			err = x.give(&store.LogEntry{Seq: uint64(e.seq), ID: string(e.id), Owner: owner, Expires: uint64(e.expires), Data: e.data})
		}
		return err == nil
	})
	return cmp.Or(err, damaged)
}

func (x *exporting) items() error {
	return x.each(func(row []driver.Value) error {
		q, err := x.conn.readLine(x.s, row)
		if err != nil {
			return err
		}
		return x.each(func(row []driver.Value) error { return x.item(q, row) }, exportItems, q.id)
	}, exportLines)
}

func (x *exporting) item(q *line, row []driver.Value) error {
	it, err := x.conn.readItem(x.s, row)
	if err != nil || it.done && it.keep <= x.now {
		return err
	}
	owner, err := x.owner(it.owner)
	if err != nil {
		return err
	}
	p := &store.Item{
		Space: string(it.space), Queue: string(q.name), ID: string(it.id), Mark: string(it.mark), Owner: owner,
		Number: uint64(it.n), Done: it.done, Lease: uint64(it.lease), Tries: uint64(it.tries),
		Due: uint64(it.due), Expires: uint64(it.expires), Keep: uint64(it.keep),
	}
	if !it.done {
		if p.Data, err = x.conn.readBody(x.s, it); err != nil {
			return err
		}
	}
	return x.give(p)
}
