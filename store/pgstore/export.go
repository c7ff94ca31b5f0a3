package pgstore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
)

const (
	counters      = `SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM versions), (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM numbers)`
	exportRecords = `SELECT space, key, version, owner, expires, sum, payer, value FROM record
		WHERE expires = 0 OR expires > $1 ORDER BY space, key`
	exportLogs = `SELECT l.space, l.name, l.owner, l.id, l.last, l.trimmed, l.sum,
			coalesce(e.seq, 0), coalesce(e.id, ''), coalesce(e.owner, ''), coalesce(e.expires, 0), coalesce(e.sum, 0), e.data
		FROM log l LEFT JOIN entry e ON e.log = l.id AND e.seq > l.trimmed AND (e.expires = 0 OR e.expires > $1)
		ORDER BY l.space, l.name, e.seq`
	exportItems = itemColumns + `, data, space FROM item WHERE NOT done OR keep > $1 ORDER BY space, queue, n`
)

// Export implements store.Exporter. It uses one of Options.Readers until it ends. Until then the
// database keeps what was deleted.
func (s *Store) Export(ctx context.Context, yield func(store.Piece) error) error {
	x := &exporting{s: s, yield: store.Yielding(ctx, s.gone, yield)}
	if s.isGone() {
		return store.ErrClosed
	}
	err := pgx.BeginTxFunc(ctx, s.readers, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		x.tx = tx
		return x.run(ctx)
	})
	switch {
	case x.refused != nil || err == nil:
		return x.refused
	case ctx.Err() != nil:
		return ctx.Err()
	case s.isGone() && codeOf(err) == "":
		return store.ErrClosed
	}
	return s.fault(err)
}

// exporting is an export. Its methods return errEnded if refused has the reason.
type exporting struct {
	s       *Store
	tx      pgx.Tx
	yield   func(store.Piece) error
	now     int64
	refused error
}

var errEnded = errors.New("pgstore: the export has ended")

func (x *exporting) give(p store.Piece) error {
	if x.refused = x.yield(p); x.refused != nil {
		return errEnded
	}
	return nil
}

// each calls f after each row was read into to. The rows are not kept in memory.
func (x *exporting) each(ctx context.Context, text string, f func() error, to ...any) error {
	rows, err := x.tx.Query(ctx, text, x.now)
	if err == nil {
		_, err = pgx.ForEachRow(rows, to, f)
	}
	return err
}

func (x *exporting) run(ctx context.Context) error {
	if err := unlimitedTime(ctx, x.tx.Conn()); err != nil {
		return err
	}
	var versions, numbers int64
	if err := x.tx.QueryRow(ctx, counters).Scan(&versions, &numbers); err != nil {
		return err
	}
	x.now = x.s.clock.Now()
	err := x.give(&store.Start{Clock: uint64(x.now), Versions: uint64(versions), Items: uint64(numbers)})
	for _, part := range []func(context.Context) error{x.records, x.logs, x.items} {
		if err == nil {
			err = part(ctx)
		}
	}
	return err
}

func (x *exporting) records(ctx context.Context) error {
	var space, key []byte
	var r record
	return x.each(ctx, exportRecords, func() error {
		if err := x.s.intactRecord(string(space), string(key), &r); err != nil {
			return err
		}
		return x.give(&store.Record{
			Space: string(space), Key: string(key), Owner: string(r.owner), Version: uint64(r.version), Expires: uint64(r.expires), Value: r.value,
		})
	}, append([]any{&space, &key}, r.columns()...)...)
}

func (x *exporting) logs(ctx context.Context) error {
	var space, name []byte
	var l log
	var e entry
	var present int64
	return x.each(ctx, exportLogs, func() error {
		if l.id != present {
			present = l.id
			err := cmp.Or(x.s.intactLog(string(space), string(name), &l),
				x.give(&store.Log{Space: string(space), Name: string(name), Owner: string(l.owner), Last: uint64(l.last)}))
			if err != nil {
				return err
			}
		}
		if e.seq == 0 {
			return nil
		}
		if err := x.s.intactEntry(string(space), string(name), &e); err != nil {
			return err
		}
		return x.give(&store.LogEntry{Seq: uint64(e.seq), ID: string(e.id), Owner: string(e.owner), Expires: uint64(e.expires), Data: e.data})
	}, &space, &name, &l.owner, &l.id, &l.last, &l.trimmed, &l.sum, &e.seq, &e.id, &e.owner, &e.expires, &e.sum, &e.data)
}

func (x *exporting) items(ctx context.Context) error {
	var space []byte
	var it item
	return x.each(ctx, exportItems, func() error {
		if err := x.s.intactData(string(space), &it); err != nil {
			return err
		}
		p := &store.Item{
			Space: string(space), Queue: string(it.queue), ID: string(it.id), Mark: string(it.mark), Owner: string(it.owner),
			Number: uint64(it.n), Done: it.done, Lease: uint64(it.lease), Tries: uint64(it.tries),
			Due: uint64(it.due), Expires: uint64(it.expires), Keep: uint64(it.keep),
		}
		if !it.done {
			p.Data = it.data
		}
		return x.give(p)
	}, slices.Concat(it.columns(), []any{&space})...)
}
