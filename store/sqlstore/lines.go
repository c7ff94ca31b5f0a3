package sqlstore

import (
	"cmp"
	"database/sql/driver"
	"slices"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/quota"
)

const (
	selectLine   = `SELECT id, live, kept, sum, space, name FROM line WHERE space = ? AND name = ?`
	selectLineID = `SELECT id, live, kept, sum, space, name FROM line WHERE id = ?`
	selectLines  = `SELECT id, live, kept, sum, space, name FROM line`
	insertLine   = `INSERT INTO line (id, space, name, live, kept, sum) VALUES (?, ?, ?, ?, ?, ?)`
	updateLine   = `UPDATE line SET live = ?, kept = ?, sum = ? WHERE id = ?`
	deleteLine   = `DELETE FROM line WHERE id = ?`
)

// line is a verified row of the table of lines: a work queue.
type line struct {
	id          int64
	live, kept  int64 // unfinished items, and all
	space, name []byte
	of          *remembered
	room        *room            // nil: the limit of the store applies
	held        *held            // nil: not known
	ahead       map[int64]*ahead // due items by owner, and of all owners with 0
	written     bool             // it has a row
	changed     bool
}

// remembered counts the items of a space, including done ones.
type remembered struct {
	total, settled int64 // now, and as of the last commit
	changed        bool
	kept           *held // by owner; nil: not known
}

// lines is the cache of queues.
type lines struct {
	byName  map[logName]*line
	byID    map[int64]*line
	changed []*line
	spaces  map[string]*remembered // all
	counted []*remembered          // the changed ones
	looked  []*line                // those with items ahead

	waiting, settled tally // now, and as of the last commit
	rooms            rooms
}

// tally counts queues with unfinished items, and these items.
type tally struct{ queues, items int64 }

func (t *tally) count(before, after int64) {
	t.items += after - before
	switch {
	case before == 0 && after > 0:
		t.queues++
	case before > 0 && after == 0:
		t.queues--
	}
}

// maxLines limits the cache between transactions.
const maxLines = 4096

func (l *lines) forget() {
	clear(l.byName)
	clear(l.byID)
	l.changed = l.changed[:0]
	for _, r := range l.counted {
		r.total, r.changed, r.kept = r.settled, false, nil
	}
	l.counted = l.counted[:0]
	l.waiting = l.settled
	l.rooms.forget()
	l.lookAgain()
}

// markCommitted marks the counts as committed.
func (l *lines) markCommitted(s *Store) {
	l.rooms.markCommitted(s)
	for _, r := range l.counted {
		r.settled, r.changed = r.total, false
	}
	l.counted = l.counted[:0]
	l.settled = l.waiting
	l.lookAgain()
	if len(l.byID) > maxLines {
		clear(l.byName)
		clear(l.byID)
	}
}

// ahead returns the items that were read ahead of a queue for the leases of this transaction, of an
// owner or, with 0, of all. The two exclude each other, because they have the same items.
func (l *lines) ahead(q *line, owner int64) *ahead {
	if q.ahead == nil {
		q.ahead = make(map[int64]*ahead)
	}
	if owner != 0 {
		delete(q.ahead, 0)
	} else if q.ahead[0] == nil {
		clear(q.ahead)
	}
	a := q.ahead[owner]
	if a == nil {
		a = new(ahead)
		q.ahead[owner] = a
		l.looked = append(l.looked, q)
	}
	return a
}

// lookAgain forgets the items that were read ahead. It follows each change of an item without a lease
// and the end of a transaction.
func (l *lines) lookAgain() {
	for _, q := range l.looked {
		clear(q.ahead)
	}
	l.looked = l.looked[:0]
}

func (l *lines) space(name []byte) *remembered {
	r := l.spaces[string(name)]
	if r == nil {
		r = new(remembered)
		l.spaces[string(name)] = r
	}
	return r
}

func (l *lines) add(q *line) *line {
	name := logName{string(q.space), string(q.name)}
	q.of, q.room = l.space(q.space), l.rooms[name]
	l.byID[q.id] = q
	l.byName[name] = q
	return q
}

// held has the unfinished items of a queue by their owners.
type held struct {
	names         map[int64]string // of owners
	items, octets fair.Shares

	turns fair.Queue[string] // owners in the turns of Lease
	from  map[string]position
}

// position is a place in the order of a queue before the first item of an owner that is due.
type position struct{ owner, due, n int64 }

// enter gives an owner a turn for an item, unless it has an earlier one.
func (h *held) enter(at position) {
	name := h.names[at.owner]
	from, in := h.from[name]
	if !in {
		h.turns.Push(name, name)
	}
	if !in || from.owner != at.owner || at.due < from.due || at.due == from.due && at.n < from.n {
		h.from[name] = at
	}
}

// returned notes that an item is due again.
func (l *lines) returned(it *item) {
	l.lookAgain()
	if q := l.byID[it.line]; q != nil && q.held != nil {
		q.held.enter(position{it.owner, it.due, it.n - 1})
	}
}

func (h *held) add(owner int64, items, octets int) {
	h.items.Force(h.names[owner], items)
	h.octets.Force(h.names[owner], octets)
}

const heldOf = `SELECT owner, count(*), coalesce(sum(size), 0), min(due) FROM item INDEXED BY item_due
	WHERE line = ? AND done = 0 GROUP BY owner`

// heldOf returns the items of a queue by their owners. It reads them when the queue is long or
// nearly full, and counts from then on.
func (w *writer) heldOf(q *line) (*held, error) {
	if q.held != nil {
		return q.held, nil
	}
	h := &held{names: make(map[int64]string), from: make(map[string]position)}
	err := w.countBy(h, func(owner int64, row []driver.Value) {
		h.add(owner, int(number(row[0])), int(number(row[1])))
		h.enter(position{owner: owner, due: number(row[2]) - 1})
	}, heldOf, q.id)
	if err != nil {
		return nil, err
	}
	q.held = h
	return h, nil
}

// countBy calls f with the rows of a statement, whose first column is an owner, when h has its
// name. An owner that came with this transaction has no row yet.
func (w *writer) countBy(h *held, f func(owner int64, rest []driver.Value), statement string, args ...driver.Value) error {
	var rows [][]driver.Value
	err := w.conn.rows(func(row []driver.Value) bool {
		rows = append(rows, slices.Clone(row))
		return true
	}, statement, args...)
	for _, row := range rows {
		of, unknown := w.ownerByID(number(row[0]))
		if unknown != nil {
			return unknown
		}
		h.names[of.id] = of.name
		f(of.id, row[1:])
	}
	return err
}

// came counts a new item of an owner in a queue.
func (l *lines) came(q *line, of *owner, it *item) {
	if h := q.held; h != nil {
		h.names[of.id] = of.name
		h.add(of.id, 1, int(it.size))
		h.enter(position{of.id, it.due, it.n - 1})
	}
	if h := q.of.kept; h != nil {
		h.names[of.id] = of.name
		h.items.Force(of.name, 1)
	}
	l.count(q, 1, 1, it.size)
}

// went counts an item whose data was removed; kept is -1 if its id was, too.
func (l *lines) went(q *line, it *item, kept int64) {
	if h := q.of.kept; h != nil && kept < 0 {
		h.items.Give(h.names[it.owner], 1)
	}
	if it.done {
		l.count(q, 0, kept, 0)
		return
	}
	if h := q.held; h != nil {
		h.items.Give(h.names[it.owner], 1)
		h.octets.Give(h.names[it.owner], int(it.size))
	}
	l.count(q, -1, kept, it.size)
}

// count adds items of the given size to the counters.
func (l *lines) count(q *line, live, kept, octets int64) {
	l.waiting.count(q.live, q.live+live)
	if q.room != nil {
		q.room.count(live, octets)
	}
	q.live += live
	q.kept += kept
	q.of.total += kept
	if !q.changed {
		q.changed = true
		l.changed = append(l.changed, q)
	}
	if !q.of.changed {
		q.of.changed = true
		l.counted = append(l.counted, q.of)
	}
}

func (c *conn) sumLine(q *line) int64 {
	return c.sum(checksum.Line, []int64{q.id, q.live, q.kept}, nil, q.space, q.name)
}

// readLine returns the line of a row.
func (c *conn) readLine(s *Store, row []driver.Value) (*line, error) {
	q := &line{
		id: number(row[0]), live: number(row[1]), kept: number(row[2]), space: octets(row[4]), name: octets(row[5]), written: true,
	}
	if number(row[3]) != c.sumLine(q) {
		return nil, s.damaged("queue %q in space %q", q.name, q.space)
	}
	return q, nil
}

// line returns a queue; nil if it has no items.
func (w *writer) line(space, name string) (*line, error) {
	if q := w.lines.byName[logName{space, name}]; q != nil {
		return q, nil
	}
	return w.loadLine(selectLine, []byte(space), []byte(name))
}

// lineByID returns the queue of an item.
func (w *writer) lineByID(id int64) (*line, error) {
	if q := w.lines.byID[id]; q != nil {
		return q, nil
	}
	q, err := w.loadLine(selectLineID, id)
	if q == nil && err == nil {
		err = w.s.damaged("queue number %d", id)
	}
	return q, err
}

func (w *writer) loadLine(statement string, args ...driver.Value) (*line, error) {
	row, err := w.conn.row(statement, args...)
	if row == nil || err != nil {
		return nil, err
	}
	q, err := w.conn.readLine(w.s, row)
	if err != nil {
		return nil, err
	}
	return w.lines.add(q), nil
}

// makeLine returns a queue and creates it if it is missing.
func (w *writer) makeLine(space, name string) (*line, error) {
	q, err := w.line(space, name)
	if q != nil || err != nil {
		return q, err
	}
	w.state.ids++
	return w.lines.add(&line{id: w.state.ids, space: []byte(space), name: []byte(name)}), nil
}

// crowded returns an error if the limit of a queue, which its owners share, does not allow an
// owner one more item of this size.
func (w *writer) crowded(q *line, of *owner, octets int64) (refused, err error) {
	most := w.s.bounds.Load().RoomOf()
	var now store.Room
	if q.room != nil {
		most, now = q.room.most, q.room.held
	}
	now.Items = q.live
	if now.Items+1 <= quota.Open(of.name, most.Items) && now.Octets+octets <= quota.Open(of.name, most.Octets) {
		return nil, nil
	}
	h, err := w.heldOf(q)
	if err != nil {
		return nil, err
	}
	return quota.Crowded(string(q.name), of.name, most, now, octets, &h.items, &h.octets), nil
}

const keptOf = `SELECT owner, count(*) FROM item INDEXED BY item_id WHERE space = ? GROUP BY owner`

// mostCounted is how many items are counted by owner at most, because the writer counts them. The
// limit of a larger space is for those who come first, each within its quota.
const mostCounted = 1 << 20

// forgetful returns an error if the limit of a space, which its owners share, does not allow an
// owner one more item.
func (w *writer) forgetful(r *remembered, space string, of *owner) (refused, err error) {
	b := w.s.bounds.Load()
	if r.total+1 <= quota.Open(of.name, int64(b.Remembered)) {
		return nil, nil
	}
	if r.kept == nil && r.total > mostCounted {
		return b.Forgetful(space, of.name, r.total, nil), nil
	}
	if r.kept == nil {
		h := &held{names: make(map[int64]string)}
		err := w.countBy(h, func(owner int64, row []driver.Value) { h.items.Force(h.names[owner], int(number(row[0]))) }, keptOf, []byte(space))
		if err != nil {
			return nil, err
		}
		r.kept = h
	}
	return b.Forgetful(space, of.name, r.total, &r.kept.items), nil
}

// admit returns an error if the limit of a queue or of its space does not allow an owner one
// more item of this size.
func (w *writer) admit(space, name string, of *owner, octets int64) error {
	full := func() (error, error) {
		q, err := w.line(space, name)
		if err != nil {
			return nil, err
		}
		if q == nil {
			if r := w.lines.rooms[logName{space, name}]; r != nil {
				if refused := quota.Exceeds(name, r.most, r.held, octets); refused != nil {
					return refused, nil
				}
			}
		} else if refused, err := w.crowded(q, of, octets); refused != nil || err != nil {
			return refused, err
		}
		return w.forgetful(w.lines.space([]byte(space)), space, of)
	}
	refused, err := full()
	if refused == nil || err != nil {
		return err
	}
	if err = w.sweep(roomRows); err == nil {
		refused, err = full()
	}
	return cmp.Or(err, refused)
}

// writeLines writes a row for each changed queue.
func (w *writer) writeLines() error {
	for _, q := range w.lines.changed {
		q.changed = false
		var err error
		switch {
		case q.kept == 0:
			if q.written {
				_, err = w.conn.exec(deleteLine, q.id)
			}
			delete(w.lines.byID, q.id)
			delete(w.lines.byName, logName{string(q.space), string(q.name)})
		case q.written:
			_, err = w.conn.exec(updateLine, q.live, q.kept, w.conn.sumLine(q), q.id)
		default:
			_, err = w.conn.exec(insertLine, q.id, q.space, q.name, q.live, q.kept, w.conn.sumLine(q))
			q.written = true
		}
		if err != nil {
			return err
		}
	}
	w.lines.changed = w.lines.changed[:0]
	return nil
}

// countLines counts the remembered items of each space.
func (w *writer) countLines() (err error) {
	failed := w.conn.rows(func(row []driver.Value) bool {
		var q *line
		if q, err = w.conn.readLine(w.s, row); err == nil {
			r := w.lines.space(q.space)
			r.total += q.kept
			r.settled = r.total
			w.lines.waiting.count(0, q.live)
		}
		return err == nil
	}, selectLines)
	w.lines.settled = w.lines.waiting
	w.s.stats.show(w.lines.settled)
	return cmp.Or(failed, err)
}
