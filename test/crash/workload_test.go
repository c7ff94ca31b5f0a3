package crash

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/all"
)

// dialer connects to the swpd that runs now; it fails while none does. set is
// what this end serves; nil is what a client serves.
type dialer func(ctx context.Context, set *all.Set) (*client.Client, error)

// workload is one kind of durable work. It is driven by many goroutines.
type workload interface {
	// run begins new work until ctx ends and finishes what it has begun until
	// life ends. Whatever fails because swpd is gone is done again as its contract
	// allows; whatever else goes wrong is a fault.
	run(ctx, life context.Context, dial dialer)

	// check compares what swpd knows with what it
	// has acknowledged. swpd stays up meanwhile.
	check(ctx context.Context, dial dialer)

	fmt.Stringer // figures
}

// faults collects what must not happen, up to a bound.
type faults struct {
	mu   sync.Mutex
	list []string
	more int
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) >= 20 {
		f.more++
		return
	}
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

func (f *faults) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.list {
		t.Error(fault)
	}
	if f.more > 0 {
		t.Errorf("and %d more", f.more)
	}
}

// retryPause is the pause before something is tried again.
const retryPause = 10 * time.Millisecond

// connected runs f with one connection after the other until f returns nil or
// ctx ends.
func connected(ctx context.Context, dial dialer, f func(context.Context, *client.Client) error) error {
	for {
		c, err := dial(ctx, nil)
		if err == nil {
			err = f(ctx, c)
			c.Close()
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause): // another process is awaited
		}
	}
}
