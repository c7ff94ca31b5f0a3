package partner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// answerTime is how long a partner may take to answer a message that names no deadline.
const answerTime = 2 * time.Minute

// maxUnconfirmed is how many messages go out before the partner is asked to confirm them.
const maxUnconfirmed = 256

// transit is a message on its way to a partner, which answers it once or not at all.
// Exactly one of w and done is set.
type transit struct {
	*trip
	env  e1.Envelope
	w    profiles.Responder // one answer ends it
	done func(error)        // it is accepted, or refused
}

// end ends a message that was not answered.
func (t *transit) end(err error) {
	if t.w != nil {
		t.w.Fail(err)
		return
	}
	t.done(err)
}

// answered ends a message with the answer of the partner.
func (t *transit) answered(env *e1.Envelope) {
	payload, err := t.back(env)
	if err != nil {
		t.end(err)
		return
	}
	answer := e1.Envelope{MsgType: env.MsgType, Extensions: crossing(env.Extensions), Payload: payload}
	fault := t.refusal(env)
	switch {
	case t.w != nil:
		_ = t.w.Finish(answer) // or nobody is left to be told
	case fault != nil:
		fault.Answer = answer.Clone()
		t.done(fault)
	default:
		t.done(&profiles.Answered{Answer: answer})
	}
}

// lane sends what came on one lane to one partner, in order, on one lane there.
type lane struct {
	all *lanes
	key laneKey

	// Guarded by the mutex of all.
	due     []*transit
	running bool
	open    int // messages that are not over, and the goroutine that runs

	// Of the goroutine that runs.
	up      *Up
	on      profiles.Lane
	pending []sent // messages that the partner has not confirmed
}

// sent is a message that waits for the partner's confirmation.
type sent struct {
	t    *transit
	call profiles.Call
}

// lanes are those on which something is on its way.
type lanes struct {
	mu    sync.Mutex
	byKey map[laneKey]*lane
}

type laneKey struct {
	from profiles.Lane
	to   *Link
}

// push has a message go to a partner, behind what came on the same lane before.
func (s *lanes) push(from profiles.Lane, to *Link, t *transit) {
	key := laneKey{from, to}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		if s.byKey == nil {
			s.byKey = make(map[laneKey]*lane)
		}
		l = &lane{all: s, key: key}
		s.byKey[key] = l
	}
	l.due = append(l.due, t)
	l.open++
	if !l.running {
		l.running = true
		l.open++
		go l.run()
	}
}

// next returns the next message that is due, nil if there is none. With stop nothing runs
// any more then.
func (l *lane) next(stop bool) *transit {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if len(l.due) == 0 {
		l.due = nil
		l.running = !stop
		return nil
	}
	t := l.due[0]
	l.due[0] = nil
	l.due = l.due[1:]
	return t
}

// leave counts so many less that are open. The last one closes the lane to the partner.
func (l *lane) leave(n int) {
	l.all.mu.Lock()
	l.open -= n
	last := l.open == 0
	if last {
		delete(l.all.byKey, l.key)
	}
	l.all.mu.Unlock()
	if last && l.on != nil {
		_ = l.on.Close()
	}
}

// run sends what is due.
func (l *lane) run() {
	defer l.leave(1)
	for {
		t := l.next(len(l.pending) == 0)
		if t == nil && len(l.pending) == 0 {
			return
		}
		if t == nil || len(l.pending) >= maxUnconfirmed {
			l.confirm()
		}
		if t != nil {
			l.send(t)
		}
	}
}

// send sends a message, and has its answer awaited.
func (l *lane) send(t *transit) {
	ctx, cancel := t.span()
	if t.w == nil {
		defer cancel()
	}
	call, err := l.call(ctx, t)
	switch {
	case err != nil:
		cancel()
		t.end(t.lost(ctx, l.up, err))
		l.leave(1)
	case t.w == nil:
		l.pending = append(l.pending, sent{t, call})
	default:
		go l.await(ctx, cancel, t, call, l.up)
	}
}

// await waits for the one answer of a message.
func (l *lane) await(ctx context.Context, cancel context.CancelFunc, t *transit, call profiles.Call, up *Up) {
	defer l.leave(1)
	defer cancel()
	defer context.AfterFunc(t.w.Context(), cancel)()
	defer call.Close()
	defer l.key.to.doubting(up)()
	env, err := call.Recv(ctx)
	if err != nil {
		t.end(t.lost(ctx, up, err))
		return
	}
	t.answered(env)
}

// call sends a message on the lane to the partner: a new one if there is none, or if its
// session is not the one to the partner any more.
func (l *lane) call(ctx context.Context, t *transit) (profiles.Call, error) {
	up, err := t.ready(ctx)
	switch {
	case err != nil:
		return nil, err
	case t.w == nil && !profiles.Serves(up.Session, rpc.ProfileID):
		return nil, l.key.to.ignorant("profile rpc, which confirms what has no answer")
	}
	if up != l.up {
		l.confirm() // where they went
		on, err := up.Session.Open(ctx)
		if err != nil {
			return nil, err
		}
		if l.on != nil {
			_ = l.on.Close()
		}
		l.up, l.on = up, on
	}
	ctx, env, err := t.onward(ctx, &t.env)
	if err != nil {
		return nil, err
	}
	return l.on.Call(ctx, env)
}

// confirm asks the partner whether it has accepted what waits for that. The answer is
// awaited by another goroutine.
func (l *lane) confirm() {
	if len(l.pending) > 0 {
		go l.conclude(l.pending, l.on, l.up)
		l.pending = nil
	}
}

// conclude ends messages that the partner has accepted or refused. Refusals come before the
// answer of swp.sync.
func (l *lane) conclude(batch []sent, on profiles.Lane, up *Up) {
	defer l.leave(len(batch))
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	of := make([][]byte, len(batch))
	for i := range batch {
		of[i] = batch[i].call.MsgID()
	}
	sure := l.key.to.doubting(up)
	err := rpc.SyncOf(ctx, on, of...) // what others wait for, on the same connection, is no concern
	sure()
	polled, ended := context.WithCancel(context.Background())
	ended()
	for _, s := range batch {
		env, refused := s.call.Recv(polled)
		switch {
		case refused == nil:
			s.t.answered(env)
		case !errors.Is(refused, context.Canceled):
			s.t.end(s.t.lost(ctx, up, refused))
		case err != nil:
			s.t.end(s.t.lost(ctx, up, err))
		default:
			s.t.end(nil)
		}
		s.call.Close()
	}
}
