package a2a

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// service is what a pool is for: the tasks of a kind that are meant for an agent.
type service struct{ agent, kind string }

// pool is a Registration at work. The mu of the Service guards what follows
// the first line.
type pool struct {
	Registration
	load    int     // tasks that have a place: running, or waiting for a turn
	running int     // of them, those that run
	queue   []*task // of them, those that wait, and some that are over
}

func newPools(list []Registration) (map[service]*pool, error) {
	pools := make(map[service]*pool)
	for i, r := range list {
		if r.Worker == nil || len(r.Kinds) == 0 {
			return nil, fmt.Errorf("a2a: registration %d: a worker and kinds are required", i)
		}
		r.Tasks = cmp.Or(r.Tasks, 16)
		r.Waiting = cmp.Or(r.Waiting, 1024)
		if r.Tasks < 0 || r.Waiting < 0 || r.Deadline < 0 {
			return nil, fmt.Errorf("a2a: registration %d: tasks %d, waiting %d, deadline %v: below 0", i, r.Tasks, r.Waiting, r.Deadline)
		}
		if strings.Contains(r.Agent, "/") || len(r.Agent) > MaxText || r.Agent != "" && p1.Blank([]byte(r.Agent)) {
			return nil, fmt.Errorf("a2a: agent %q: blank, with a slash, or above %d octets", r.Agent, MaxText)
		}
		p := &pool{Registration: r}
		for _, kind := range r.Kinds {
			of := service{r.Agent, kind}
			switch {
			case p1.Blank([]byte(kind)) || len(kind) > MaxText:
				return nil, fmt.Errorf("a2a: kind %q: blank, or above %d octets", kind, MaxText)
			case pools[of] != nil:
				return nil, fmt.Errorf("a2a: kind %q of agent %q is registered twice", kind, r.Agent)
			}
			pools[of] = p
		}
	}
	return pools, nil
}

// poolOf returns the pool that carries out a task, nil if none does. What is
// meant for an agent is not for a Worker that is none.
func (s *Service) poolOf(kind, agent string) *pool { return s.pools[service{agent, kind}] }

// local reports whether an agent_id is that of Workers of this process.
func (s *Service) local(agent string) bool { return agent != "" && s.hosted[agent] }

// resumes reports whether what was begun can go on in the next process.
func (p *pool) resumes() bool {
	if p == nil {
		return false
	}
	_, ok := p.Worker.(Resumer)
	return ok
}

// full reports whether there is no place left. The caller holds mu.
func (p *pool) full() bool { return p.load >= p.Tasks+p.Waiting }

// start runs a task that has a place, at once or when it is its turn.
func (p *pool) start(t *task, input []byte) {
	s := t.s
	s.mu.Lock()
	wait := (p.running >= p.Tasks || s.rested != nil) && t.at.Phase != phaseLocal
	s.mu.Unlock()
	// What waits for its turn must not be forgotten by a restart.
	if wait && t.stand(standing{Phase: phaseWaiting}) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.over || s.closed:
	case p.running < p.Tasks && s.rested == nil:
		p.running++
		if !p.resumes() {
			s.running++
		}
		t.place = nil // it now is the goroutine's
		s.work.Go(func() { p.run(t, input) })
	default:
		p.queue = append(p.queue, t)
	}
}

// run carries out one task after the other, as long as some wait.
func (p *pool) run(t *task, input []byte) {
	for {
		t.execute(p.Worker, input)
		s := t.s
		s.mu.Lock()
		p.load--
		t, input = nil, nil
		for t == nil && len(p.queue) > 0 && !s.closed && s.rested == nil {
			if next := p.queue[0]; !next.over {
				t = next
				t.place = nil
			}
			p.queue[0] = nil
			p.queue = p.queue[1:]
		}
		if t == nil {
			p.running--
			if !p.resumes() {
				s.running--
			}
			if s.rested != nil && s.running == 0 && !p.resumes() {
				close(s.rested)
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// leave gives up what a task that is over has of the tables. The caller holds
// mu.
func (t *task) leave() {
	if t.place != nil {
		t.place.load--
		t.place = nil
	}
	delete(t.s.idle, t)
	if t.owned != nil {
		delete(t.owned.tasks, t)
		t.owned = nil
	}
}

// execute has a Worker carry out the task, or go on with it. That it starts is
// stored before.
func (t *task) execute(w Worker, input []byte) {
	resumed := t.begun()
	if input == nil {
		var err error
		if input, err = t.input(); err != nil {
			return
		}
	}
	credited, err := t.credited(t.ctx)
	if err != nil {
		t.fail(chainReason(err))
		return
	}
	var last []byte
	if resumed {
		if last, err = t.lastPayload(); err != nil {
			if t.ctx.Err() == nil {
				t.s.report(t, err)
				t.fail(reasonOf(err))
			}
			return
		}
	} else if t.stand(standing{Phase: phaseLocal}) != nil {
		return
	}
	job := t.job(input)
	ctx, cancel := context.WithDeadline(credited, time.Now().Add(t.remaining(t.s.opts.Now())))
	defer cancel()
	output, err := protect(func() ([]byte, error) {
		if again, ok := w.(Resumer); ok && resumed {
			return again.Resume(ctx, job, last, t.report)
		}
		return w.Run(ctx, job, t.report)
	})
	if t.s.ctx.Err() != nil {
		return // stopped, not ended: the next process says so
	}
	switch {
	case err == nil:
		t.finish(&ending{By: byExecutor}, &ResultBody{OK: true, Output: output}, nil)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.fail(reasonDeadline)
	default:
		t.finish(&ending{By: byExecutor}, t.failure(err), nil)
	}
}

// begun reports whether an earlier process had a Worker begin with the task.
func (t *task) begun() bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.at.Phase == phaseLocal
}

// lastPayload reads the payload of the last Event, nil if there is none.
func (t *task) lastPayload() (payload []byte, err error) {
	t.s.mu.Lock()
	last := t.last
	t.s.mu.Unlock()
	if last == 0 {
		return nil, nil
	}
	var fault error
	err = t.s.opts.Store.Read(t.ctx, spaceEvents, t.run, last-1, func(_ uint64, _ string, data []byte) bool {
		var m EventBody
		if fault = m.Decode(data); fault == nil {
			payload = bytes.Clone(m.Payload)
		}
		return false
	})
	return payload, errors.Join(err, fault)
}

// protect calls f; a panic becomes its error.
func protect[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a2a: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// failure is the Result for the error of a Worker.
func (t *task) failure(err error) *ResultBody {
	if told, ok := errors.AsType[*Failure](err); ok {
		reason := strings.ToValidUTF8(told.Reason, "\uFFFD")
		return &ResultBody{ErrorMessage: []byte(cmp.Or(reason, reasonFailed)), Output: told.Output}
	}
	if t.ctx.Err() == nil {
		t.s.report(t, err)
	}
	return &ResultBody{ErrorMessage: []byte(reasonFailed)}
}

// report is how a Worker reports progress.
func (t *task) report(message string, payload []byte) error {
	if message == "" && len(payload) == 0 {
		return errors.New("a2a: event without a message and without a payload")
	}
	body := t.event(strings.ToValidUTF8(message, "\uFFFD"), payload)
	if len(body) > e1.DefaultMaxPayload {
		return fmt.Errorf("a2a: event of %d octets, want %d at most", len(body), e1.DefaultMaxPayload)
	}
	done := make(chan error, 1)
	t.add(entry{payload: body, id: anonymous(), done: func(err error) { done <- err }})
	select {
	case err := <-done:
		return err
	case <-t.ctx.Done():
		return errOver
	}
}

var errPlaces = profiles.Busy("a2a_waiting", "too many tasks of this kind are waiting")
