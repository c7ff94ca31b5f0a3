package sqlstore

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// SQLite reads a write-ahead log up to the first frame that is damaged, and ignores the frames
// behind it. This is right for a transaction that was being written when the power failed, and a
// silent loss if transactions behind the damage are acknowledged. The mark tells it after the end
// of a process. After a power cut the mark may be old; then the log itself tells it: each
// transaction writes the row of the store, which has its number and a checksum.

// Sizes of the file format of SQLite.
const (
	walHeader   = 32
	frameHeader = 24
)

// checkLog reports acknowledged transactions in the log behind the last one that SQLite reads. The
// transaction with the next number may be torn: it was not acknowledged. A later one was written when
// all before it were on the disk.
func (s *Store) checkLog(c *conn, commits int64) error {
	logged, err := s.logged(c)
	if err == nil && logged > commits+1 {
		err = s.damaged("%s-wal is damaged: SQLite reads it up to transaction %d, but it has transaction %d", databaseName, commits, logged)
	}
	return err
}

// settle commits and syncs a transaction if the log may hold transactions of another level, or
// transactions that ended with the machine. The new one gets a number above theirs: checkLog then
// does not take them for acknowledged.
func (w *writer) settle(known mark) error {
	_, promised := known.lost(w.state.commits, w.s.mark.boot)
	if promised && known.level == w.s.options.Durability {
		return nil
	}
	logged, err := w.s.logged(w.conn)
	if err != nil {
		return err
	}
	w.state.commits = max(w.state.commits, logged)
	if err := w.transact(func() error { return nil }); err != nil {
		return err
	}
	return unavailable(w.s.mark.file.Sync())
}

// logged returns the highest number of a transaction in the whole log, with the parts that SQLite
// ignores, or 0 for an empty log.
func (s *Store) logged(c *conn) (commits int64, err error) {
	file, err := os.Open(s.file + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, unavailable(err)
	}
	defer func() { _ = file.Close() }()
	row, err := c.row(`SELECT page_size, rootpage FROM pragma_page_size, sqlite_schema WHERE name = 'state'`)
	if err != nil {
		return 0, err
	}
	if row == nil {
		return 0, s.damaged("no table of the state")
	}
	page, root := make([]byte, number(row[0])), number(row[1])
	var header [frameHeader]byte
	for at := int64(walHeader); ; at += frameHeader + int64(len(page)) {
		_, err := file.ReadAt(header[:], at)
		if err == nil {
			if int64(binary.BigEndian.Uint32(header[:])) != root {
				continue
			}
			_, err = file.ReadAt(page, at+frameHeader)
		}
		if err == io.EOF {
			return commits, nil
		}
		if err != nil {
			return 0, unavailable(err)
		}
		if st, ok := c.stateIn(page); ok {
			commits = max(commits, st.commits)
		}
	}
}

// stateIn returns the row of the store from its page, a leaf of a table with one row.
func (c *conn) stateIn(page []byte) (st state, ok bool) {
	const leaf, columns = 13, 6
	if page[0] != leaf || binary.BigEndian.Uint16(page[3:]) != 1 {
		return st, false
	}
	at := int(binary.BigEndian.Uint16(page[8:]))
	// The octets of a cell: size, rowid, size of the header, a type for each column, the columns.
	const head = 3 + columns
	if at+head > len(page) || page[at+1] != 1 || page[at+2] != 1+columns {
		return st, false
	}
	types, rest := page[at+3:at+head], page[at+head:]
	var column [columns]int64 // the first, the rowid, is NULL here
	for i, kind := range types {
		size := 0
		switch kind {
		case 1, 2, 3, 4:
			size = int(kind)
		case 5, 6:
			size = 2 * (int(kind) - 2)
		case 9:
			column[i] = 1
		}
		if size > len(rest) {
			return st, false
		}
		for n, octet := range rest[:size] {
			if n == 0 {
				column[i] = int64(int8(octet))
				continue
			}
			column[i] = column[i]<<8 | int64(octet)
		}
		rest = rest[size:]
	}
	st = state{column[1], column[2], column[3], column[4]}
	return st, c.sumState(st) == column[5]
}
