package a2a

import (
	"bytes"
	"context"
	"math"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// detailTooLong is the detail of a field above its bound, as the schema has it.
const detailTooLong = "too_long"

// arrival is a received Task before it has a task.
type arrival struct {
	s       *Service
	session profiles.Session
	lane    profiles.Lane
	w       profiles.Responder // of the held exchange
	msgID   []byte
	key     string
	peers   string // key of the same task of the peer itself; empty: it is not looked for
	sum     digest
	resume  bool   // extension 20 is there
	after   uint64 // its value
	left    time.Duration
	request *request // nil after the task was made
}

// serveTask handles a Task. The Task is accepted when it is stored; nothing is done before.
// If the access rules deny it, its input is not stored.
func (s *Service) serveTask(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	var in TaskBody
	if err := in.Decode(req.Payload); err != nil {
		return s.refuseTask(req, &in, err)
	}
	if s.opts.Store == nil {
		m := ResultBody{TaskID: in.TaskID, ErrorMessage: []byte(reasonUnsupported + ": this endpoint carries out no tasks")}
		return w.Finish(e1.Envelope{MsgType: TypeResult, Payload: m.Append(req.Scratch(m.Size()))})
	}
	o, err := readTaskOptions(req.Extensions)
	if err != nil {
		return s.refuseTask(req, &in, err)
	}
	agent, kind := s.toPartner(o.agent, string(in.Kind))
	name := nameOf(agent, kind, s.pools.hosts(agent))
	r := &request{spec: spec{
		Owner: req.Identity(), ID: bytes.Clone(in.TaskID), Kind: kind, Params: o.params, Agent: agent, Hops: o.hops,
		Trace: profiles.TraceOf(ctx), Hints: profiles.OwnHints(ctx, name), Keeps: profiles.EndToEndIn(ctx),
		Given: s.federation.Load().has(req.Identity()),
	}}
	if d := profiles.DelegationOf(ctx); d != nil {
		r.Chain = d.ChainID
	}
	req.About("task", name)
	a := &arrival{
		s: s, session: req.Session, key: r.key(), sum: sumTask(kind, in.Input), request: r,
		resume: o.resume, after: o.after, left: s.timeFor(kind, agent, o.deadline),
	}
	if link := profiles.Link(r.Owner); o.resume && link != r.Owner {
		a.peers = keyOf(link, in.TaskID) // sent before the peer asserted its callers, perhaps
	}
	switch {
	case s.tasks.stored(a.key): // this request is never written
	case s.mayAsk(req, kind, name):
		r.Input = bytes.Clone(in.Input)
	default:
		profiles.Ended(w, profiles.OutcomeDenied)
		r.deny(a.sum)
		a.left = 0
	}
	// The exchange stays open as long as the task. It then holds the msg_id of the message,
	// not its input of possibly megabytes.
	req.Payload, req.Extensions = nil, nil
	held, responder, err := req.HoldLong()
	if err != nil {
		return err
	}
	a.lane, a.msgID, a.w = held.Lane, held.MsgID, responder
	a.arrive()
	return nil
}

// mayAsk reports whether the peer may ask for tasks of a kind, whose name in rules is name.
func (s *Service) mayAsk(req *profiles.Request, kind, name string) bool {
	if !s.opts.Access.Allowed(req.Identity(), "a2a", "task", name) {
		return false
	}
	if s.opts.Owned(kind, req.Session.Peer()) {
		req.Forbid(s.opts.Access, "a2a", "task", name, "a2a_owned")
		return false
	}
	return true
}

// refuseTask answers a Task above a bound, or with an extension that cannot be read, with a
// Result, so that its initiator does not wait. It does not if the task_id is too long, or
// the id of a task under way: the Result would end that one.
func (s *Service) refuseTask(req *profiles.Request, in *TaskBody, err error) error {
	fault := *profiles.AsError(err)
	if fault.Detail != detailTooLong && fault.Detail != profiles.DetailExtension || len(in.TaskID) == 0 || len(in.TaskID) > MaxText {
		return err
	}
	s.mu.Lock()
	taken := s.tasks.byKey[keyOf(req.Identity(), in.TaskID)] != nil
	s.mu.Unlock()
	if taken {
		return err
	}
	const room = 128 // octets of the reason
	reason := reasonMalformed + ": " + fault.Text
	m := ResultBody{TaskID: in.TaskID, ErrorMessage: []byte(strings.ToValidUTF8(reason[:min(len(reason), room)], ""))}
	fault.Answer = resultOf(&m)
	return &fault
}

// act is the task that a message asks for. Only agents of sessions can act for a name without
// a Worker and without a partner.
func (s *Service) act(req *profiles.Request) (profiles.Act, error) {
	switch req.MsgType {
	case TypeTask:
	case TypeHandshake:
		return profiles.Act{Operation: "handshake", Free: true}, nil
	default: // about a task that was asked for before
		return profiles.Act{Ends: true}, nil
	}
	var in TaskBody
	if err := in.Decode(req.Payload); err != nil {
		return profiles.Act{}, s.refuseTask(req, &in, err)
	}
	o, err := readTaskOptions(req.Extensions)
	if err != nil {
		return profiles.Act{}, s.refuseTask(req, &in, err)
	}
	agent, kind := s.toPartner(o.agent, string(in.Kind))
	return s.ActOf(agent, kind), nil
}

// ActOf returns what a task of a kind for an agent, possibly empty, asks this endpoint
// for.
func (s *Service) ActOf(agent, kind string) profiles.Act {
	act := profiles.Act{Profile: "a2a", Operation: "task", Name: nameOf(agent, kind, s.pools.hosts(agent)), Ruled: true}
	if s.pools.get(kind, agent) == nil && !strings.Contains(agent, "/") {
		act.Agents = s.agents.declarations(agent, kind)
	}
	return act
}

// timeFor returns how long a task may take. ms is the deadline of its Task, 0 if it has
// none.
func (s *Service) timeFor(kind, agent string, ms uint64) time.Duration {
	if ms > 0 {
		return min(s.opts.MaxDeadline, time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond)))*time.Millisecond)
	}
	if p := s.pools.get(kind, agent); p != nil && p.Deadline > 0 {
		return p.Deadline
	}
	return s.limits.Load().Deadline
}

var (
	errConflict = profiles.Errorf(profiles.InvalidProfilePayload, "a2a: the task_id was used for another task")
	errHeld     = profiles.Busy("a2a_held", "too many messages wait for the task to be stored")
	errTasks    = profiles.Busy("a2a_tasks", "too many tasks are not over")
)

// arrive finds or makes the task of a Task.
func (a *arrival) arrive() {
	s := a.s
	s.mu.Lock()
	t := s.tasks.byKey[a.key]
	if t == nil && a.peers != "" {
		t = s.tasks.byKey[a.peers]
	}
	err := a.refusal(t)
	switch {
	case err != nil:
		s.mu.Unlock()
		a.w.Fail(err)
	case t != nil && t.pending:
		t.held = append(t.held, a.arriveAgain)
		s.mu.Unlock()
	case t != nil:
		s.mu.Unlock()
		a.join(t)
	case a.after > 0, a.peers != "":
		s.mu.Unlock()
		a.spawn(a.find)
	case a.request.Denied != nil && s.tasks.places[a.request.place()]:
		s.mu.Unlock()
		a.deny()
	default:
		t = a.create()
		s.mu.Unlock()
		if !t.denied {
			a.store(t)
			return
		}
		if !s.spawn(func() { a.storeDenied(t) }) {
			t.drop()
			a.w.Fail(errClosed)
		}
	}
}

// refusal returns the error for a Task that cannot be accepted, or nil. t is its task in
// the table, or nil. The caller holds mu.
func (a *arrival) refusal(t *task) error {
	s := a.s
	switch {
	case s.closed:
		return errClosed
	case t != nil:
		if t.pending && len(t.held) >= maxHeld {
			return errHeld
		}
	case a.after > 0: // resuming after an Event makes no new task
	default:
		owner := a.request.Owner
		fault := s.tasks.open.Ask(owner, 1).Refuse(errTasks)
		if fault == nil && a.request.Denied == nil {
			fault = s.pools.get(a.request.Kind, a.request.Agent).ask(owner)
		}
		if fault != nil {
			return fault
		}
	}
	return nil
}

// arriveAgain continues after another Task with the same task_id was stored; t is nil if
// storing failed.
func (a *arrival) arriveAgain(t *task) {
	if t == nil {
		a.arrive()
		return
	}
	a.join(t)
}

// create makes the task. Its request is not yet stored. The caller holds mu.
func (a *arrival) create() *task {
	s, r := a.s, a.request
	now := s.opts.Now()
	r.Nonce, r.Created, r.Deadline = newNonce(), now, now.Add(a.left)
	r.Expires = r.Deadline.Add(s.limits.Load().Retention)
	t := newTask(s, r, a.sum)
	t.pending = true
	if !t.denied {
		t.exec.reserve(s.pools.get(r.Kind, r.Agent))
	}
	s.tasks.enter(t)
	return t
}

// store stores the request of a new task.
func (a *arrival) store(t *task) {
	t.s.opts.Store.Put(spaceRequest, t.key, 0, t.payer(), a.request.encode(), t.Expires, func(p store.PutResult) {
		switch {
		case p.Err != nil:
			t.drop()
			a.w.Fail(profiles.Unavailable(p.Err))
		case !p.Wrote:
			t.drop()
			a.spawn(func() {
				r, err := decodeRequest(p.Current)
				a.found(r, err)
			})
		default:
			a.stored(t)
		}
	})
}

// stored continues a new task after its request was stored.
func (a *arrival) stored(t *task) {
	s := t.s
	t.attach(a, 1)
	if !t.denied {
		t.startTimers(a.left)
	}
	input := a.request.Input
	if input == nil {
		input = []byte{}
	}
	a.request = nil
	// Handle the messages that arrived during the write first.
	for more := true; more; {
		s.mu.Lock()
		held := t.held
		t.held = nil
		more = len(held) > 0
		t.pending = more
		s.mu.Unlock()
		for _, f := range held {
			f(t)
		}
	}
	s.spawn(func() { t.admit(input) })
}

// drop removes a task whose request was not stored from the table. Messages that waited for
// it are handled again.
func (t *task) drop() {
	s := t.s
	s.mu.Lock()
	s.tasks.forget(t)
	t.over = true
	t.exec.release()
	held := t.held
	t.held = nil
	s.mu.Unlock()
	t.stop(errOver)
	again := func() { // may wait for the store
		for _, f := range held {
			f(nil)
		}
	}
	if len(held) > 0 && !s.spawn(again) {
		again()
	}
}

// join answers a repeated Task: its task is not executed again, and the sender receives the
// further Events.
func (a *arrival) join(t *task) {
	if t.sum != a.sum {
		a.w.Fail(errConflict)
		return
	}
	from := uint64(0) // from now on
	if a.resume {
		from = a.after + 1
	}
	a.request = nil
	t.attach(a, from)
}

// spawn runs f on a goroutine that Close waits for, or refuses the Task.
func (a *arrival) spawn(f func()) {
	if !a.s.spawn(f) {
		a.w.Fail(errClosed)
	}
}

// find reads the task of a resuming Task from the store.
func (a *arrival) find() {
	r, err := readRequest(a.s.ctx, a.s.opts.Store, a.key)
	if err == nil && r == nil && a.peers != "" {
		r, err = readRequest(a.s.ctx, a.s.opts.Store, a.peers)
	}
	if err == nil && r == nil && a.after == 0 {
		a.peers = ""
		a.arrive()
		return
	}
	if err == nil && r == nil {
		// Events were received, so the task was started and must not start again.
		_ = a.w.Finish(resultOf(&ResultBody{TaskID: a.request.ID, ErrorMessage: []byte(reasonUnknown)}))
		return
	}
	a.found(r, err)
}

// found answers a Task whose request is in the store; from the store if its task has ended.
func (a *arrival) found(r *request, err error) {
	var t *task
	if err == nil {
		t, err = a.s.tasks.recall(r)
	}
	if err != nil {
		a.w.Fail(profiles.Unavailable(err))
		return
	}
	a.join(t)
}
