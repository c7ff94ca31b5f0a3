package a2a

import (
	"context"
	"errors"
	"fmt"

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
	if resumes || x.at.Phase == phaseWaiting {
		x.reserve(p)
	}
	s.mu.Unlock()
	t.startTimers(t.remaining(s.opts.Now()))
	switch {
	case t.denied || !t.allowed():
		t.fail(reasonDenied)
	case x.at.Phase == phaseAgent:
		x.awaitAgent()
	case x.at.Phase == phaseLocal && !resumes:
		t.fail(reasonInterrupted)
	case x.at.Phase == phaseWaiting && x.version == 0: // it is unknown whether it was admitted
		s.spawn(func() { t.admit(nil) })
	default:
		s.spawn(func() { x.dispatch(nil, true) })
	}
	return t, nil
}

// reload continues the tasks of an earlier process.
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
	for _, run := range runs {
		switch err := tb.reloadTask(run); {
		case err == nil:
		case passing(err):
			return err
		default: // it stays in the store; the others continue
			s.opts.Report(fmt.Errorf("a2a: a task of an earlier process cannot continue: %w", err))
		}
	}
	return nil
}

func (tb *table) reloadTask(run string) error {
	s := tb.s
	key, ok := splitRun(run)
	if !ok {
		return errors.New("a2a: stored standing without a task")
	}
	r, err := readRequest(s.ctx, s.opts.Store, key)
	if err != nil {
		return err
	}
	if r != nil && r.run() == run { // else the task has expired
		t, err := tb.read(r)
		if err != nil {
			return err
		}
		if !t.ended { // otherwise it ended just before the process did
			_, err = tb.revive(t)
			return err
		}
	}
	s.opts.Store.Delete(spaceStanding, run, 0, func(bool, error) {})
	return nil
}
