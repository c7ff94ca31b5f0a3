package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/quota"
)

const (
	lockWritten  = `SELECT written FROM state FOR UPDATE`
	insertRecord = `INSERT INTO record (space, key, version, owner, expires, sum, payer, value) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	insertLog    = `INSERT INTO log (space, name, owner, last, trimmed, sum) VALUES ($1, $2, $3, $4, 0, 0) RETURNING id`
	sumOfLog     = `UPDATE log SET sum = $2 WHERE id = $1`
	insertEntry  = `INSERT INTO entry (log, seq, id, owner, expires, sum, data) VALUES ($1, $2, nullif($3, ''::bytea), $4, $5, $6, $7)`
	insertItem   = `INSERT INTO item (space, id, queue, n, mark, owner, done, lease, tries, due, expires, keep, size, sum, place, body, data)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`
	chargeOwner  = `SELECT charge($1, $2, $3)`
	countItems   = `SELECT count_items($1, $2, $3, $4, $5, $6, $7)`
	advanceClock = `UPDATE clock SET now = $1 WHERE now < $1`
	setCounters  = `SELECT setval('versions', greatest($1, (SELECT last_value FROM versions))), setval('numbers', greatest($2, (SELECT last_value FROM numbers)))`
)

// Import implements store.Importer. It writes everything in one transaction, and other writes of this
// node wait until the import has ended.
func (s *Store) Import(ctx context.Context, next func() (store.Piece, error)) error {
	i := &importing{
		s: s, ctx: ctx, next: store.Pieces(next),
		owners: make(map[string]int64), held: make(map[holding]*heldItems),
	}
	told := make(chan error, 1)
	s.queue.Submit(&op{
		size:  maxBatchOctets + 1, // too large for a transaction with other operations
		alone: i.run, done: func(err error) { told <- cmp.Or(i.err, err) },
	})
	return <-told
}

// importing is an import.
type importing struct {
	s    *Store
	ctx  context.Context
	next func() (store.Piece, error)
	err  error // why it ended, unless a statement of this store failed

	w      *writer
	batch  *pgx.Batch
	octets int // in batch
	start  store.Start
	log    *log // of the entries that come
	space  string
	name   string

	owners map[string]int64 // what they use
	held   map[holding]*heldItems
}

type holding struct {
	place
	owner string
}

type heldItems struct{ items, kept, octets int64 }

// maxCounts limits what an import counts in memory.
const maxCounts = 65536

func (i *importing) run(ctx context.Context, w *writer) error {
	i.w, i.batch = w, new(pgx.Batch)
	if err := w.pipeline(ctx, nil, true); err != nil {
		return err
	}
	if err := unlimitedTime(ctx, w.conn); err != nil {
		return err
	}
	var used bool
	if err := w.conn.QueryRow(ctx, lockWritten).Scan(&used); err != nil {
		return err
	}
	if used {
		i.err = fmt.Errorf("%w: %s", store.ErrUsed, i.s.server.name)
		return i.err
	}
	for {
		p, err := i.piece()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			i.err = err
			return err
		}
		if err := i.add(ctx, p); err != nil {
			if codeOf(err) == codeUnique {
				err = fmt.Errorf("pgstore: a piece comes twice: %w", err)
				i.err = err
			}
			return err
		}
	}
	return i.finish(ctx)
}

// piece returns the next piece. Its errors are of no statement of this store.
func (i *importing) piece() (store.Piece, error) {
	select {
	case <-i.s.gone:
		return nil, store.ErrClosed
	case <-i.ctx.Done():
		return nil, i.ctx.Err()
	default:
		return i.next()
	}
}

// send adds a statement, and sends all when they are many.
func (i *importing) send(ctx context.Context, octets int, text string, args ...any) error {
	i.batch.Queue(text, args...)
	if i.octets += octets; i.batch.Len() < maxBatch && i.octets < pageOctets {
		return nil
	}
	return i.flush(ctx)
}

func (i *importing) flush(ctx context.Context) error {
	b := i.batch
	i.batch, i.octets = new(pgx.Batch), 0
	if b.Len() == 0 {
		return nil
	}
	return i.w.conn.SendBatch(ctx, b).Close()
}

func (i *importing) add(ctx context.Context, p store.Piece) error {
	if len(i.owners)+len(i.held) > maxCounts {
		if err := i.count(ctx); err != nil {
			return err
		}
	}
	switch p := p.(type) {
	case *store.Start:
		i.start = *p
		return nil
	case *store.Record:
		i.owners[p.Owner] += quota.Cost(len(p.Space)+len(p.Key), len(p.Value))
		r := record{version: int64(p.Version), expires: int64(p.Expires), value: bytes.Clone(given(p.Value))}
		return i.send(ctx, len(r.value), insertRecord, []byte(p.Space), []byte(p.Key), r.version, []byte(p.Owner), r.expires,
			sumRecord(p.Space, p.Key, &r), sumPayer(p.Space, p.Key, p.Owner), r.value)
	case *store.Log:
		return i.begin(ctx, p)
	case *store.LogEntry:
		i.owners[p.Owner] += quota.Cost(len(p.ID), len(p.Data))
		data := bytes.Clone(given(p.Data))
		sum := sumEntry(i.space, i.name, p.ID, p.Owner, data) ^ int64(p.Seq) ^ rot(int64(p.Expires), 32)
		return i.send(ctx, len(data), insertEntry, i.log.id, int64(p.Seq), []byte(p.ID), []byte(p.Owner), int64(p.Expires), sum, data)
	case *store.Item:
		return i.item(ctx, p)
	}
	i.err = fmt.Errorf("pgstore: a store cannot keep a %T", p)
	return i.err
}

func (i *importing) begin(ctx context.Context, p *store.Log) error {
	if err := i.flush(ctx); err != nil {
		return err
	}
	i.owners[p.Owner] += quota.Cost(len(p.Space)+len(p.Name), 0)
	i.space, i.name = p.Space, p.Name
	i.log = &log{last: int64(p.Last), owner: []byte(p.Owner)}
	err := i.w.conn.QueryRow(ctx, insertLog, []byte(p.Space), []byte(p.Name), i.log.owner, i.log.last).Scan(&i.log.id)
	if err != nil {
		return err
	}
	return i.send(ctx, 0, sumOfLog, i.log.id, sumLog(p.Space, p.Name, i.log))
}

func (i *importing) item(ctx context.Context, p *store.Item) error {
	it := &item{
		n: int64(p.Number), done: p.Done, lease: int64(p.Lease), tries: int64(p.Tries), due: int64(p.Due), expires: int64(p.Expires),
		keep: int64(p.Keep), size: int64(len(p.Data)), data: bytes.Clone(given(p.Data)),
	}
	i.owners[p.Owner] += quota.Cost(len(p.Space)+len(p.Queue)+len(p.ID)+len(p.Mark), len(p.Data))
	of := holding{place{p.Space, p.Queue}, p.Owner}
	if i.held[of] == nil {
		i.held[of] = new(heldItems)
	}
	h := i.held[of]
	h.kept++
	if !p.Done {
		h.items++
		h.octets += it.size
	}
	return i.send(ctx, len(it.data), insertItem, []byte(p.Space), []byte(p.ID), []byte(p.Queue), it.n, []byte(p.Mark), []byte(p.Owner), it.done,
		it.lease, it.tries, it.due, it.expires, it.keep, it.size, sumItem(p.Space, p.ID, p.Mark, p.Owner)^it.mix(), sumPlace(p.Queue),
		sumBody(p.Space, p.ID, it.data), it.data)
}

// count writes what was counted.
func (i *importing) count(ctx context.Context) error {
	node := i.w.node
	for owner, octets := range i.owners {
		if err := i.send(ctx, 0, chargeOwner, node, []byte(owner), octets); err != nil {
			return err
		}
	}
	clear(i.owners)
	for of, h := range i.held {
		if err := i.send(ctx, 0, countItems, node, []byte(of.space), []byte(of.queue), []byte(of.owner), h.items, h.kept, h.octets); err != nil {
			return err
		}
	}
	clear(i.held)
	return i.flush(ctx)
}

func (i *importing) finish(ctx context.Context) error {
	if err := i.count(ctx); err != nil {
		return err
	}
	for _, c := range []call{{setWritten, nil}, {setCounters, []any{max(int64(i.start.Versions), 1), max(int64(i.start.Items), 1)}}} {
		if _, err := i.w.conn.Exec(ctx, c.text, c.args...); err != nil {
			return err
		}
	}
	if i.start.Clock > 0 {
		i.s.clock.Advance(int64(i.start.Clock))
		if _, err := i.w.conn.Exec(ctx, advanceClock, int64(i.start.Clock)); err != nil {
			return err
		}
	}
	i.w.using = true
	return nil
}
