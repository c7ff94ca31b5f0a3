package a2a

import (
	"context"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Stored is a task in the Store.
type Stored struct {
	Owner    string // identity of its initiator
	ID       []byte
	Kind     string
	Agent    string // the requested agent_id, or empty
	State    Standing
	Created  time.Time
	Deadline time.Time
	Octets   int    // of its request
	Reason   string // of a task that has failed
}

// Standing is the standing of a task.
type Standing string

// The standings.
const (
	TaskWaiting Standing = "waiting" // for a Worker or an agent
	TaskRunning Standing = "running" // at a Worker or an agent
	TaskDone    Standing = "done"    // its Result is ok
	TaskFailed  Standing = "failed"  // its Result is not
	TaskDenied  Standing = "denied"  // only its digest is stored
)

// pageOfTasks is how many requests are read at once.
const pageOfTasks = 64

// Stored calls yield with the tasks after a place, in the order of places, until yield returns false.
// Damaged ones are left out.
func (s *Service) Stored(ctx context.Context, after string, yield func(place string, t *Stored) bool) error {
	if s.opts.Store == nil {
		return nil
	}
	type found struct {
		key, run string
		task     Stored
	}
	for {
		var page []found // because a Store is not to be read while it is
		read := 0
		err := s.opts.Store.Scan(ctx, spaceRequest, "", after, func(key string, _ uint64, value []byte) bool {
			read, after = read+1, key
			if r, err := decodeRequest(value); err == nil {
				t := Stored{Owner: r.Owner, ID: append([]byte{}, r.ID...), Kind: r.Kind, Agent: r.Agent, Created: r.Created, Deadline: r.Deadline, Octets: len(value)}
				if r.Denied != nil {
					t.State = TaskDenied
				}
				page = append(page, found{key, r.run(), t})
			}
			return read < pageOfTasks
		})
		if err != nil {
			return err
		}
		for i := range page {
			t := &page[i].task
			if t.State != TaskDenied {
				if err := s.stand(ctx, page[i].key, page[i].run, t); err != nil {
					return err
				}
			}
			if !yield(page[i].key, t) {
				return nil
			}
		}
		if read < pageOfTasks {
			return nil
		}
	}
}

// stand adds the standing of a task.
func (s *Service) stand(ctx context.Context, key, run string, t *Stored) error {
	s.mu.Lock()
	live := s.tasks.byKey[key]
	if live != nil && live.run == run && !live.over {
		t.State = TaskRunning
		if live.exec.at.Phase == phaseWaiting {
			t.State = TaskWaiting
		}
	}
	s.mu.Unlock()
	if t.State != "" {
		return nil
	}
	version, value, err := s.opts.Store.Get(ctx, spaceEnding, run)
	var end ending
	var m ResultBody
	switch {
	case err != nil:
		return err
	case version == 0, end.decode(value) != nil, m.Decode(end.Result) != nil:
		t.State = TaskWaiting // for its ending to be stored
	case m.OK:
		t.State = TaskDone
	default:
		t.State, t.Reason = TaskFailed, string(m.ErrorMessage)
	}
	return nil
}

// reasonOperator is the reason of a task that an operator has cancelled.
const reasonOperator = "cancelled by the operator of this endpoint"

// Cancel ends the unfinished task of an owner with a Result that says so, to its initiator and to its agent.
// It returns when the Result is stored. The error says why there is nothing to cancel.
func (s *Service) Cancel(ctx context.Context, owner string, id []byte) error {
	s.mu.Lock()
	t := s.tasks.byKey[keyOf(owner, id)]
	open := t != nil && !t.pending && !t.over
	s.mu.Unlock()
	done := make(chan error, 1)
	if open && t.finish(&ending{By: byUs}, &ResultBody{ErrorMessage: []byte(reasonOperator)}, func(err error) { done <- err }) {
		select {
		case err := <-done:
			if err != nil {
				return unavailable(err)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.opts.Store != nil {
		switch r, err := readRequest(ctx, s.opts.Store, keyOf(owner, id)); {
		case err != nil:
			return unavailable(err)
		case r != nil:
			return profiles.Errorf(profiles.InvalidProfilePayload, "a2a: the task has ended, so there is nothing to cancel")
		}
	}
	return profiles.Errorf(profiles.NotFound, "a2a: there is no such task")
}
