package state

import (
	"context"
	"sync"

	"github.com/slimwire/swp/profiles"
)

// turns orders the operations on the same state by their arrival, and lets others wait for
// them. It also keeps the messages of one lane in order until they are passed to the store,
// so that a child sent before its parent is refused in every case. There is at most one
// entry per deferred message, whose number the endpoint bounds. The zero value is ready.
type turns struct {
	mu   sync.Mutex
	last map[any]*turn // by key, or by profiles.Lane
}

// turn is one operation, on the state of a key or on a lane.
type turn struct {
	t    *turns
	at   any
	over chan struct{} // closed when it has ended
}

// take enters an operation on a key and, if not nil, a lane. It returns the operations to
// wait for: earlier ones on the same key, on one of others or on the lane. No operation
// waits for a later one, so there is no deadlock.
func (t *turns) take(lane profiles.Lane, k key, others []key) (onLane, own *turn, wait []*turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = make(map[any]*turn)
	}
	look := func(at any) {
		if before := t.last[at]; before != nil {
			wait = append(wait, before)
		}
	}
	enter := func(at any) *turn {
		look(at)
		next := &turn{t: t, at: at, over: make(chan struct{})}
		t.last[at] = next
		return next
	}
	for _, other := range others {
		look(other)
	}
	if lane != nil {
		onLane = enter(lane)
	}
	return onLane, enter(k), wait
}

// pending returns the operations to wait for before reading a key.
func (t *turns) pending(k key) []*turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.last[k]; last != nil {
		return []*turn{last}
	}
	return nil
}

// end ends an operation; nil is none.
func (t *turn) end() {
	if t == nil {
		return
	}
	t.t.mu.Lock()
	defer t.t.mu.Unlock()
	if t.t.last[t.at] == t {
		delete(t.t.last, t.at)
	}
	close(t.over)
}

// await waits until all of some operations have ended.
func await(ctx context.Context, list []*turn) error {
	for _, t := range list {
		select {
		case <-t.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
