package a2a

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// Service is both ends of the profile, for all sessions of one endpoint. It is
// safe for concurrent use.
type Service struct {
	opts       Options
	limits     atomic.Pointer[Options] // the fields that SetLimits changes
	federation atomic.Pointer[federation]
	instance   string // of this process, for the Handshakes that it sends

	lifetime
	tasks  table
	pools  pools
	agents directory

	outbox  outbox
	beacons beacons
}

// SetLimits changes Retention, Deadline and Abandoned of o for later tasks; tasks keep their
// times. An agent that is away may stay away for the new time. If New would refuse o, it
// fails and changes nothing.
func (s *Service) SetLimits(o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	o = o.withDefaults()
	s.limits.Store(&o)
	return nil
}

// New returns a Service. Tasks of an earlier process in the store continue. A task that
// had not started is started. A task that had started on a Worker of this process is
// resumed if the Worker is a Resumer, and otherwise ends with a failure. A task of a
// session waits for the session to return. Damaged tasks are reported and not changed.
// New fails on incomplete registrations and on a store that cannot be read. The caller
// closes the Service.
func New(opts Options) (*Service, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	workers, err := new(hosting).with(opts.Workers)
	if err != nil {
		return nil, err
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	s := &Service{
		opts: opts, instance: hex.EncodeToString(random[:]),
		outbox:  outbox{open: make(map[address]*Delivery), ended: endedTasks{list: make(map[address]endedTask)}},
		beacons: beacons{open: make(map[beaconKey]*beacon)},
	}
	s.limits.Store(&opts)
	s.pools.hosting.Store(workers)
	s.pools.loading = opts.Store != nil // until reload has entered all
	s.tasks = table{s: s, byKey: make(map[string]*task), open: fair.NewShares(opts.Tasks), places: make(map[string]bool), cursors: make(map[string]*cursor)}
	s.agents = directory{s: s, byID: make(map[string]*agent), places: fair.NewShares(opts.Agents), hosts: make(map[profiles.Session]*host), waiting: make(map[*task]struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.after = opts.After
	s.federation.Store(newFederation(opts.Partners))
	for name, identity := range opts.Partners {
		s.Partner(name, identity, "", nil)
	}
	if opts.Store != nil {
		if err := errors.Join(s.agents.reload(), s.tasks.reload()); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Serve handles one message.
func (s *Service) Serve(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	switch req.MsgType {
	case TypeHandshake:
		return s.serveHandshake(req)
	case TypeTask:
		return s.serveTask(ctx, req, w)
	case TypeEvent:
		return s.serveEvent(req)
	}
	return s.serveResult(req)
}

// review ends the unfinished tasks that the Access denies to their owners now, and the tasks
// of removed partners. It removes agents that the Access denies from their sessions.
func (s *Service) review() {
	var open, orphans []*task
	s.mu.Lock()
	var seated []*agent
	for _, a := range s.agents.byID {
		if !a.partner() && (a.host != nil || len(a.tasks) > 0) { // its connection may have ended first
			seated = append(seated, a)
		}
	}
	for _, t := range s.tasks.byKey {
		if !t.pending && !t.over { // one that is pending is asked about when it begins
			open = append(open, t)
			if t.orphaned() {
				orphans = append(orphans, t)
			}
		}
	}
	s.mu.Unlock()
	for _, t := range orphans {
		t.fail(reasonRemoved)
	}
	for _, t := range open {
		if !t.allowed() {
			t.fail(reasonDenied)
		}
	}
	for _, a := range seated {
		if !s.mayBe(a.identity, a.id) {
			s.agents.expel(a)
		}
	}
}

// Live returns the number of unfinished tasks of peers.
func (s *Service) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks.byKey)
}

// Waiting returns how many of them wait: for a Worker, or for an agent that is not
// connected.
func (s *Service) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.agents.waiting)
	for _, t := range s.tasks.byKey {
		if t.exec.pool != nil && !t.exec.busy {
			n++
		}
	}
	return n
}

// Pools returns the use of the unfinished tasks, of the known agents, and of the places of each busy Worker,
// sorted by name.
func (s *Service) Pools() []fair.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []fair.Pool{s.tasks.open.Pool("tasks"), s.agents.places.Pool("agents")}
	seen := make(map[*pool]bool)
	for _, p := range s.pools.hosting.Load().of {
		if !seen[p] && p.places.Used() > 0 {
			list = append(list, p.places.Pool("tasks "+nameOf(p.Agent, strings.Join(p.Kinds, ", "), p.Agent != "")))
		}
		seen[p] = true
	}
	slices.SortFunc(list, func(a, b fair.Pool) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Drain prevents new starts and waits until the running tasks of Workers have ended, or ctx
// has; then its error is that of ctx. All other tasks are safe in the store and left to the
// next process: the exchanges of waiting tasks, and of tasks that agents carry out, end, so
// that their sessions can end. Call it once, before Close.
func (s *Service) Drain(ctx context.Context) error {
	s.mu.Lock()
	rested := s.pools.rest()
	var given []*Delivery
	for _, t := range s.tasks.byKey {
		x := &t.exec
		if x.ending() {
			continue
		}
		x.endAbsence()
		t.cursor.stop()
		if x.delivery != nil {
			given = append(given, x.delivery)
			x.delivery = nil
		}
	}
	s.mu.Unlock()
	for _, d := range given {
		d.close(profiles.ErrFinished)
	}
	select {
	case <-rested:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ending reports whether a drain waits for the end of the task, because its Worker runs. The caller holds
// mu.
func (x *execution) ending() bool { return x.at.Phase == phaseLocal && !x.pool.resumes() }

// leaving reports whether tasks are no longer assigned. The caller holds mu.
func (s *Service) leaving() bool { return s.closed || s.pools.rested != nil }

// Close stops the Workers and waits for them. Unfinished tasks stay in the store and
// continue in the next process. End the sessions before.
func (s *Service) Close() {
	s.mu.Lock()
	var open []*task
	if !s.closed {
		s.closed = true
		open = slices.Collect(maps.Values(s.tasks.byKey))
	}
	s.mu.Unlock()
	s.cancel()
	for _, t := range open {
		t.abandon()
	}
	for _, d := range s.outbox.close() {
		d.end(errClosed)
	}
	s.beacons.close()
	s.work.Wait()
}

// report reports an internal error about a task.
func (s *Service) report(t *task, err error) {
	s.opts.Report(fmt.Errorf("a2a: task %x of %q, kind %q: %w", t.ID, t.Owner, t.Kind, err))
}
