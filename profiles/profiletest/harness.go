package profiletest

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Harness plays the endpoint for one profile and one peer. It does what an endpoint may do
// but rarely does: it overwrites requests and the scratch buffer as soon as Serve returns,
// and starts detached functions only then.
type Harness struct {
	// KeepRequests leaves requests unchanged after Serve, for comparison.
	KeepRequests bool

	t       testing.TB
	profile *profiles.Profile
	session *silentPeer
	count   uint64
	open    sync.WaitGroup

	deferred deferred
}

// New returns a Harness for a profile. At the end of the test the peer disconnects. An
// exchange that is then still open after a minute fails the test.
func New(t testing.TB, profile *profiles.Profile) *Harness {
	t.Helper()
	return NewAs(t, profile, "spiffe://profiletest/peer")
}

// NewAs is New with a peer of an identity.
func NewAs(t testing.TB, profile *profiles.Profile, identity string) *Harness {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &Harness{t: t, profile: profile, session: &silentPeer{ctx, identity}}
	t.Cleanup(func() {
		cancel()
		done := make(chan struct{})
		go func() { h.open.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("profiletest: an exchange did not end after the peer was gone")
		}
	})
	return h
}

// Session is the session that requests come on.
func (h *Harness) Session() profiles.Session { return h.session }

// Serve passes one message to the profile's handler, under a new msg_id, and returns the
// exchange. It does not wait for work after Serve has returned.
func (h *Harness) Serve(msgType uint64, payload []byte, ext ...byte) *Exchange {
	h.t.Helper()
	h.count++
	id := binary.BigEndian.AppendUint64([]byte("profiletest id: "), h.count)
	x := &Exchange{h: h, id: id, done: make(chan struct{}), start: make(chan struct{})}
	body := slices.Concat(id, ext, payload)
	from := len(id) + len(ext)
	req := &profiles.Request{
		Envelope: e1.Envelope{
			Version: e1.Version, ProfileID: h.profile.ID, MsgType: msgType, Timestamp: 1,
			MsgID: body[:len(id):len(id)], Extensions: body[len(id):from:from], Payload: slices.Clip(body[from:]),
		},
		Session: h.session, Lane: h.session, Exchange: (*exchanger)(x),
	}
	if row, ok := h.profile.Type(msgType); ok && row.Role&profiles.Initiating == 0 {
		req.Unsolicited = true
	}
	x.req = clone(req, taken{})
	err := h.profile.Handler.Serve(h.session.ctx, req, (*inline)(x))
	x.mu.Lock()
	x.served = true
	mode := x.mode
	x.mu.Unlock()
	if !h.KeepRequests {
		overwrite(body)
		overwrite(x.scratch[:cap(x.scratch)])
		*req = profiles.Request{}
	}
	switch {
	case mode == modeInline || mode == modeDetached && err != nil:
		if mode == modeDetached {
			h.t.Errorf("profiletest: type %d: Serve detached and failed: %v", msgType, err)
		}
		x.end(err)
	case err != nil:
		h.t.Errorf("profiletest: type %d: Serve held the exchange and failed: %v", msgType, err)
	default:
		close(x.start)
	}
	return x
}

func overwrite(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}

func clone(req *profiles.Request, x profiles.Exchange) *profiles.Request {
	c := *req
	c.Envelope = req.Clone()
	c.Exchange = x
	return &c
}

type mode uint8

const (
	modeInline mode = iota
	modeDetached
	modeHeld
)

// Exchange is one message that was served, and its results.
type Exchange struct {
	h       *Harness
	id      []byte
	req     *profiles.Request // a copy
	scratch []byte
	start   chan struct{} // closed when a detached function may run
	done    chan struct{} // closed when the exchange has ended

	mu       sync.Mutex
	mode     mode
	served   bool
	answered bool
	over     bool
	answers  []e1.Envelope
	err      error
	subject  profiles.Subject
	outcome  profiles.Outcome
}

// Subject returns the subject of the message as reported by the handler.
func (x *Exchange) Subject() profiles.Subject {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.subject
}

// Outcome returns how the exchange ended, as the handler reported.
func (x *Exchange) Outcome() profiles.Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.outcome
}

func (x *Exchange) about(s profiles.Subject) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.subject = s
}

func (x *Exchange) ended(o profiles.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outcome = o
}

// Wait waits until the exchange has ended, ten seconds at most.
func (x *Exchange) Wait() *Exchange {
	x.h.t.Helper()
	select {
	case <-x.done:
	case <-time.After(time.Minute):
		x.h.t.Fatal("profiletest: the exchange does not end")
	}
	return x
}

// Open reports whether the exchange is still going on.
func (x *Exchange) Open() bool {
	select {
	case <-x.done:
		return false
	default:
		return true
	}
}

// Answers returns what the handler has sent so far, in order, but for refusals.
func (x *Exchange) Answers() []e1.Envelope {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.answers)
}

// Err returns why the message was refused, nil if it was not.
func (x *Exchange) Err() *profiles.Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		return nil
	}
	return profiles.AsError(x.err)
}

// Request returns a copy of the message.
func (x *Exchange) Request() *profiles.Request { return x.req }

func (x *Exchange) end(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	x.over, x.err = true, err
	if x.mode != modeInline {
		x.h.open.Done()
	}
	close(x.done)
}

// send records an answer and checks it against the profile's table.
func (x *Exchange) send(env e1.Envelope, terminal bool) error {
	env = env.Clone()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.answered {
		return profiles.ErrFinished
	}
	if len(env.MsgID) == 0 {
		env.MsgID = x.id
	}
	if env.ProfileID == 0 {
		env.ProfileID = x.h.profile.ID
	}
	env.Version = e1.Version
	row, ok := x.h.profile.Type(env.MsgType)
	want := profiles.Initiating
	if slices.Equal(env.MsgID, x.id) {
		want = profiles.Answer
	}
	switch {
	case env.ProfileID != x.h.profile.ID && want == profiles.Initiating: // the Notice of a Violation
	case env.ProfileID != x.h.profile.ID:
		x.h.t.Errorf("profiletest: answer of profile %d to a message of profile %d", env.ProfileID, x.h.profile.ID)
	case !ok || row.Role&want == 0:
		x.h.t.Errorf("profiletest: type %d sent to a message of type %d: not in the table with that role", env.MsgType, x.req.MsgType)
	case want == profiles.Answer && x.h.profile.Check != nil:
		if err := x.h.profile.Check(&env); err != nil {
			x.h.t.Errorf("profiletest: Check refuses an answer of the handler: %v", err)
		}
	}
	x.answers = append(x.answers, env)
	x.answered = terminal
	return nil
}

// pace never waits, because the peer has unlimited room.
func (x *Exchange) pace(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.answered {
		return profiles.ErrFinished
	}
	return ctx.Err()
}

// exchanger is the profiles.Exchange of the request in Serve.
type exchanger Exchange

func (r *exchanger) Detach(req *profiles.Request, f func(context.Context, *profiles.Request, profiles.Responder) error) error {
	x := (*Exchange)(r)
	own := x.take(req, modeDetached)
	if own == nil {
		return errTaken
	}
	go func() {
		<-x.start
		x.end(f(x.h.session.ctx, own, (*later)(x)))
	}()
	return nil
}

func (r *exchanger) Hold(req *profiles.Request, _ bool) (*profiles.Request, profiles.Responder, error) {
	x := (*Exchange)(r)
	own := x.take(req, modeHeld)
	if own == nil {
		return nil, nil, errTaken
	}
	return own, (*later)(x), nil
}

func (r *exchanger) Scratch(n int) []byte {
	x := (*Exchange)(r)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.served {
		x.h.t.Error("profiletest: Scratch outside Serve")
	}
	overwrite(x.scratch[:cap(x.scratch)]) // the one before is no longer valid
	x.scratch = make([]byte, 0, n)
	return x.scratch
}

func (r *exchanger) About(s profiles.Subject) {
	x := (*Exchange)(r)
	x.mu.Lock()
	if x.mode != modeInline {
		x.h.t.Error("profiletest: About after Detach, Hold or Defer")
	}
	x.mu.Unlock()
	x.about(s)
}

// take makes a copy of the request for an exchange that continues after Serve. It returns
// nil if that is not possible.
func (x *Exchange) take(req *profiles.Request, m mode) *profiles.Request {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.served || x.mode != modeInline || x.answered {
		x.h.t.Error("profiletest: Detach or Hold of a request that is answered, detached, held or gone")
		return nil
	}
	x.mode = m
	x.h.open.Add(1)
	return clone(req, taken{})
}

// inline is the Responder inside Serve.
type inline Exchange

func (x *inline) Send(env e1.Envelope) error   { return x.send(env, false) }
func (x *inline) Offer(env e1.Envelope) error  { return x.send(env, false) } // the peer takes everything
func (x *inline) Finish(env e1.Envelope) error { return x.send(env, true) }
func (x *inline) Fail(error)                   { x.h.t.Error("profiletest: Fail inside Serve") }
func (x *inline) Context() context.Context     { return x.h.session.ctx }
func (x *inline) About(s profiles.Subject)     { (*Exchange)(x).about(s) }
func (x *inline) Ended(o profiles.Outcome)     { (*Exchange)(x).ended(o) }
func (x *inline) Sent(*e1.Envelope)            {}

func (x *inline) send(env e1.Envelope, terminal bool) error {
	x.mu.Lock()
	if x.served || x.mode != modeInline {
		x.h.t.Error("profiletest: the Responder of Serve was used after Serve, Detach or Hold")
	}
	x.mu.Unlock()
	return (*Exchange)(x).send(env, terminal)
}

// later is the Responder of a detached or held exchange.
type later Exchange

func (x *inline) Pace(ctx context.Context, _ int) error { return (*Exchange)(x).pace(ctx) }

func (x *later) Send(env e1.Envelope) error  { return (*Exchange)(x).send(env, false) }
func (x *later) Offer(env e1.Envelope) error { return (*Exchange)(x).send(env, false) }

func (x *later) Pace(ctx context.Context, _ int) error { return (*Exchange)(x).pace(ctx) }

func (x *later) Finish(env e1.Envelope) error {
	err := (*Exchange)(x).send(env, true)
	if x.mode == modeHeld {
		(*Exchange)(x).end(nil)
	}
	return err
}

func (x *later) Fail(err error)           { (*Exchange)(x).end(err) }
func (x *later) Context() context.Context { return x.h.session.ctx }
func (x *later) About(s profiles.Subject) { (*Exchange)(x).about(s) }
func (x *later) Ended(o profiles.Outcome) { (*Exchange)(x).ended(o) }
func (x *later) Sent(*e1.Envelope)        {}

// taken is the Exchange of a request that was detached or held.
type taken struct{}

var errTaken = errors.New("profiletest: the request was detached or held before")

func (taken) Detach(*profiles.Request, func(context.Context, *profiles.Request, profiles.Responder) error) error {
	return errTaken
}

func (taken) Hold(*profiles.Request, bool) (*profiles.Request, profiles.Responder, error) {
	return nil, nil, errTaken
}

func (taken) Scratch(n int) []byte   { return make([]byte, 0, n) }
func (taken) About(profiles.Subject) {}

// silentPeer is a peer that accepts everything and answers nothing.
type silentPeer struct {
	ctx      context.Context
	identity string
}

var errNoCalls = errors.New("profiletest: this peer cannot be called")

func (s *silentPeer) Peer() *profiles.Peer {
	return &profiles.Peer{Identity: s.identity, Transport: "pipe"}
}
func (s *silentPeer) Open(context.Context) (profiles.Lane, error) { return s, nil }
func (s *silentPeer) Call(context.Context, e1.Envelope) (profiles.Call, error) {
	return nil, errNoCalls
}
func (s *silentPeer) Send(context.Context, e1.Envelope) error { return nil }
func (s *silentPeer) Context() context.Context                { return s.ctx }
func (s *silentPeer) Close() error                            { return nil }
