package pgstore

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
)

const (
	cutLog    = `SELECT cut($1, $2, $3, $4, $5)`
	selectLog = `SELECT id, owner, last, trimmed, sum FROM log WHERE space = $1 AND name = $2`
	spanOfLog = `SELECT l.id, l.owner, l.last, l.trimmed, l.sum, (SELECT e.seq FROM entry e
			WHERE e.log = l.id AND e.seq > l.trimmed AND (e.expires = 0 OR e.expires > $3) ORDER BY e.seq LIMIT 1)
		FROM log l WHERE l.space = $1 AND l.name = $2`
	readLog = `SELECT seq, coalesce(id, ''), owner, expires, sum, data FROM (
		SELECT *, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before FROM (
			SELECT e.* FROM log l JOIN entry e ON e.log = l.id
			WHERE l.space = $1 AND l.name = $2 AND e.seq > $3 AND e.seq > l.trimmed ORDER BY e.seq LIMIT $4) page) counted
		WHERE before < $5 ORDER BY seq`
)

// everything is greater than the number of any entry.
const everything = math.MaxInt64

// log is a row of the table of logs.
type log struct {
	id, last, trimmed, sum int64
	owner                  []byte
}

func sumLog(space, name string, l *log) int64 {
	return crc(checksum.Log, nil, space, name, string(l.owner)) ^ l.id ^ rot(l.last, 21) ^ rot(l.trimmed, 42)
}

func (s *Store) intactLog(space, name string, l *log) error {
	if l.sum != sumLog(space, name, l) {
		return s.damaged("log %q in space %q", name, space)
	}
	return nil
}

// entry is a row of the table of entries.
type entry struct {
	seq, expires, sum int64
	id, owner, data   []byte
}

func sumEntry(space, log, id, owner string, data []byte) int64 {
	return crc(checksum.Entry, data, space, log, id, owner)
}

func (s *Store) intactEntry(space, log string, e *entry) error {
	if e.sum != sumEntry(space, log, string(e.id), string(e.owner), e.data)^e.seq^rot(e.expires, 32) {
		return s.damaged("entry %d of log %q in space %q", e.seq, log, space)
	}
	return nil
}

func logOp(space, log string) *op {
	return &op{
		size: len(space) + len(log), invalid: gather.CheckSizes(space, log, "", "", 0),
		subject: gather.Subject{Kind: gather.Log, Space: space, Name: log}, after: true,
	}
}

// Trim implements store.Logs.
func (s *Store) Trim(space, log string, through uint64, done func(error)) {
	s.cut(space, log, int64(min(through, everything)), false, done)
}

// Drop implements store.Logs.
func (s *Store) Drop(space, log string, done func(error)) {
	s.cut(space, log, everything, true, done)
}

func (s *Store) cut(space, log string, through int64, drop bool, done func(error)) {
	o := logOp(space, log)
	o.call = func(w *writer, _ limits) call {
		w.sweepSoon()
		return call{cutLog, []any{w.node, []byte(space), []byte(log), through, drop}}
	}
	o.read = func(rows pgx.Rows) error {
		rows.Close()
		return rows.Err()
	}
	o.done = done
	s.queue.Submit(o)
}

// Read implements store.Logs. It reads a page at a time: no connection is held while yield runs.
func (s *Store) Read(ctx context.Context, space, name string, after uint64,
	yield func(seq uint64, id string, data []byte) bool,
) error {
	if err := gather.CheckSizes(space, name, "", "", 0); err != nil {
		return err
	}
	from := int64(min(after, everything))
	for {
		var page []entry
		var e entry
		err := s.rows(ctx, func() error {
			page = append(page, e)
			return nil
		}, call{readLog, []any{[]byte(space), []byte(name), from, pageRows, pageOctets}}, &e.seq, &e.id, &e.owner, &e.expires, &e.sum, &e.data)
		if err != nil {
			return err
		}
		now := s.clock.Now()
		for i := range page {
			e := &page[i]
			if err := s.intactEntry(space, name, e); err != nil {
				return err
			}
			from = e.seq
			if !clock.Expired(e.expires, now) && !yield(uint64(e.seq), string(e.id), e.data) {
				return nil
			}
		}
		if len(page) == 0 {
			return nil
		}
	}
}

// Span implements store.Logs.
func (s *Store) Span(ctx context.Context, space, name string) (first, last uint64, err error) {
	if err := gather.CheckSizes(space, name, "", "", 0); err != nil {
		return 0, 0, err
	}
	var l log
	var seq *int64
	found, err := s.row(ctx, call{spanOfLog, []any{[]byte(space), []byte(name), s.clock.Now()}}, &l.id, &l.owner, &l.last, &l.trimmed, &l.sum, &seq)
	if err == nil && found {
		err = s.intactLog(space, name, &l)
	}
	switch {
	case err != nil:
		return 0, 0, err
	case seq != nil:
		return uint64(*seq), uint64(l.last), nil
	}
	return uint64(l.last) + 1, uint64(l.last), nil
}
