package a2a

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slimwire/swp/profiles"
)

// stored reports whether a task is in the table, and its request in the store.
func (tb *table) stored(key string) bool {
	tb.s.mu.Lock()
	defer tb.s.mu.Unlock()
	t := tb.byKey[key]
	return t != nil && !t.pending
}

// recall returns the task of a stored request. An unfinished task that is not in the table
// is entered and continues.
func (tb *table) recall(r *request) (*task, error) {
	s := tb.s
	s.mu.Lock()
	t := tb.byKey[r.key()]
	known := t != nil && !t.pending
	s.mu.Unlock()
	if known {
		return t, nil
	}
	t, err := tb.read(r)
	if err != nil || t.ended {
		return t, err
	}
	return tb.revive(t)
}

// read makes the task of a stored request from its records.
func (tb *table) read(r *request) (*task, error) {
	t := newTask(tb.s, r, r.sum())
	return t, t.restore(tb.s.ctx, r.Input)
}

// restore reads the records of a task with an input.
func (t *task) restore(ctx context.Context, input []byte) error {
	store := t.s.opts.Store
	version, value, err := store.Get(ctx, spaceEnding, t.run)
	if err != nil {
		return err
	}
	if version > 0 {
		t.ending, t.over, t.ended = new(ending), true, true
		err = t.ending.decode(value)
	} else {
		err = t.exec.restore(ctx, input)
	}
	if err != nil {
		return err
	}
	return t.log.restore(ctx)
}

// revive enters an unfinished task from the store and continues it where an earlier process
// stopped. If the table has the task, it returns that one.
func (tb *table) revive(t *task) (*task, error) {
	s := tb.s
	s.mu.Lock()
	there := tb.byKey[t.key]
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, errClosed
	case there != nil && there.pending:
		s.mu.Unlock()
		return nil, profiles.Busy("a2a_pending", "the task is being stored")
	case there != nil:
		s.mu.Unlock()
		return there, nil
	}
	tb.enter(t)
	x := &t.exec
	p := s.pools.get(t.Kind, t.Agent)
	resumes := x.at.Phase == phaseLocal && p.resumes()
	orphaned := t.orphaned()
	if resumes || x.at.Phase == phaseWaiting {
		x.reserve(p)
	}
	s.mu.Unlock()
	t.startTimers(t.remaining(s.opts.Now()))
	switch {
	case t.denied || !t.allowed():
		t.fail(reasonDenied)
	case orphaned:
		t.fail(reasonRemoved)
	case x.at.Phase == phaseAgent:
		x.awaitAgent()
	case x.at.Phase == phaseLocal && !resumes:
		t.fail(reasonInterrupted)
	case x.at.Phase == phaseWaiting && x.version == 0: // it is unknown whether it was admitted
		s.spawn(func() { t.admit(nil) })
	case x.pool != nil:
		s.mu.Lock()
		if x.pool != nil { // it has not ended meanwhile
			x.pool.enqueue(t)
		}
		s.mu.Unlock()
	default:
		s.spawn(func() { x.dispatch(nil, true) })
	}
	return t, nil
}

// reload continues the tasks of an earlier process, in the order in which they came.
func (tb *table) reload() error {
	s := tb.s
	var runs []string
	err := s.opts.Store.Scan(s.ctx, spaceStanding, "", "", func(run string, _ uint64, _ []byte) bool {
		runs = append(runs, run)
		return true
	})
	if err != nil {
		return err
	}
	var open []*task
	each := func(f func() error) error {
		err := f()
		if err == nil || passing(err) {
			return err
		}
		s.opts.Report(fmt.Errorf("a2a: a task of an earlier process cannot continue: %w", err)) // it stays in the store; the others continue
		return nil
	}
	for _, run := range runs {
		if err := each(func() error {
			t, err := tb.readRun(run)
			if t != nil && err == nil {
				open = append(open, t)
			}
			return err
		}); err != nil {
			return err
		}
	}
	slices.SortStableFunc(open, func(a, b *task) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.exec.version, b.exec.version))
	})
	for _, t := range open {
		if err := each(func() error { _, err := tb.revive(t); return err }); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools.loading = false
	for _, p := range s.pools.hosting.Load().of {
		p.fill(s)
	}
	return nil
}

// readRun makes the unfinished task of a run. It returns nil if the task has ended or
// expired.
func (tb *table) readRun(run string) (*task, error) {
	s := tb.s
	key, ok := splitRun(run)
	if !ok {
		return nil, errors.New("a2a: stored standing without a task")
	}
	r, err := readRequest(s.ctx, s.opts.Store, key)
	if err != nil {
		return nil, err
	}
	if r != nil && r.run() == run { // else the task has expired
		if t, err := tb.read(r); err != nil || !t.ended { // otherwise it ended just before the process did
			return t, err
		}
	}
	s.opts.Store.Delete(spaceStanding, run, 0, func(bool, error) {})
	return nil, nil
}
