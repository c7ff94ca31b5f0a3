package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// forward is the receiver of a task that was given to an agent.
type forward struct {
	t     *task
	d     *Delivery
	input []byte // until it was first sent
	agent string // behind a partner
	ward  Ward   // may be nil
}

// task implements receiver.
func (f *forward) task(context.Context) (e1.Envelope, error) {
	t := f.t
	input := f.input
	f.input = nil
	if input == nil {
		var err error
		if input, err = t.input(); err != nil {
			return e1.Envelope{}, err
		}
	}
	params := t.Params
	if f.ward != nil {
		input, params = f.ward.Given(input, params)
	}
	m := TaskBody{TaskID: f.d.id, Kind: []byte(t.Kind), Input: input}
	ext := taskExtensions(f.agent, params, t.Hops+1)
	env := e1.Envelope{Extensions: appendDeadline(ext, t.remaining(t.s.opts.Now())), Payload: m.Append(make([]byte, 0, m.Size()))}
	t.Keeps.Put(&env)
	return env, nil
}

// room implements receiver. An Event without a number cannot be requested again, so only a
// full queue refuses it. A refusal counts against the error budget of the connection, and a
// partner's connection carries tasks of many identities.
func (f *forward) room(size int, numbered bool) bool {
	if !numbered {
		return true
	}
	t := f.t
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.over || t.log.fits(size+len(t.ID)+eventRoom)
}

// eventRoom is the maximum overhead of an Event in octets.
const eventRoom = 32

// wantsMissing implements receiver.
func (f *forward) wantsMissing() bool {
	f.t.s.mu.Lock()
	defer f.t.s.mu.Unlock()
	return f.t.log.halfEmpty()
}

// event implements receiver. The Event is accepted when it is stored.
func (f *forward) event(req *profiles.Request, m *EventBody, at position) error {
	t, number := f.t, at.number
	if at.firstHeld > 0 {
		t.log.note(uniqueID(), fmt.Sprintf("events of the worker before its number %d are lost", at.firstHeld))
	}
	id := uniqueID()
	switch {
	case number <= 1 && len(m.Payload) == 0 && string(m.Message) == accepted:
		id = accepted
	case number > 0:
		id = strconv.FormatUint(number, 10)
	}
	var before func(done func(error))
	payload := m.Payload
	if f.ward != nil && len(payload) > 0 {
		payload, before = f.ward.Event(payload)
	}
	done := req.Defer()
	t.log.add(entry{payload: appendKeeps(t.event(string(m.Message), payload), at.keeps), id: id, number: number, before: before, done: func(err error) {
		switch err {
		case nil, errOver:
			done(nil) // an Event that crosses the end is dropped
		default:
			if number > 0 {
				f.d.takeBack(number - 1)
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
		t.log.note(uniqueID(), "the last events of the worker are lost")
	}
	done := func(error) {}
	if req != nil {
		done = req.Defer()
	}
	kept := &ResultBody{OK: m.OK, Output: bytes.Clone(m.Output), ErrorMessage: bytes.Clone(m.ErrorMessage)}
	endpoint, keeps := bytes.Clone(at.endpoint), at.keeps
	finish := func() {
		if !t.finish(&ending{By: byExecutor, Endpoint: endpoint, Keeps: keeps}, kept, func(err error) { done(unavailable(err)) }) {
			done(nil) // it has ended already
			return
		}
		f.refused(kept, endpoint)
	}
	t.log.drain(func() {
		if f.ward == nil || !kept.OK {
			finish()
			return
		}
		if !t.s.spawn(func() {
			var output []byte
			if !t.exec.askWard(func() (err error) { output, err = f.ward.Output(t.ctx, kept.Output); return err }) {
				done(nil) // it has ended already
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

// refused reports a Result by which a partner, or an endpoint behind it, refused the task.
func (f *forward) refused(m *ResultBody, endpoint []byte) {
	t := f.t
	if m.OK || len(endpoint) == 0 || !strings.Contains(t.Agent, "/") {
		return
	}
	if code, ok := RefusalCode(string(m.ErrorMessage)); ok {
		t.s.opts.Refused(Refusal{Owner: t.Owner, Name: t.name(), Code: code, Endpoint: string(endpoint)})
	}
}

// refusedFor is reasonRefused, followed by why the task was not sent at all.
func refusedFor(err error) string {
	if fault, ok := errors.AsType[*profiles.Error](err); ok && fault.Domain {
		return cutReason(reasonRefused + ": " + fault.Text)
	}
	return reasonRefused
}

// lost implements receiver.
func (f *forward) lost(err error) {
	t := f.t
	s := t.s
	s.mu.Lock()
	mine := t.exec.delivery == f.d
	s.mu.Unlock()
	switch {
	case !mine:
	case f.d.session.Context().Err() != nil:
		t.exec.awaitAgent()
	default:
		s.report(t, err)
		t.fail(f.reason(err))
	}
}

// reason is why a task fails whose executor has answered it with err. It tells of a partner
// that has broken the protocol.
func (f *forward) reason(err error) string {
	t := f.t
	partner, _, behind := strings.Cut(t.Agent, "/")
	if !behind || !profiles.Misanswered(err) {
		return refusedFor(err)
	}
	t.s.opts.Wrong(t.Owner, t.name(), err)
	return "partner " + partner + " broke the protocol with its answer"
}
