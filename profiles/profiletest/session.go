package profiletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/room"
	"github.com/slimwire/swp/profiles"
)

// ErrClosed is the cause of sessions ended by Session.Close.
var ErrClosed = errors.New("profiletest: the connection was closed")

// Session is one end of an in-memory connection without a wire: messages are
// dispatched, in order and on a separate goroutine, to the registry of the
// other end. It keeps the promises of profiles.Session, and tests the promises of a
// handler: the octets of a request are overwritten when Serve returns, those of
// a held one when it has ended.
//
// There is one lane, as on TLS. What waits to be dispatched at the other end is the
// outbound queue of this one: Pace and Offer hold it to the bounds of an endpoint, by
// the same code. Send does not, and nothing else is bounded but by Options.
type Session struct {
	peer     profiles.Peer
	registry *profiles.Registry
	other    *Session
	ctx      context.Context
	cancel   context.CancelCauseFunc
	opts     SessionOptions

	mu       sync.Mutex
	queue    []e1.Envelope // to be dispatched here
	octets   int64         // in queue
	room     room.Gate     // opened when queue has become shorter
	wake     chan struct{}
	calls    map[string]*call
	inflight map[string]*requestExchange
	deferred deferred
	verdicts []Verdict
	work     sync.WaitGroup // the loop and what was detached
}

// SessionOptions configure both ends of a Pair.
type SessionOptions struct {
	InFlight int // requests held or detached at each end, default 128
	Long     int // long ones, default 1,024

	// OutboundFrames and OutboundBytes are how much may be queued for either end, as
	// endpoint.Bounds has it.
	OutboundFrames, OutboundBytes int
}

// Verdict is how one message ended at the end that received it.
type Verdict struct {
	Kind uint64 // msg_type
	Code profiles.Code
	Err  *profiles.Error // nil if Code is OK
}

// Pair returns the two ends of a connection. The registries serve what the
// other end initiates; the identity of each end is what the other one sees as
// its peer. The caller closes either end and then waits for both.
func Pair(aName string, a *profiles.Registry, bName string, b *profiles.Registry, opts SessionOptions) (*Session, *Session) {
	if opts.InFlight == 0 {
		opts.InFlight = 128
	}
	if opts.Long == 0 {
		opts.Long = 1024
	}
	if opts.OutboundFrames == 0 {
		opts.OutboundFrames = room.Defaults.Frames
	}
	if opts.OutboundBytes == 0 {
		opts.OutboundBytes = room.Defaults.Octets
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	end := func(peer string, registry *profiles.Registry) *Session {
		return &Session{
			peer: profiles.Peer{Identity: peer, Transport: "pipe"}, registry: registry,
			ctx: ctx, cancel: cancel, opts: opts,
			wake: make(chan struct{}, 1), calls: make(map[string]*call), inflight: make(map[string]*requestExchange),
		}
	}
	x, y := end(bName, a), end(aName, b)
	x.other, y.other = y, x
	x.work.Go(x.loop)
	y.work.Go(y.loop)
	return x, y
}

// Close ends the connection for both ends.
func (s *Session) Close() {
	s.cancel(ErrClosed)
	s.end()
	s.other.end()
}

// Wait waits until the loop of this end and everything it detached have ended.
func (s *Session) Wait() { s.work.Wait() }

// Verdicts returns how the messages that this end received have ended so far.
func (s *Session) Verdicts() []Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.verdicts)
}

// InFlight returns how many requests of the other end are held or detached.
func (s *Session) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inflight)
}

// Peer implements profiles.Session.
func (s *Session) Peer() *profiles.Peer { return &s.peer }

// Context implements profiles.Session.
func (s *Session) Context() context.Context { return s.ctx }

// Open implements profiles.Session.
func (s *Session) Open(context.Context) (profiles.Lane, error) {
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	return lane{s}, nil
}

// Call implements profiles.Session.
func (s *Session) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	return lane{s}.Call(ctx, env)
}

// Send implements profiles.Session.
func (s *Session) Send(ctx context.Context, env e1.Envelope) error { return lane{s}.Send(ctx, env) }

// push queues a message for the loop of s.
func (s *Session) push(env e1.Envelope) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if env.Version == 0 {
		env.Version = e1.Version
	}
	if env.Timestamp == 0 {
		env.Timestamp = uint64(time.Now().UnixMilli())
	}
	s.mu.Lock()
	s.queue = append(s.queue, env.Clone())
	s.octets += int64(env.Size())
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

func (s *Session) loop() {
	for {
		s.mu.Lock()
		var env e1.Envelope
		some := len(s.queue) > 0
		if some {
			env, s.queue = s.queue[0], s.queue[1:]
			s.octets -= int64(env.Size())
			s.room.Open()
		}
		s.mu.Unlock()
		if some {
			s.dispatch(env)
			continue
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
	}
}

// end fails the calls of this end, and those at the other one who wait for room here.
func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.Open()
	for _, c := range s.calls {
		c.end(context.Cause(s.ctx))
	}
}

// pace waits until a sender of the other end that has time may go on.
func (s *Session) pace(ctx context.Context, octets int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case s.opts.outbound().Paces(len(s.queue), s.octets, octets):
			return nil
		}
		if err := s.room.Wait(ctx, &s.mu); err != nil {
			return err
		}
	}
}

// yields reports whether there is room here for a message that may be lost.
func (s *Session) yields(size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0 || s.opts.outbound().Yields(s.octets, size)
}

func (o *SessionOptions) outbound() room.Bounds {
	return room.Bounds{Frames: o.OutboundFrames, Octets: o.OutboundBytes}
}

// dispatch is the pipeline of an endpoint from the profile on.
func (s *Session) dispatch(env e1.Envelope) {
	profile, ok := s.registry.Lookup(env.ProfileID)
	if !ok {
		s.refuse(nil, &profiles.Request{Envelope: env}, profiles.Errorf(profiles.UnknownProfile, "profile_id %d", env.ProfileID))
		return
	}
	typ, ok := profile.Type(env.MsgType)
	req := &profiles.Request{Envelope: env, Session: s, Lane: lane{s}}
	if !ok {
		s.refuse(nil, req, profiles.Errorf(profiles.UnsupportedMsgType, "msg_type %d", env.MsgType))
		return
	}
	if typ.Role&profiles.Answer != 0 {
		s.mu.Lock()
		c := s.calls[string(env.MsgID)]
		s.mu.Unlock()
		if c != nil {
			s.answer(profile, c, req)
			return
		}
	}
	s.mu.Lock()
	_, duplicate := s.inflight[string(env.MsgID)]
	s.mu.Unlock()
	if duplicate && typ.Role&profiles.Initiating != 0 {
		s.refuse(profile, req, profiles.Errorf(profiles.DuplicateMsgID, "msg_id is in flight"))
		return
	}
	req.Unsolicited = typ.Role&profiles.Initiating == 0
	x := &requestExchange{s: s, profile: profile, req: req}
	req.Exchange = x
	err := profile.Handler.Serve(s.ctx, req, x)
	x.mu.Lock()
	taken := x.taken
	x.mu.Unlock()
	if taken {
		if err != nil {
			x.Fail(err)
		}
	} else if err != nil {
		s.refuse(profile, req, profiles.AsError(err))
	} else {
		s.verdict(env.MsgType, nil)
	}
	wipe(env)
}

func (s *Session) answer(profile *profiles.Profile, c *call, req *profiles.Request) {
	if profile.Check != nil {
		if err := profile.Check(&req.Envelope); err != nil {
			c.end(profiles.AsError(err))
			s.refuse(nil, req, profiles.AsError(err))
			return
		}
	}
	s.verdict(req.MsgType, nil)
	c.push(req.Envelope)
}

// refuse answers with the profile's own error message, if it has one.
func (s *Session) refuse(profile *profiles.Profile, req *profiles.Request, fault *profiles.Error) {
	answer, ok := fault.Answer, fault.Answer.MsgType != 0
	if !ok && profile != nil && profile.Refusal != nil {
		answer, ok = profile.Refusal(req, fault)
	}
	if ok {
		if len(answer.MsgID) == 0 {
			answer.MsgID = req.MsgID
		}
		answer.ProfileID = req.ProfileID
		_ = s.other.push(answer)
	}
	s.verdict(req.MsgType, fault)
}

func (s *Session) verdict(kind uint64, fault *profiles.Error) {
	v := Verdict{Kind: kind, Err: fault}
	if fault != nil {
		v.Code = fault.Code
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts = append(s.verdicts, v)
}

// wipe overwrites octets that are no longer valid.
func wipe(env e1.Envelope) {
	for _, b := range [][]byte{env.MsgID, env.Extensions, env.Payload} {
		for i := range b {
			b[i] = 0xdb
		}
	}
}

// lane is the only lane of a Session.
type lane struct{ s *Session }

func (l lane) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	if len(env.MsgID) != 0 {
		return nil, fmt.Errorf("profiletest: a call comes with a msg_id of %d octets, want none", len(env.MsgID))
	}
	env.MsgID = profiles.NewMsgID()
	env.Extensions = profiles.AppendChain(ctx, env.Extensions)
	c := &call{s: l.s, id: env.MsgID, ready: make(chan struct{}, 1)}
	l.s.mu.Lock()
	l.s.calls[string(c.id)] = c
	l.s.mu.Unlock()
	var err error
	if ahead := profiles.AheadOf(ctx); ahead != nil {
		err = ahead(profiles.WithAhead(ctx, nil), l, &env)
	}
	if err == nil {
		err = l.s.other.push(env)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (l lane) Send(ctx context.Context, env e1.Envelope) error {
	env.Extensions = profiles.AppendChain(ctx, env.Extensions)
	if len(env.MsgID) == 0 {
		env.MsgID = profiles.NewMsgID()
	}
	return l.s.other.push(env)
}

func (l lane) Close() error { return nil }

// call is a profiles.Call.
type call struct {
	s     *Session
	id    []byte
	ready chan struct{}

	mu    sync.Mutex
	queue []e1.Envelope
	err   error
	last  e1.Envelope
}

func (c *call) MsgID() []byte { return c.id }

func (c *call) Lane() profiles.Lane { return lane{c.s} }

func (c *call) push(env e1.Envelope) {
	c.mu.Lock()
	c.queue = append(c.queue, env)
	c.mu.Unlock()
	c.wake()
}

func (c *call) end(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.wake()
}

func (c *call) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

func (c *call) Recv(ctx context.Context) (*e1.Envelope, error) {
	wipe(c.last)
	c.last = e1.Envelope{}
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			c.last, c.queue = c.queue[0], c.queue[1:]
			c.mu.Unlock()
			return &c.last, nil
		}
		err := c.err
		c.mu.Unlock()
		if err == nil && c.s.ctx.Err() != nil {
			err = context.Cause(c.s.ctx)
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.s.ctx.Done():
		}
	}
}

func (c *call) Close() {
	c.s.mu.Lock()
	delete(c.s.calls, string(c.id))
	c.s.mu.Unlock()
	wipe(c.last)
}

// requestExchange is the Exchange and the Responder of one request.
type requestExchange struct {
	s       *Session
	profile *profiles.Profile
	req     *profiles.Request

	mu    sync.Mutex
	taken bool
	long  bool
	over  bool

	detached bool // the request is valid until its function returns
}

func (x *requestExchange) take(long bool) (*requestExchange, error) {
	s := x.s
	s.mu.Lock()
	n := 0
	for _, other := range s.inflight {
		if other.long == long {
			n++
		}
	}
	limit := s.opts.InFlight
	if long {
		limit = s.opts.Long
	}
	s.mu.Unlock()
	if n >= limit {
		return nil, profiles.Busy("in_flight", "too many requests in flight on this connection")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.taken {
		return nil, errors.New("profiletest: the request was taken already")
	}
	x.taken, x.long = true, long
	// x is known to the handler as the Responder of Serve as well; from here on
	// it stands for the copy.
	held := *x.req
	held.Envelope = x.req.Clone()
	x.req = &held
	s.mu.Lock()
	s.inflight[string(held.MsgID)] = x
	s.mu.Unlock()
	return x, nil
}

func (x *requestExchange) Hold(_ *profiles.Request, long bool) (*profiles.Request, profiles.Responder, error) {
	x, err := x.take(long)
	if err != nil {
		return nil, nil, err
	}
	return x.req, x, nil
}

func (x *requestExchange) Detach(_ *profiles.Request, f func(context.Context, *profiles.Request, profiles.Responder) error) error {
	x, err := x.take(false)
	if err != nil {
		return err
	}
	x.detached = true // nobody else knows x yet
	x.s.work.Go(func() {
		x.Fail(f(x.s.ctx, x.req, x))
		wipe(x.req.Envelope)
	})
	return nil
}

func (x *requestExchange) Scratch(n int) []byte { return make([]byte, 0, n) }

// About implements profiles.Exchange. Harness is for those who look at it.
func (x *requestExchange) About(profiles.Subject) {}

func (x *requestExchange) Context() context.Context { return x.s.ctx }

func (x *requestExchange) Send(env e1.Envelope) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return profiles.ErrFinished
	}
	return x.send(env)
}

func (x *requestExchange) Offer(env e1.Envelope) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.over:
		return profiles.ErrFinished
	case !x.s.other.yields(env.Size()):
		return room.ErrFull
	}
	return x.send(env)
}

func (x *requestExchange) Pace(ctx context.Context, octets int) error {
	x.mu.Lock()
	over, taken := x.over, x.taken
	x.mu.Unlock()
	switch {
	case over:
		return profiles.ErrFinished
	case !taken: // Serve does not wait
		return ctx.Err()
	}
	return x.s.other.pace(ctx, octets)
}

func (x *requestExchange) send(env e1.Envelope) error {
	if len(env.MsgID) == 0 {
		env.MsgID = x.req.MsgID
	}
	if env.ProfileID == 0 {
		env.ProfileID = x.req.ProfileID
	}
	return x.s.other.push(env)
}

func (x *requestExchange) Finish(env e1.Envelope) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return profiles.ErrFinished
	}
	err := x.send(env)
	x.end(nil)
	return err
}

func (x *requestExchange) Fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	if err == nil {
		x.end(nil)
		return
	}
	x.end(profiles.AsError(err))
}

// end ends the exchange; the caller holds mu.
func (x *requestExchange) end(fault *profiles.Error) {
	x.over = true
	if !x.taken {
		return // dispatch has the last word
	}
	x.s.mu.Lock()
	delete(x.s.inflight, string(x.req.MsgID))
	x.s.mu.Unlock()
	if fault != nil {
		x.s.refuse(x.profile, x.req, fault)
	} else {
		x.s.verdict(x.req.MsgType, nil)
	}
	if !x.detached {
		wipe(x.req.Envelope)
	}
}
