package a2a

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/slimwire/swp/profiles"
)

// restore reads from the store how far a task is that has an input.
func (t *task) restore(ctx context.Context, input []byte) error {
	store := t.s.opts.Store
	version, value, err := store.Get(ctx, spaceEnding, t.run)
	if err != nil {
		return err
	}
	if version > 0 {
		t.ending = new(ending)
		if err := t.ending.decode(value); err != nil {
			return err
		}
		t.over, t.ended = true, true
	} else {
		if t.version, value, err = store.Get(ctx, spaceStanding, t.run); err != nil {
			return err
		}
		if err := t.at.decode(value); err != nil {
			return err
		}
	}
	first, last, err := store.Span(ctx, spaceEvents, t.run)
	if err != nil {
		return err
	}
	t.last = last
	t.count = int(min(last, uint64(t.s.opts.Events)))
	if t.ended {
		return nil
	}
	if t.at.Phase == phaseAgent {
		t.ward = t.wardOf(t.at.AgentID, input)
	}
	if first > last {
		return nil
	}
	// The last Event of the agent is the last entry, or that before one of ours.
	return store.Read(ctx, spaceEvents, t.run, max(first, last-min(last, 2)+1)-1, func(_ uint64, id string, _ []byte) bool {
		if n, err := strconv.ParseUint(id, 10, 64); err == nil {
			t.seen = max(t.seen, n)
		}
		return true
	})
}

// revive enters a task from the store that is not over, and lets it go on from
// where an earlier process left it. If it is in the table already, the one
// there is returned.
func (s *Service) revive(t *task) (*task, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	if there := s.tasks[t.key]; there != nil {
		s.mu.Unlock()
		if there.pending {
			return nil, profiles.Busy("a2a_pending", "the task is being stored")
		}
		return there, nil
	}
	s.enter(t)
	p := s.poolOf(t.Kind, t.Agent)
	if p != nil && t.at.Phase == phaseWaiting || p.resumes() && t.at.Phase == phaseLocal {
		t.place = p
		p.load++
	}
	s.mu.Unlock()
	t.begin(t.remaining(t.s.opts.Now()))
	switch t.at.Phase {
	case phaseLocal:
		if p.resumes() {
			s.spawn(func() { t.dispatch(nil, true) })
			break
		}
		t.fail(reasonInterrupted)
	case phaseAgent:
		t.await()
	default:
		if t.version == 0 { // nobody knows whether it was admitted
			s.spawn(func() { t.admit(nil) })
			break
		}
		s.spawn(func() { t.dispatch(nil, true) })
	}
	return t, nil
}

// reload goes on with the tasks that an earlier process left.
func (s *Service) reload() error {
	var runs []string
	err := s.opts.Store.Scan(s.ctx, spaceStanding, "", "", func(run string, _ uint64, _ []byte) bool {
		runs = append(runs, run)
		return true
	})
	if err != nil {
		return err
	}
	for _, run := range runs {
		switch err := s.reloadTask(run); {
		case err == nil:
		case passing(err):
			return err
		default: // it stays where it is; the others go on
			s.opts.Report(fmt.Errorf("a2a: a task of an earlier process can not go on: %w", err))
		}
	}
	return nil
}

func (s *Service) reloadTask(run string) error {
	key, ok := splitRun(run)
	if !ok {
		return errors.New("a2a: stored standing without a task")
	}
	version, value, err := s.opts.Store.Get(s.ctx, spaceRequest, key)
	if err != nil {
		return err
	}
	var r request
	if version > 0 {
		if err := r.decode(value); err != nil {
			return err
		}
	}
	if version == 0 || r.run() != run {
		// Left over from a task that has expired.
		s.opts.Store.Delete(spaceStanding, run, 0, func(bool, error) {})
		return nil
	}
	t := s.newTask(&r, sumTask(r.Kind, r.Input))
	switch err := t.restore(s.ctx, r.Input); {
	case err != nil:
		return err
	case t.ended:
		// It ended just before the process did.
		s.opts.Store.Delete(spaceStanding, run, 0, func(bool, error) {})
		return nil
	}
	_, err = s.revive(t)
	return err
}
