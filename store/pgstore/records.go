package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
)

const (
	putRecord = `SELECT status, coalesce(number, 0), coalesce(had_version, 0), had_owner, coalesce(had_expires, 0), coalesce(had_sum, 0),
			coalesce(had_payer, 0), had
		FROM put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	removeRecord = `SELECT removed FROM remove($1, $2, $3, $4, $5)`
	selectRecord = `SELECT version, owner, expires, sum, payer, value FROM record WHERE space = $1 AND key = $2`
	scanRecords  = `SELECT key, version, owner, expires, sum, payer, value FROM (
		SELECT *, sum(octet_length(value)) OVER (ORDER BY key) - octet_length(value) AS before FROM (
			SELECT * FROM record WHERE space = $1 AND key >= $2 AND ($3::bytea IS NULL OR key < $3) ORDER BY key LIMIT $4) page) counted
		WHERE before < $5 ORDER BY key`
)

// Statuses of schema1.sql.
const (
	written      = 0
	differs      = 1 // or known
	missing      = 2
	asksOctets   = 10
	asksPlace    = 11
	asksRemember = 12
)

// record is a row of the table of records.
type record struct {
	version, expires, sum, payer int64
	owner, value                 []byte
}

// columns returns where to read a record to.
func (r *record) columns() []any {
	return []any{&r.version, &r.owner, &r.expires, &r.sum, &r.payer, &r.value}
}

// intact returns an error if a record is damaged.
func (s *Store) intactRecord(space, key string, r *record) error {
	if r.sum != sumRecord(space, key, r) || r.payer != sumPayer(space, key, string(r.owner)) {
		return s.damaged("record %q in space %q", key, space)
	}
	return nil
}

func sumRecord(space, key string, r *record) int64 {
	return crc(checksum.Record, r.value, space, key) ^ r.version ^ rot(r.expires, 32)
}

func sumPayer(space, key, owner string) int64 { return crc(checksum.Owner, nil, space, key, owner) }

// Put implements store.Records.
func (s *Store) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	o := recordOp(space, key, owner, len(value))
	var result store.PutResult
	o.call = func(w *writer, l limits) call {
		return call{putRecord, []any{
			w.node, []byte(space), []byte(key), int64(was), []byte(owner), given(value), s.clock.Expiry(expires),
			crc(checksum.Record, value, space, key), sumPayer(space, key, owner), w.now, l.perOwner, l.open,
		}}
	}
	o.read = func(rows pgx.Rows) error {
		var status int
		var n int64
		var had record
		if err := one(rows, append([]any{&status, &n}, had.columns()...)...); err != nil {
			return err
		}
		if had.version != 0 {
			if err := s.intactRecord(space, key, &had); err != nil {
				return err
			}
		}
		result = store.PutResult{}
		switch status {
		case written:
			result.Wrote, result.Version = true, uint64(n)
		case differs:
			result.Version, result.Current = uint64(had.version), had.value
		case asksOctets:
			o.ask = &ask{owner: string(had.owner), octets: n}
		}
		return nil
	}
	o.done = func(err error) {
		if err != nil {
			result = store.PutResult{Err: err}
		}
		done(result)
	}
	s.queue.Submit(o)
}

func recordOp(space, key, owner string, value int) *op {
	return &op{
		size: len(space) + len(key) + len(owner) + value, owner: owner, invalid: gather.CheckSizes(space, key, "", owner, value),
		subject: gather.Subject{Kind: gather.Record, Space: space, Name: key}, after: true,
	}
}

// Delete implements store.Records.
func (s *Store) Delete(space, key string, was uint64, done func(removed bool, err error)) {
	o := recordOp(space, key, "", 0)
	var removed bool
	o.call = func(w *writer, _ limits) call {
		return call{removeRecord, []any{w.node, []byte(space), []byte(key), int64(was), w.now}}
	}
	o.read = func(rows pgx.Rows) error { return one(rows, &removed) }
	o.done = func(err error) { done(err == nil && removed, err) }
	s.queue.Submit(o)
}

// Get implements store.Records.
func (s *Store) Get(ctx context.Context, space, key string) (version uint64, value []byte, err error) {
	if err := gather.CheckSizes(space, key, "", "", 0); err != nil {
		return 0, nil, err
	}
	var r record
	found, err := s.row(ctx, call{selectRecord, []any{[]byte(space), []byte(key)}}, r.columns()...)
	if err == nil && found {
		err = s.intactRecord(space, key, &r)
	}
	if err != nil || !found || clock.Expired(r.expires, s.clock.Now()) {
		return 0, nil, err
	}
	return uint64(r.version), r.value, nil
}

// Scan implements store.Records. It reads a page at a time: no connection is held while yield runs.
func (s *Store) Scan(ctx context.Context, space, prefix, after string,
	yield func(key string, version uint64, value []byte) bool,
) error {
	if err := gather.CheckSizes(space, max(prefix, after), min(prefix, after), "", 0); err != nil {
		return err
	}
	from := []byte(max(prefix, after))
	if after >= prefix {
		from = append(from, 0) // the next possible key
	}
	type keyed struct {
		key string
		record
	}
	for {
		var page []keyed
		var key []byte
		var r record
		err := s.rows(ctx, func() error {
			page = append(page, keyed{string(key), r})
			return nil
		}, call{scanRecords, []any{[]byte(space), from, successor(prefix), pageRows, pageOctets}}, append([]any{&key}, r.columns()...)...)
		if err != nil {
			return err
		}
		now := s.clock.Now()
		for i := range page {
			k := &page[i]
			if err := s.intactRecord(space, k.key, &k.record); err != nil {
				return err
			}
			if !clock.Expired(k.expires, now) && !yield(k.key, uint64(k.version), k.value) {
				return nil
			}
		}
		if len(page) == 0 {
			return nil
		}
		from = append([]byte(page[len(page)-1].key), 0)
	}
}

// successor returns the least name that is greater than all with a prefix; nil without one.
func successor(prefix string) []byte {
	b := []byte(prefix)
	for n := len(b); n > 0; n-- {
		if b[n-1] < 0xff {
			b[n-1]++
			return b[:n]
		}
	}
	return nil
}
