package storage

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/store"
)

// probed is a store whose Check the test decides.
type probed struct {
	store.Store
	check atomic.Pointer[func(context.Context) error]
}

func (p *probed) Check(ctx context.Context) error { return (*p.check.Load())(ctx) }

func fine(context.Context) error { return nil }

func stuck(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// writable are artifacts that can always be written.
type writable struct{ blobs }

func (writable) Check(context.Context) error { return nil }

func TestOP04StoreThatCannotBeWrittenIsNotReadyAndRecovers(t *testing.T) {
	for name, fault := range map[string]struct {
		check func(context.Context) error
		want  string
	}{
		"fails":    {func(context.Context) error { return store.ErrUnavailable }, "store: cannot be written"},
		"is stuck": {stuck, "store: a write took longer than 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, healthy := &probed{}, fine
				p.check.Store(&healthy)
				s := &Storage{Store: p, blobs: writable{}, log: zap.NewNop()}
				reasons := func() []string {
					var h part.Health
					s.Look(&h)
					return h.Reasons
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					s.Serve(ctx)
				}()
				time.Sleep(time.Minute) // virtual
				synctest.Wait()
				if v := reasons(); len(v) > 0 {
					t.Errorf("reasons %q before", v)
				}
				p.check.Store(&fault.check)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if v := reasons(); len(v) != 1 || v[0] != fault.want {
					t.Errorf("reasons %q after 5 s, want %q", v, fault.want)
				}
				p.check.Store(&healthy)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if v := reasons(); len(v) > 0 {
					t.Errorf("reasons %q afterwards", v)
				}
				cancel()
				<-done
			})
		})
	}
}

// A probe may meet the end of the store: that is a stop, and no failure.
func TestAProbeOfAClosedStoreIsNoFailure(t *testing.T) {
	p, closed := &probed{}, func(context.Context) error { return store.ErrClosed }
	p.check.Store(&closed)
	s := &Storage{Store: p, blobs: writable{}, log: zap.NewNop()}
	s.probe(t.Context())
	if why, faulty := s.failure.Text(); faulty {
		t.Errorf("failure %q", why)
	}
}
