package a2a

import (
	"context"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
)

// execution has the executor of a task: a Worker of this process, or an agent. The mu of
// the Service guards it.
type execution struct {
	t        *task
	at       standing
	version  uint64      // of at in the store, 0 if it is not stored
	pool     *pool       // where the task runs or waits
	busy     bool        // it has started there
	hosted   bool        // the task names an agent of this process
	agent    *agent      // the agent that has the task
	delivery *Delivery   // on the session of the agent; nil without a session
	ward     Ward        // may be nil
	absence  func() bool // stops the limit while the task waits for an agent
}

// reserve takes a place in a pool, or in none if it is nil. The caller holds mu.
func (x *execution) reserve(p *pool) {
	if p != nil {
		x.pool = p
		p.places.Force(x.t.Owner, 1)
	}
}

// release removes an ended task from the tables, and returns its Delivery, if there is one.
// The caller holds mu.
func (x *execution) release() *Delivery {
	if x.pool != nil && !x.busy {
		x.pool.queue.Remove(x.t.Owner, func(t *task) bool { return t == x.t })
		x.pool.places.Give(x.t.Owner, 1)
		x.pool.leave(x.t.s)
	}
	x.pool = nil
	delete(x.t.s.agents.waiting, x.t)
	x.leaveAgent()
	d := x.delivery
	x.delivery = nil
	return d
}

// joinAgent and leaveAgent enter and remove the task among the tasks of its agent. The caller
// holds mu.
func (x *execution) joinAgent(a *agent) {
	x.agent = a
	a.tasks[x.t] = struct{}{}
}

func (x *execution) leaveAgent() {
	if x.agent != nil {
		delete(x.agent.tasks, x.t)
		x.agent = nil
	}
}

// store stores the progress of the task and waits for the write. It fails after the end of
// the task, and after Close of the Service.
func (x *execution) store(at standing) error {
	t, s := x.t, x.t.s
	value := at.encode()
	over := false
	err := t.retry(func() error {
		for {
			s.mu.Lock()
			version := x.version
			over = t.over
			s.mu.Unlock()
			if over {
				return nil
			}
			r := t.put(spaceStanding, version, value)
			if r.Err != nil {
				return r.Err
			}
			s.mu.Lock()
			x.version = r.Version
			stored := r.Wrote || string(r.Current) == string(value)
			if stored {
				x.at = at
			}
			s.mu.Unlock()
			if stored {
				return nil
			}
			// This assumes one process, which alone writes the record: so an earlier write
			// succeeded although the store reported a failure. The next try has the right
			// version.
		}
	})
	if over {
		return errOver
	}
	return err
}

// restore reads from the store the progress that a task with an input made in an earlier
// process.
func (x *execution) restore(ctx context.Context, input []byte) (err error) {
	var value []byte
	if x.version, value, err = x.t.s.opts.Store.Get(ctx, spaceStanding, x.t.run); err != nil {
		return err
	}
	if err := x.at.decode(value); err != nil {
		return err
	}
	if x.at.Phase == phaseAgent {
		x.ward = x.wardOf(x.at.AgentID, input)
	}
	return nil
}

// dispatch gives the task to an executor of its kind. If no such agent is connected, the
// task waits: always for a known agent, with wait also for an unknown one.
func (x *execution) dispatch(input []byte, wait bool) {
	t, s := x.t, x.t.s
	s.mu.Lock()
	if t.over || s.closed {
		s.mu.Unlock()
		return
	}
	if x.pool != nil {
		s.mu.Unlock()
		t.start(input)
		return
	}
	a, known, stopped := s.agents.choose(t)
	if a != nil && !s.leaving() {
		x.assign(a, input)
		return
	}
	if p := s.pools.spare(t.Kind, t.Agent); !known && stopped == nil && p != nil {
		fault := p.ask(t.Owner)
		if fault == nil {
			x.reserve(p)
		}
		s.mu.Unlock()
		if fault != nil {
			t.fail(cutReason(fault.Text))
			return
		}
		t.start(input)
		return
	}
	limit, reason := s.agents.waitLimit(t)
	s.mu.Unlock()
	switch {
	case !known && stopped != nil:
		t.fail(cutReason(stopped.Text()))
	case !known && !wait:
		t.fail(t.unsupported())
	case limit <= 0:
		t.fail(reason)
	case x.store(standing{Phase: phaseWaiting}) == nil:
		x.wait(input, limit, reason)
	}
}

// wait makes the task wait for an agent, unless one has just connected.
func (x *execution) wait(input []byte, limit time.Duration, reason string) {
	t, s := x.t, x.t.s
	s.mu.Lock()
	if t.over || s.leaving() {
		s.mu.Unlock()
		return
	}
	if a, _, _ := s.agents.choose(t); a != nil {
		x.assign(a, input)
		return
	}
	s.agents.waiting[t] = struct{}{}
	x.limitAbsence(limit, reason)
	s.mu.Unlock()
}

// limitAbsence bounds how long the task waits for an agent. The caller holds mu.
func (x *execution) limitAbsence(limit time.Duration, reason string) {
	if x.absence == nil {
		x.absence = x.t.s.later(limit, func() { x.t.fail(reason) })
	}
}

// endAbsence ends the wait. The caller holds mu.
func (x *execution) endAbsence() {
	if x.absence != nil {
		x.absence()
		x.absence = nil
	}
}

// assign gives the task to an agent. The assignment is stored before the Task is sent. The
// caller holds mu, which assign releases.
func (x *execution) assign(a *agent, input []byte) {
	t, s := x.t, x.t.s
	x.endAbsence()
	if t.Hops >= profiles.MaxHops {
		s.mu.Unlock()
		t.fail(reasonHops)
		return
	}
	if a.plain && t.Agent != a.id {
		s.mu.Unlock()
		t.fail(reasonUnsupported + ": partner " + strings.TrimSuffix(a.id, "/") + " does not tell agents apart; leave the agent out, as in " + a.id + t.Kind)
		return
	}
	if _, reason := t.begins(t.ctx, a); reason != "" {
		s.mu.Unlock()
		t.fail(reason)
		return
	}
	x.joinAgent(a)
	at := standing{Phase: phaseAgent, Identity: a.identity, AgentID: a.id, Instance: a.instance, Remote: profiles.NewMsgID()}
	s.mu.Unlock()
	if !x.admitted(a.id, input) || x.store(at) != nil {
		return
	}
	s.mu.Lock()
	switch {
	case t.over || s.leaving():
		s.mu.Unlock()
	case a.host == nil || a.instance != at.Instance:
		// The agent disconnected before the Task was sent, so another one may get it.
		x.leaveAgent()
		s.mu.Unlock()
		x.dispatch(input, true)
	default:
		x.send(a.host.session, input)
	}
}

// send sends the Task to the session of its agent. The caller holds mu, which send
// releases.
func (x *execution) send(session profiles.Session, input []byte) {
	t, s := x.t, x.t.s
	f := &forward{t: t, input: input, agent: remoteAgent(x.at.AgentID, t.Agent), ward: x.ward}
	ctx := t.ctx
	if a := x.agent; a != nil && a.cross != nil {
		ctx = profiles.WithCaller(a.cross(ctx), t.Owner)
	}
	f.d = s.newDelivery(ctx, session, x.at.Remote, t.Kind, f)
	f.d.sent, f.d.seq.last = t.log.remote > 0 || input == nil, t.log.remote
	old := x.delivery
	x.delivery = f.d
	s.mu.Unlock()
	if old != nil {
		old.close(profiles.ErrFinished)
	}
	if f.d.open() == nil {
		s.spawn(func() { f.d.run(nil) })
	}
}

// agentReturned is called when the agent of the task has declared itself again. The same
// process continues the task. Another process does not know the task, which must not be
// started a second time.
func (x *execution) agentReturned(session profiles.Session, instance string) {
	t, s := x.t, x.t.s
	s.mu.Lock()
	switch {
	case t.over || s.leaving() || x.at.Phase != phaseAgent:
		s.mu.Unlock()
	case instance == "" || instance != x.at.Instance:
		s.mu.Unlock()
		t.fail(reasonRestarted)
	default:
		x.endAbsence()
		x.send(session, nil)
	}
}

// awaitAgent waits for the agent of a task to reconnect.
func (x *execution) awaitAgent() {
	t, s := x.t, x.t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.over || s.leaving() {
		return
	}
	x.delivery = nil
	if !isPartner(x.at.AgentID) {
		x.limitAbsence(s.limits.Load().Abandoned, reasonGone)
	}
	if x.agent == nil { // after a restart
		a := s.agents.find(x.at.AgentID, x.at.Identity)
		if a == nil {
			return // another identity has the agent_id: the agent cannot return, and the task fails after Abandoned
		}
		x.joinAgent(a)
	}
	if a := x.agent; a.host != nil {
		session, instance := a.host.session, a.instance
		if session.Context().Err() == nil {
			s.work.Go(func() { x.agentReturned(session, instance) })
		}
	}
}
