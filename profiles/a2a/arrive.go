package a2a

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// arrival is a Task on its way to its task.
type arrival struct {
	s       *Service
	session profiles.Session
	lane    profiles.Lane
	w       profiles.Responder // of the held exchange
	msgID   []byte
	key     string
	owner   string
	kind    string
	sum     digest
	resume  bool   // extension 20 is there
	after   uint64 // its value
	left    time.Duration
	value   *request // nil while a task in memory may make it superfluous
}

// serveTask takes a Task. It is accepted once it is stored; nothing is done
// before.
func (s *Service) serveTask(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	var in TaskBody
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	if s.opts.Store == nil {
		m := ResultBody{TaskID: in.TaskID, ErrorMessage: []byte(reasonUnsupported + ": this endpoint carries out no tasks")}
		return w.Finish(e1.Envelope{MsgType: TypeResult, Payload: m.Append(req.Scratch(m.Size()))})
	}
	d, err := profiles.Delegated(ctx, req.Extensions)
	if err != nil {
		return chainless(in.TaskID, err)
	}
	o, err := readTaskOptions(req.Extensions)
	if err != nil {
		return err
	}
	kind := string(in.Kind)
	r := &request{spec: spec{
		Owner: req.Session.Peer().Identity, ID: bytes.Clone(in.TaskID), Kind: kind, Params: o.params, Agent: o.agent, Hops: o.hops,
		Trace: profiles.TraceOf(ctx), Hints: profiles.HintsOf(ctx, kind),
	}}
	if d != nil {
		r.Chain = d.ChainID
	}
	a := &arrival{
		s: s, session: req.Session, key: r.key(), owner: r.Owner, kind: kind, sum: sumTask(kind, in.Input), value: r,
		resume: o.resume, after: o.after, left: s.timeFor(kind, o.agent, o.deadline),
	}
	req.About("task", s.nameOf(r.Agent, r.Kind))
	if !s.knows(a.key) { // and if it did, this request would never be written
		r.Input = bytes.Clone(in.Input)
	}
	// The exchange stays open as long as the task may; what it holds of the
	// message is then its msg_id, and not an input of megabytes.
	req.Payload, req.Extensions = nil, nil
	held, responder, err := req.HoldLong()
	if err != nil {
		return err
	}
	a.lane, a.msgID, a.w = held.Lane, held.MsgID, responder
	s.arrive(a)
	return nil
}

// timeFor is how long a task may take. Of a Task without a deadline ms is 0.
func (s *Service) timeFor(kind, agent string, ms uint64) time.Duration {
	if ms > 0 {
		return min(s.opts.MaxDeadline, time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond)))*time.Millisecond)
	}
	if p := s.poolOf(kind, agent); p != nil && p.Deadline > 0 {
		return p.Deadline
	}
	return s.opts.Deadline
}

// knows reports whether a task is in the table, and stored.
func (s *Service) knows(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[key]
	return t != nil && !t.pending
}

var (
	errConflict = profiles.Errorf(profiles.InvalidProfilePayload, "a2a: the task_id was used for another task")
	errHeld     = profiles.Busy("a2a_held", "too many messages wait for the task to be stored")
	errTasks    = profiles.Busy("a2a_tasks", "too many tasks are not over")
)

// arrive finds the task of a Task, or makes it.
func (s *Service) arrive(a *arrival) {
	p := s.poolOf(a.kind, a.value.Agent)
	s.mu.Lock()
	t := s.tasks[a.key]
	var refused error
	switch {
	case s.closed:
		refused = errClosed
	case t != nil && t.pending:
		if len(t.held) < maxHeld {
			t.held = append(t.held, func(t *task) {
				if t == nil {
					s.arrive(a)
					return
				}
				s.again(t, a)
			})
			s.mu.Unlock()
			return
		}
		refused = errHeld
	case t != nil:
		s.mu.Unlock()
		s.again(t, a)
		return
	case a.resume && a.after > 0:
		s.mu.Unlock()
		if !s.spawn(func() { s.look(a) }) {
			a.w.Fail(errClosed)
		}
		return
	case len(s.tasks) >= s.opts.Tasks || s.load[a.owner] >= s.opts.TasksPerIdentity:
		refused = errTasks
	case p != nil && p.full():
		refused = errPlaces
	}
	if refused != nil {
		s.mu.Unlock()
		a.w.Fail(refused)
		return
	}
	r := a.value
	now := s.opts.Now()
	r.Nonce, r.Created, r.Deadline = newNonce(), now, now.Add(a.left)
	r.Expires = r.Deadline.Add(s.opts.Retention)
	t = s.newTask(r, a.sum)
	t.pending = true
	if p != nil {
		t.place = p
		p.load++
	}
	s.enter(t)
	s.mu.Unlock()
	s.opts.Store.Put(spaceRequest, t.key, 0, t.Owner, r.encode(), t.Expires, func(wrote bool, _ uint64, current []byte, err error) {
		switch {
		case err != nil:
			s.drop(t)
			a.w.Fail(profiles.Unavailable(err))
		case !wrote:
			s.drop(t)
			if !s.spawn(func() { s.existing(a, current) }) {
				a.w.Fail(errClosed)
			}
		default:
			t.stored(a)
		}
	})
}

// stored goes on with a new task after its request is stored.
func (t *task) stored(a *arrival) {
	s := t.s
	t.attach(a, 1)
	t.begin(a.left)
	input := a.value.Input
	if input == nil {
		input = []byte{}
	}
	a.value = nil
	// What came meanwhile comes first.
	for {
		s.mu.Lock()
		held := t.held
		t.held = nil
		t.pending = len(held) > 0
		s.mu.Unlock()
		if len(held) == 0 {
			break
		}
		for _, f := range held {
			f(t)
		}
	}
	s.spawn(func() { t.admit(input) })
}

// drop takes a task out of the table whose request was not stored. What waited
// for it is looked at anew.
func (s *Service) drop(t *task) {
	s.mu.Lock()
	if s.tasks[t.key] == t {
		s.forget(t)
	}
	t.over = true
	t.leave()
	held := t.held
	t.held = nil
	s.mu.Unlock()
	t.stop(errOver)
	again := func() { // which may have to wait for the store
		for _, f := range held {
			f(nil)
		}
	}
	if len(held) > 0 && !s.spawn(again) {
		again()
	}
}

// again answers a Task that was sent before: it is not executed again, and its
// sender is who gets what comes from now on.
func (s *Service) again(t *task, a *arrival) {
	if t.sum != a.sum {
		a.w.Fail(errConflict)
		return
	}
	from := uint64(0) // from now on
	if a.resume {
		from = a.after + 1
	}
	a.value = nil
	t.attach(a, from)
}

// look finds a task that a Task wants to be resumed.
func (s *Service) look(a *arrival) {
	version, value, err := s.opts.Store.Get(s.ctx, spaceRequest, a.key)
	switch {
	case err != nil:
		a.w.Fail(profiles.Unavailable(err))
	case version == 0:
		// Events were seen, so it was begun; it must not begin again.
		m := ResultBody{TaskID: a.value.ID, ErrorMessage: []byte(reasonUnknown)}
		_ = a.w.Finish(resultOf(&m))
	default:
		s.existing(a, value)
	}
}

// existing answers a Task whose task is in the store, from there if it is over.
func (s *Service) existing(a *arrival, value []byte) {
	t, err := s.recall(a.key, value)
	if err != nil {
		a.w.Fail(profiles.Unavailable(err))
		return
	}
	s.again(t, a)
}

// recall returns the task of a stored request. One that is not over is entered
// in the table, if it is not there, and goes on.
func (s *Service) recall(key string, value []byte) (*task, error) {
	var r request
	if err := r.decode(value); err != nil {
		return nil, err
	}
	s.mu.Lock()
	t := s.tasks[key]
	s.mu.Unlock()
	if t != nil && !t.pending {
		return t, nil
	}
	t = s.newTask(&r, sumTask(r.Kind, r.Input))
	if err := t.restore(s.ctx, r.Input); err != nil {
		return nil, err
	}
	if t.ended {
		return t, nil
	}
	return s.revive(t)
}
