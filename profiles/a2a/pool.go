package a2a

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// service is what a pool is for: the tasks of a kind that are meant for an agent.
type service struct{ agent, kind string }

// pools are the Workers of this process. The mu of the Service guards what follows
// the first two lines.
type pools struct {
	of      map[service]*pool
	agents  map[string]bool // whose tasks they carry out; empty for no agent
	running int             // tasks that run and can not go on in the next process
	rested  chan struct{}   // not nil since Drain; closed when none of them runs
}

// pool is a Registration at work. The mu of the Service guards what follows
// the first line.
type pool struct {
	Registration
	load    int     // tasks that have a place: running, or waiting for a turn
	running int     // of them, those that run
	queue   []*task // of them, those that wait, and some that are over
}

func newPools(list []Registration) (pools, error) {
	ps := pools{of: make(map[service]*pool), agents: make(map[string]bool)}
	for i, r := range list {
		if r.Worker == nil || len(r.Kinds) == 0 {
			return ps, fmt.Errorf("a2a: registration %d: a worker and kinds are required", i)
		}
		r.Tasks = cmp.Or(r.Tasks, 16)
		r.Waiting = cmp.Or(r.Waiting, 1024)
		if r.Tasks < 0 || r.Waiting < 0 || r.Deadline < 0 {
			return ps, fmt.Errorf("a2a: registration %d: tasks %d, waiting %d, deadline %v: below 0", i, r.Tasks, r.Waiting, r.Deadline)
		}
		if strings.Contains(r.Agent, "/") || len(r.Agent) > MaxText || r.Agent != "" && p1.Blank([]byte(r.Agent)) {
			return ps, fmt.Errorf("a2a: agent %q: blank, with a slash, or above %d octets", r.Agent, MaxText)
		}
		p := &pool{Registration: r}
		for _, kind := range r.Kinds {
			of := service{r.Agent, kind}
			switch {
			case p1.Blank([]byte(kind)) || len(kind) > MaxText:
				return ps, fmt.Errorf("a2a: kind %q: blank, or above %d octets", kind, MaxText)
			case ps.of[of] != nil:
				return ps, fmt.Errorf("a2a: kind %q of agent %q is registered twice", kind, r.Agent)
			}
			ps.of[of] = p
			ps.agents[r.Agent] = true
		}
	}
	return ps, nil
}

// get returns the pool that carries out a task, nil if none does. What is
// meant for an agent is not for a Worker that is none.
func (ps *pools) get(kind, agent string) *pool { return ps.of[service{agent, kind}] }

// hosts reports whether an agent_id is that of Workers of this process.
func (ps *pools) hosts(agent string) bool { return agent != "" && ps.agents[agent] }

// name is what rules and policies know a task by.
func (ps *pools) name(agent, kind string) string {
	if strings.Contains(agent, "/") || ps.hosts(agent) {
		return agent + "/" + kind
	}
	return kind
}

// names returns the names of what the pools carry out.
func (ps *pools) names() []string {
	var names []string
	for of := range ps.of {
		names = append(names, ps.name(of.agent, of.kind))
	}
	return names
}

// waiting returns how many tasks wait for their turn. The caller holds mu.
func (ps *pools) waiting() int {
	n := 0
	counted := make(map[*pool]bool, len(ps.of)) // one has several kinds
	for _, p := range ps.of {
		if !counted[p] {
			counted[p] = true
			n += p.load - p.running
		}
	}
	return n
}

// rest has no task begin any more, and returns what is closed when none runs that can
// not go on in the next process. The caller holds mu.
func (ps *pools) rest() <-chan struct{} {
	ps.rested = make(chan struct{})
	if ps.running == 0 {
		close(ps.rested)
	}
	return ps.rested
}

// resumes reports whether what was begun can go on in the next process.
func (p *pool) resumes() bool {
	if p == nil {
		return false
	}
	_, ok := p.Worker.(Resumer)
	return ok
}

// full reports whether a pool, which may be nil, has no place left. The caller holds mu.
func (p *pool) full() bool { return p != nil && p.load >= p.Tasks+p.Waiting }

// start runs a task that has a place, at once or when it is its turn.
func (p *pool) start(t *task, input []byte) {
	s := t.s
	s.mu.Lock()
	wait := (p.running >= p.Tasks || s.pools.rested != nil) && t.exec.at.Phase != phaseLocal
	s.mu.Unlock()
	// What waits for its turn must not be forgotten by a restart.
	if wait && t.exec.store(standing{Phase: phaseWaiting}) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.over || s.closed:
	case p.running < p.Tasks && s.pools.rested == nil:
		p.running++
		if !p.resumes() {
			s.pools.running++
		}
		t.exec.pool = nil // it now is the goroutine's
		s.work.Go(func() { p.run(t, input) })
	default:
		p.queue = append(p.queue, t)
	}
}

// run carries out one task after the other, as long as some wait.
func (p *pool) run(t *task, input []byte) {
	for {
		p.execute(t, input)
		s := t.s
		s.mu.Lock()
		p.load--
		t, input = nil, nil
		for t == nil && len(p.queue) > 0 && !s.closed && s.pools.rested == nil {
			if next := p.queue[0]; !next.over {
				t = next
				t.exec.pool = nil
			}
			p.queue[0] = nil
			p.queue = p.queue[1:]
		}
		if t == nil {
			p.running--
			if !p.resumes() {
				s.pools.running--
			}
			if s.pools.rested != nil && s.pools.running == 0 && !p.resumes() {
				close(s.pools.rested)
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// execute has the Worker carry out a task, or go on with it. That it starts is
// stored before.
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
	ctx, err := t.withDelegation(t.ctx)
	if err != nil {
		t.fail(chainReason(err))
		return
	}
	var last []byte
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
	case s.ctx.Err() != nil: // stopped, not ended: the next process says so
	case err == nil:
		t.finish(&ending{By: byExecutor}, &ResultBody{OK: true, Output: output}, nil)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.fail(reasonDeadline)
	default:
		t.finish(&ending{By: byExecutor}, t.failure(err), nil)
	}
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

var errPlaces = profiles.Busy("a2a_waiting", "too many tasks of this kind are waiting")
