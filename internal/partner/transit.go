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

// answerTime limits the wait for an answer to a message without a deadline.
const answerTime = 2 * time.Minute

// maxUnconfirmed is the number of sent messages after which the partner is asked for
// confirmation.
const maxUnconfirmed = 256

// recall is how long a sequence refuses messages after one was lost: those that the sender
// may have sent before it knew of the loss.
const recall = time.Second

// transit is a message that is being forwarded, with at most one answer. Exactly one of w
// and done is set.
type transit struct {
	*trip
	env  e1.Envelope        // of the caller; once sent, as it was sent
	w    profiles.Responder // receives the one answer
	done func(error)        // called on acceptance or refusal
}

// end ends a message without an answer.
func (t *transit) end(err error) {
	if t.w != nil {
		t.w.Fail(err)
		return
	}
	t.done(err)
}

// answered ends a message with the answer of the partner.
func (t *transit) answered(env *e1.Envelope) {
	err := t.fits(&t.env, env)
	var answer e1.Envelope
	if err == nil {
		t.keep(&t.env, env)
		answer, err = t.back(env)
	}
	if err != nil {
		t.end(t.wrong(err))
		return
	}
	profiles.EndToEndOf(env).Put(&answer)
	fault := t.refusal(env)
	switch {
	case t.w != nil:
		_ = t.w.Finish(answer) // an error means that the caller is gone
	case fault != nil:
		fault.Answer = answer.Clone()
		t.done(fault)
	default:
		t.done(&profiles.Answered{Answer: answer})
	}
}

// sequence forwards the messages of one lane to one partner, in order, on one lane there. A
// message without an answer never overtakes an earlier one: when one is lost, those after
// it are refused for the time of recall, so that the sender can send them all again.
type sequence struct {
	all *sequences
	key sequenceKey

	// Guarded by the mutex of all.
	due     []*transit
	running bool
	open    int   // unfinished messages, plus one each for the running goroutine and for broken
	broken  error // why messages are refused, after one was lost less than recall ago; nil: none was

	// Owned by the running goroutine.
	up         *Up
	on         profiles.Lane
	pending    []sent         // unconfirmed messages
	concluding sync.WaitGroup // calls of conclude
}

// sent is a message that waits for a confirmation.
type sent struct {
	t    *transit
	call profiles.Call
}

// sequences holds the sequences in use.
type sequences struct {
	mu    sync.Mutex
	byKey map[sequenceKey]*sequence
}

type sequenceKey struct {
	from profiles.Lane
	to   *Link
}

// push queues a message for a partner, after earlier messages of the same lane.
func (s *sequences) push(from profiles.Lane, to *Link, t *transit) {
	key := sequenceKey{from, to}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		if s.byKey == nil {
			s.byKey = make(map[sequenceKey]*sequence)
		}
		l = &sequence{all: s, key: key}
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

// next returns the next queued message, or nil. With stop, nil also means
// that the goroutine ends.
func (s *sequence) next(stop bool) *transit {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if len(s.due) == 0 {
		s.due = nil
		s.running = !stop
		return nil
	}
	t := s.due[0]
	s.due[0] = nil
	s.due = s.due[1:]
	return t
}

// leave subtracts finished messages. The last one closes the lane to the partner.
func (s *sequence) leave(n int) {
	s.all.mu.Lock()
	s.open -= n
	last := s.open == 0
	if last {
		delete(s.all.byKey, s.key)
	}
	s.all.mu.Unlock()
	if last && s.on != nil {
		_ = s.on.Close()
	}
}

// lose begins the time in which later messages are refused, and why. The sender has not been
// told yet of the lost message.
func (s *sequence) lose(why error) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.broken != nil {
		return
	}
	s.broken = why
	s.open++
	time.AfterFunc(recall, func() {
		s.all.mu.Lock()
		s.broken = nil
		s.all.mu.Unlock()
		s.leave(1)
	})
}

// errGap refuses a message because one before it was lost.
var errGap = errors.New("a message before it was lost")

// gap returns why a message without an answer must not be sent now.
func (s *sequence) gap(t *transit) error {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if t.w == nil {
		return s.broken
	}
	return nil
}

// run sends queued messages.
func (s *sequence) run() {
	defer s.leave(1)
	for {
		t := s.next(len(s.pending) == 0)
		if t == nil && len(s.pending) == 0 {
			return
		}
		if t == nil || len(s.pending) >= maxUnconfirmed {
			s.confirm()
		}
		if t != nil {
			s.send(t)
		}
	}
}

// send sends a message and starts the wait for its answer.
func (s *sequence) send(t *transit) {
	ctx, cancel := t.span()
	if t.w == nil {
		defer cancel()
	}
	call, err := s.call(ctx, t)
	switch {
	case err != nil:
		cancel()
		fault := t.lost(ctx, s.up, err)
		if e, ok := errors.AsType[*profiles.Error](fault); t.w == nil && ok && e.Retryable {
			s.lose(fault)
		}
		t.end(fault)
		s.leave(1)
	case t.w == nil:
		s.pending = append(s.pending, sent{t, call})
	default:
		go s.await(ctx, cancel, t, call, s.up)
	}
}

// await waits for the answer of a message.
func (s *sequence) await(ctx context.Context, cancel context.CancelFunc, t *transit, call profiles.Call, up *Up) {
	defer s.leave(1)
	defer cancel()
	defer context.AfterFunc(t.w.Context(), cancel)()
	defer call.Close()
	env, err := call.Recv(ctx)
	if err != nil {
		t.end(t.unanswered(ctx, up, err))
		return
	}
	t.answered(env)
}

// call sends a message on the lane to the partner. It opens a new lane if it has none, or
// if the old one belongs to a previous session.
func (s *sequence) call(ctx context.Context, t *transit) (profiles.Call, error) {
	if err := s.gap(t); err != nil {
		return nil, err
	}
	up, err := t.ready(ctx)
	switch {
	case err != nil:
		return nil, err
	case t.w == nil && !profiles.Serves(up.Session, rpc.ProfileID):
		return nil, s.key.to.ignorant(up, "profile rpc, which confirms what has no answer")
	}
	if up != s.up {
		s.confirm() // on the lane that they were sent on
		s.concluding.Wait()
		if err := s.gap(t); err != nil {
			return nil, err
		}
		on, err := up.Session.Open(t.link.on(ctx, t.caller))
		if err != nil {
			return nil, err
		}
		if s.on != nil {
			_ = s.on.Close()
		}
		s.up, s.on = up, on
	}
	ctx, env, err := t.onward(ctx, &t.env)
	if err != nil {
		return nil, err
	}
	t.env = env // from now on as the partner has it
	return s.on.Call(ctx, env)
}

// confirm asks the partner whether it has accepted the unconfirmed messages. Another
// goroutine waits for the answer.
func (s *sequence) confirm() {
	if len(s.pending) > 0 {
		batch, on, up := s.pending, s.on, s.up
		s.concluding.Go(func() { s.conclude(batch, on, up) })
		s.pending = nil
	}
}

// conclude ends the messages that the partner has accepted or refused. Refusals arrive
// before the answer of swp.sync.
func (s *sequence) conclude(batch []sent, on profiles.Lane, up *Up) {
	defer s.leave(len(batch))
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	of := make([][]byte, len(batch))
	for i := range batch {
		of[i] = batch[i].call.MsgID()
	}
	err := rpc.SyncOf(ctx, on, of...) // only these messages; others on the connection do not matter
	polled, ended := context.WithCancel(context.Background())
	ended()
	for _, b := range batch {
		env, refused := b.call.Recv(polled)
		switch {
		case refused == nil:
			b.t.answered(env)
		case !errors.Is(refused, context.Canceled):
			s.lose(errGap)
			b.t.end(b.t.unanswered(ctx, up, refused))
		case err != nil:
			s.lose(errGap)
			b.t.end(b.t.unanswered(ctx, up, err))
		default:
			profiles.Completed(b.call)
			b.t.end(nil)
		}
		b.call.Close()
	}
}
