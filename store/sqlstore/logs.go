package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"math"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
)

const (
	selectLog     = `SELECT id, owner, last, trimmed, sum, space, name FROM log WHERE space = ? AND name = ?`
	selectLogID   = `SELECT id, owner, last, trimmed, sum, space, name FROM log WHERE id = ?`
	insertLog     = `INSERT INTO log (id, space, name, owner, last, trimmed, sum) VALUES (?, ?, ?, ?, ?, ?, ?)`
	updateLog     = `UPDATE log SET last = ?, trimmed = ?, sum = ? WHERE id = ?`
	deleteLog     = `DELETE FROM log WHERE id = ?`
	lastEntry     = `SELECT max(seq) FROM chunk WHERE log = ?`
	readChunks    = `SELECT n, seq, expires, data FROM chunk WHERE log = ? AND seq > ? ORDER BY seq LIMIT ?`
	liveChunks    = `SELECT n, seq, expires, data FROM chunk WHERE log = ? AND seq > ? AND (expires = 0 OR expires > ?) ORDER BY seq`
	insertGarbage = `INSERT OR REPLACE INTO garbage (log, through) VALUES (?, ?)`
)

// everything is greater than the number of any entry.
const everything = math.MaxInt64

// log is a verified row of the table of logs, with derived state.
type log struct {
	id, owner   int64
	kept        int64 // the last number in the row, which may be out of date
	trimmed     int64
	space, name []byte

	last    int64  // the last number used
	filling *chunk // entries of this transaction that are not written yet; nil without
}

type logName struct{ space, name string }

// logs is the cache of logs.
type logs struct {
	byName  map[logName]*log
	byID    map[int64]*log
	filling []*log // those with a chunk that is being filled
	spare   []*chunk
}

// maxLogs limits the cache between transactions.
const maxLogs = 4096

func (l *logs) forget() {
	clear(l.byName)
	clear(l.byID)
	for _, g := range l.filling {
		l.give(g)
	}
	l.filling = l.filling[:0]
}

// markCommitted keeps the cache small. All chunks are written.
func (l *logs) markCommitted() {
	if len(l.byID) > maxLogs {
		l.forget()
	}
}

func (l *logs) add(g *log) {
	l.byID[g.id] = g
	l.byName[logName{string(g.space), string(g.name)}] = g
}

func (l *logs) remove(g *log) {
	delete(l.byID, g.id)
	delete(l.byName, logName{string(g.space), string(g.name)})
}

func (c *conn) sumLog(g *log) int64 {
	return c.sum(checksum.Log, []int64{g.id, g.owner, g.kept, g.trimmed}, nil, g.space, g.name)
}

// readLog returns the log of a row.
func (c *conn) readLog(s *Store, row []driver.Value) (*log, error) {
	g := &log{
		id: number(row[0]), owner: number(row[1]), kept: number(row[2]), trimmed: number(row[3]),
		space: octets(row[5]), name: octets(row[6]),
	}
	if number(row[4]) != c.sumLog(g) {
		return nil, s.damaged("log %q in space %q", g.name, g.space)
	}
	return g, nil
}

// log returns a log; nil if it does not exist.
func (w *writer) log(space, name string) (*log, error) {
	if g := w.logs.byName[logName{space, name}]; g != nil {
		return g, nil
	}
	return w.loadLog(selectLog, []byte(space), []byte(name))
}

func (w *writer) logByID(id int64) (*log, error) {
	if g := w.logs.byID[id]; g != nil {
		return g, nil
	}
	return w.loadLog(selectLogID, id)
}

func (w *writer) loadLog(statement string, args ...driver.Value) (*log, error) {
	row, err := w.conn.row(statement, args...)
	if row == nil || err != nil {
		return nil, err
	}
	g, err := w.conn.readLog(w.s, row)
	if err != nil {
		return nil, err
	}
	row, err = w.conn.row(lastEntry, g.id)
	if err != nil {
		return nil, err
	}
	g.last = max(g.kept, g.trimmed, number(row[0]))
	w.logs.add(g)
	return g, nil
}

func (w *writer) updateLog(g *log) error {
	g.kept = g.last
	_, err := w.conn.exec(updateLog, g.kept, g.trimmed, w.conn.sumLog(g), g.id)
	return err
}

// entry is an entry of a chunk.
type entry struct {
	seq, owner, expires int64
	id, data            []byte
}

func (e *entry) cost() int64 { return cost(len(e.id), len(e.data)) }

func (c *conn) sumEntry(g *log, e *entry) uint32 {
	return uint32(c.sum(checksum.Entry, []int64{g.id, e.seq, e.owner, e.expires}, e.data, g.space, g.name, e.id))
}

// add is a pending Append or AppendAll.
type add struct {
	space, log string
	owner      string
	entries    []store.Entry
	expires    time.Time
	tell       func(add *add, err error)
	invalid    error

	results []store.AppendResult
	one     struct { // the memory of both for an Append
		entry  [1]store.Entry
		result [1]store.AppendResult
	}
}

// Append implements store.Logs.
func (s *Store) Append(space, log, id, owner string, data []byte, expires time.Time, done func(store.AppendResult)) {
	a := &add{space: space, log: log, owner: owner, expires: expires, invalid: gather.CheckSizes(space, log, id, owner, len(data))}
	a.one.entry[0] = store.Entry{ID: id, Data: data}
	a.entries, a.results = a.one.entry[:], a.one.result[:]
	a.tell = func(a *add, err error) {
		if err != nil {
			done(store.AppendResult{Err: err})
			return
		}
		done(a.results[0])
	}
	s.queue.Submit(a)
}

// AppendAll implements store.Logs.
func (s *Store) AppendAll(space, log, owner string, entries []store.Entry, expires time.Time, done func(store.AppendAllResult)) {
	a := &add{space: space, log: log, owner: owner, entries: entries, expires: expires, results: make([]store.AppendResult, len(entries))}
	for _, e := range entries {
		a.invalid = cmp.Or(a.invalid, gather.CheckSizes(space, log, e.ID, owner, len(e.Data)))
	}
	a.tell = func(a *add, err error) {
		if err != nil {
			done(store.AppendAllResult{Err: err})
			return
		}
		seqs := make([]uint64, len(a.results))
		for i, r := range a.results {
			seqs[i] = r.Seq
		}
		done(store.AppendAllResult{Seqs: seqs})
	}
	s.queue.Submit(a)
}

func (a *add) Size() int {
	n := len(a.space) + len(a.log) + len(a.owner)
	for _, e := range a.entries {
		n += len(e.ID) + len(e.Data)
	}
	return n
}

func (a *add) Owner() string { return a.owner }

func (a *add) Subject() (gather.Subject, bool) {
	return gather.Subject{Kind: gather.Log, Space: a.space, Name: a.log}, false // entries differ by their ids
}

func (a *add) Done(err error) { a.tell(a, err) }

func (a *add) apply(w *writer) error {
	clear(a.results)
	if a.invalid != nil || len(a.entries) == 0 {
		return a.invalid
	}
	g, err := w.log(a.space, a.log)
	if err != nil {
		return err
	}
	payer, err := w.owner(a.owner)
	if err != nil {
		return err
	}
	if enough, err := a.makeRoom(w, g, payer); !enough || err != nil {
		return err
	}
	if payer.id == 0 {
		w.number(payer)
	}
	if g == nil {
		if g, err = w.newLog(a.space, a.log, payer); err != nil {
			return err
		}
		w.charge(payer, logCost(len(a.space), len(a.log)))
	}
	for i := range a.entries {
		err := a.write(w, g, payer, i)
		if err != nil && i > 0 && !isFailed(err) {
			err = &failed{store.ErrDamaged, err} // those before it must not be written either
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeRoom returns an error if the entries exceed a quota. If all are known, which needs no room, it
// returns false, and the results are complete.
func (a *add) makeRoom(w *writer, g *log, payer *owner) (fresh bool, err error) {
	more := int64(0)
	if g == nil {
		more += logCost(len(a.space), len(a.log))
	}
	for _, e := range a.entries {
		more += cost(len(e.ID), len(e.Data))
	}
	if w.fits(payer, more) {
		return true, nil
	}
	// An operation that needs no room succeeds even if the quota is used up.
	known := 0
	for i, e := range a.entries {
		if g == nil || e.ID == "" {
			continue
		}
		found, err := a.find(w, g, i)
		if err != nil {
			return false, err
		}
		if found {
			known++
			more -= cost(len(e.ID), len(e.Data))
		}
	}
	if known == len(a.entries) {
		return false, nil
	}
	return true, w.makeRoom(payer, more)
}

// write appends an entry, unless the log has one with its id.
func (a *add) write(w *writer, g *log, payer *owner, i int) error {
	e := entry{seq: g.last + 1, owner: payer.id, expires: w.s.clock.Expiry(a.expires), data: a.entries[i].Data}
	if id := a.entries[i].ID; id != "" {
		e.id = []byte(id)
		if fresh, err := a.name(w, g, &e, i); !fresh || err != nil {
			return err
		}
	}
	if err := w.append(g, &e); err != nil {
		return err
	}
	w.charge(payer, e.cost())
	a.results[i] = store.AppendResult{Seq: uint64(e.seq), Fresh: true}
	return nil
}

// name enters the id of an entry. It returns false if the log has an entry with this id.
func (a *add) name(w *writer, g *log, e *entry, i int) (fresh bool, err error) {
	for range 2 {
		if n, err := w.conn.exec(insertName, g.id, e.id, e.seq); err != nil || n > 0 {
			return true, err
		}
		// The entry may have expired.
		if known, err := a.find(w, g, i); known || err != nil {
			return false, err
		}
	}
	return false, w.s.damaged("log %q in space %q", a.log, a.space)
}

// find looks for an entry with the same id. It removes one that is expired or cut off.
func (a *add) find(w *writer, g *log, i int) (known bool, err error) {
	id := []byte(a.entries[i].ID)
	row, err := w.conn.row(selectName, g.id, id)
	if row == nil || err != nil {
		return false, err
	}
	k, e, err := w.chunkOf(g, number(row[0]))
	switch {
	case err != nil:
		return false, err
	case e == nil || !bytes.Equal(e.id, id):
		return false, w.s.damaged("entry %d of log %q in space %q", number(row[0]), g.name, g.space)
	case e.seq <= g.trimmed || clock.Expired(e.expires, w.now):
		return false, w.removeEntry(g, k, e)
	}
	a.results[i] = store.AppendResult{Seq: uint64(e.seq), Equal: bytes.Equal(e.data, a.entries[i].Data)}
	return true, nil
}

func logCost(space, name int) int64 { return cost(space+name, 0) }

func (w *writer) newLog(space, name string, payer *owner) (*log, error) {
	w.state.ids++
	g := &log{id: w.state.ids, owner: payer.id, space: []byte(space), name: []byte(name)}
	_, err := w.conn.exec(insertLog, g.id, g.space, g.name, g.owner, g.kept, g.trimmed, w.conn.sumLog(g))
	if err == nil {
		w.logs.add(g)
	}
	return g, err
}

// removeEntry removes an entry of a chunk. Its number is not used again.
func (w *writer) removeEntry(g *log, k *chunk, e *entry) error {
	if e.seq > g.kept {
		if err := w.updateLog(g); err != nil {
			return err
		}
	}
	_, err := w.keepEntries(g.id, k, func(other *entry) bool { return other.seq != e.seq })
	return err
}

// cut is a pending Trim or Drop.
type cut struct {
	gather.Unowned
	space, log string
	through    int64
	drop       bool
	tell       func(error)
	invalid    error
}

// Trim implements store.Logs.
func (s *Store) Trim(space, log string, through uint64, done func(error)) {
	s.queue.Submit(&cut{
		space: space, log: log, through: int64(min(through, everything)), tell: done,
		invalid: gather.CheckSizes(space, log, "", "", 0),
	})
}

// Drop implements store.Logs.
func (s *Store) Drop(space, log string, done func(error)) {
	s.queue.Submit(&cut{
		space: space, log: log, through: everything, drop: true, tell: done,
		invalid: gather.CheckSizes(space, log, "", "", 0),
	})
}

func (c *cut) Size() int { return len(c.space) + len(c.log) }

func (c *cut) Subject() (gather.Subject, bool) {
	return gather.Subject{Kind: gather.Log, Space: c.space, Name: c.log}, true
}

func (c *cut) Done(err error) { c.tell(err) }

// apply marks entries as cut off, which hides them at once. The sweep deletes them in small
// portions, so that a long log does not delay other operations.
func (c *cut) apply(w *writer) error {
	if c.invalid != nil {
		return c.invalid
	}
	g, err := w.log(c.space, c.log)
	if g == nil || err != nil {
		return err
	}
	through := c.through
	if err := w.writeChunks(); err != nil {
		return err
	}
	if c.drop {
		if err := w.refund(g.owner, logCost(len(c.space), len(c.log))); err != nil {
			return err
		}
		w.logs.remove(g)
		if _, err := w.conn.exec(deleteLog, g.id); err != nil {
			return err
		}
	} else {
		through = min(through, g.last)
		if through <= g.trimmed {
			return nil
		}
		g.trimmed = through
		if err := w.updateLog(g); err != nil {
			return err
		}
	}
	_, err = w.conn.exec(insertGarbage, g.id, through)
	w.sweeper.garbage = true
	return err
}

// Read implements store.Logs. It reads a page at a time: no connection is held
// while yield runs.
func (s *Store) Read(ctx context.Context, space, name string, after uint64,
	yield func(seq uint64, id string, data []byte) bool,
) error {
	if err := gather.CheckSizes(space, name, "", "", 0); err != nil {
		return err
	}
	var page []entry
	from := int64(min(after, everything))
	for limit := firstOctets; ; limit = pageOctets {
		page = page[:0]
		var fault error
		size, rows, more := 0, 0, false
		err := s.read(ctx, func(c *conn) error {
			g, err := c.findLog(s, space, name)
			if g == nil || err != nil {
				return err
			}
			from = max(from, g.trimmed)
			now := s.clock.Now()
			return c.rows(func(row []driver.Value) bool {
				rows++
				k := readChunk(row)
				fault = c.eachEntry(s, g, k, from, func(e *entry) bool {
					if !clock.Expired(e.expires, now) {
						page = append(page, *e)
					}
					return true
				})
				from = max(from, k.seq)
				size += len(k.data)
				more = rows == pageRows || len(page) >= pageRows || size >= limit
				return fault == nil && !more
			}, readChunks, g.id, from, int64(pageRows))
		})
		if err != nil {
			return err
		}
		for _, e := range page {
			if !yield(uint64(e.seq), string(e.id), e.data) {
				return nil
			}
		}
		if fault != nil {
			return fault
		}
		if !more {
			return nil
		}
	}
}

// Span implements store.Logs.
func (s *Store) Span(ctx context.Context, space, name string) (first, last uint64, err error) {
	if err := gather.CheckSizes(space, name, "", "", 0); err != nil {
		return 0, 0, err
	}
	err = s.read(ctx, func(c *conn) error {
		g, err := c.findLog(s, space, name)
		if g == nil || err != nil {
			return err
		}
		row, err := c.row(lastEntry, g.id)
		if err != nil {
			return err
		}
		last = uint64(max(g.kept, g.trimmed, number(row[0])))
		now := s.clock.Now()
		return c.rows(func(row []driver.Value) bool {
			for r := readChunk(row).entries(); first == 0 && r.next(); {
				if r.entry.seq > g.trimmed && !clock.Expired(r.entry.expires, now) {
					first = uint64(r.entry.seq)
				}
			}
			return first == 0
		}, liveChunks, g.id, g.trimmed, now)
	})
	if err == nil && first == 0 {
		first = last + 1
	}
	return first, last, err
}

func (c *conn) findLog(s *Store, space, name string) (*log, error) {
	row, err := c.row(selectLog, []byte(space), []byte(name))
	if row == nil || err != nil {
		return nil, err
	}
	return c.readLog(s, row)
}
