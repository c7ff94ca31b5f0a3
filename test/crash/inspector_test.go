package crash

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/state"
)

// inspector is the journal of who ends what workers have left, and looks what is there.
const inspector = "inspector"

// lookers is how many questions are open at once then.
const lookers = 32

// inspect ends what the workers of a directory have left open, asks again how things have
// ended, looks for what was acknowledged, and waits until subscribers have everything.
// Those who carry out tasks and those who subscribe are there.
func inspect(ctx context.Context, p post, dials dialing) error {
	p.Name = inspector
	h, err := readAll(p.Journals)
	if err != nil {
		return err
	}
	w, err := newWorker(p, dials)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, afterLoad)
	defer cancel()
	w.pace = 0
	w.repeat(ctx, h)
	for _, n := range h.numbered {
		w.lookAt(ctx, n)
	}
	w.getAll(ctx, h)
	for {
		if h, err = readAll(p.Journals); err != nil {
			return err
		}
		behind := h.behind()
		switch {
		case len(behind) == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("crash: after %v there is still missing: %q", afterLoad, behind)
		}
		wait(ctx, time.Second)
	}
}

// each calls f with every element of a list, for some at once, each with a line of its own.
func each[E any](ctx context.Context, w *worker, dial dialer, list []E, f func(*line, E)) {
	next := make(chan E)
	var all sync.WaitGroup
	for range lookers {
		all.Go(func() {
			l := w.line(dial)
			defer l.close()
			for e := range next {
				f(l, e)
			}
		})
	}
	for _, e := range list {
		select {
		case next <- e:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
}

// repeat asks for the outcome of every task and call, also of those that have one.
func (w *worker) repeat(ctx context.Context, h *history) {
	calls, tasks := h.begun(aCall), h.begun(aTask)
	each(ctx, w, w.dial(), calls, func(l *line, some *work) { w.callOnce(ctx, l, some.id) })
	each(ctx, w, w.near, tasks, func(l *line, some *work) {
		last := uint64(0)
		if n := len(some.reached); n > 0 {
			last = some.reached[n-1].seq
		}
		if id, err := hex.DecodeString(some.begun[0].text); err == nil {
			w.followTask(ctx, l, some.id, id, last, true)
		}
	})
}

// lookAt gets the states of a writer, those that were not acknowledged, too, or their deltas.
func (w *worker) lookAt(ctx context.Context, made *numbering) {
	var list []uint64
	switch made.kind {
	case aState:
		for n := uint64(1); n <= made.most(); n++ {
			list = append(list, n)
		}
	case aDelta:
		for n := uint64(deltaEvery); n <= made.acked; n += deltaEvery {
			list = append(list, n)
		}
	}
	each(ctx, w, w.far, list, func(l *line, n uint64) {
		l.do(ctx, func(ctx context.Context, c *client.Client) error {
			look := lookAtState
			if made.kind == aDelta {
				look = lookAtDelta
			}
			e := entry{What: didLook, Kind: made.kind, ID: numberedName(made.id, n), Since: clock()}
			err := look(ctx, c, grown(made.id, n).ID, &e)
			if err == nil {
				w.j.begin(e)
			}
			return err
		})
	})
}

func lookAtState(ctx context.Context, c *client.Client, id state.ID, e *entry) error {
	got, err := c.GetState(ctx, id)
	if missing := (*profiles.PeerError)(nil); errors.As(err, &missing) && missing.Code == state.CodeNotFound {
		e.Text = endNone
		return nil
	}
	if err == nil {
		e.Text, e.Payload = endOK, digestOfState(got)
	}
	return err
}

// lookAtDelta wants a state to have one delta, so that it is neither lost nor there twice.
func lookAtDelta(ctx context.Context, c *client.Client, id state.ID, e *entry) error {
	found := 0
	_, err := c.StateDeltas(ctx, id, func(change *state.Change) bool {
		found++
		e.Payload = digestOfChange(&state.Change{Delta: bytes.Clone(change.Delta), Parents: change.Parents})
		return true
	})
	switch found {
	case 0:
		e.Text = endNone
	case 1:
		e.Text = endOK
	default:
		e.Text = fmt.Sprintf("it is there %d times", found)
	}
	return err
}

// getAll gets every artifact that was acknowledged.
func (w *worker) getAll(ctx context.Context, h *history) {
	stored := slices.DeleteFunc(h.begun(anArtifact), func(some *work) bool { return len(some.ended) == 0 })
	each(ctx, w, w.dial(), stored, func(_ *line, some *work) { w.get(ctx, some.id) })
}
