package sqlstore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/store"
)

// verify looks for damage before the first write: a missing or unreadable database, missing
// acknowledged transactions, or a broken structure. The structure check may take long on a
// cold disk; after CheckFor it continues in the background, and the checksums of the rows
// follow. With AcceptDamage, Open waits for the whole check, because damaged rows must be
// known before the store is used.
func (s *Store) verify(ctx context.Context, known mark, badMark bool) error {
	if badMark {
		return s.damaged("%s: missing, or not the mark of this store", markName)
	}
	c, err := connect(s.file, readOnly)
	if err != nil {
		if errors.Is(err, store.ErrUnavailable) {
			if _, missing := os.Stat(s.file); missing != nil {
				err = s.damaged("missing, but %d transactions are acknowledged", known.commits)
			}
		}
		return err
	}
	if err := s.verifyEnd(c, known); err != nil {
		_ = c.close()
		return s.unreadable(err)
	}
	if s.options.AcceptDamage {
		return s.verifyRows(ctx, c)
	}
	structure := s.checks.start(s, c)
	wait := time.NewTimer(s.options.CheckFor)
	defer wait.Stop()
	select {
	case err := <-structure:
		return err
	case <-wait.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.notice("sqlstore: %s: integrity check goes on in the background", s.file)
	return nil
}

// verifyEnd looks for missing transactions that were acknowledged.
func (s *Store) verifyEnd(c *conn, known mark) error {
	st, err := c.readState(s)
	if err != nil {
		return err
	}
	missing, promised := known.lost(st.commits, s.mark.boot)
	switch {
	case missing > 0 && promised:
		return s.damaged("ends with transaction %d, but %d are acknowledged: its end, or that of %s-wal, is missing or damaged",
			st.commits, known.commits, databaseName)
	case missing > 0:
		s.notice("sqlstore: %s: the last %d transactions, of durability %q, ended with the machine", s.file, missing, store.Process)
	case promised:
		return s.checkLog(c, st.commits)
	}
	return nil
}

// verifyRows waits for the check of structure and rows, and closes the connection.
func (s *Store) verifyRows(ctx context.Context, c *conn) error {
	defer func() { _ = c.close() }()
	if err := s.checkStructure(ctx, c); err != nil {
		return err
	}
	scrubber{s: s, conn: c, alone: true}.run(ctx)
	if found := s.damage.Load(); found != nil {
		return *found
	}
	return ctx.Err()
}

// asDamage records damage that a statement has found.
func (s *Store) asDamage(err error) error {
	var f *failed
	if errors.As(err, &f) && errors.Is(err, store.ErrDamaged) {
		return s.damaged("%w", f.cause)
	}
	return err
}

// unreadable is asDamage for a database without some of its tables.
func (s *Store) unreadable(err error) error {
	var f *failed
	if errors.As(err, &f) && f.kind == nil {
		return s.damaged("%w", f.cause)
	}
	return s.asDamage(err)
}

// readState reads the row of the store.
func (c *conn) readState(s *Store) (state, error) {
	row, err := c.row(selectState)
	if err != nil {
		return state{}, err
	}
	if row == nil {
		return state{}, s.damaged("state")
	}
	st := state{number(row[0]), number(row[1]), number(row[2]), number(row[3])}
	if number(row[4]) != c.sumState(st) {
		return state{}, s.damaged("state")
	}
	return st, nil
}

// checks is the background check, with a separate connection.
type checks struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// start checks the structure of the database, sends the result, and continues with the
// rows.
func (k *checks) start(s *Store, c *conn) <-chan error {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	structure := make(chan error, 1)
	k.done.Go(func() {
		defer func() { _ = c.close() }()
		err := s.checkStructure(ctx, c)
		structure <- err
		if err == nil {
			scrubber{s: s, conn: c}.run(ctx)
		}
	})
	return structure
}

// stop ends the check.
func (k *checks) stop() {
	if k.cancel != nil {
		k.cancel()
	}
	k.done.Wait()
}

// checkStructure runs the integrity check of SQLite.
func (s *Store) checkStructure(ctx context.Context, c *conn) error {
	var found string
	err := c.rowsWithin(ctx, func(row []driver.Value) bool {
		found, _ = row[0].(string)
		return false
	}, "PRAGMA quick_check(1)")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return s.unreadable(err)
	case found != "ok":
		// SQLite reports each finding on a line.
		return s.damaged("%s", strings.Join(strings.Fields(strings.ReplaceAll(found, "***", "")), " "))
	}
	return nil
}

const (
	scrubOwners  = `SELECT id, name, used, sum FROM owner WHERE id > ? ORDER BY id LIMIT ?`
	scrubLogs    = `SELECT id, owner, last, trimmed, sum, space, name FROM log WHERE id > ? ORDER BY id LIMIT ?`
	scrubRecords = `SELECT version, owner, expires, sum, value, space, key FROM record
		WHERE (space, key) > (?, ?) ORDER BY space, key LIMIT ?`
	scrubChunks = `SELECT n, seq, expires, data, log, n = (SELECT n FROM chunk WHERE log = c.log AND seq = c.seq)
		FROM chunk c WHERE n > ? ORDER BY n LIMIT ?`
	scrubLines = `SELECT id, live, kept, sum, space, name FROM line WHERE id > ? ORDER BY id LIMIT ?`
	scrubItems = `SELECT ` + itemColumns + `,
		n = (SELECT n FROM item WHERE space = i.space AND id = i.id),
		EXISTS (SELECT 1 FROM line WHERE id = i.line)
		FROM item i WHERE (line, n) > (?, ?) ORDER BY line, n LIMIT ?`
	isGarbage = `SELECT 1 FROM garbage WHERE log = ?`
)

// scrubRows is the number of rows between two pauses. A pause is three times as long as the
// check before it.
const scrubRows = 256

// scrubber reads every row once and verifies its checksum and its index entries. Check
// reports the findings.
type scrubber struct {
	s     *Store
	conn  *conn
	alone bool // nothing else uses the disk; do not pause
}

func (b scrubber) run(ctx context.Context) {
	b.table(ctx, scrubOwners, []driver.Value{int64(0)}, func(row []driver.Value) []driver.Value {
		_, _ = b.conn.readOwner(b.s, row)
		return row[:1]
	})
	b.table(ctx, scrubLogs, []driver.Value{int64(0)}, func(row []driver.Value) []driver.Value {
		_, _ = b.conn.readLog(b.s, row)
		return row[:1]
	})
	b.table(ctx, scrubRecords, []driver.Value{[]byte{}, []byte{}}, func(row []driver.Value) []driver.Value {
		_, _ = b.conn.readRecord(b.s, row, octets(row[5]), octets(row[6]))
		return []driver.Value{octets(row[5]), octets(row[6])}
	})
	b.table(ctx, scrubChunks, []driver.Value{int64(0)}, func(row []driver.Value) []driver.Value {
		_ = b.chunk(row)
		return row[:1]
	})
	b.table(ctx, scrubLines, []driver.Value{int64(0)}, func(row []driver.Value) []driver.Value {
		_, _ = b.conn.readLine(b.s, row)
		return row[:1]
	})
	b.table(ctx, scrubItems, []driver.Value{int64(0), int64(0)}, func(row []driver.Value) []driver.Value {
		_ = b.item(row)
		return row[:2]
	})
}

// table passes all rows after a key to check, which returns the key of its row. What check
// reads is of the same state as the row.
func (b scrubber) table(ctx context.Context, list string, after []driver.Value, check func(row []driver.Value) []driver.Value) {
	for ctx.Err() == nil {
		start := time.Now()
		var rows [][]driver.Value
		size := 0
		err := b.conn.atOnce(func() error {
			err := b.conn.rows(func(row []driver.Value) bool {
				rows = append(rows, append([]driver.Value(nil), row...))
				for _, column := range row {
					size += len(octets(column))
				}
				return size < pageOctets
			}, list, append(append([]driver.Value(nil), after...), int64(scrubRows))...)
			if err != nil {
				return err
			}
			for _, row := range rows {
				after = check(row)
			}
			return nil
		})
		if err != nil {
			_ = b.s.asDamage(err)
			return
		}
		if len(rows) < scrubRows && size < pageOctets {
			return
		}
		if b.alone {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Since(start)):
		}
	}
}

func (b scrubber) chunk(row []driver.Value) error {
	g, err := b.log(number(row[4]))
	if g == nil || err != nil {
		return err
	}
	k := readChunk(row)
	latest, forever, lost := int64(0), false, number(row[5]) != 1
	var failed error
	err = b.conn.eachEntry(b.s, g, k, 0, func(e *entry) bool {
		latest, forever = max(latest, e.expires), forever || e.expires == 0
		if e.id != nil && !lost {
			named, err := b.conn.row(selectName, g.id, e.id)
			failed = err
			lost = err == nil && (named == nil || number(named[0]) != e.seq)
		}
		return failed == nil
	})
	switch err := cmp.Or(failed, err); {
	case err != nil:
		return err
	case lost, forever && k.expires != 0, !forever && k.expires != latest:
		return b.s.damaged("entries up to %d of log %q in space %q are not to be found by their numbers, ids and expiry", k.seq, g.name, g.space)
	}
	return nil
}

func (b scrubber) item(row []driver.Value) error {
	it, err := b.conn.readItem(b.s, row)
	if err != nil {
		return err
	}
	if number(row[14]) != 1 || number(row[15]) != 1 {
		return b.s.damaged("item %q in space %q is not to be found by its id and queue", it.id, it.space)
	}
	if it.done {
		return nil
	}
	_, err = b.conn.readBody(b.s, it)
	return err
}

// log returns the log of an entry; nil if the entry was cut off.
func (b scrubber) log(id int64) (*log, error) {
	row, err := b.conn.row(selectLogID, id)
	if err != nil {
		return nil, err
	}
	if row != nil {
		return b.conn.readLog(b.s, row)
	}
	garbage, err := b.conn.row(isGarbage, id)
	if err == nil && garbage == nil {
		if row, err = b.conn.row(`SELECT 1 FROM chunk WHERE log = ? LIMIT 1`, id); row != nil {
			err = b.s.damaged("log number %d has entries, but is missing", id)
		}
	}
	return nil, err
}

// damaged records damage and returns the error for the caller.
func (s *Store) damaged(format string, args ...any) error {
	err := fmt.Errorf("%w: %s: %w", store.ErrDamaged, s.name(), fmt.Errorf(format, args...))
	s.damage.CompareAndSwap(nil, &err)
	if s.stats.Damaged.Add(1) <= noticed {
		s.notice("%v", err)
	}
	return err
}

// noticed limits the messages about damage. Check reports the first finding.
const noticed = 16
