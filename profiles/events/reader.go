package events

import (
	"bytes"
	"context"
	"sync"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// reader walks through the sequence of events and selects the events of a subscription. One
// goroutine at a time may use it.
type reader struct {
	bus    *Bus
	filter *Filter
	rights rights
	pos    uint64 // every event up to this number was examined
	in     *group // set while events are read
}

// reader returns a reader of the events from now on. identity is empty for this process.
func (b *Bus) reader(identity string, f *Filter) reader {
	return reader{bus: b, filter: f, rights: rights{access: b.opts.Access, identity: identity}, pos: b.tail.end()}
}

// gather is one EVT_BATCH under construction. Readers that wait have none.
type gather struct {
	buf     []byte // headroom, then the records as elements of the batch
	large   []byte // the octets of the only record, if it is large
	slot    string // identity that holds a slot for large records
	held    bool   // there is one
	full    int    // octets at which it is full, at most fullOctets
	count   int
	last    uint64 // number of the last record
	entries [256]*entry
}

const (
	headroom   = 16       // for the keys and lengths of the wrapper and of a large record
	fullOctets = 64 << 10 // a batch of this size is sent; a larger record is sent alone

	// storeScan is how many entries one read of the store examines, so that a subscription
	// whose filter matches nothing gives way to others.
	storeScan = 4096

	// storeReaders is how many subscriptions read the store at the same time. largeSlots is
	// how many hold a large record from the store while it is sent: 128 MiB at most.
	// Identities share both.
	// Records in the tail are not copied.
	storeReaders = 4
	largeSlots   = 16
)

var gathers = sync.Pool{New: func() any { return new(gather) }}

// newGather returns a batch for payloads of at most room octets, unless one record alone has
// more.
func newGather(room int) *gather {
	g := gathers.Get().(*gather) //nolint:errcheck // the pool holds nothing else
	if g.buf == nil {
		g.buf = make([]byte, headroom, 4096)
	}
	g.buf, g.full, g.count = g.buf[:headroom], min(fullOctets, room-headroom), 0
	return g
}

// free returns g to its Bus. Nothing of g may be used afterwards.
func (g *gather) free(b *Bus) {
	clear(g.entries[:])
	if g.held {
		b.large.Give(g.slot)
	}
	g.large, g.slot, g.held = nil, "", false
	gathers.Put(g)
}

func (g *gather) empty() bool { return g.count == 0 }

// fits reports whether a record may be added.
func (g *gather) fits(octets []byte) bool {
	return g.empty() || g.large == nil && g.count < MaxBatch && len(g.buf)+len(octets) <= g.full
}

// add adds a record. A large one is not copied.
func (g *gather) add(seq uint64, octets []byte) {
	if len(octets) > fullOctets {
		g.large = octets
	} else {
		g.buf = append(p1.AppendHeader(g.buf, 1, len(octets)), octets...)
	}
	g.count++
	g.last = seq
}

// payload closes the batch and returns it as the payload of an EVT_BATCH, in two
// parts, valid until free.
func (g *gather) payload() (head, tail []byte) {
	var header [headroom]byte
	h := header[:0]
	if g.large != nil {
		h = p1.AppendHeader(h, TypeBatch, p1.SizeHeader(1, len(g.large)))
		h = p1.AppendHeader(h, 1, len(g.large))
	} else {
		h = p1.AppendHeader(h, TypeBatch, len(g.buf)-headroom)
	}
	from := headroom - len(h)
	copy(g.buf[from:], h)
	return g.buf[from:], g.large
}

// errSlow cuts a subscription off.
var errSlow = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: DetailSlow, Text: "events: events that are due are no longer held", Pace: true, Retryable: true,
	Answer: refusals.Answer(CodeSlowConsumer, "events that are due are no longer held", true),
}

// held returns the first cursor, between two cursors, with a stored event after it. It is
// greater than after if events in between are not stored: their retention has passed, or the
// repair of a damaged store has left them out. The error comes from the store.
func (b *Bus) held(ctx context.Context, after, last uint64) (uint64, error) {
	next := last + 1
	err := b.opts.Store.Read(ctx, spaceLog, logName, after, func(seq uint64, _ string, _ []byte) bool {
		next = seq
		return false
	})
	return max(next-1, after), err
}

// errHole ends a subscription before events that are no longer stored. The confirmation of the
// next one, after the cursor of the last batch, has the cursor behind them.
var errHole = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: DetailSlow, Text: "events: the next events are no longer stored", Domain: true, Retryable: true,
	Answer: refusals.Answer(CodeSlowConsumer, "the next events are no longer stored", true),
}

// open lets fill be called, until close.
func (r *reader) open() { r.in = r.bus.tail.join(r.rights.identity, r.filter) }

func (r *reader) close() { r.bus.tail.leave(r.in) }

// skip passes over the events that are not for this reader, after it has waited for next.
func (r *reader) skip(next *waiting) { r.pos = max(r.pos, r.bus.tail.examined(next)) }

// fill adds events until g is full or there are no more. Then it returns what to wait for,
// and to skip after that. The error is errSlow or errHole, or comes from the store or from ctx.
func (r *reader) fill(ctx context.Context, g *gather) (next *waiting, err error) {
	for {
		n, next, behind := r.bus.tail.read(r.pos, r.in, g.entries[:])
		switch {
		case next != nil:
			return next, nil
		case behind:
			if more, err := r.fillFromStore(ctx, g); !more || err != nil {
				return nil, err
			}
		default:
			for _, e := range g.entries[:n] {
				if !r.take(g, e.seq, &e.record) {
					return nil, nil
				}
			}
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
}

// take examines the next entry. If g is full, it returns false and leaves the entry for
// later.
func (r *reader) take(g *gather, seq uint64, record *Record) bool {
	if r.gets(record) {
		if !g.fits(record.octets) {
			return false
		}
		g.add(seq, record.octets)
	}
	r.pos = seq
	return true
}

func (r *reader) gets(record *Record) bool {
	return r.filter.Match(record) && r.rights.may(record.EventType)
}

// fillFromStore is fill for entries that are no longer in memory. more says that there may
// be more for g.
func (r *reader) fillFromStore(ctx context.Context, g *gather) (more bool, err error) {
	store := r.bus.opts.Store
	if store == nil {
		return false, errSlow
	}
	identity := r.rights.identity
	if err := r.bus.readers.Take(ctx, identity); err != nil {
		return false, err
	}
	seen, before := 0, r.pos
	full, wants, fault := false, false, error(nil)
	err = store.Read(ctx, spaceLog, logName, r.pos, func(seq uint64, _ string, data []byte) bool {
		var record Record
		if fault = record.stored(data); seq != r.pos+1 {
			fault = errHole
		}
		switch {
		case fault != nil:
			return false
		case len(data) > fullOctets && g.empty() && r.gets(&record):
			if wants = !g.held; wants {
				return false
			}
			record.octets = bytes.Clone(data)
		}
		if full = !r.take(g, seq, &record); full {
			return false
		}
		seen++
		return seen < storeScan
	})
	r.bus.readers.Give(identity)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		return false, profiles.Unavailable(err)
	case fault != nil || full:
		return false, fault
	case wants: // a slot; a goroutine that waits for one holds nothing else
		err := r.bus.large.Take(ctx, identity)
		g.slot, g.held = identity, err == nil
		return g.held, err
	case r.pos == before:
		return false, errHole // the last ones
	}
	return true, nil
}
