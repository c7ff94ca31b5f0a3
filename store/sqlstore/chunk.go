package sqlstore

import (
	"database/sql/driver"
	"encoding/binary"
	"slices"
	"time"
)

const (
	insertChunk = `INSERT INTO chunk (log, seq, expires, data) VALUES (?, ?, ?, ?)`
	selectChunk = `SELECT n, seq, expires, data FROM chunk WHERE log = ? AND seq >= ? ORDER BY seq LIMIT 1`
	updateChunk = `UPDATE chunk SET seq = ?, expires = ?, data = ? WHERE n = ?`
	deleteChunk = `DELETE FROM chunk WHERE n = ?`
	insertName  = `INSERT OR IGNORE INTO name (log, id, seq) VALUES (?, ?, ?)`
	selectName  = `SELECT seq FROM name WHERE log = ? AND id = ?`
	deleteName  = `DELETE FROM name WHERE log = ? AND id = ?`
)

// A row of the table of chunks has entries of one log that one transaction has written. So many
// entries that are committed together cost one row and not one each.
//
// Its data is a list of entries in the order of their numbers. An entry is the checksum of 4 octets,
// and these fields as uvarints, id and data with their octets behind their length:
//
//	distance from the number of the entry before, of the first from 0
//	owner
//	expires
//	length of the id + 1, or 0 without an id
//	length of the data
type chunk struct {
	n       int64 // of the row
	seq     int64 // of its last entry
	expires int64 // when all its entries have expired; 0: never
	data    []byte

	// Of a chunk that is being filled.
	count int   // its entries
	near  int64 // the expiry of the first
}

// Limits of a chunk with several entries.
const (
	// chunkOctets fills a page of the database. The check of its structure then sees damage of any
	// page with chunks, but no damage of the content of overflow pages.
	chunkOctets  = 4000
	chunkEntries = 256

	// chunkExpiry limits the distance of the expiries of a chunk from the first one. The quota of
	// an entry is given back when all entries of its chunk have expired.
	chunkExpiry = int64(time.Second)
)

// takes reports whether an entry may be added.
func (k *chunk) takes(e *entry) bool {
	if k.count == 0 {
		return true
	}
	near := k.near == e.expires || k.near != 0 && e.expires != 0 && max(k.near, e.expires)-min(k.near, e.expires) <= chunkExpiry
	return near && k.count < chunkEntries && len(k.data)+entrySize(e) <= chunkOctets
}

// add adds an entry whose number is greater than the last one.
func (k *chunk) add(e *entry, sum uint32) {
	if k.count == 0 {
		k.near = e.expires
	}
	k.data = binary.BigEndian.AppendUint32(k.data, sum)
	k.data = binary.AppendUvarint(k.data, uint64(e.seq-k.seq))
	k.data = binary.AppendUvarint(k.data, uint64(e.owner))
	k.data = binary.AppendUvarint(k.data, uint64(e.expires))
	if e.id == nil {
		k.data = append(k.data, 0)
	} else {
		k.data = binary.AppendUvarint(k.data, uint64(len(e.id))+1)
		k.data = append(k.data, e.id...)
	}
	k.data = binary.AppendUvarint(k.data, uint64(len(e.data)))
	k.data = append(k.data, e.data...)
	k.seq = e.seq
	k.expires = max(k.expires, e.expires)
	k.count++
}

// entrySize returns at least the size of an entry in a chunk.
func entrySize(e *entry) int { return 4 + 5*binary.MaxVarintLen64 + len(e.id) + len(e.data) }

// readChunk returns the chunk of the columns n, seq, expires and data.
func readChunk(row []driver.Value) *chunk {
	return &chunk{n: number(row[0]), seq: number(row[1]), expires: number(row[2]), data: octets(row[3])}
}

// entries reads the entries of a chunk one after another. The octets of an entry belong to the chunk.
type entries struct {
	rest  []byte
	last  int64
	entry entry  // the present one
	sum   uint32 // of it, as stored
}

// number returns the number of entries that can be read, at least 1. They may be damaged.
func (k *chunk) number() (n int) {
	for e := k.entries(); e.next(); {
		n++
	}
	return max(n, 1)
}

func (k *chunk) entries() entries { return entries{rest: k.data} }

// next reads the next entry, and returns false at the end, or where no entry can be read. The entry
// may be damaged.
func (r *entries) next() bool {
	rest := r.rest
	if len(rest) < 4 {
		return false
	}
	r.sum = binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	var field [4]uint64
	for i := range field {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			return false
		}
		field[i], rest = n, rest[size:]
	}
	r.entry = entry{seq: r.last + int64(field[0]), owner: int64(field[1]), expires: int64(field[2])}
	if n := field[3]; n > 0 {
		if n-1 > uint64(len(rest)) {
			return false
		}
		r.entry.id, rest = slices.Clip(rest[:n-1]), rest[n-1:]
	}
	n, size := binary.Uvarint(rest)
	if size <= 0 || n > uint64(len(rest)-size) {
		return false
	}
	r.entry.data, rest = slices.Clip(rest[size:][:n]), rest[size:][n:]
	r.last, r.rest = r.entry.seq, rest
	return true
}

// eachEntry calls f with the entries of a chunk of a log after a number, until f returns false. At a
// damaged one it ends with the error that names it.
func (c *conn) eachEntry(s *Store, g *log, k *chunk, after int64, f func(e *entry) bool) error {
	r := k.entries()
	for len(r.rest) > 0 {
		seen := r.last
		if !r.next() {
			return s.damaged("entry after %d of log %q in space %q", seen, g.name, g.space)
		}
		if r.entry.seq <= after {
			continue
		}
		if err := c.checkEntry(s, g, &r); err != nil {
			return err
		}
		if !f(&r.entry) {
			return nil
		}
	}
	if r.last != k.seq {
		return s.damaged("entry %d of log %q in space %q", k.seq, g.name, g.space)
	}
	return nil
}

func (c *conn) intactEntry(g *log, r *entries) bool { return c.sumEntry(g, &r.entry) == r.sum }

// checkEntry returns an error if the present entry is damaged.
func (c *conn) checkEntry(s *Store, g *log, r *entries) error {
	if c.intactEntry(g, r) {
		return nil
	}
	return s.damaged("entry %d of log %q in space %q", r.entry.seq, g.name, g.space)
}

// append adds an entry to a log. It is written with the others of its chunk, at the latest when the
// transaction ends.
func (w *writer) append(g *log, e *entry) error {
	if g.filling == nil {
		g.filling = w.logs.take()
		w.logs.filling = append(w.logs.filling, g)
	}
	if !g.filling.takes(e) {
		if err := w.insertChunk(g); err != nil {
			return err
		}
	}
	g.filling.add(e, w.conn.sumEntry(g, e))
	g.last = e.seq
	w.due(e.expires)
	return nil
}

func (w *writer) insertChunk(g *log) error {
	k := g.filling
	_, err := w.conn.exec(insertChunk, g.id, k.seq, k.expires, k.data)
	*k = chunk{data: k.data[:0]}
	return err
}

// writeChunks writes the chunks that are being filled, before they are read and at the end of
// the transaction.
func (w *writer) writeChunks() error {
	for _, g := range w.logs.filling {
		if err := w.insertChunk(g); err != nil {
			return err
		}
		w.logs.give(g)
	}
	w.logs.filling = w.logs.filling[:0]
	return nil
}

// spareChunks is how many chunks are kept for the next transaction.
const spareChunks = 64

func (l *logs) take() *chunk {
	if n := len(l.spare); n > 0 {
		k := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return k
	}
	return new(chunk)
}

// give takes the chunk of a log away, and keeps its memory if that is not much.
func (l *logs) give(g *log) {
	k := g.filling
	g.filling = nil
	if len(l.spare) < spareChunks && cap(k.data) <= 4*chunkOctets {
		*k = chunk{data: k.data[:0]}
		l.spare = append(l.spare, k)
	}
}

// chunkOf returns the entry of a log and its chunk. The entry is nil if it is missing.
func (w *writer) chunkOf(g *log, seq int64) (*chunk, *entry, error) {
	if err := w.writeChunks(); err != nil {
		return nil, nil, err
	}
	row, err := w.conn.row(selectChunk, g.id, seq)
	if row == nil || err != nil {
		return nil, nil, err
	}
	k := readChunk(row)
	for r := k.entries(); r.next(); {
		if r.entry.seq == seq {
			return k, &r.entry, w.conn.checkEntry(w.s, g, &r)
		}
	}
	return k, nil, nil
}

// keepEntries writes a chunk of a log again, without the entries that keep does not want. It counts these as
// removed. Without entries the chunk is removed. It does not check the entries.
func (w *writer) keepEntries(log int64, k *chunk, keep func(e *entry) bool) (removed int, err error) {
	kept := &chunk{n: k.n}
	r := k.entries()
	for r.next() {
		if keep(&r.entry) {
			kept.add(&r.entry, r.sum)
			continue
		}
		removed++
		if r.entry.id != nil {
			if _, err := w.conn.exec(deleteName, log, r.entry.id); err != nil {
				return removed, err
			}
		}
		if err := ignoreDamage(w.refund(r.entry.owner, r.entry.cost())); err != nil {
			return removed, err
		}
	}
	switch {
	case len(r.rest) > 0:
		return removed, w.s.damaged("entry after %d of log number %d", r.last, log)
	case kept.count == 0:
		_, err = w.conn.exec(deleteChunk, k.n)
	case removed > 0:
		_, err = w.conn.exec(updateChunk, kept.seq, kept.expires, kept.data, k.n)
	}
	return removed, err
}
