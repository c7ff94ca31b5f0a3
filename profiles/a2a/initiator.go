package a2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"

	"github.com/slimwire/swp/profiles"
)

// Errors for a refused Event or Result. A task of another identity looks unknown.
var (
	errUnknown     = profiles.Errorf(profiles.InvalidProfilePayload, "a2a: task_id is not that of a known task")
	errAfterResult = profiles.Errorf(profiles.InvalidProfilePayload, "a2a: event after the sender's own result")
	errSecond      = profiles.Errorf(profiles.InvalidProfilePayload, "a2a: result differs from the sender's first")
)

// serveEvent handles an Event: from the executor of a task that this side sent, or from the
// initiator of a task that is executed here.
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
	u := s.update(req, in.TaskID)
	u.place, _ = readPosition(&req.Envelope) // without a number if it has none that can be read
	return u.serve(req, at)
}

// serveResult handles a Result in the same way.
func (s *Service) serveResult(req *profiles.Request) error {
	var in ResultBody
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	req.About("result", taskName(in.TaskID))
	at := address{req.Session.Peer().Identity, string(in.TaskID)}
	if d := s.outbox.get(at); d != nil {
		place, err := d.position(&req.Envelope)
		if err != nil {
			return err
		}
		return d.result(req, &in, place)
	}
	sum := sumResult(&in)
	u := s.update(req, in.TaskID)
	u.sum, u.result = &sum, &in
	return u.serve(req, at)
}

// taskName is a task_id for metrics and logs, shortened because a peer has chosen it.
func taskName(id []byte) string { return hex.EncodeToString(id[:min(len(id), 32)]) }

// update is an Event or a Result from the initiator of a task that is executed here. An
// Event is checked and has no effect.
type update struct {
	s      *Service
	key    string // of the request
	peers  string // key of the same request of the peer itself; empty: no caller was asserted
	place  position
	sum    *digest     // of the Result; nil for an Event
	result *ResultBody // nil for an Event
}

func (s *Service) update(req *profiles.Request, taskID []byte) update {
	u := update{s: s, key: keyOf(req.Identity(), taskID)}
	if req.Caller != nil {
		u.peers = keyOf(req.Session.Peer().Identity, taskID)
	}
	return u
}

// serve handles the update on the read loop.
func (u update) serve(req *profiles.Request, at address) error {
	s := u.s
	s.mu.Lock()
	t := s.tasks.byKey[u.key]
	if t == nil && u.peers != "" {
		t = s.tasks.byKey[u.peers]
	}
	switch {
	case t == nil:
		s.mu.Unlock()
		if known, err := s.outbox.late(at, u.sum, u.place); known {
			return err
		}
		return u.detach(req)
	case !t.pending && !u.ends(t):
		defer s.mu.Unlock()
		return u.check(t)
	case t.pending && len(t.held) >= maxHeld:
		s.mu.Unlock()
		return errHeld
	}
	done := req.Defer()
	if u.result != nil {
		u.result = &ResultBody{OK: u.result.OK, Output: bytes.Clone(u.result.Output), ErrorMessage: bytes.Clone(u.result.ErrorMessage)}
	}
	pending := t.pending
	if pending {
		t.held = append(t.held, func(t *task) {
			if t == nil {
				done(u.applyStored())
				return
			}
			u.apply(t, done)
		})
	}
	s.mu.Unlock()
	if !pending {
		u.apply(t, done)
	}
	return nil
}

// ends reports whether the update is a Result that ends a task. The caller holds mu.
func (u update) ends(t *task) bool {
	return u.result != nil && !t.over && t.initiator == nil && !isOperation(t.Kind)
}

// check refuses an update that is not allowed after the previous one, for a task in the
// table that it does not end. The caller holds mu.
func (u update) check(t *task) error {
	switch {
	case u.sum == nil && t.initiator != nil:
		return errAfterResult
	case u.sum != nil && t.initiator == nil:
		// It crosses the Result of the executor, or ends only the delivery.
		t.initiator = u.sum
		if isOperation(t.Kind) {
			t.cursor.stop()
		}
	case u.sum != nil && *t.initiator != *u.sum:
		return errSecond
	}
	return nil
}

// apply applies the update of a task in the table. A Result ends the task, unless it has
// ended; done is called when that is stored.
func (u update) apply(t *task, done func(error)) {
	s := u.s
	s.mu.Lock()
	ends := u.ends(t)
	s.mu.Unlock()
	if ends && t.finish(&ending{By: byInitiator, Initiator: u.sum[:]}, u.result, func(err error) { done(unavailable(err)) }) {
		return
	}
	s.mu.Lock()
	err := u.check(t)
	s.mu.Unlock()
	done(err)
}

// unavailable is profiles.Unavailable for an error, nil for nil.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return profiles.Unavailable(err)
}

// detach applies the update of a task that is not in the table, on another goroutine,
// because that reads the store.
func (u update) detach(req *profiles.Request) error {
	if u.s.opts.Store == nil {
		return errUnknown
	}
	return req.Detach(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		if u.result != nil {
			u.result = new(ResultBody)
			if err := u.result.Decode(req.Payload); err != nil {
				return err
			}
		}
		return u.applyStored()
	})
}

// applyStored applies the update of a task, which is read from the store if necessary. It
// waits.
func (u update) applyStored() error {
	s := u.s
	if s.ctx.Err() != nil {
		return errClosed
	}
	r, err := readRequest(s.ctx, s.opts.Store, u.key)
	if err == nil && r == nil && u.peers != "" {
		r, err = readRequest(s.ctx, s.opts.Store, u.peers)
	}
	if err != nil {
		return profiles.Unavailable(err)
	}
	if r == nil {
		return errUnknown
	}
	t, err := s.tasks.recall(r)
	if err != nil {
		return profiles.Unavailable(err)
	}
	s.mu.Lock()
	ended, how := t.ended, t.ending
	s.mu.Unlock()
	switch {
	case !ended:
		done := make(chan error, 1)
		u.apply(t, func(err error) { done <- err })
		return <-done
	case u.sum == nil && len(how.Initiator) > 0:
		return errAfterResult
	case u.sum == nil || isOperation(t.Kind):
		return nil
	}
	refused, err := t.recordLateResult(*u.sum)
	return cmp.Or(refused, unavailable(err))
}

// recordLateResult records the Result of an initiator after the end of the task. It has no
// effect, but a further Result must not differ.
func (t *task) recordLateResult(sum digest) (refused, err error) {
	for {
		version, value, err := t.s.opts.Store.Get(t.s.ctx, spaceEnding, t.run)
		if err != nil || version == 0 { // it has expired
			return nil, err
		}
		var e ending
		if err := e.decode(value); err != nil {
			return nil, err
		}
		if len(e.Initiator) > 0 {
			if string(e.Initiator) != string(sum[:]) {
				refused = errSecond
			}
			return refused, nil
		}
		e.Initiator = sum[:]
		if r := t.put(spaceEnding, version, e.encode()); r.Err != nil || r.Wrote {
			return nil, r.Err
		}
	}
}
