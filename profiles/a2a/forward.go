package a2a

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// maxReason keeps what is wrong with an input readable.
const maxReason = 1024

// admit decides whether a new task is to be executed. Without an input it is the
// one that is stored.
func (t *task) admit(input []byte) {
	s := t.s
	if input == nil {
		var err error
		if input, err = t.input(); err != nil {
			return
		}
	}
	switch {
	case !s.opts.Access.Allowed(t.Owner, "a2a", "task", t.name()):
		t.fail(reasonDenied)
		return
	case t.Hops > profiles.MaxHops:
		t.fail(reasonHops)
		return
	case t.stopped():
		return
	}
	if s.opts.Validate != nil && t.name() == t.Kind {
		_, err := protect(func() (struct{}, error) { return struct{}{}, s.opts.Validate(t.Kind, input) })
		if err != nil {
			reason := reasonMalformed + ": " + strings.ToValidUTF8(err.Error(), "\uFFFD")
			t.fail(strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
			return
		}
	}
	t.dispatch(input, false)
}

// stopped ends a task that its initiator's own policy does not let through.
func (t *task) stopped() bool {
	s := t.s
	if s.opts.Policy == nil {
		return false
	}
	v := s.opts.Policy.Violated(t.ctx, "a2a", t.name())
	if v == nil {
		return false
	}
	s.mu.Lock()
	c := t.cursor
	s.mu.Unlock()
	if c != nil {
		_ = c.lane.Send(c.ctx, v.Notice) // or nobody is there to be told
	}
	reason := v.Text()
	t.fail(strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
	return true
}

// dispatch gives the task to whoever carries out its kind. Where that is an
// agent that is not here, or with wait might be, the task waits for it.
func (t *task) dispatch(input []byte, wait bool) {
	s := t.s
	s.mu.Lock()
	if t.over || s.closed {
		s.mu.Unlock()
		return
	}
	if p := t.place; p != nil {
		s.mu.Unlock()
		p.start(t, input)
		return
	}
	a, known := s.choose(t)
	if a != nil && !s.leaving() {
		t.assign(a, input)
		return
	}
	patience, reason := s.patience(t)
	s.mu.Unlock()
	switch {
	case !known && !wait:
		t.fail(t.unsupported())
		return
	case patience <= 0:
		t.fail(reason)
		return
	}
	if t.stand(standing{Phase: phaseWaiting}) != nil {
		return
	}
	s.mu.Lock()
	if a, _ = s.choose(t); a != nil && !t.over && !s.leaving() {
		t.assign(a, input)
		return
	}
	if !t.over && !s.leaving() {
		s.idle[t] = struct{}{}
		t.arm(patience, reason)
	}
	s.mu.Unlock()
}

// arm bounds how long the task waits for an agent. The caller holds mu.
func (t *task) arm(patience time.Duration, reason string) {
	if t.absent == nil {
		t.absent = t.s.later(patience, func() { t.fail(reason) })
	}
}

// disarm ends the wait. The caller holds mu.
func (t *task) disarm() {
	if t.absent != nil {
		t.absent.Stop()
		t.absent = nil
	}
}

// assign gives the task to an agent: that it does is stored before the Task is
// sent. The caller holds mu, which assign gives up.
func (t *task) assign(a *agent, input []byte) {
	s := t.s
	t.disarm()
	if t.Hops >= profiles.MaxHops {
		s.mu.Unlock()
		t.fail(reasonHops)
		return
	}
	if _, err := t.credited(t.ctx); err != nil {
		s.mu.Unlock()
		t.fail(reasonChain)
		return
	}
	t.owned = a
	a.tasks[t] = struct{}{}
	at := standing{Phase: phaseAgent, Identity: a.identity, AgentID: a.id, Instance: a.instance, Remote: profiles.NewMsgID()}
	s.mu.Unlock()
	if !t.admitted(a.id, input) || t.stand(at) != nil {
		return
	}
	s.mu.Lock()
	if t.over || s.leaving() {
		s.mu.Unlock()
		return
	}
	if a.host == nil || a.instance != at.Instance {
		// Gone before anything was sent, so anyone may have it.
		delete(a.tasks, t)
		t.owned = nil
		s.mu.Unlock()
		t.dispatch(input, true)
		return
	}
	t.send(a.host.session, input)
}

// send sends the Task to the session of its agent. The caller holds mu, which
// send gives up.
func (t *task) send(session profiles.Session, input []byte) {
	s := t.s
	f := &forward{t: t, input: input, agent: t.behind(t.at.AgentID), ward: t.ward}
	ctx := t.ctx
	if a := t.owned; a != nil && a.cross != nil {
		ctx = a.cross(ctx)
	}
	f.d = s.newDelivery(ctx, session, t.at.Remote, t.Kind, f)
	f.d.resume, f.d.last = t.seen > 0 || input == nil, t.seen
	old := t.out
	t.out = f.d
	s.mu.Unlock()
	if old != nil {
		old.close(profiles.ErrFinished)
	}
	if f.d.open() == nil {
		s.spawn(func() { f.d.run(nil) })
	}
}

// returned is called when the agent of the task has declared itself anew: the
// same process goes on where it was, another one knows nothing of it and the
// task must not be begun a second time.
func (t *task) returned(session profiles.Session, instance string) {
	s := t.s
	s.mu.Lock()
	if t.over || s.leaving() || t.at.Phase != phaseAgent {
		s.mu.Unlock()
		return
	}
	if instance == "" || instance != t.at.Instance {
		s.mu.Unlock()
		t.fail(reasonRestarted)
		return
	}
	t.disarm()
	t.send(session, nil)
}

// await waits for the agent of a task to come back.
func (t *task) await() {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.over || s.leaving() {
		return
	}
	t.out = nil
	if !isPartner(t.at.AgentID) {
		t.arm(s.opts.Abandoned, reasonGone)
	}
	if t.owned == nil { // after a restart
		a := s.agents[t.at.AgentID]
		if a == nil {
			a = &agent{id: t.at.AgentID, identity: t.at.Identity, tasks: make(map[*task]struct{})}
			s.agents[a.id] = a
		}
		if a.identity != t.at.Identity {
			return // somebody else has its name: it can not come back
		}
		t.owned = a
		a.tasks[t] = struct{}{}
	}
	if a := t.owned; a.host != nil {
		session, instance := a.host.session, a.instance
		if session.Context().Err() == nil {
			s.work.Go(func() { t.returned(session, instance) })
		}
	}
}

// forward is the receiver of a task that was given to an agent.
type forward struct {
	t     *task
	d     *Delivery
	input []byte // until it was sent once
	agent string // behind a partner
	ward  Ward   // may be nil
}

// task implements receiver.
func (f *forward) task(context.Context) ([]byte, e1.Extensions, error) {
	t := f.t
	input := f.input
	f.input = nil
	if input == nil {
		var err error
		if input, err = t.input(); err != nil {
			return nil, nil, err
		}
	}
	m := TaskBody{TaskID: f.d.id, Kind: []byte(t.Kind), Input: input}
	ext := taskExtensions(f.agent, t.Params, t.Hops+1)
	return m.Append(make([]byte, 0, m.Size())), appendDeadline(ext, t.remaining(t.s.opts.Now())), nil
}

// room implements receiver: what can not be asked for again is refused by the queue,
// if it has none. A refusal counts against the connection, which may be that of a
// partner and carry the tasks of everybody.
func (f *forward) room(size int, numbered bool) bool {
	if !numbered {
		return true
	}
	t := f.t
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.over || t.fits(size+len(t.ID)+eventRoom)
}

// eventRoom is what an Event takes beside its texts, at most.
const eventRoom = 32

// wants implements receiver.
func (f *forward) wants() bool {
	f.t.s.mu.Lock()
	defer f.t.s.mu.Unlock()
	return f.t.drains()
}

// event implements receiver. The Event is accepted when it is stored.
func (f *forward) event(req *profiles.Request, m *EventBody, number, firstHeld uint64) error {
	t := f.t
	if firstHeld > 0 {
		note := fmt.Sprintf("events of the worker before its number %d are lost", firstHeld)
		t.add(entry{payload: t.event(note, nil), id: anonymous(), done: func(error) {}})
	}
	id := anonymous()
	switch {
	case number <= 1 && len(m.Payload) == 0 && string(m.Message) == accepted:
		id = accepted
	case number > 0:
		id = strconv.FormatUint(number, 10)
	}
	var first func(done func(error))
	if f.ward != nil && len(m.Payload) > 0 {
		first = f.ward.Event(m.Payload)
	}
	done := req.Defer()
	t.add(entry{payload: t.event(string(m.Message), m.Payload), id: id, number: number, first: first, done: func(err error) {
		switch err {
		case nil, errOver:
			done(nil) // what crosses the end is dropped
		default:
			if number > 0 {
				f.d.fallBehind(number - 1)
			}
			done(profiles.Unavailable(err))
		}
	}})
	return nil
}

// result implements receiver. The Result is accepted when it is stored, after
// the Events before it.
func (f *forward) result(req *profiles.Request, m *ResultBody, at position) error {
	t := f.t
	if at.firstHeld > 0 {
		t.add(entry{payload: t.event("the last events of the worker are lost", nil), id: anonymous(), done: func(error) {}})
	}
	done := func(error) {}
	if req != nil {
		done = req.Defer()
	}
	kept := &ResultBody{OK: m.OK, Output: bytes.Clone(m.Output), ErrorMessage: bytes.Clone(m.ErrorMessage)}
	endpoint := bytes.Clone(at.endpoint)
	finish := func() {
		if !t.finish(&ending{By: byExecutor, Endpoint: endpoint}, kept, func(err error) { done(unavailable(err)) }) {
			done(nil) // it ended otherwise
			return
		}
		f.refused(kept, endpoint)
	}
	t.drain(func() {
		if f.ward == nil || !kept.OK {
			finish()
			return
		}
		if !t.s.spawn(func() {
			var output []byte
			if !t.warded(func() (err error) { output, err = f.ward.Output(t.ctx, kept.Output); return err }) {
				done(nil) // it ended otherwise
				return
			}
			kept.Output = output
			finish()
		}) {
			done(errClosed)
		}
	})
	return nil
}

// refused tells of a Result by which a partner, or an endpoint behind it, refused.
func (f *forward) refused(m *ResultBody, endpoint []byte) {
	t := f.t
	if m.OK || len(endpoint) == 0 || !strings.Contains(t.Agent, "/") {
		return
	}
	if code, ok := RefusalCode(string(m.ErrorMessage)); ok {
		t.s.opts.Refused(Refusal{Owner: t.Owner, Name: t.name(), Code: code, Endpoint: string(endpoint)})
	}
}

// lost implements receiver.
func (f *forward) lost(err error) {
	t := f.t
	s := t.s
	s.mu.Lock()
	mine := t.out == f.d
	s.mu.Unlock()
	switch {
	case !mine:
	case f.d.session.Context().Err() != nil:
		t.await()
	default:
		s.report(t, err)
		t.fail(reasonRefused)
	}
}
