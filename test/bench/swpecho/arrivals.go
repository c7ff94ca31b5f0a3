package swpecho

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// arrivals matches what receivers get with the exchange that has sent it.
type arrivals struct {
	mu      sync.Mutex
	waiting map[string]*awaited // by id

	once   sync.Once
	failed chan struct{} // closed at the first error of a receiver
	err    error
}

func newArrivals() *arrivals {
	return &arrivals{waiting: make(map[string]*awaited), failed: make(chan struct{})}
}

// awaited is one exchange.
type awaited struct {
	payload []byte
	left    atomic.Int64 // receivers
	done    chan []byte  // what the last of them got
}

// expect says that each of some receivers is about to get a payload. wait returns when all
// have it; until then payload must not change.
func (a *arrivals) expect(id string, payload []byte, receivers int) (wait func(ctx context.Context, use func([]byte) error) error) {
	w := &awaited{payload: payload, done: make(chan []byte, 1)}
	w.left.Store(int64(receivers))
	a.mu.Lock()
	a.waiting[id] = w
	a.mu.Unlock()
	return func(ctx context.Context, use func([]byte) error) error {
		defer a.forget(id)
		select {
		case got := <-w.done:
			return use(got)
		case <-a.failed:
			return a.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *arrivals) forget(id string) {
	a.mu.Lock()
	delete(a.waiting, id)
	a.mu.Unlock()
}

// came is told by a receiver what it got.
func (a *arrivals) came(id, payload []byte) error {
	a.mu.Lock()
	w := a.waiting[string(id)]
	a.mu.Unlock()
	switch {
	case w == nil:
		return fmt.Errorf("swpecho: %q came and is not waited for", id)
	case !bytes.Equal(payload, w.payload):
		return fmt.Errorf("swpecho: %q came with %d octets that were not sent", id, len(payload))
	case w.left.Add(-1) == 0:
		w.done <- bytes.Clone(payload)
	}
	return nil
}

// fail ends all exchanges with the error of a receiver.
func (a *arrivals) fail(err error) {
	a.once.Do(func() {
		a.err = err
		close(a.failed)
	})
}
