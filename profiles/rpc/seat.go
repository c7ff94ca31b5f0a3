package rpc

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// seat is one caller that waits for the end of a call: its rpc_id, and its held exchange.
// It is safe for concurrent use, and its methods do not wait.
type seat struct {
	rpcID  []byte
	w      profiles.Responder
	flow   *flow  // of the items
	forget func() // frees the rpc_id
	vacate func() // stops watching the caller

	mu   sync.Mutex
	over bool
}

// sit enters a call and holds its exchange. leave is called when the caller no longer
// waits: with an error if it has cancelled or its deadline has passed, with nil if it has
// disconnected. leave must not block, and may be called more than once. ready is called
// before anything else can happen.
func (s *service) sit(st *seat, req *profiles.Request, in *Req, m *method, left time.Duration, leave func(*Error), ready func(*profiles.Request)) error {
	// The call is visible to an RPC_CANCEL on another stream as soon as it is entered.
	st.mu.Lock()
	defer st.mu.Unlock()
	l := s.live.add(req, in.RPCID, m.name, func() { leave(errCancelled) })
	if l == nil {
		return errInUse()
	}
	st.rpcID, st.flow = []byte(l.key.rpcID), &l.flow
	st.forget = func() { s.live.remove(l) }
	hold := req.Hold
	if m.Long {
		hold = req.HoldLong
	}
	held, w, err := hold()
	if err != nil {
		st.over = true
		st.forget()
		return err
	}
	st.w = w
	st.watch(left, leave)
	ready(held)
	return nil
}

// watch calls leave when the caller disconnects or left has passed; 0 means never.
func (st *seat) watch(left time.Duration, leave func(*Error)) {
	unwatch := context.AfterFunc(st.w.Context(), func() { leave(nil) })
	st.vacate = func() { unwatch() }
	if left > 0 {
		late := time.AfterFunc(left, func() { leave(errTimeout) })
		st.vacate = func() { unwatch(); late.Stop() }
	}
}

// end calls last if the caller still waits. The rpc_id is freed before.
func (st *seat) end(last func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return
	}
	st.over = true
	st.forget()
	st.vacate()
	last()
}

// answer ends the call with its outcome. It fails with profiles.ErrFinished if the caller
// no longer waits.
func (st *seat) answer(o outcome) error {
	err := profiles.ErrFinished
	st.end(func() {
		if err = o.send(st.w, st.rpcID); err != nil {
			st.w.Fail(nil)
		}
	})
	return err
}

// refuse ends the call without an outcome; nil means that the caller has disconnected.
func (st *seat) refuse(fault *profiles.Error) {
	st.end(func() {
		if fault == nil {
			st.w.Fail(nil)
			return
		}
		st.w.Fail(fault)
	})
}

// item sends a stream item.
func (st *seat) item(item []byte, keeps profiles.EndToEnd) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return profiles.ErrFinished
	}
	return st.flow.send(st.w, st.rpcID, item, keeps)
}

// about sets the subject of the call.
func (st *seat) about(s profiles.Subject) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.over {
		profiles.About(st.w, s)
	}
}

// permit records what the rules have allowed the call.
func (st *seat) permit(p profiles.Permit) {
	st.mu.Lock()
	w, over := st.w, st.over
	st.mu.Unlock()
	if x, ok := w.(profiles.Permitter); ok && !over {
		x.Permit(p)
	}
}

// pace waits until there is room for another item, at the caller and in the queue for its peer.
func (st *seat) pace(ctx context.Context) error {
	if err := st.flow.wait(ctx); err != nil {
		return err
	}
	return st.w.Pace(ctx, 0)
}

// deadline returns how long the caller will wait (extension 49). ok is false if there is
// none.
func deadline(ext e1.Extensions) (left time.Duration, ok bool, err error) {
	if len(ext) == 0 {
		return 0, false, nil
	}
	ms, ok, err := profiles.Uvarint(ext, profiles.ExtDeadline)
	const most = uint64(1<<63-1) / uint64(time.Millisecond)
	if !ok || ms > most {
		return 0, false, err
	}
	return time.Duration(ms) * time.Millisecond, true, nil
}

// outcome is how a call ended.
type outcome struct {
	result []byte
	keeps  profiles.EndToEnd // of the result
	failed *Error            // nil: result
	fault  *profiles.Error   // an additional error for the endpoint to report; may be nil
}

var errNoReason = errors.New("rpc: a call failed without an error")

// outcomeOf classifies the result of a method.
func outcomeOf(err error) outcome {
	if err == nil {
		err = errNoReason
	}
	answer, fault := failure(err)
	if fault != nil {
		answer = inWords(fault)
	}
	return outcome{failed: answer, fault: fault}
}

// send ends an exchange with the outcome.
func (o *outcome) send(w profiles.Responder, rpcID []byte) error {
	switch {
	case o.fault != nil:
		fault := *o.fault
		fault.Answer = errEnvelope(rpcID, o.failed)
		w.Fail(&fault)
		return nil //nolint:nilerr // the exchange has ended with it
	case o.failed != nil:
		return finishErr(w, rpcID, o.failed)
	}
	return finish(w, rpcID, o.result, o.keeps)
}
