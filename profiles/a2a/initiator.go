package a2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Why an Event or a Result is refused. A task of somebody else is not known.
var (
	errUnknown     = profiles.Errorf(profiles.InvalidProfilePayload, "a2a: task_id is not that of a known task")
	errAfterResult = profiles.Errorf(profiles.InvalidProfilePayload, "a2a: event after the sender's own result")
	errSecond      = profiles.Errorf(profiles.InvalidProfilePayload, "a2a: result differs from the sender's first")
)

// serveEvent takes an Event: from the executor of a task of ours, or from the
// initiator of one that is executed here.
func (s *Service) serveEvent(req *profiles.Request) error {
	var in EventBody
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	req.Exchange.About(profiles.Subject{Operation: "event", Name: taskName(in.TaskID), Part: true})
	at := address{req.Session.Peer().Identity, string(in.TaskID)}
	if d := s.outbox.get(at); d != nil {
		return d.event(req, &in)
	}
	return s.own(req, at, nil)
}

// serveResult takes a Result, likewise.
func (s *Service) serveResult(req *profiles.Request) error {
	var in ResultBody
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	req.About("result", taskName(in.TaskID))
	at := address{req.Session.Peer().Identity, string(in.TaskID)}
	if d := s.outbox.get(at); d != nil {
		place, err := readPosition(req.Extensions)
		if err != nil {
			return err
		}
		return d.result(req, &in, place)
	}
	return s.own(req, at, &in)
}

// taskName is a task_id for those who watch: octets that a peer has chosen.
func taskName(id []byte) string { return hex.EncodeToString(id[:min(len(id), 32)]) }

// own takes an Event of an initiator, or its Result if m is not nil.
func (s *Service) own(req *profiles.Request, at address, m *ResultBody) error {
	var sum *digest
	if m != nil {
		d := sumResult(m)
		sum = &d
	}
	key := keyOf(at.identity, []byte(at.id))
	s.mu.Lock()
	t := s.tasks[key]
	if t == nil {
		s.mu.Unlock()
		if known, err := s.outbox.late(at, sum); known {
			return err
		}
		return s.ask(req, key, sum, m)
	}
	if !t.pending && (m == nil || !t.ends()) {
		err := t.judge(sum)
		s.mu.Unlock()
		return err
	}
	if t.pending && len(t.held) >= maxHeld {
		s.mu.Unlock()
		return errHeld
	}
	done := req.Defer()
	if m != nil {
		m = &ResultBody{OK: m.OK, Output: bytes.Clone(m.Output), ErrorMessage: bytes.Clone(m.ErrorMessage)}
	}
	if t.pending {
		t.held = append(t.held, func(t *task) {
			if t == nil {
				done(s.settleOwn(key, sum, m))
				return
			}
			t.hear(m, sum, done)
		})
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	t.hear(m, sum, done)
	return nil
}

// ends reports whether the first Result of the initiator would end the task.
// The caller holds mu.
func (t *task) ends() bool { return !t.over && t.closed == nil && !delegated(t.Kind) }

// judge takes what the initiator of a task in the table sent, and does not end
// it: an Event, or with sum a Result. The caller holds mu.
func (t *task) judge(sum *digest) error {
	switch {
	case sum == nil && t.closed != nil:
		return errAfterResult
	case sum == nil:
		return nil
	case t.closed == nil:
		// It crosses the Result of the executor, or ends the delivery only.
		t.closed = sum
		if delegated(t.Kind) {
			t.cursor.stop()
		}
		return nil
	case *t.closed != *sum:
		return errSecond
	}
	return nil
}

// hear takes what the initiator of a task in the table sent. Its Result ends
// the task, unless that is over; done is called when that is stored.
func (t *task) hear(m *ResultBody, sum *digest, done func(error)) {
	s := t.s
	s.mu.Lock()
	ends := m != nil && t.ends()
	s.mu.Unlock()
	if ends && t.finish(&ending{By: byInitiator, Initiator: sum[:]}, m, func(err error) { done(unavailable(err)) }) {
		return
	}
	s.mu.Lock()
	err := t.judge(sum)
	s.mu.Unlock()
	done(err)
}

// unavailable is profiles.Unavailable for an error that may be nil.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return profiles.Unavailable(err)
}

// ask takes what an initiator sent, where only the store can say of what.
func (s *Service) ask(req *profiles.Request, key string, sum *digest, m *ResultBody) error {
	if s.opts.Store == nil {
		return errUnknown
	}
	return req.Detach(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		if m != nil {
			m = new(ResultBody)
			if err := m.Decode(req.Payload); err != nil {
				return err
			}
		}
		return s.settleOwn(key, sum, m)
	})
}

// settleOwn is own for a task that may have to be read from the store. It
// waits.
func (s *Service) settleOwn(key string, sum *digest, m *ResultBody) error {
	if s.ctx.Err() != nil {
		return errClosed
	}
	version, value, err := s.opts.Store.Get(s.ctx, spaceRequest, key)
	switch {
	case err != nil:
		return profiles.Unavailable(err)
	case version == 0:
		return errUnknown
	}
	t, err := s.recall(key, value)
	if err != nil {
		return profiles.Unavailable(err)
	}
	s.mu.Lock()
	ended := t.ended
	if !ended && (m == nil || !t.ends()) {
		err := t.judge(sum)
		s.mu.Unlock()
		return err
	}
	said := t.ending
	s.mu.Unlock()
	switch {
	case !ended:
		done := make(chan error, 1)
		t.hear(m, sum, func(err error) { done <- err })
		return <-done
	case sum == nil && len(said.Initiator) > 0:
		return errAfterResult
	case sum == nil || delegated(t.Kind):
		return nil
	}
	refused, err := s.cross(t.run, t.Owner, *sum, t.Expires)
	return cmp.Or(refused, unavailable(err))
}

// cross records the Result of an initiator whose task had ended already: it has
// no effect, but the one after it must not differ.
func (s *Service) cross(run, owner string, sum digest, expires time.Time) (refused, err error) {
	for {
		version, value, err := s.opts.Store.Get(s.ctx, spaceEnding, run)
		if err != nil {
			return nil, err
		}
		if version == 0 {
			return nil, nil // it has expired
		}
		var e ending
		if err := e.decode(value); err != nil {
			return nil, err
		}
		if len(e.Initiator) > 0 {
			if string(e.Initiator) != string(sum[:]) {
				return errSecond, nil
			}
			return nil, nil
		}
		e.Initiator = sum[:]
		type outcome struct {
			wrote bool
			err   error
		}
		done := make(chan outcome, 1)
		s.opts.Store.Put(spaceEnding, run, version, owner, e.encode(), expires, func(wrote bool, _ uint64, _ []byte, err error) {
			done <- outcome{wrote, err}
		})
		select {
		case o := <-done:
			if o.err != nil || o.wrote {
				return nil, o.err
			}
		case <-s.ctx.Done():
			return nil, errClosed
		}
	}
}
