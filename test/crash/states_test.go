package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/state"
)

// putting has writers put states, each made from the two before it, and add a
// delta to some. A state never is there without its parents, acknowledged or not.
type putting struct {
	*faults
	acked  []atomic.Uint64 // by writer: states it may count on
	deltas []atomic.Uint64 // by writer: the last state whose delta it may count on
	cycles atomic.Int64    // confirmations
}

// deltaEvery is how far the states are apart that get a delta.
const deltaEvery = 8

func newPutting(f *faults, writers int) *putting {
	return &putting{faults: f, acked: make([]atomic.Uint64, writers), deltas: make([]atomic.Uint64, writers)}
}

func (w *putting) String() string {
	var n uint64
	for i := range w.acked {
		n += w.acked[i].Load()
	}
	return fmt.Sprintf("%d states in %d confirmations", n, w.cycles.Load())
}

func (w *putting) run(ctx, _ context.Context, dial dialer) {
	var all sync.WaitGroup
	for i := range w.acked {
		all.Go(func() {
			_ = connected(ctx, dial, func(ctx context.Context, c *client.Client) error { return w.put(ctx, c, i) })
		})
	}
	all.Wait()
}

// put puts what writer i has not had confirmed, and more, parents and children
// in one go.
func (w *putting) put(ctx context.Context, c *client.Client, i int) error {
	for batch := uint64(1); ctx.Err() == nil; batch = batch%16 + 1 {
		first := w.acked[i].Load() + 1
		var states []state.State
		for n := first; n < first+batch; n++ {
			states = append(states, grown(i, n))
		}
		confirmed, err := c.PutStates(ctx, states...)
		w.acked[i].Store(first - 1 + uint64(confirmed))
		if refused := (*profiles.PeerError)(nil); errors.As(err, &refused) && refused.Code != "RATE_LIMIT_EXCEEDED" {
			w.add("writer %d: states from %d on: %v", i, first, err)
		}
		if err != nil {
			return err
		}
		w.cycles.Add(1)
		if err := w.change(ctx, c, i); err != nil {
			return err
		}
	}
	return nil
}

// change adds the deltas that are due.
func (w *putting) change(ctx context.Context, c *client.Client, i int) error {
	for next := w.deltas[i].Load() + deltaEvery; next <= w.acked[i].Load(); next += deltaEvery {
		s := grown(i, next)
		if err := c.AddStateDelta(ctx, s.ID, changeOf(i, next), s.Parents...); err != nil {
			return err
		}
		w.deltas[i].Store(next)
	}
	return nil
}

func blobOf(writer int, n uint64) []byte { return fmt.Appendf(nil, "state %d of writer %d", n, writer) }

func changeOf(writer int, n uint64) []byte {
	return fmt.Appendf(nil, "\x00\xff change of state %d of writer %d", n, writer)
}

// grown is state n of a writer, the same each time it is put.
func grown(writer int, n uint64) state.State {
	s := state.State{Blob: blobOf(writer, n), Metadata: fmt.Appendf(nil, "%d/%d", writer, n)}
	s.ID = state.IDOf(s.Blob)
	for back := uint64(1); back <= 2 && back < n; back++ {
		s.Parents = append(s.Parents, state.IDOf(blobOf(writer, n-back)))
	}
	return s
}

// lookers is how many questions are open at once while states are checked.
const lookers = 32

// check gets every state that may be there.
func (w *putting) check(ctx context.Context, dial dialer) {
	for i := range w.acked {
		err := connected(ctx, dial, func(ctx context.Context, c *client.Client) error { return w.checkWriter(ctx, c, i) })
		if err != nil {
			w.add("the states of writer %d cannot be checked: %v", i, err)
		}
	}
}

func (w *putting) checkWriter(ctx context.Context, c *client.Client, i int) error {
	acked := w.acked[i].Load()
	last := acked + 16 // what was put and not confirmed
	there := make([]bool, last+1)
	there[0] = true
	failures := make([]error, lookers)
	var next atomic.Uint64
	var all sync.WaitGroup
	for g := range lookers {
		all.Go(func() {
			for n := next.Add(1); n <= last && failures[g] == nil; n = next.Add(1) {
				there[n], failures[g] = w.look(ctx, c, i, n, n <= acked)
			}
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	for n := acked + 1; n <= last; n++ {
		if there[n] && !there[n-1] {
			w.add("state %d of writer %d is there without its parent", n, i)
		}
	}
	return nil
}

// look gets one state and, if one was acknowledged, its delta. The error says
// that nobody could be asked.
func (w *putting) look(ctx context.Context, c *client.Client, i int, n uint64, acked bool) (bool, error) {
	want := grown(i, n)
	got, err := c.GetState(ctx, want.ID)
	if missing := (*profiles.PeerError)(nil); errors.As(err, &missing) && missing.Code == state.CodeNotFound {
		if acked {
			w.add("state %d of writer %d was acknowledged and is lost", n, i)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !bytes.Equal(got.Blob, want.Blob) || !bytes.Equal(got.Metadata, want.Metadata) || !slices.Equal(got.Parents, want.Parents) {
		w.add("state %d of writer %d came back as another: %+v", n, i, got)
	}
	if n%deltaEvery != 0 || n > w.deltas[i].Load() {
		return true, nil
	}
	found := 0
	err = c.StateDeltas(ctx, want.ID, func(change *state.Change) bool {
		if !bytes.Equal(change.Delta, changeOf(i, n)) || !slices.Equal(change.Parents, want.Parents) {
			w.add("state %d of writer %d has another delta %q", n, i, change.Delta)
		}
		found++
		return true
	})
	if err == nil && found != 1 {
		w.add("state %d of writer %d has its delta %d times", n, i, found)
	}
	return true, err
}
