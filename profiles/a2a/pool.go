package a2a

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// service identifies the tasks of a pool: the ones of a kind for an agent.
type service struct {
	agent, kind string
	spare       bool // that no session has declared
}

// pools are the Workers of this process. The mu of the Service guards the fields after
// hosting.
type pools struct {
	hosting atomic.Pointer[hosting] // changes under mu
	loading bool                    // tasks of an earlier process are being entered; none starts
	running int                     // running tasks that cannot continue in the next process
	rested  chan struct{}           // set by Drain; closed when none of them runs
}

// hosting has the tasks of all Workers. It is immutable; a change replaces it.
type hosting struct {
	of     map[service]*pool
	agents map[string]bool // whose tasks they are, except spare ones; empty for no agent
}

// pool is the state of a Registration. The mu of the Service guards the fields after the
// first line.
type pool struct {
	Registration
	places fair.Shares       // of running and waiting tasks
	slots  fair.Shares       // of running tasks
	queue  fair.Queue[*task] // waiting tasks
	gone   bool              // it was removed or replaced
}

// with returns the hosting with additional Registrations.
func (h *hosting) with(list []Registration) (*hosting, error) {
	next := &hosting{of: make(map[service]*pool, len(h.of)+len(list)), agents: make(map[string]bool)}
	maps.Copy(next.of, h.of)
	for i, r := range list {
		if r.Worker == nil || len(r.Kinds) == 0 {
			return nil, fmt.Errorf("a2a: registration %d: a worker and kinds are required", i)
		}
		r.Tasks = cmp.Or(r.Tasks, 16)
		r.Waiting = cmp.Or(r.Waiting, 1024)
		if r.Left == nil {
			r.Left = func() {}
		}
		if r.Tasks < 0 || r.Waiting < 0 || r.Deadline < 0 {
			return nil, fmt.Errorf("a2a: registration %d: tasks %d, waiting %d, deadline %v: below 0", i, r.Tasks, r.Waiting, r.Deadline)
		}
		if strings.Contains(r.Agent, "/") || len(r.Agent) > MaxText || r.Agent != "" && p1.Blank([]byte(r.Agent)) {
			return nil, fmt.Errorf("a2a: agent %q: blank, with a slash, or above %d octets", r.Agent, MaxText)
		}
		p := &pool{Registration: r, places: fair.NewShares(r.Tasks + r.Waiting), slots: fair.NewShares(r.Tasks)}
		for _, kind := range r.Kinds {
			of := service{r.Agent, kind, r.Spare}
			switch {
			case r.Spare && r.Agent == "":
				return nil, fmt.Errorf("a2a: kind %q: a spare registration without an agent", kind)
			case p1.Blank([]byte(kind)) || len(kind) > MaxText:
				return nil, fmt.Errorf("a2a: kind %q: blank, or above %d octets", kind, MaxText)
			case next.of[of] != nil:
				return nil, fmt.Errorf("a2a: kind %q of agent %q is registered twice", kind, r.Agent)
			}
			next.of[of] = p
		}
	}
	for of := range next.of {
		if !of.spare {
			next.agents[of.agent] = true
		}
	}
	return next, nil
}

// without returns the hosting without some Registrations, and their pools.
func (h *hosting) without(list []Registration) (rest *hosting, gone []*pool) {
	rest = &hosting{of: maps.Clone(h.of)}
	for _, r := range list {
		for _, kind := range r.Kinds {
			of := service{r.Agent, kind, r.Spare}
			if p := rest.of[of]; p != nil && !slices.Contains(gone, p) {
				gone = append(gone, p)
			}
			delete(rest.of, of)
		}
	}
	return rest, gone
}

// ReplaceWorkers changes the Workers for new tasks: it removes those in gone, of which it
// reads Agent and Kinds, and adds those in come. A Worker finishes its running tasks. A
// waiting task goes to the new Worker of its kind; without one, the old Worker still
// carries it out. Tasks that run at a removed Worker do not count towards Tasks of another.
// It fails if Registrations are incomplete or in use, and then changes nothing.
func (s *Service) ReplaceWorkers(gone, come []Registration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest, old := s.pools.hosting.Load().without(gone)
	next, err := rest.with(come)
	if err != nil {
		return err
	}
	s.pools.hosting.Store(next)
	for _, p := range old {
		p.gone = true
		s.handOver(p, next)
		p.leave(s)
	}
	return nil
}

// handOver moves the waiting tasks of a pool to the pools that replace it. The caller holds
// mu.
func (s *Service) handOver(p *pool, next *hosting) {
	for _, t := range s.tasks.byKey {
		to := next.of[service{t.Agent, t.Kind, p.Spare}]
		// A task that was started in an earlier process can only continue at a Resumer.
		if t.exec.pool != p || t.exec.busy || to == nil || t.exec.at.Phase == phaseLocal && !to.resumes() {
			continue
		}
		p.places.Give(t.Owner, 1)
		t.exec.reserve(to)
	}
	waiting := p.queue
	p.queue = fair.Queue[*task]{}
	for t, ok := waiting.Pop(nil); ok; t, ok = waiting.Pop(nil) {
		t.exec.pool.enqueue(t)
	}
}

// leave calls Left once a removed pool has no tasks any more. The caller holds mu.
func (p *pool) leave(s *Service) {
	if p.gone && p.places.Used() == 0 && !s.closed {
		s.work.Go(p.Left)
	}
}

// get returns the pool for a task, or nil. A task that names an agent goes
// only to a Worker of that agent.
func (ps *pools) get(kind, agent string) *pool {
	return ps.hosting.Load().of[service{agent, kind, false}]
}

// spare returns the pool for a task of a kind that no session has declared for its agent, or
// nil.
func (ps *pools) spare(kind, agent string) *pool {
	return ps.hosting.Load().of[service{agent, kind, true}]
}

// hosts reports whether an agent_id is that of Workers of this process.
func (ps *pools) hosts(agent string) bool { return agent != "" && ps.hosting.Load().agents[agent] }

// nameOf is the name of a task for rules and hints; hosted says whether its agent belongs
// to this process.
func nameOf(agent, kind string, hosted bool) string {
	if strings.Contains(agent, "/") || hosted {
		return strings.TrimSuffix(agent, "/") + "/" + kind
	}
	return kind
}

// names returns the names of all tasks of the pools.
func (ps *pools) names() []string {
	var names []string
	for of := range ps.hosting.Load().of {
		names = append(names, nameOf(of.agent, of.kind, of.agent != "" && !of.spare))
	}
	return names
}

// rest prevents new starts, and returns a channel that is closed when no task runs that
// cannot continue in the next process. The caller holds mu.
func (ps *pools) rest() <-chan struct{} {
	ps.rested = make(chan struct{})
	if ps.running == 0 {
		close(ps.rested)
	}
	return ps.rested
}

// resumes reports whether a started task can continue in the next process.
func (p *pool) resumes() bool {
	if p == nil {
		return false
	}
	_, ok := p.Worker.(Resumer)
	return ok
}

// ask returns the error for a task of an owner without a place in a pool; nil has one for
// each. The caller holds mu.
func (p *pool) ask(owner string) *profiles.Error {
	if p == nil {
		return nil
	}
	return p.places.Ask(owner, 1).Refuse(errPlaces)
}

// enqueue makes a task that has a place wait for its turn. The caller holds mu.
func (p *pool) enqueue(t *task) {
	p.queue.Push(t.Owner, t)
	p.fill(t.s)
}

// may reports whether a task of an owner may run now. The caller holds mu.
func (p *pool) may(s *Service, owner string) bool {
	return !s.leaving() && !s.pools.loading && p.slots.Ask(owner, 1) == fair.Taken
}

// start runs a task that has room in a pool, at once or in its turn.
func (t *task) start(input []byte) {
	s := t.s
	s.mu.Lock()
	p := t.exec.pool
	wait := p != nil && !p.may(s, t.Owner) && t.exec.at.Phase != phaseLocal
	s.mu.Unlock()
	// A waiting task must survive a restart.
	if wait && t.exec.store(standing{Phase: phaseWaiting}) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p = t.exec.pool; { // it may have been replaced
	case p == nil || s.closed: // the task has ended, or is left to the next process
	case p.may(s, t.Owner):
		p.launch(t, input)
	default:
		p.enqueue(t)
	}
}

// launch runs a task. The caller holds mu.
func (p *pool) launch(t *task, input []byte) {
	p.slots.Force(t.Owner, 1)
	if !p.resumes() {
		t.s.pools.running++
	}
	t.exec.busy = true
	t.s.work.Go(func() { p.run(t, input) })
}

// fill starts waiting tasks in turn, as far as there is room. The caller holds mu.
func (p *pool) fill(s *Service) {
	for {
		t, ok := p.queue.Pop(func(owner string) bool { return p.may(s, owner) })
		if !ok {
			return
		}
		p.launch(t, nil)
	}
}

// run carries out a task.
func (p *pool) run(t *task, input []byte) {
	p.execute(t, input)
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	p.slots.Give(t.Owner, 1)
	p.places.Give(t.Owner, 1)
	if !p.resumes() {
		s.pools.running--
		if s.pools.rested != nil && s.pools.running == 0 {
			close(s.pools.rested)
		}
	}
	p.fill(s)
	p.leave(s)
}

// execute runs or resumes a task at the Worker. The start is stored before.
func (p *pool) execute(t *task, input []byte) {
	s := t.s
	s.mu.Lock()
	resumed := t.exec.at.Phase == phaseLocal
	s.mu.Unlock()
	if input == nil {
		var err error
		if input, err = t.input(); err != nil {
			return
		}
	}
	ctx, reason := t.begins(t.ctx, nil)
	if reason != "" {
		t.fail(reason)
		return
	}
	var last []byte
	var err error
	if resumed {
		err = t.retry(func() (err error) { last, err = t.log.lastPayload(); return err })
	} else {
		err = t.exec.store(standing{Phase: phaseLocal})
	}
	if err != nil {
		return
	}
	job := t.job(input)
	ctx, cancel := context.WithDeadline(ctx, time.Now().Add(t.remaining(s.opts.Now())))
	defer cancel()
	output, err := protect(func() ([]byte, error) {
		if again, ok := p.Worker.(Resumer); ok && resumed {
			return again.Resume(ctx, job, last, t.log.progress)
		}
		return p.Worker.Run(ctx, job, t.log.progress)
	})
	switch {
	case s.ctx.Err() != nil: // stopped, not ended: the next process decides
	case err == nil:
		t.finish(&ending{By: byExecutor}, &ResultBody{OK: true, Output: output}, nil)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.fail(reasonDeadline)
	default:
		t.finish(&ending{By: byExecutor}, t.failure(err), nil)
	}
}

// protect calls f and converts a panic into an error.
func protect[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a2a: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// failure returns the Result for an error of a Worker.
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

var errPlaces = profiles.Busy("a2a_waiting", "too many tasks of this kind are waiting")
