package events

import (
	"context"
	"errors"

	"github.com/slimwire/swp/profiles"
)

// Delivery has some events of a subscription, in order.
type Delivery struct {
	// Events are valid until the next call of Recv.
	Events []Record

	// Cursor is the cursor of the last of Events or, without events, the cursor up to which
	// there is none for this subscription. A subscription that starts after it continues
	// here. It is 0 if the endpoint does not store events.
	Cursor uint64
}

// Feed is a subscription of this process. One goroutine at a time may use it. It need not
// be closed: it holds nothing except its position.
type Feed struct {
	reader reader
	batch  Batch
	octets []byte
}

// Subscribe returns a Feed of the events that match a filter. It begins with the next
// accepted event, or after a cursor that is not nil. Access is not asked.
func (b *Bus) Subscribe(filter *Filter, after *uint64) *Feed {
	if filter == nil {
		filter = new(Filter)
	}
	f := &Feed{reader: b.reader("", filter)}
	if after != nil {
		f.reader.pos = *after
	}
	return f
}

// Recv waits for events and returns them. The error is that of ctx, or an *profiles.Error:
// with an Answer of CodeSlowConsumer if the next events are no longer available, for a
// failed store, or because the Bus was closed. After events that are no longer stored, the
// next call continues.
func (f *Feed) Recv(ctx context.Context) (Delivery, error) {
	f.reader.open()
	defer f.reader.close()
	for {
		g := newGather(fullOctets)
		next, err := f.reader.fill(ctx, g)
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
		if errors.Is(err, errHole) {
			b := f.reader.bus
			if pos, failed := b.held(ctx, f.reader.pos, b.tail.end()); failed == nil {
				f.reader.pos = pos
			}
		}
		if err != nil {
			return Delivery{}, err
		}
		if next == nil {
			continue
		}
		select {
		case <-next.arrived:
			f.reader.skip(next)
		case <-ctx.Done():
			return Delivery{}, ctx.Err()
		case <-f.reader.bus.ctx.Done():
			return Delivery{}, errEnding
		}
	}
}
