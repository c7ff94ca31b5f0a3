package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

// Exporter is an engine whose content can be carried to another engine.
type Exporter interface {
	// Export calls yield with everything that the engine holds at one moment, piece by piece,
	// until yield returns an error, which Export returns. Every operation whose done was called
	// before Export is included. The first piece is a Start. Then come, for a Store, records by
	// space and key, each log followed by its entries, and items by space, queue and number;
	// for Blobs, each blob followed by its octets. So two engines with the same content give
	// the same pieces, except for Start.
	//
	// Expired data is left out, and damaged data ends the export with ErrDamaged. The engine
	// can be used during the export, but Close waits until yield returns. A piece and its octets are
	// valid until yield returns. yield must not use the engine: one in memory does nothing else
	// during the export.
	Export(ctx context.Context, yield func(Piece) error) error
}

// Importer is an engine that takes the content of another one.
type Importer interface {
	// Import fills an engine with the pieces of an export, until next returns io.EOF. It
	// refuses with ErrUsed an engine to which anything was ever written. Quotas are not
	// applied: imported data counts, and stays. next is called on a goroutine of the engine,
	// one call at a time. The octets of a piece must stay unchanged until the next call.
	//
	// An error of next, a piece out of order and one that breaks a limit end the import. After
	// an error a Store is as empty as before. Blobs may hold a part of the import, which must
	// not be used.
	Import(ctx context.Context, next func() (Piece, error)) error
}

// Piece is a part of an export: *Start, *Record, *Log, *LogEntry, *Item, *Blob or *Octets. Times
// in pieces are nanoseconds since 1970 on the clock of the engine that was exported; 0 means
// never. An importer moves its own clock to at least that of Start: expiries and leases
// continue as if the engine had been closed at the export and opened at the import.
type Piece interface {
	// Check returns an error if the piece breaks a limit of this package.
	Check() error
}

// Start is the first piece of an export: the counters of the engine.
type Start struct {
	Clock    uint64 // the time of the export
	Versions uint64 // the last version given to a record, or number given to a lease
	Items    uint64 // no item has a larger number
}

// Record is a record with its version.
type Record struct {
	Space, Key, Owner string
	Version, Expires  uint64
	Value             []byte
}

// Log is a log. Its stored entries follow.
type Log struct {
	Space, Name, Owner string
	Last               uint64 // the number of the last entry ever appended
}

// LogEntry is an entry of the last Log before it.
type LogEntry struct {
	Seq       uint64
	ID, Owner string
	Expires   uint64
	Data      []byte
}

// Item is an item of a queue, or the remembered id of a done one. A leased item keeps its
// lease: the consumer that has the number of the lease may end it in the engine of the import.
type Item struct {
	Space, Queue, ID, Mark, Owner string

	Number  uint64 // its place in the queue
	Done    bool   // only the id is remembered: Lease, Due, Expires and Data are empty
	Lease   uint64 // the last lease, unless that was ended; or 0
	Tries   uint64
	Due     uint64 // when it may be leased; under a lease the end of that
	Expires uint64
	Keep    uint64 // how long the id is remembered
	Data    []byte
}

// Blob is a blob, or the part of one. Its octets follow.
type Blob struct {
	Name, Owner   string
	Version, Mark uint64 // version 0: a part
	Changed       uint64 // the time of the last change; of a blob, when it was sealed
	Expires       uint64
	Idle          uint64 // of a part: nanoseconds without an Append after which it is discarded; 0: never
	Size          uint64 // octets that follow
	Tag, Note     []byte
}

// Octets are the next octets of the last Blob before them, at most MaxValue at once.
type Octets struct{ Data []byte }

// ErrUsed: an import needs an engine to which nothing was ever written.
var ErrUsed = &Error{"store: not empty", "store_used", false, nil}

// ErrUnfinished: a store is being filled, or that was interrupted. It has only a part of its content.
var ErrUnfinished = &Error{"store: its content is not complete", "store_unfinished", false, nil}

// limit is a value that Check compares with its limit.
type limit struct {
	what       string
	value, max uint64
}

func within(limits ...limit) error {
	for _, l := range limits {
		if l.value > l.max {
			return fmt.Errorf("%w: %s is %d, limit %d", ErrTooLarge, l.what, l.value, l.max)
		}
	}
	return nil
}

func octets[T string | []byte](what string, s T, most uint64) limit {
	return limit{"length of the " + what, uint64(len(s)), most}
}

// whole limits a number to the range of every engine.
func whole(what string, n uint64) limit { return limit{what, n, math.MaxInt64} }

// maxClock is far in the future (2116), and leaves room for expiries after it.
const maxClock = math.MaxInt64 / 2

// maxCounter leaves room for the numbers after it.
const maxCounter = math.MaxInt64 / 2

// Check implements Piece.
func (p *Start) Check() error {
	return within(limit{"clock", p.Clock, maxClock}, limit{"version", p.Versions, maxCounter}, limit{"number of items", p.Items, maxCounter})
}

// Check implements Piece.
func (p *Record) Check() error {
	return within(octets("space", p.Space, MaxSpace), octets("key", p.Key, MaxName), octets("owner", p.Owner, MaxOwner),
		whole("expiry", p.Expires), octets("value", p.Value, MaxValue))
}

// Check implements Piece.
func (p *Log) Check() error {
	return within(octets("space", p.Space, MaxSpace), octets("name", p.Name, MaxName), octets("owner", p.Owner, MaxOwner),
		limit{"last number", p.Last, maxCounter})
}

// Check implements Piece.
func (p *LogEntry) Check() error {
	return within(octets("id", p.ID, MaxName), octets("owner", p.Owner, MaxOwner), whole("expiry", p.Expires), octets("data", p.Data, MaxValue))
}

// Check implements Piece.
func (p *Item) Check() error {
	return within(octets("space", p.Space, MaxSpace), octets("queue", p.Queue, MaxName), octets("id", p.ID, MaxName),
		octets("mark", p.Mark, MaxName), octets("owner", p.Owner, MaxOwner), limit{"number of tries", p.Tries, math.MaxInt32},
		whole("due time", p.Due), whole("expiry", p.Expires), whole("time of remembrance", p.Keep), octets("data", p.Data, MaxValue))
}

// Check implements Piece.
func (p *Blob) Check() error {
	return within(octets("name", p.Name, MaxName), octets("owner", p.Owner, MaxOwner), octets("tag", p.Tag, MaxTag), octets("note", p.Note, MaxNote),
		limit{"version", p.Version, maxCounter}, limit{"time of change", p.Changed, maxClock}, whole("expiry", p.Expires), whole("idle time", p.Idle),
		limit{"size", p.Size, maxCounter})
}

// Check implements Piece.
func (p *Octets) Check() error { return within(octets("data", p.Data, MaxValue)) }

// Yielding returns yield with the checks that every Export needs: it returns ErrClosed after gone was
// closed, and the error of ctx after its end.
func Yielding(ctx context.Context, gone <-chan struct{}, yield func(Piece) error) func(Piece) error {
	return func(p Piece) error {
		select {
		case <-gone:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		default:
			return yield(p)
		}
	}
}

// Pieces returns next with the checks that every Import needs: each piece is within its limits
// and fits those before it. Only what needs a look-up, such as that no key comes twice, is left
// to the engine.
func Pieces(next func() (Piece, error)) func() (Piece, error) {
	var order order
	return func() (Piece, error) {
		p, err := next()
		switch {
		case errors.Is(err, io.EOF):
			if err := order.end(); err != nil {
				return nil, err
			}
			return nil, io.EOF
		case err != nil:
			return nil, err
		}
		if err := p.Check(); err != nil {
			return nil, err
		}
		return p, order.add(p)
	}
}

// errOrder is the error of pieces that do not belong together.
var errOrder = errors.New("store: the export is not in order")

// order is what has come of an export.
type order struct {
	start *Start // nil: nothing has come
	log   *Log   // the last piece but its entries; nil if another one is
	seq   uint64 // of its last entry
	left  uint64 // octets of the last blob that have not come
}

func (o *order) end() error {
	switch {
	case o.start == nil:
		return fmt.Errorf("%w: it is empty", errOrder)
	case o.left > 0:
		return fmt.Errorf("%w: %d octets of the last blob are missing", errOrder, o.left)
	}
	return nil
}

func (o *order) add(p Piece) error {
	switch p := p.(type) {
	case *Start:
		if o.start != nil {
			return fmt.Errorf("%w: it starts twice", errOrder)
		}
		start := *p
		o.start = &start
		return nil
	case *Octets:
		if uint64(len(p.Data)) > o.left || len(p.Data) == 0 {
			return fmt.Errorf("%w: %d octets where %d of a blob are missing", errOrder, len(p.Data), o.left)
		}
		o.left -= uint64(len(p.Data))
		return nil
	}
	if err := o.end(); err != nil {
		return err
	}
	switch p := p.(type) {
	case *LogEntry:
		if o.log == nil || p.Seq <= o.seq || p.Seq > o.log.Last {
			return fmt.Errorf("%w: entry %d does not belong to the log before it", errOrder, p.Seq)
		}
		o.seq = p.Seq
		return nil
	case *Log:
		log := *p
		o.log, o.seq = &log, 0
		return nil
	case *Record:
		if p.Version == 0 || p.Version > o.start.Versions {
			return fmt.Errorf("%w: record %q has version %d of %d", errOrder, p.Key, p.Version, o.start.Versions)
		}
	case *Item:
		switch {
		case p.Number == 0, p.Number > o.start.Items, p.Lease > o.start.Versions:
			return fmt.Errorf("%w: item %q has number %d of %d and lease %d of %d", errOrder, p.ID, p.Number, o.start.Items, p.Lease, o.start.Versions)
		case p.Done && (p.Lease != 0 || p.Due != 0 || p.Expires != 0 || len(p.Data) != 0):
			return fmt.Errorf("%w: item %q is done and has a state", errOrder, p.ID)
		}
	case *Blob:
		o.left = p.Size
	}
	o.log = nil
	return nil
}
