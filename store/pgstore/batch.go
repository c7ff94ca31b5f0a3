package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store/internal/gather"
)

const (
	beginBatch  = `SELECT begin_batch($1, $2, $3, $4, $5)`
	setWritten  = `UPDATE state SET written = true WHERE NOT written`
	lockRecords = `SELECT FROM record WHERE (space, key) IN (SELECT * FROM unnest($1::bytea[], $2::bytea[])) ORDER BY space, key FOR NO KEY UPDATE`
	lockLogs    = `SELECT FROM log WHERE (space, name) IN (SELECT * FROM unnest($1::bytea[], $2::bytea[])) ORDER BY space, name FOR NO KEY UPDATE`
	lockItems   = `SELECT FROM item WHERE (space, id) IN (SELECT * FROM unnest($1::bytea[], $2::bytea[])) ORDER BY space, id FOR NO KEY UPDATE`
)

// start adds the first statements of a transaction, which lock the rows of operations in a fixed
// order. It returns how many.
func (w *writer) start(b *pgx.Batch, ops []*op, exact bool) (statements int) {
	step := clockStep
	if exact {
		step = 0
	}
	b.Queue("begin")
	b.Queue(beginBatch, w.node, w.epoch, w.batch+1, w.now, step)
	kinds := map[gather.Kind]map[gather.Subject]bool{}
	writes := false
	for _, o := range ops {
		writes = writes || !o.probe
		if k := o.subject.Kind; k != 0 && o.invalid == nil {
			if kinds[k] == nil {
				kinds[k] = make(map[gather.Subject]bool)
			}
			kinds[k][o.subject] = true
		}
	}
	if writes && !w.used {
		b.Queue(setWritten)
		w.using = true
	}
	for _, lock := range []struct {
		kind gather.Kind
		text string
	}{{gather.Record, lockRecords}, {gather.Log, lockLogs}, {gather.Item, lockItems}} {
		all := kinds[lock.kind]
		if len(all) < 2 { // the statement of the operation itself locks one
			continue
		}
		var spaces, names [][]byte
		for s := range all {
			spaces, names = append(spaces, []byte(s.Space)), append(names, []byte(s.Name))
		}
		b.Queue(lock.text, spaces, names)
	}
	return b.Len()
}

// pipeline sends the statements of all operations at once. It returns errAsks if one needs a decision.
// exact stores the time even if it was stored shortly before.
func (w *writer) pipeline(ctx context.Context, ops []*op, exact bool) (err error) {
	b := new(pgx.Batch)
	before := w.start(b, ops, exact)
	sent := w.statements(ops)
	for _, s := range sent {
		b.Queue(s.text, s.args...)
	}
	count := w.rooms.count()
	if count.text != "" {
		b.Queue(count.text, count.args...)
	}
	results := w.conn.SendBatch(ctx, b)
	defer func() {
		if failed := results.Close(); err == nil {
			err = failed
		}
	}()
	for i := range before {
		if i == 1 {
			var latest int64
			if err := results.QueryRow().Scan(&latest); err != nil {
				return err
			}
			w.s.clock.Advance(latest)
			continue
		}
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	asks := false
	for _, s := range sent {
		rows, err := results.Query()
		if err == nil {
			err = s.read(rows)
		}
		if err != nil {
			return err
		}
		for _, o := range s.ops {
			asks = asks || o.ask != nil
		}
	}
	if asks {
		return errAsks
	}
	if count.text != "" {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		return w.rooms.counted(rows)
	}
	return nil
}

// statement performs operations.
type statement struct {
	call
	ops  []*op
	read func(pgx.Rows) error
}

// statements returns the statements of operations, in their order. Appends to one log that no other operation on the
// log separates are one statement.
func (w *writer) statements(ops []*op) []statement {
	list := make([]statement, 0, len(ops))
	open := make(map[gather.Subject]int) // the statement that another append to a log can join
	for _, o := range ops {
		if at, ok := open[o.subject]; ok && o.joins() {
			list[at].ops = append(list[at].ops, o)
			continue
		}
		delete(open, o.subject)
		c := o.begin(w, w.limits(o))
		if c.text == "" {
			continue
		}
		if o.joins() {
			open[o.subject] = len(list)
		}
		list = append(list, statement{c, []*op{o}, o.read})
	}
	for i, s := range list {
		if len(s.ops) > 1 {
			list[i].call = w.appendJoined(s.ops)
			list[i].read = func(rows pgx.Rows) error { return w.s.readAppended(rows, s.ops) }
		}
	}
	return list
}

// oneByOne sends the statement of an operation after the result of the one before, and decides what
// it asks.
func (w *writer) oneByOne(ctx context.Context, ops []*op, exact bool) error {
	b := new(pgx.Batch)
	w.start(b, ops, exact)
	if err := w.conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	for _, o := range ops {
		if err := w.decided(ctx, o); err != nil {
			return err
		}
	}
	count := w.rooms.count()
	if count.text == "" {
		return nil
	}
	rows, err := w.conn.Query(ctx, count.text, count.args...)
	if err != nil {
		return err
	}
	return w.rooms.counted(rows)
}

// decided performs an operation and decides what it asks.
func (w *writer) decided(ctx context.Context, o *op) error {
	limits := w.limits(o)
	swept := false
	for range maxAsks {
		c := o.begin(w, limits)
		if c.text == "" {
			return nil
		}
		rows, err := w.conn.Query(ctx, c.text, c.args...)
		if err == nil {
			err = o.read(rows)
		}
		if err != nil || o.ask == nil {
			return err
		}
		refused, err := o.ask.decide(ctx, w, &limits)
		if err == nil && refused != nil && !swept {
			// What has expired may leave enough.
			swept, refused = true, nil
			_, err = w.conn.Exec(ctx, sweepRows, w.node, w.now, roomRows)
		}
		if err != nil {
			return err
		}
		if refused != nil {
			o.err = refused
			return nil
		}
	}
	return fmt.Errorf("pgstore: a limit was asked %d times", maxAsks)
}
