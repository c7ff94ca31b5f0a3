package crash

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
)

// publishing has producers publish numbered events and subscribers follow them.
// Every producer and subscriber outlives swpd.
type publishing struct {
	*faults
	producers   int
	subscribers int

	acked    []atomic.Uint64 // by producer: events it may count on
	followed []*follower
	cycles   atomic.Int64 // confirmations
}

func newPublishing(f *faults, producers, subscribers int) *publishing {
	w := &publishing{faults: f, producers: producers, subscribers: subscribers, acked: make([]atomic.Uint64, producers)}
	for i := range subscribers {
		w.followed = append(w.followed, newFollower(f, fmt.Sprintf("follower-%d", i), producers))
	}
	return w
}

func (w *publishing) String() string {
	var n uint64
	for i := range w.acked {
		n += w.acked[i].Load()
	}
	return fmt.Sprintf("%d events in %d confirmations", n, w.cycles.Load())
}

func (w *publishing) run(ctx, _ context.Context, dial dialer) {
	var all sync.WaitGroup
	for i := range w.producers {
		all.Go(func() {
			_ = connected(ctx, dial, func(ctx context.Context, c *client.Client) error { return w.publish(ctx, c, i) })
		})
	}
	for _, f := range w.followed {
		all.Go(func() { _ = connected(ctx, dial, f.follow) })
	}
	all.Wait()
}

// publish publishes what producer i has not had confirmed, and more.
func (w *publishing) publish(ctx context.Context, c *client.Client, i int) error {
	lane, err := c.Open(ctx)
	if err != nil {
		return err
	}
	p := events.NewPublisher(lane, confirm)
	defer p.Close()
	next := w.acked[i].Load() + 1
	for batch := uint64(1); ctx.Err() == nil; batch = batch%16 + 1 {
		for range batch {
			if err := p.Publish(ctx, numbered(i, next)); err != nil {
				return err
			}
			next++
		}
		if err := p.Sync(ctx); err != nil {
			return err
		}
		w.acked[i].Store(next - 1)
		w.cycles.Add(1)
	}
	return nil
}

func confirm(ctx context.Context, lane profiles.Lane) error {
	_, err := rpc.Call(ctx, lane, rpc.MethodSync, nil)
	return err
}

// numbered is event n of a producer, the same each time it is published.
func numbered(producer int, n uint64) *events.Record {
	id := fmt.Appendf(nil, "%d/%d", producer, n)
	return &events.Record{
		EventID: id, EventType: []byte("crash.count"), Severity: []byte("info"), Timestamp: 1 + n, MsgID: id,
		Body: bytes.Repeat(id, 200/len(id)),
	}
}

// check reads everything from the first event on, as a subscriber does that was
// never here before, and waits until the others have everything, too.
func (w *publishing) check(ctx context.Context, dial dialer) {
	late := newFollower(w.faults, "late", w.producers)
	late.after = new(uint64)
	var all sync.WaitGroup
	for _, f := range append(w.followed, late) {
		f.until = make([]uint64, w.producers)
		for i := range f.until {
			f.until[i] = w.acked[i].Load()
		}
		all.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, patient)
			defer cancel()
			if err := connected(bounded, dial, f.follow); err != nil {
				w.add("%s misses acknowledged events: it has %v, acknowledged are %v (%v)", f.name, f.have, f.until, err)
			}
		})
	}
	all.Wait()
}

// follower is a durable subscriber that keeps its cursor with what it did.
type follower struct {
	*faults
	name  string
	after *uint64
	have  []uint64 // by producer, the last number
	until []uint64 // where it may stop
}

func newFollower(f *faults, name string, producers int) *follower {
	return &follower{faults: f, name: name, after: new(uint64), have: make([]uint64, producers)}
}

func (f *follower) follow(ctx context.Context, c *client.Client) error {
	s, err := events.Open(ctx, c.Session, events.SubscribeOptions{Name: f.name, After: f.after})
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Start() != *f.after {
		f.add("%s asked for what follows %d and got what follows %d", f.name, *f.after, s.Start())
	}
	for !f.enough() {
		d, err := s.Recv(ctx)
		if err != nil {
			return err
		}
		for i := range d.Events {
			f.take(&d.Events[i])
		}
		if d.Cursor < *f.after {
			f.add("%s: cursor %d after %d", f.name, d.Cursor, *f.after)
		}
		*f.after = d.Cursor
	}
	return nil
}

// take counts an event: each number of a producer has to come once, in order.
func (f *follower) take(r *events.Record) {
	producer, number, _ := strings.Cut(string(r.EventID), "/")
	i, err1 := strconv.Atoi(producer)
	n, err2 := strconv.ParseUint(number, 10, 64)
	if err1 != nil || err2 != nil || i >= len(f.have) {
		f.add("%s: event %q was never published", f.name, r.EventID)
		return
	}
	if n != f.have[i]+1 {
		f.add("%s: event %d of producer %d after event %d", f.name, n, i, f.have[i])
	}
	if want := numbered(i, n); !bytes.Equal(r.Body, want.Body) || r.Timestamp != want.Timestamp {
		f.add("%s: event %s came back as another", f.name, r.EventID)
	}
	f.have[i] = n
}

func (f *follower) enough() bool {
	if f.until == nil {
		return false
	}
	for i, n := range f.until {
		if f.have[i] < n {
			return false
		}
	}
	return true
}
