package events

import (
	"context"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// reader walks along the sequence of events and picks those that a subscription
// gets. It is used by one goroutine at a time.
type reader struct {
	bus      *Bus
	identity string // whose access counts; empty for this process
	filter   *Filter
	pos      uint64 // every event up to this number was looked at

	allowed map[string]bool // what access said, by event_type
	asked   time.Time       // when allowed was begun
}

// gather is one EVT_BATCH being put together. Readers that wait have none.
type gather struct {
	buf     []byte // headroom, then the records as elements of the batch
	count   int
	last    uint64 // number of the last record
	entries [256]*entry
}

const (
	headroom   = 8         // for the key and length of the wrapper
	fullOctets = 256 << 10 // a batch that has as much is sent
	keepOctets = 512 << 10 // larger buffers are not used again

	// storeScan is how many entries one reading of the store looks at, so that
	// one with a filter that nothing matches leaves the others a turn.
	storeScan = 4096
)

var gathers = sync.Pool{New: func() any { return new(gather) }}

func newGather() *gather {
	g := gathers.Get().(*gather) //nolint:errcheck // the pool holds nothing else
	if g.buf == nil {
		g.buf = make([]byte, headroom, 4096)
	}
	g.buf, g.count = g.buf[:headroom], 0
	return g
}

// free gives g back. Nothing of it may be used any more.
func (g *gather) free() {
	clear(g.entries[:])
	if cap(g.buf) > keepOctets {
		g.buf = nil
	}
	gathers.Put(g)
}

func (g *gather) empty() bool { return g.count == 0 }

// fits reports whether a record may be added.
func (g *gather) fits(octets []byte) bool {
	return g.empty() || g.count < MaxBatch && len(g.buf)+len(octets) <= fullOctets
}

func (g *gather) add(seq uint64, octets []byte) {
	g.buf = append(p1.AppendHeader(g.buf, 1, len(octets)), octets...)
	g.count++
	g.last = seq
}

// payload closes the batch and returns it as the payload of an EVT_BATCH, valid
// until free.
func (g *gather) payload() []byte {
	var head [headroom]byte
	h := p1.AppendHeader(head[:0], TypeBatch, len(g.buf)-headroom)
	from := headroom - len(h)
	copy(g.buf[from:], h)
	return g.buf[from:]
}

// errSlow cuts a subscription off.
var errSlow = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: DetailSlow, Text: "events: events that are due are no longer held", Pace: true, Retryable: true,
	Answer: answer(CodeSlowConsumer, "events that are due are no longer held"),
}

// fill moves on until g is full or there is nothing more. Then it returns a
// channel that is closed when there is. The error is errSlow, the store's or
// the context's.
func (r *reader) fill(ctx context.Context, g *gather) (changed <-chan struct{}, err error) {
	for {
		n, changed, behind := r.bus.tail.read(r.pos, g.entries[:])
		switch {
		case changed != nil:
			return changed, nil
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

// take looks at the next entry. It returns false, and leaves it for later, if g
// is full.
func (r *reader) take(g *gather, seq uint64, record *Record) bool {
	if r.filter.Match(record) && r.may(record.EventType) {
		if !g.fits(record.octets) {
			return false
		}
		g.add(seq, record.octets)
	}
	r.pos = seq
	return true
}

// fillFromStore is fill for entries that are no longer in memory. more says
// that g is not full.
func (r *reader) fillFromStore(ctx context.Context, g *gather) (more bool, err error) {
	store := r.bus.opts.Store
	if store == nil {
		return false, errSlow
	}
	select {
	case r.bus.readers <- struct{}{}:
		defer func() { <-r.bus.readers }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	seen, before, more, fault := 0, r.pos, true, error(nil)
	err = store.Read(ctx, spaceLog, logName, r.pos, func(seq uint64, _ string, data []byte) bool {
		var record Record
		if fault = record.stored(data); seq != r.pos+1 {
			fault = errSlow
		}
		if fault != nil || !r.take(g, seq, &record) {
			more = false
			return false
		}
		seen++
		return seen < storeScan
	})
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		return false, profiles.Unavailable(err)
	case fault == nil && r.pos == before && more:
		return false, errSlow // they are due, and nothing is there
	}
	return more, fault
}

// accessTime is how long an answer of Access counts, and accessTypes how many
// are kept.
const (
	accessTime  = time.Second
	accessTypes = 64
)

// may reports whether the identity may subscribe to a type. Another one is as
// if it did not exist.
func (r *reader) may(eventType []byte) bool {
	access := r.bus.opts.Access
	if r.identity == "" || access == profiles.Everyone {
		return true
	}
	ok, known := r.allowed[string(eventType)]
	if now := time.Now(); !known || now.Sub(r.asked) >= accessTime {
		if len(r.allowed) >= accessTypes || now.Sub(r.asked) >= accessTime || r.allowed == nil {
			r.allowed, r.asked = make(map[string]bool), now
		}
		ok = access.Allowed(r.identity, "events", "subscribe", string(eventType))
		r.allowed[string(eventType)] = ok
	}
	return ok
}
