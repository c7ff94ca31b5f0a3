package state

import (
	"context"
	"sync"

	"github.com/slimwire/swp/profiles"
)

// turns puts what concerns the same state in the order of its arrival, and lets
// others wait for it. It also keeps what came on one lane in order until it is
// with the store, so that a child that is sent before its parent misses it,
// however that comes out. Entries are as many as messages that are deferred,
// which the endpoint bounds. The zero value is ready.
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

// take enters an operation on a key that came on a lane, or on none, and returns
// what it has to wait for: what was entered before on the same key, on one of
// others or on the lane. No operation waits for a later one, so there is no
// deadlock.
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

// pending returns what somebody has to wait for who reads what is at a key.
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
