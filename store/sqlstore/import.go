package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/gather"
)

// Import implements store.Importer. It writes everything in one transaction: the write-ahead log
// grows to the size of the content, and other writes wait until the import has ended.
func (s *Store) Import(ctx context.Context, next func() (store.Piece, error)) error {
	told := make(chan error, 1)
	s.queue.Submit(&importing{ctx: ctx, next: store.Pieces(next), tell: func(err error) { told <- err }})
	return <-told
}

// importing is a pending Import. Its pieces come once: it has a separate transaction, and no
// repetition.
type importing struct {
	gather.Unowned
	ctx  context.Context
	next func() (store.Piece, error)
	tell func(error)

	log *log  // of the entries that come
	err error // why the import ended, unless a statement failed
}

// size makes the import too large for a transaction with other operations.
func (i *importing) Size() int { return maxBatchOctets + 1 }

func (i *importing) Done(err error) {
	if i.err != nil {
		err = i.err
	}
	i.tell(err)
}

// errUndo rolls back the transaction of an import. It does not wrap the cause: damage of a source
// is not damage of this store.
var errUndo = &failed{cause: errors.New("the import was ended")}

func (i *importing) apply(w *writer) error {
	if w.state.versions != 0 || w.state.ids != 0 {
		return fmt.Errorf("%w: %s", store.ErrUsed, w.s.name())
	}
	for n := 1; ; n++ {
		p, err := i.piece(w)
		if err == nil {
			err = i.add(w, p)
		}
		if err == nil && n%maxBatch == 0 {
			err = settle(w)
		}
		switch {
		case err == io.EOF:
			return nil
		case isFailed(err):
			return err
		case err != nil:
			i.err = err
			return errUndo
		}
	}
}

// piece returns the next piece. Its errors are of no statement of this store.
func (i *importing) piece(w *writer) (store.Piece, error) {
	select {
	case <-w.s.gone:
		return nil, store.ErrClosed
	case <-i.ctx.Done():
		return nil, i.ctx.Err()
	default:
	}
	p, err := i.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		i.err = err
		return nil, errUndo
	}
	return p, nil
}

// settle writes what is collected, so that the memory of an import does not grow with it.
func settle(w *writer) error {
	if err := w.writeOwners(); err != nil {
		return err
	}
	if err := w.writeLines(); err != nil {
		return err
	}
	if len(w.lines.byID) > maxLines {
		clear(w.lines.byName)
		clear(w.lines.byID)
	}
	return nil
}

func (i *importing) add(w *writer, p store.Piece) error {
	if e, is := p.(*store.LogEntry); is {
		return i.entry(w, e)
	}
	if i.log != nil {
		if err := w.writeChunks(); err != nil {
			return err
		}
		w.logs.remove(i.log)
		i.log = nil
	}
	switch p := p.(type) {
	case *store.Start:
		w.s.clock.Advance(int64(p.Clock))
		w.now = w.s.clock.Now()
		w.state.versions, w.state.ids = int64(p.Versions), int64(p.Items)
		return nil
	case *store.Record:
		return i.record(w, p)
	case *store.Log:
		return i.begin(w, p)
	case *store.Item:
		return i.item(w, p)
	}
	return fmt.Errorf("sqlstore: a store cannot keep a %T", p)
}

// payer returns an owner that has a number, and charges it.
func (i *importing) payer(w *writer, name string, octets int64) (*owner, error) {
	o, err := w.owner(name)
	if err != nil {
		return nil, err
	}
	if o.id == 0 {
		w.number(o)
	}
	w.charge(o, octets)
	return o, nil
}

func (i *importing) record(w *writer, p *store.Record) error {
	o, err := i.payer(w, p.Owner, cost(len(p.Space)+len(p.Key), len(p.Value)))
	if err != nil {
		return err
	}
	space, key := []byte(p.Space), []byte(p.Key)
	r := record{int64(p.Version), o.id, int64(p.Expires), given(p.Value)}
	n, err := w.conn.exec(insertRecord, space, key, r.version, r.owner, r.expires, w.conn.sumRecord(space, key, &r), r.value)
	if err == nil && n == 0 {
		err = fmt.Errorf("sqlstore: record %q of space %q comes twice", p.Key, p.Space)
	}
	w.due(r.expires)
	return err
}

func (i *importing) begin(w *writer, p *store.Log) error {
	there, err := w.log(p.Space, p.Name)
	if err != nil {
		return err
	}
	if there != nil {
		return fmt.Errorf("sqlstore: log %q of space %q comes twice", p.Name, p.Space)
	}
	o, err := i.payer(w, p.Owner, logCost(len(p.Space), len(p.Name)))
	if err != nil {
		return err
	}
	if i.log, err = w.newLog(p.Space, p.Name, o); err != nil {
		return err
	}
	i.log.last = int64(p.Last)
	return w.updateLog(i.log)
}

func (i *importing) entry(w *writer, p *store.LogEntry) error {
	e := entry{seq: int64(p.Seq), expires: int64(p.Expires), data: p.Data}
	if p.ID != "" {
		e.id = []byte(p.ID)
		n, err := w.conn.exec(insertName, i.log.id, e.id, e.seq)
		if err == nil && n == 0 {
			err = fmt.Errorf("sqlstore: an entry with the id %q comes twice in log %q of space %q", p.ID, i.log.name, i.log.space)
		}
		if err != nil {
			return err
		}
	}
	o, err := i.payer(w, p.Owner, e.cost())
	if err != nil {
		return err
	}
	e.owner = o.id
	return w.append(i.log, &e)
}

func (i *importing) item(w *writer, p *store.Item) error {
	q, err := w.makeLine(p.Space, p.Queue)
	if err != nil {
		return err
	}
	it := &item{
		line: q.id, n: int64(p.Number), space: []byte(p.Space), id: []byte(p.ID), mark: []byte(p.Mark), done: p.Done,
		lease: int64(p.Lease), tries: int64(p.Tries), due: int64(p.Due), expires: int64(p.Expires), keep: int64(p.Keep), size: int64(len(p.Data)),
	}
	o, err := i.payer(w, p.Owner, it.cost(len(p.Queue)))
	if err != nil {
		return err
	}
	it.owner = o.id
	fresh, err := w.writeItem(it, p.Data)
	switch {
	case err != nil:
		return err
	case !fresh:
		return fmt.Errorf("sqlstore: item %q of space %q comes twice", p.ID, p.Space)
	case it.done:
		w.lines.count(q, 0, 1, 0)
		w.due(it.keep)
	default:
		w.lines.came(q, o, it)
	}
	return nil
}
