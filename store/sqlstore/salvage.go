package sqlstore

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// salvage replaces a damaged database by one with all rows that can be read and have a
// correct checksum. The damaged file is kept beside it. It runs only with AcceptDamage.
func (s *Store) salvage(acknowledged int64) error {
	fresh := s.file + ".new"
	r := &rescue{s: s, owners: make(map[int64]string), used: make(map[int64]int64), logs: make(map[int64]*log), lines: make(map[int64]*line), held: make(map[int64]int64)}
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
	s.notice("sqlstore: %s: %d records, %d entries and %d items saved, and left out: %s; the damaged file is kept as %s",
		s.file, r.records, r.entries, r.items, r.omitted(), aside)
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

	held     map[int64]int64 // by line, the items before the damage
	queues   bool            // all lines were read
	backward bool            // the present walk is from the end

	records, entries, items int // that are saved
	left                    struct{ records, entries, items omission }
	nameless                struct{ owners, queues int } // that are saved under other names
}

// gap separates old numbers from new ones, because the highest old number may be lost.
const gap = 1 << 32

func (r *rescue) fill(to *conn) error {
	r.to = to
	// writable_schema also allows reading a truncated file.
	from, err := connect(r.s.file, readOnly, "writable_schema = ON")
	if err != nil {
		r.left.records.more, r.left.entries.more, r.left.items.more = true, true, true
	} else {
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
			r.nameless.owners++
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
// from the end, until take returns that it has seen a row. whole is false if rows between were not read.
func (r *rescue) walk(list, order string, take func(row []driver.Value) (fresh bool, err error)) (whole bool, err error) {
	var failed error
	r.backward = false
	each := func(row []driver.Value) bool {
		fresh, err := take(row)
		failed = err
		return fresh && err == nil
	}
	stopped := r.from.rows(each, list+" ORDER BY "+order)
	if stopped != nil && failed == nil {
		r.backward = true
		stopped = r.from.rows(each, list+" ORDER BY "+strings.ReplaceAll(order, ",", " DESC,")+" DESC")
	}
	return stopped == nil, failed
}

// whole passes on a row unless it is damaged. The reader of the row has recorded the damage.
func whole[Row any](row Row, err error) (Row, bool) { return row, err == nil }

func (r *rescue) copyOwners() error {
	_, err := r.walk("SELECT id, name, used, sum FROM owner", "id", func(row []driver.Value) (bool, error) {
		if o, ok := whole(r.from.readOwner(r.s, row)); ok {
			if _, known := r.owners[o.id]; known {
				return false, nil
			}
			r.owners[o.id] = o.name
		}
		return true, nil
	})
	return err
}

func (r *rescue) copyLogs() error {
	_, err := r.walk("SELECT id, owner, last, trimmed, sum, space, name FROM log", "id", func(row []driver.Value) (bool, error) {
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
	return err
}

func (r *rescue) copyRecords() error {
	list := "SELECT version, owner, expires, sum, value, space, key FROM record"
	whole, err := r.walk(list, "space, key", func(row []driver.Value) (bool, error) {
		space, key := octets(row[5]), octets(row[6])
		rec, ok := whole(r.from.readRecord(r.s, row, space, key))
		if !ok {
			r.left.records.add(1, space)
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
	r.left.records.more = !whole
	return err
}

func (r *rescue) copyEntries() error {
	unread := span{to: math.MaxInt64}
	whole, err := r.walk("SELECT n, seq, expires, data, log FROM chunk", "n", func(row []driver.Value) (bool, error) {
		k, id := readChunk(row), number(row[4])
		if r.backward {
			unread.to = k.n
		} else {
			unread.from = k.n
		}
		g := r.logs[id]
		if g == nil {
			if !r.isGarbage(id) {
				r.left.entries.add(k.number(), nil)
			}
			return true, nil
		}
		kept, damaged := r.intact(g, k)
		r.left.entries.add(int(damaged), g.space)
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
	if err == nil && !whole {
		r.countChunks(unread)
	}
	lost := int64(r.left.entries.n)
	if r.left.entries.more {
		lost += gap
	}
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

// span is the rows between two, without these.
type span struct{ from, to int64 }

// countChunks counts the entries of chunks that were not read, by the numbers in the index.
func (r *rescue) countChunks(unread span) {
	log, last := int64(0), int64(0)
	err := r.from.rows(func(row []driver.Value) bool {
		id, seq, n := number(row[0]), number(row[1]), number(row[2])
		if id != log {
			log, last = id, 0
		}
		if n > unread.from && n < unread.to {
			var space []byte
			g := r.logs[id]
			if g != nil {
				last, space = max(last, g.trimmed), g.space
				g.last = max(g.last, seq)
			}
			if g != nil || !r.isGarbage(id) {
				r.left.entries.add(int(min(max(seq-last, 0), chunkEntries)), space)
			}
		}
		last = seq
		return true
	}, "SELECT log, seq, n FROM chunk INDEXED BY chunk_seq ORDER BY log, seq")
	r.left.entries.more = err != nil
}

// isGarbage reports whether the entries of a log that is missing are still to be deleted.
func (r *rescue) isGarbage(log int64) bool {
	row, err := r.from.row(isGarbage, log)
	return row != nil && err == nil
}

// intact returns the entries of a chunk that are whole and not cut off, and how many are damaged.
func (r *rescue) intact(g *log, k *chunk) (kept *chunk, damaged int64) {
	kept = new(chunk)
	before, whole := max(g.last, g.trimmed), int64(0)
	e := k.entries()
	for e.next() {
		if !r.from.intactEntry(g, &e) {
			damaged++
			continue
		}
		whole++
		if e.entry.seq > g.trimmed {
			kept.add(&e.entry, e.sum)
		}
		g.last = max(g.last, e.entry.seq)
	}
	if len(e.rest) > 0 || e.last != k.seq { // the rest cannot be read
		damaged = max(damaged+1, min(k.seq-before, chunkEntries)-whole)
	}
	return kept, damaged
}

// copyLines collects the queues. Their rows are written when their items are counted.
func (r *rescue) copyLines() error {
	whole, err := r.walk(selectLines, "id", func(row []driver.Value) (bool, error) {
		q, err := r.from.readLine(r.s, row)
		if err != nil {
			return true, nil //nolint:nilerr // the damage was recorded
		}
		if r.lines[q.id] != nil {
			return false, nil
		}
		r.held[q.id] = q.kept
		q.live, q.kept = 0, 0
		r.lines[q.id] = q
		r.state.ids = max(r.state.ids, q.id)
		return true, nil
	})
	r.queues = whole
	return err
}

func (r *rescue) copyItems() error {
	whole, err := r.walk("SELECT "+itemColumns+" FROM item", "line, n", func(row []driver.Value) (bool, error) {
		it, err := r.from.readItem(r.s, row)
		var data []byte
		if err == nil && !it.done {
			data, err = r.from.readBody(r.s, it)
		}
		if err != nil {
			if of := number(row[0]); r.lines[of] == nil || r.held[of] == 0 { // else the queue has their number
				r.left.items.add(1, octets(row[2]))
			}
			return true, nil //nolint:nilerr // the damage was recorded
		}
		q := r.lines[it.line]
		if q == nil {
			// The queue survives without its name.
			q = &line{id: it.line, space: it.space, name: fmt.Appendf(nil, "lost queue %d", it.line)}
			r.lines[q.id] = q
			r.nameless.queues++
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
	for id, held := range r.held {
		q := r.lines[id]
		r.left.items.add(int(max(held-q.kept, 0)), q.space)
	}
	r.left.items.more = !whole && !r.queues
	return err
}

// rowOf converts a row for writing: octets are not NULL.
func rowOf(row []driver.Value) []driver.Value {
	for i := 2; i <= 4; i++ {
		row[i] = octets(row[i])
	}
	return row
}

// omission counts what is left out of one kind of data.
type omission struct {
	n      int
	more   bool           // rows that were not counted cannot be read
	spaces map[string]int // of those whose space is known
}

// add counts some of a space, which is nil if it is not known.
func (o *omission) add(n int, space []byte) {
	if n == 0 {
		return
	}
	o.n += n
	if o.spaces == nil {
		o.spaces = make(map[string]int)
	}
	o.spaces[string(space)] += n
}

// maxSpaces limits the spaces that a notice names: the name of a damaged row may be anything.
const maxSpaces = 16

// text returns the number and the spaces, empty if nothing is left out.
func (o *omission) text(kind string) string {
	n := o.n
	if o.more {
		n, kind = n+1, kind+" or more"
	}
	if n == 0 {
		return ""
	}
	var in []string
	for i, space := range slices.Sorted(maps.Keys(o.spaces)) {
		name := strconv.Quote(space)
		if space == "" {
			name = "unknown"
		}
		if i == maxSpaces {
			in = append(in, "…")
			break
		}
		in = append(in, fmt.Sprintf("%s: %d", name, o.spaces[space]))
	}
	text := fmt.Sprint(n, " ", kind)
	if len(in) > 0 {
		text += " (" + strings.Join(in, ", ") + ")"
	}
	return text
}

// omitted returns what is left out, by kind and space.
func (r *rescue) omitted() string {
	var list []string
	for _, one := range []string{r.left.records.text("records"), r.left.entries.text("entries"), r.left.items.text("items")} {
		if one != "" {
			list = append(list, one)
		}
	}
	if n := r.nameless.owners; n > 0 {
		list = append(list, fmt.Sprintf("the names of %d owners", n))
	}
	if n := r.nameless.queues; n > 0 {
		list = append(list, fmt.Sprintf("the names of %d queues", n))
	}
	return cmp.Or(strings.Join(list, ", "), "nothing")
}
