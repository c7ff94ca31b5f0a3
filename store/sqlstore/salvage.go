package sqlstore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"time"
)

// salvage replaces a damaged database by one with all rows that can be read and have a
// correct checksum. The damaged file is kept beside it. It runs only with AcceptDamage.
func (s *Store) salvage(acknowledged int64) error {
	fresh := s.file + ".new"
	r := &rescue{s: s, owners: make(map[int64]string), used: make(map[int64]int64), logs: make(map[int64]*log), lines: make(map[int64]*line)}
	r.state.commits = acknowledged
	if err := s.makeDatabase(fresh, state{}, r.fill); err != nil {
		return err
	}
	aside := s.file + ".damaged-" + time.Now().UTC().Format("20060102T150405.000Z")
	// SQLite would apply a leftover log to the new database.
	if err := os.Link(s.file, aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return unavailable(err)
	}
	if err := os.Rename(s.file+"-wal", aside+"-wal"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return unavailable(err)
	}
	if err := os.Remove(s.file + "-shm"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return unavailable(err)
	}
	if err := os.Rename(fresh, s.file); err != nil {
		return unavailable(err)
	}
	s.notice("sqlstore: %s: %d records, %d entries and %d items saved, %d that are damaged left out; the damaged file is kept as %s",
		s.file, r.records, r.entries, r.items, r.left, aside)
	s.damage.Store(nil) // the store no longer has the damaged rows
	return s.firstMark(r.state.commits)
}

// rescue copies rows between databases.
type rescue struct {
	s        *Store
	from, to *conn
	state    state
	owners   map[int64]string
	used     map[int64]int64
	logs     map[int64]*log
	lines    map[int64]*line

	records, entries, items, left int
}

// gap separates old numbers from new ones, because the highest old number may be lost.
const gap = 1 << 32

func (r *rescue) fill(to *conn) error {
	r.to = to
	// writable_schema also allows reading a truncated file.
	from, err := connect(r.s.file, readOnly, "writable_schema = ON")
	if err == nil {
		defer func() { _ = from.close() }()
		r.from = from
		if st, err := from.readState(r.s); err == nil {
			st.commits = max(st.commits, r.state.commits)
			r.state = st
		}
		for _, copied := range []func() error{r.copyOwners, r.copyLogs, r.copyRecords, r.copyEntries, r.copyLines, r.copyItems} {
			if err := copied(); err != nil {
				return err
			}
		}
	}
	for _, q := range r.lines {
		if q.kept == 0 {
			continue
		}
		if _, err := to.exec(insertLine, q.id, q.space, q.name, q.live, q.kept, to.sumLine(q)); err != nil {
			return err
		}
	}
	for id, used := range r.used {
		name, known := r.owners[id]
		if !known {
			name = fmt.Sprintf("lost owner %d", id)
		}
		if _, err := to.exec(insertOwner, used, to.sumOwner(id, used, []byte(name)), id, []byte(name)); err != nil {
			return err
		}
		r.state.ids = max(r.state.ids, id)
	}
	r.state.commits++
	r.state.versions += gap
	r.state.ids += gap
	return to.writeState(r.state)
}

// walk passes the rows of a table to take, from the start and, if a damaged page ends that,
// from the end, until take returns that it has seen a row.
func (r *rescue) walk(list, order string, take func(row []driver.Value) (fresh bool, err error)) error {
	var failed error
	each := func(row []driver.Value) bool {
		fresh, err := take(row)
		failed = err
		return fresh && err == nil
	}
	stopped := r.from.rows(each, list+" ORDER BY "+order)
	if stopped != nil && failed == nil {
		_ = r.from.rows(each, list+" ORDER BY "+order+" DESC")
	}
	return failed
}

// whole passes on a row unless it is damaged. The reader of the row has recorded the damage.
func whole[Row any](row Row, err error) (Row, bool) { return row, err == nil }

func (r *rescue) copyOwners() error {
	return r.walk("SELECT id, name, used, sum FROM owner", "id", func(row []driver.Value) (bool, error) {
		if o, ok := whole(r.from.readOwner(r.s, row)); ok {
			if _, known := r.owners[o.id]; known {
				return false, nil
			}
			r.owners[o.id] = o.name
		}
		return true, nil
	})
}

func (r *rescue) copyLogs() error {
	return r.walk("SELECT id, owner, last, trimmed, sum, space, name FROM log", "id", func(row []driver.Value) (bool, error) {
		g, ok := whole(r.from.readLog(r.s, row))
		if !ok {
			return true, nil
		}
		if r.logs[g.id] != nil {
			return false, nil
		}
		r.logs[g.id] = g
		r.used[g.owner] += logCost(len(g.space), len(g.name))
		r.state.ids = max(r.state.ids, g.id)
		_, err := r.to.exec(insertLog, g.id, g.space, g.name, g.owner, g.kept, g.trimmed, r.to.sumLog(g))
		return true, err
	})
}

func (r *rescue) copyRecords() error {
	list := "SELECT version, owner, expires, sum, value, space, key FROM record"
	return r.walk(list, "space, key", func(row []driver.Value) (bool, error) {
		space, key := octets(row[5]), octets(row[6])
		rec, ok := whole(r.from.readRecord(r.s, row, space, key))
		if !ok {
			r.left++
			return true, nil
		}
		n, err := r.to.exec(insertRecord, space, key, rec.version, rec.owner, rec.expires, row[3], rec.value)
		if n == 0 || err != nil {
			return false, err
		}
		r.records++
		r.used[rec.owner] += cost(len(space)+len(key), len(rec.value))
		r.state.versions = max(r.state.versions, rec.version)
		return true, nil
	})
}

func (r *rescue) copyEntries() error {
	lost := int64(0)
	err := r.walk("SELECT n, seq, expires, data, log FROM chunk", "n", func(row []driver.Value) (bool, error) {
		k, g := readChunk(row), r.logs[number(row[4])]
		if g == nil {
			if garbage, err := r.from.row(isGarbage, number(row[4])); garbage == nil || err != nil {
				lost++
			}
			return true, nil
		}
		kept, damaged := r.intact(g, k)
		lost += damaged
		if kept.count == 0 {
			return true, nil
		}
		n, err := r.to.exec("INSERT OR IGNORE INTO chunk (log, seq, expires, data) VALUES (?, ?, ?, ?)", g.id, kept.seq, kept.expires, kept.data)
		if n == 0 || err != nil {
			return false, err
		}
		for e := kept.entries(); e.next(); {
			r.entries++
			r.used[e.entry.owner] += e.entry.cost()
			if e.entry.id != nil {
				if _, err := r.to.exec(insertName, g.id, e.entry.id, e.entry.seq); err != nil {
					return false, err
				}
			}
		}
		return true, nil
	})
	r.left += int(lost)
	if err != nil || lost == 0 {
		return err
	}
	// The lost rows may be the end of any log. A used number must not be used again: a
	// reader that is past it would miss the new entry.
	for _, g := range r.logs {
		g.kept = max(g.kept, g.trimmed, g.last) + lost
		if _, err := r.to.exec(updateLog, g.kept, g.trimmed, r.to.sumLog(g), g.id); err != nil {
			return err
		}
	}
	return nil
}

// intact returns the entries of a chunk that are whole and not cut off, and how many are damaged.
func (r *rescue) intact(g *log, k *chunk) (kept *chunk, damaged int64) {
	kept = new(chunk)
	e := k.entries()
	for e.next() {
		switch {
		case !r.from.intactEntry(g, &e):
			damaged++
			continue
		case e.entry.seq > g.trimmed:
			kept.add(&e.entry, e.sum)
		}
		g.last = max(g.last, e.entry.seq)
	}
	if len(e.rest) > 0 || e.last != k.seq { // the rest cannot be read
		damaged += min(max(k.seq-g.last, 1), chunkEntries)
	}
	return kept, damaged
}

// copyLines collects the queues. Their rows are written when their items are counted.
func (r *rescue) copyLines() error {
	return r.walk(selectLines, "id", func(row []driver.Value) (bool, error) {
		q, err := r.from.readLine(r.s, row)
		if err != nil {
			return true, nil //nolint:nilerr // the damage was recorded
		}
		if r.lines[q.id] != nil {
			return false, nil
		}
		q.live, q.kept = 0, 0
		r.lines[q.id] = q
		r.state.ids = max(r.state.ids, q.id)
		return true, nil
	})
}

func (r *rescue) copyItems() error {
	return r.walk("SELECT "+itemColumns+" FROM item", "line, n", func(row []driver.Value) (bool, error) {
		it, err := r.from.readItem(r.s, row)
		var data []byte
		if err == nil && !it.done {
			data, err = r.from.readBody(r.s, it)
		}
		if err != nil {
			r.left++
			return true, nil //nolint:nilerr // the damage was recorded
		}
		q := r.lines[it.line]
		if q == nil {
			// The queue survives without its name.
			q = &line{id: it.line, space: it.space, name: fmt.Appendf(nil, "lost queue %d", it.line)}
			r.lines[q.id] = q
		}
		n, err := r.to.exec("INSERT OR IGNORE INTO item ("+itemColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rowOf(row)...)
		if n == 0 || err != nil {
			return false, err
		}
		if !it.done {
			if _, err := r.to.exec(insertBody, it.n, r.to.sumBody(it.n, data), data); err != nil {
				return false, err
			}
			q.live++
		}
		r.items++
		q.kept++
		r.used[it.owner] += it.cost(len(q.name))
		r.state.ids = max(r.state.ids, it.n, it.line)
		r.state.versions = max(r.state.versions, it.lease)
		return true, nil
	})
}

// rowOf converts a row for writing: octets are not NULL.
func rowOf(row []driver.Value) []driver.Value {
	for i := 2; i <= 4; i++ {
		row[i] = octets(row[i])
	}
	return row
}
