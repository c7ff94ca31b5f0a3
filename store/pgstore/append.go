package pgstore

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/gather"
)

const (
	appendEntries = `SELECT status, number, had_owner, coalesce(had_expires, 0), coalesce(had_sum, 0), had
		FROM append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	appendMany = `SELECT status, number, had_owner, coalesce(had_expires, 0), coalesce(had_sum, 0), had
		FROM append_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
)

// appends is what an operation appends to a log.
type appends struct {
	space, log, owner string
	entries           []store.Entry
	expires           int64
	results           []store.AppendResult
}

// Append implements store.Logs.
func (s *Store) Append(space, log, id, owner string, data []byte, expires time.Time, done func(store.AppendResult)) {
	s.append(space, log, owner, []store.Entry{{ID: id, Data: data}}, expires, func(results []store.AppendResult, err error) {
		if err != nil {
			done(store.AppendResult{Err: err})
			return
		}
		done(results[0])
	})
}

// AppendAll implements store.Logs.
func (s *Store) AppendAll(space, log, owner string, entries []store.Entry, expires time.Time, done func(store.AppendAllResult)) {
	s.append(space, log, owner, entries, expires, func(results []store.AppendResult, err error) {
		if err != nil {
			done(store.AppendAllResult{Err: err})
			return
		}
		seqs := make([]uint64, len(results))
		for i, r := range results {
			seqs[i] = r.Seq
		}
		done(store.AppendAllResult{Seqs: seqs})
	})
}

func (s *Store) append(space, log, owner string, entries []store.Entry, expires time.Time, done func([]store.AppendResult, error)) {
	o := logOp(space, log)
	o.owner, o.after = owner, false // entries differ by their ids
	o.size += len(owner)
	for _, e := range entries {
		o.size += len(e.ID) + len(e.Data)
		o.invalid = cmp.Or(o.invalid, gather.CheckSizes(space, log, e.ID, owner, len(e.Data)))
	}
	a := &appends{space: space, log: log, owner: owner, entries: entries, expires: s.clock.Expiry(expires)}
	if len(entries) > 0 {
		o.appends = a
		o.call = func(w *writer, l limits) call {
			ids, datas, sums := make([][]byte, len(entries)), make([][]byte, len(entries)), make([]int64, len(entries))
			for i, e := range entries {
				ids[i], datas[i], sums[i] = []byte(e.ID), given(e.Data), sumEntry(space, log, e.ID, owner, e.Data)
			}
			return call{appendEntries, []any{
				w.node, []byte(space), []byte(log), []byte(owner), ids, datas, a.expires, sums, a.logSum(), w.now, l.perOwner, l.open,
			}}
		}
	}
	o.read = func(rows pgx.Rows) error { return s.readAppended(rows, []*op{o}) }
	o.done = func(err error) { done(a.results, err) }
	s.queue.Submit(o)
}

// logSum is the checksum of the log if the append makes it.
func (a *appends) logSum() int64 { return crc(checksum.Log, nil, a.space, a.log, a.owner) }

// joins reports whether one statement can append for several such operations: each adds one entry, and an
// owner has to pay for it.
func (o *op) joins() bool {
	return o.appends != nil && o.invalid == nil && len(o.appends.entries) == 1 && o.owner != ""
}

// appendJoined returns the statement that appends to one log for all operations, for which joins is true.
func (w *writer) appendJoined(ops []*op) call {
	n := len(ops)
	owners, ids, datas := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	expiries, sums, logSums := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, o := range ops {
		o.ask, o.err = nil, nil
		a, e := o.appends, o.appends.entries[0]
		owners[i], ids[i], datas[i], expiries[i] = []byte(a.owner), []byte(e.ID), given(e.Data), a.expires
		sums[i], logSums[i] = sumEntry(a.space, a.log, e.ID, a.owner, e.Data), a.logSum()
	}
	a, l := ops[0].appends, w.limits(ops[0]) // the same for all
	return call{appendMany, []any{
		w.node, []byte(a.space), []byte(a.log), owners, ids, datas, expiries, sums, logSums, w.now, l.perOwner, l.open,
	}}
}

// readAppended reads a row for each entry of operations, up to the first that asks.
func (s *Store) readAppended(rows pgx.Rows, ops []*op) error {
	for _, o := range ops {
		o.appends.results = o.appends.results[:0]
	}
	n := 0 // operations that are done
	var status int
	var e entry
	_, err := pgx.ForEachRow(rows, []any{&status, &e.seq, &e.owner, &e.expires, &e.sum, &e.data}, func() error {
		if n == len(ops) {
			return fmt.Errorf("%w: more rows than entries", errRows)
		}
		o, a := ops[n], ops[n].appends
		switch next := &a.entries[len(a.results)]; status {
		case asksOctets:
			o.ask = &ask{owner: string(e.owner), octets: e.seq}
			return nil
		case written:
			a.results = append(a.results, store.AppendResult{Seq: uint64(e.seq), Fresh: true})
		default:
			e.id = []byte(next.ID)
			o.err = cmp.Or(o.err, s.intactEntry(a.space, a.log, &e))
			a.results = append(a.results, store.AppendResult{Seq: uint64(e.seq), Equal: bytes.Equal(e.data, next.Data)})
		}
		if len(a.results) == len(a.entries) {
			n++
		}
		return nil
	})
	if err == nil && n < len(ops) && ops[n].ask == nil {
		err = fmt.Errorf("%w: fewer rows than entries", errRows)
	}
	return err
}
