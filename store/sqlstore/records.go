package sqlstore

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
)

const (
	insertRecord = `INSERT OR IGNORE INTO record (space, key, version, owner, expires, sum, value) VALUES (?, ?, ?, ?, ?, ?, ?)`
	putRecord    = `INSERT OR REPLACE INTO record (space, key, version, owner, expires, sum, value) VALUES (?, ?, ?, ?, ?, ?, ?)`
	selectRecord = `SELECT version, owner, expires, sum, value FROM record WHERE space = ? AND key = ?`
	deleteRecord = `DELETE FROM record WHERE space = ? AND key = ?`
	scanRecords  = `SELECT version, owner, expires, sum, value, key FROM record WHERE space = ? AND key >= ? ORDER BY key LIMIT ?`
)

// record is a verified row of the table of records.
type record struct {
	version, owner, expires int64
	value                   []byte
}

func (c *conn) sumRecord(space, key []byte, r *record) int64 {
	return c.sum(checksum.Record, []int64{r.version, r.owner, r.expires}, r.value, space, key)
}

// readRecord returns the record of a row. A damaged record is never returned.
func (c *conn) readRecord(s *Store, row []driver.Value, space, key []byte) (*record, error) {
	r := &record{version: number(row[0]), owner: number(row[1]), expires: number(row[2]), value: octets(row[4])}
	if number(row[3]) != c.sumRecord(space, key, r) {
		return nil, s.damaged("record %q in space %q", key, space)
	}
	return r, nil
}

// put is a pending Put.
type put struct {
	space, key []byte
	was        uint64
	owner      string
	value      []byte
	expires    time.Time
	tell       func(store.PutResult)
	invalid    error

	result store.PutResult
}

// Put implements store.Records.
func (s *Store) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	s.queue.Submit(&put{
		space: []byte(space), key: []byte(key), was: was, owner: owner, value: value, expires: expires, tell: done,
		invalid: gather.CheckSizes(space, key, "", owner, len(value)),
	})
}

func (p *put) Size() int { return len(p.space) + len(p.key) + len(p.owner) + len(p.value) }

func (p *put) Owner() string { return p.owner }

func (p *put) Subject() (gather.Subject, bool) { return recordSubject(p.space, p.key) }

func recordSubject(space, key []byte) (gather.Subject, bool) {
	return gather.Subject{Kind: gather.Record, Space: string(space), Name: string(key)}, true
}

func (p *put) Done(err error) {
	if err != nil {
		p.result = store.PutResult{Err: err}
	}
	p.tell(p.result)
}

func (p *put) apply(w *writer) error {
	p.result = store.PutResult{}
	if p.invalid != nil {
		return p.invalid
	}
	payer, err := w.owner(p.owner)
	if err != nil {
		return err
	}
	more := p.cost(p.value)
	if p.was == 0 && w.fits(payer, more) {
		// In most cases there is no record, and one statement suffices.
		if err := p.write(w, insertRecord, payer, more); p.result.Wrote || err != nil {
			return err
		}
	}
	there, err := w.record(p.space, p.key)
	if err != nil {
		return err
	}
	switch {
	case there != nil && uint64(there.version) != p.was:
		p.result.Version, p.result.Current = uint64(there.version), there.value
		return nil
	case there == nil && p.was != 0:
		return nil
	case there != nil:
		more -= p.cost(there.value)
		if payer, err = w.ownerByID(there.owner); err != nil {
			return err
		}
	}
	if err := w.makeRoom(payer, more); err != nil {
		return err
	}
	return p.write(w, putRecord, payer, more)
}

func (p *put) cost(value []byte) int64 { return cost(len(p.space)+len(p.key), len(value)) }

func (p *put) write(w *writer, statement string, payer *owner, more int64) error {
	version, expires := w.state.versions+1, w.s.clock.Expiry(p.expires)
	if payer.id == 0 {
		w.number(payer)
	}
	sum := w.conn.sumRecord(p.space, p.key, &record{version, payer.id, expires, p.value})
	n, err := w.conn.exec(statement, p.space, p.key, version, payer.id, expires, sum, given(p.value))
	if err != nil || n == 0 {
		return err
	}
	w.state.versions = version
	w.charge(payer, more)
	w.due(expires)
	p.result.Wrote, p.result.Version = true, uint64(version)
	return nil
}

// record returns the current record, or nil. It removes an expired one.
func (w *writer) record(space, key []byte) (*record, error) {
	row, err := w.conn.row(selectRecord, space, key)
	if row == nil || err != nil {
		return nil, err
	}
	r, err := w.conn.readRecord(w.s, row, space, key)
	if err == nil && clock.Expired(r.expires, w.now) {
		return nil, w.removeRecord(space, key, r.owner, cost(len(space)+len(key), len(r.value)))
	}
	return r, err
}

func (w *writer) removeRecord(space, key []byte, owner, cost int64) error {
	if err := w.refund(owner, cost); err != nil {
		return err
	}
	_, err := w.conn.exec(deleteRecord, space, key)
	return err
}

// remove is a pending Delete.
type remove struct {
	gather.Unowned
	space, key []byte
	was        uint64
	tell       func(removed bool, err error)
	invalid    error

	removed bool
}

// Delete implements store.Records.
func (s *Store) Delete(space, key string, was uint64, done func(removed bool, err error)) {
	s.queue.Submit(&remove{
		space: []byte(space), key: []byte(key), was: was, tell: done,
		invalid: gather.CheckSizes(space, key, "", "", 0),
	})
}

func (r *remove) Size() int { return len(r.space) + len(r.key) }

func (r *remove) Subject() (gather.Subject, bool) { return recordSubject(r.space, r.key) }

func (r *remove) Done(err error) { r.tell(err == nil && r.removed, err) }

func (r *remove) apply(w *writer) error {
	r.removed = false
	if r.invalid != nil {
		return r.invalid
	}
	there, err := w.record(r.space, r.key)
	if errors.Is(err, store.ErrDamaged) && !isFailed(err) && r.was == 0 {
		// This removes a damaged record. Its owner is damaged too; the octets stay counted
		// until the owners are counted again.
		r.removed = true
		_, err = w.conn.exec(deleteRecord, r.space, r.key)
		return err
	}
	if err != nil {
		return err
	}
	if there != nil && r.was != 0 && uint64(there.version) != r.was {
		return nil
	}
	r.removed = true
	if there == nil {
		return nil
	}
	return w.removeRecord(r.space, r.key, there.owner, cost(len(r.space)+len(r.key), len(there.value)))
}

// Get implements store.Records.
func (s *Store) Get(ctx context.Context, space, key string) (version uint64, value []byte, err error) {
	if err := gather.CheckSizes(space, key, "", "", 0); err != nil {
		return 0, nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		row, err := c.row(selectRecord, []byte(space), []byte(key))
		if row == nil || err != nil {
			return err
		}
		r, err := c.readRecord(s, row, []byte(space), []byte(key))
		if err == nil && !clock.Expired(r.expires, s.clock.Now()) {
			version, value = uint64(r.version), r.value
		}
		return err
	})
	return version, value, err
}

// Scan implements store.Records. It reads a page at a time: no connection is
// held while yield runs.
func (s *Store) Scan(ctx context.Context, space, prefix, after string,
	yield func(key string, version uint64, value []byte) bool,
) error {
	if err := gather.CheckSizes(space, max(prefix, after), min(prefix, after), "", 0); err != nil {
		return err
	}
	type item struct {
		key []byte
		*record
	}
	var page []item
	from := []byte(max(prefix, after))
	if after >= prefix {
		from = append(from, 0) // the next possible key
	}
	for {
		page = page[:0]
		var fault error
		octetsRead, rows := 0, 0
		err := s.read(ctx, func(c *conn) error {
			now := s.clock.Now()
			return c.rows(func(row []driver.Value) bool {
				key := octets(row[5])
				if !bytes.HasPrefix(key, []byte(prefix)) {
					return false
				}
				rows++
				var r *record
				if r, fault = c.readRecord(s, row, []byte(space), key); fault != nil {
					return false
				}
				from = append(slices.Clip(key), 0)
				if !clock.Expired(r.expires, now) {
					page = append(page, item{key, r})
				}
				octetsRead += len(key) + len(r.value)
				return octetsRead < pageOctets
			}, scanRecords, []byte(space), from, int64(pageRows))
		})
		if err != nil {
			return err
		}
		for _, it := range page {
			if !yield(string(it.key), uint64(it.version), it.value) {
				return nil
			}
		}
		if fault != nil {
			return fault
		}
		if rows < pageRows && octetsRead < pageOctets {
			return nil
		}
	}
}

// given returns a value as a column that is not NULL.
func given(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}
