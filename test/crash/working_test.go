package crash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// working has workers do everything but relay, in this process, where nobody kills them.
type working struct {
	*faults
	r    *rig
	post post
	each int // workers of each role, but one executor

	stay    context.Context // of those who are needed until the end
	leave   context.CancelFunc
	staying sync.WaitGroup
	figures figures
}

// newWorking works at the swpd of a rig, which has workConfig for the directory of journals.
func newWorking(t *testing.T, f *faults, r *rig, journals string, each int) *working {
	w := &working{faults: f, r: r, post: post{Journals: journals}, each: each}
	w.stay, w.leave = context.WithCancel(t.Context())
	t.Cleanup(func() {
		w.leave()
		w.staying.Wait()
	})
	return w
}

// workConfig is what a swpd has to know of those who carry out work.
func workConfig(t *testing.T, journals string) string {
	t.Helper()
	return backend(t, journals) + toolsConfig(t, journals)
}

func (w *working) String() string { return "work: " + w.figures.String() }

func (w *working) run(ctx, life context.Context, _ dialer) {
	w.begin(w.stay, &w.staying, roleExecutor, 0, 1)
	if err := awaitExecutor(life, w.post.Journals); err != nil {
		w.add("%v", err)
		return
	}
	w.begin(w.stay, &w.staying, roleTaker, 0, w.each)
	w.ask(ctx, 0)
}

// ask has processes of a number give and call until ctx ends.
func (w *working) ask(ctx context.Context, process int) {
	var all sync.WaitGroup
	w.begin(ctx, &all, roleGiver, process, w.each)
	w.begin(ctx, &all, roleCaller, process, w.each)
	all.Wait()
}

func (w *working) begin(ctx context.Context, all *sync.WaitGroup, role string, process, n int) {
	for i := range n {
		p := w.post
		p.Role, p.Number = role, i
		p.Name = p.nameOf(process)
		one, err := newWorker(p, w.r.as)
		if err != nil {
			w.add("%v", err)
			return
		}
		all.Go(func() {
			if err := one.run(ctx, role); err != nil {
				w.add("%v", err)
			}
		})
	}
}

// check has what is left ended, and judges all that happened.
func (w *working) check(ctx context.Context, _ dialer) {
	calm := clock()
	asking, enough := context.WithCancel(ctx)
	var asked sync.WaitGroup
	asked.Go(func() { w.ask(asking, 1) }) // those who take over from the first
	err := awaitAll(ctx, w.post.Journals)
	enough()
	asked.Wait()
	w.figures, err = w.judged(ctx, calm, err)
	if err != nil {
		w.add("%v", err)
	}
}

func (w *working) judged(ctx context.Context, calm int64, err error) (figures, error) {
	err = errors.Join(err, inspect(ctx, w.post, w.r.as))
	w.leave()
	w.staying.Wait()
	f, failed := verdict(w.post.Journals, history{troubles: w.r.deaths(), calm: calm}, w.add)
	return f, errors.Join(err, failed)
}

// awaitAll waits until there is work of every kind that has ended.
func awaitAll(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, afterLoad)
	defer cancel()
	for {
		h, err := readAll(dir)
		if err != nil {
			return err
		}
		idle := h.idle()
		switch {
		case len(idle) == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("crash: no work of these kinds has ended: %q", idle)
		}
		wait(ctx, time.Second/2)
	}
}
