package events

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// Delivery is some of the events of a subscription, in order.
type Delivery struct {
	// Events are valid until the next call of Recv.
	Events []Record

	// Cursor is that of the last of Events or, without events, the number up to
	// which there is nothing for this subscription. A subscription that starts
	// after it goes on here. It is 0 if the endpoint stores nothing.
	Cursor uint64
}

// Feed is a subscription of this process. It is used by one goroutine at a
// time, and needs no closing: it holds nothing but its place.
type Feed struct {
	reader reader
	batch  Batch
	octets []byte
}

// Subscribe returns a Feed of the events that match a filter. It begins with
// the next one that is accepted, or after a cursor that is not nil. Access is
// not asked.
func (b *Bus) Subscribe(filter *Filter, after *uint64) *Feed {
	if filter == nil {
		filter = new(Filter)
	}
	f := &Feed{reader: reader{bus: b, filter: filter, pos: b.tail.end()}}
	if after != nil {
		f.reader.pos = *after
	}
	return f
}

// Recv waits for events and returns them. The error is the context's, or an
// *profiles.Error: of CodeSlowConsumer in Answer's place if the next events are
// no longer held, of the store, or because the Bus was closed.
func (f *Feed) Recv(ctx context.Context) (Delivery, error) {
	for {
		g := newGather()
		changed, err := f.reader.fill(ctx, g)
		if !g.empty() {
			head, tail := g.payload()
			f.octets = append(append(f.octets[:0], head...), tail...)
			last := g.last
			g.free(f.reader.bus)
			if err := f.batch.Decode(f.octets); err != nil {
				return Delivery{}, profiles.AsError(err)
			}
			return Delivery{f.batch.Events, last}, nil
		}
		g.free(f.reader.bus)
		if err != nil {
			return Delivery{}, err
		}
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Delivery{}, ctx.Err()
		case <-f.reader.bus.ctx.Done():
			return Delivery{}, errEnding
		}
	}
}
