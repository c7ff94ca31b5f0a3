package endpoint

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// receive takes one frame through the pipeline. It reads like the decision
// table of SWP Core §5; each message ends in exactly one Verdict.
func (l *lane) receive(body []byte) {
	opts := &l.s.ep.opts
	l.size = 4 + len(body)
	l.taken, l.ended, l.typ, l.account.opens = nil, false, profiles.Type{}, false
	l.req = profiles.Request{Session: l.s, Lane: l, Exchange: (*exchanger)(l)}
	env := &l.req.Envelope

	if err := env.Decode(body, &opts.Envelope); err != nil { // rows 5 to 13
		l.refuse(nil, CodeOf(err), fatal)
		return
	}
	if env.ProfileID == ErrorProfile && l.receiveError(env) {
		return
	}
	profile, known := opts.Registry.Lookup(env.ProfileID)
	if !known { // row 14
		l.refuse(nil, profiles.Errorf(profiles.UnknownProfile, "profile_id %d is not served here", env.ProfileID), fatalUnlessTold)
		return
	}
	if err := env.Validate(&opts.Envelope); err != nil { // rows 15 to 18
		l.refuse(nil, CodeOf(err), ordinary)
		return
	}
	if err := l.fresh(env.Timestamp); err != nil { // rows 19 to 21
		l.refuse(nil, err, ordinary)
		return
	}
	if err := l.paced(); err != nil { // row 23
		l.refuse(profile, err, ordinary)
		return
	}
	typ, listed := profile.Type(env.MsgType)
	l.typ = typ
	if typ.Role&profiles.Answer != 0 {
		if n, own := l.s.ownID(env.MsgID); own {
			l.deliver(profile, n)
			return
		}
	}
	l.begin()
	if typ.Role&profiles.Initiating != 0 || !listed {
		if err := l.duplicate(env.MsgID); err != nil { // row 24
			l.refuse(profile, err, ordinary)
			return
		}
	}
	if !listed { // row 25
		l.refuse(nil, profiles.Errorf(profiles.UnsupportedMsgType, "msg_type %d is not in profile %d", env.MsgType, env.ProfileID), ordinary)
		return
	}
	l.serve(profile) // rows 26 to 28
}

// fresh applies the policy for timestamps (SWP Core §7). The comparison is of
// unsigned milliseconds, so that no far future wraps into the present.
func (l *lane) fresh(ts uint64) *profiles.Error {
	f := &l.s.ep.opts.Freshness
	if f.Owner == FreshnessOff && !f.Required {
		return nil
	}
	if ts == 0 {
		if f.Required {
			return profiles.Errorf(profiles.InvalidEnvelope, "ts_unix_ms is required")
		}
		return nil
	}
	if f.Owner == FreshnessOff {
		return nil
	}
	now := uint64(max(0, l.now.UnixMilli()))
	if max(ts, now)-min(ts, now) <= uint64(f.Skew.Milliseconds()) {
		return nil
	}
	err := profiles.Errorf(profiles.InvalidEnvelope, "ts_unix_ms is outside the window of %d ms", f.Skew.Milliseconds())
	err.Detail = "stale"
	if f.Owner == FreshnessS1 {
		err.Code = profiles.SecurityPolicy
		l.s.ep.opts.Observer.Security(transport.SecurityEvent{
			Transport: l.s.peer.Transport, Addr: l.s.peer.Addr, Identity: l.s.peer.Identity,
			Reason: transport.ReasonStale, Err: fmt.Errorf("endpoint: ts_unix_ms %d, now %d", ts, now),
		})
	}
	return err
}

// paced applies the rate policies: the bucket pauses reading, the window
// refuses.
func (l *lane) paced() *profiles.Error {
	opts := &l.s.ep.opts
	if opts.Rate.Frames > 0 {
		if d := l.s.pace.wait(opts.Rate, time.Now()); d > 0 {
			l.out.flush()
			_ = backoff.Wait(l.s.ctx, d) // the end of the session shows where it reads on
		}
	}
	if opts.Window.Frames > 0 && !l.s.pace.allow(opts.Window, l.now) {
		return profiles.Busy("window", "too many frames")
	}
	return nil
}

// duplicate refuses an initiating message whose msg_id is in flight on this
// connection (SWP Core §9). The tables are empty most of the time.
func (l *lane) duplicate(id []byte) *profiles.Error {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inflight) > 0 {
		if _, ok := s.inflight[string(id)]; ok {
			return profiles.Errorf(profiles.DuplicateMsgID, "msg_id is in flight")
		}
	}
	if window := s.ep.opts.ReplayWindow; window > 0 {
		if s.replay == nil {
			s.replay = new(replay)
		}
		if s.replay.repeated(id, l.now, window) {
			return profiles.Errorf(profiles.DuplicateMsgID, "msg_id was used less than %v ago", window)
		}
		s.replay.add(id, l.now)
	}
	if s.draining.Load() && l.typ.Role&profiles.Concluding == 0 {
		return profiles.Busy("draining", "this endpoint is shutting down")
	}
	return nil
}

// serve hands the message to its profile, on this goroutine.
func (l *lane) serve(profile *profiles.Profile) {
	l.req.Unsolicited = l.typ.Role&profiles.Initiating == 0
	if l.req.Unsolicited {
		if err := check(profile, &l.req.Envelope); err != nil {
			l.refuse(profile, profiles.AsError(err), ordinary)
			return
		}
	}
	l.trace(profile)
	err := l.call1(profile.Handler)
	switch {
	case l.taken != nil:
		if err != nil {
			// What it was handed to still has the copy, unless there is none.
			l.taken.end(err, l.taken.place != nil)
		}
	case l.s.unanswerable(l.ctx, err):
		l.verdict(profiles.OK, detailGone, err, false, Kept)
	case err != nil:
		l.refuse(profile, profiles.AsError(err), ordinary)
	case l.req.Unsolicited:
		l.unsolicited()
	default:
		l.verdict(profiles.OK, "", nil, false, Kept)
	}
	l.taken, l.reqCtx = nil, l.ctx
}

// call1 calls the handler; a panic becomes an error of this message alone.
func (l *lane) call1(h profiles.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return h.Serve(l.reqCtx, &l.req, (*responder)(l))
}

// check asks the profile whether an answer is well-formed.
func check(p *profiles.Profile, env *e1.Envelope) (err error) {
	if p.Check == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return p.Check(env)
}

// detailGone marks a message that was accepted but whose sender could not be
// answered any more.
const detailGone = "gone"

// unanswerable reports whether a handler failed because its peer is gone, which is
// nobody's violation. ctx is that of the message.
func (s *Session) unanswerable(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, profiles.ErrFinished) { // the stream has said its last word already
		return true
	}
	if caused(err, s.ctx) || caused(err, ctx) { // also where a handler made an *Error of it
		return true
	}
	return ctx.Err() != nil && !errors.As(err, new(*profiles.Error)) && !errors.As(err, new(*PanicError))
}

// caused reports whether the end of ctx is behind err.
func caused(err error, ctx context.Context) bool {
	why := context.Cause(ctx)
	return why != nil && errors.Is(err, why)
}

// PanicError is the cause of a verdict whose handler panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("endpoint: handler panicked: %v", e.Value) }

// unsolicited drops an answer that nobody waits for. Late answers to calls that
// were closed here are the peer's good right, up to a bound; the others cost it.
func (l *lane) unsolicited() {
	_, late := l.s.ownID(l.req.MsgID)
	if late && l.ours && !l.own.Load() && l.s.conn.Multiplexed() {
		// Nobody here waits for what this stream still brings: tell the peer.
		l.stopped = true
		l.verdict(profiles.OK, "unsolicited", nil, false, Reset)
		l.stream.Reset(uint64(profiles.OK))
		return
	}
	action := Kept
	if l.s.pace.charge(&l.s.ep.opts.Bounds, late) {
		action = Closed
	}
	l.verdict(profiles.OK, "unsolicited", nil, false, action)
	if action == Closed {
		l.closeSession(profiles.RateLimitExceeded, errBudget)
	}
}

// deliver hands an answer to the call it belongs to.
func (l *lane) deliver(profile *profiles.Profile, n uint64) {
	if err := check(profile, &l.req.Envelope); err != nil {
		fault := profiles.AsError(err)
		l.s.failCall(n, fault)
		l.refuse(profile, fault, ordinary)
		return
	}
	switch l.s.deliver(n, &l.req.Envelope, l.typ.Role&profiles.Terminal != 0) {
	case awaited:
		l.verdict(profiles.OK, "", nil, false, Kept)
	case belated:
		l.unsolicited()
	case excess:
		if !profile.Ends() {
			l.unsolicited()
			return
		}
		l.refuse(nil, errExcess, ordinary)
	}
}

// errExcess refuses an answer to a call that was answered to its end.
var errExcess = &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: "after_end", Text: "the exchange has ended"}

// severity says what a refusal does to the stream where the peer has no claim
// to more.
type severity uint8

const (
	ordinary        severity = iota // the message dies, the stream lives on
	fatalUnlessTold                 // the stream dies unless the error path can say why
	fatal                           // the stream dies
)

var errBudget = &profiles.Error{Code: profiles.RateLimitExceeded, Detail: "error_budget", Text: "too many refused messages"}

// refuseFrame refuses what never became an envelope.
func (l *lane) refuseFrame(err error) {
	fault := CodeOf(err)
	if fault.Code == profiles.Internal {
		fault = cut(err)
	}
	have, _ := l.rd.Partial()
	l.size = have
	l.seq++
	l.account.opens = false
	l.req = profiles.Request{Session: l.s, Lane: l, Exchange: (*exchanger)(l)}
	l.refuse(nil, fault, fatal)
}

// refuse ends the message being served with an error: it tells the peer in the
// way the profile or the error path has for it, charges the error budget,
// resets or closes as severity asks, and reports the verdict. profile is nil
// where no profile may answer.
func (l *lane) refuse(profile *profiles.Profile, fault *profiles.Error, sev severity) {
	told := l.answerRefusal(profile, &l.req, &l.account, fault, l.ended, inline)
	if !fault.Domain {
		l.punish(fault, sev, told)
		return
	}
	l.verdict(fault.Code, fault.Detail, fault, false, Kept)
}

// answerRefusal sends the profile's own error message, or an error frame.
func (l *lane) answerRefusal(profile *profiles.Profile, req *profiles.Request, a *account, fault *profiles.Error, ended bool, p patience) (told bool) {
	if ended {
		return true
	}
	answer, ok := fault.Answer, fault.Answer.MsgType != 0
	if !ok && profile != nil && profile.Refusal != nil {
		answer, ok = refusal(profile, req, fault)
	}
	if !ok {
		if req.ProfileID == ErrorProfile || !l.s.ep.opts.ErrorFrames && !unspoken(profile, req) {
			return false
		}
		answer = errorFrame(&req.Envelope, fault, &l.s.ep.opts.Envelope)
	}
	if len(answer.MsgID) == 0 {
		answer.MsgID = req.MsgID
	}
	if answer.ProfileID == 0 {
		answer.ProfileID = req.ProfileID
	}
	var id [16]byte
	if len(answer.MsgID) == 0 {
		l.s.nextID(&id)
		answer.MsgID = id[:]
	}
	l.complete(&answer, l.s.ep.opts.Now())
	l.s.ep.sign(&answer)
	l.s.ep.count(a, &answer)
	return l.out.send(l.ctx, &answer, p) == nil
}

// unspoken reports whether a refused message opened an exchange of a profile that
// says nothing of refusals: without the error message of this endpoint its sender
// would wait.
func unspoken(p *profiles.Profile, req *profiles.Request) bool {
	if p == nil || p.Refusal != nil {
		return false
	}
	t, ok := p.Type(req.MsgType)
	return ok && t.Role&(profiles.Initiating|profiles.Concluding) == profiles.Initiating
}

// refusal asks the profile for its own error message. One that panics has none.
func refusal(p *profiles.Profile, req *profiles.Request, fault *profiles.Error) (answer e1.Envelope, ok bool) {
	defer func() {
		if recover() != nil {
			answer, ok = e1.Envelope{}, false
		}
	}()
	return p.Refusal(req, fault)
}

// punish charges a refusal on the read loop and carries out its severity. A
// failure of ours is counted like a refusal, but the peer does not pay for it.
func (l *lane) punish(fault *profiles.Error, sev severity, told bool) {
	spent := fault.Code != profiles.Internal && l.s.pace.charge(&l.s.ep.opts.Bounds, fault.Pace)
	quic := l.s.conn.Multiplexed()
	var action Action
	switch {
	case spent:
		action = Closed
	case sev == fatal, sev == fatalUnlessTold && !told:
		action = Closed
		if quic {
			action = Reset
		}
	case fault.Code == profiles.DuplicateMsgID && l.refs.Load() > 1:
		// A reset would take the first message of that msg_id with it, if this
		// is its stream.
	case quic && !told:
		action = Reset
	}
	l.verdict(fault.Code, fault.Detail, fault, true, action)
	switch action {
	case Reset:
		l.stopped = true
		l.out.flush()
		if l.out.used() { // a reset takes back what the peer has not read yet
			l.hangUp()
		}
		l.s.failCallsOf(l, fault)
		l.stream.Reset(uint64(fault.Code))
	case Closed:
		l.stopped = true
		if spent {
			l.closeSession(profiles.RateLimitExceeded, errBudget)
			return
		}
		l.closeSession(fault.Code, fault)
	case Kept:
	}
}

// closeSession closes the connection after what is queued has been written.
func (l *lane) closeSession(code profiles.Code, cause error) {
	l.stopped = true
	l.out.flush()
	if !l.s.conn.Multiplexed() && l.out.used() {
		l.hangUp()
	}
	l.s.close(code, cause)
}

// hangUp says that nothing more will come and discards, for a moment and up to
// a bound, what the peer still sends. Closing a socket with unread octets in
// it would throw away the answer that says why.
func (l *lane) hangUp() {
	l.out.finish()
	_ = l.stream.SetReadDeadline(time.Now().Add(lingerTime))
	buf := l.s.ep.pool.Get(4096)
	defer l.s.ep.pool.Put(buf)
	for range 64 {
		if _, err := l.stream.Read(buf[:cap(buf)]); err != nil {
			return
		}
	}
}

// verdict reports how the message being served ended.
func (l *lane) verdict(code profiles.Code, detail string, err error, reject bool, action Action) {
	env := &l.req.Envelope
	v := Verdict{
		Session: l.s, Lane: l.id, Seq: l.seq,
		Code: code, Detail: detail, Err: err, Reject: reject, Action: action,
		ProfileID: env.ProfileID, MsgType: env.MsgType, Flags: env.Flags, MsgID: env.MsgID, Bytes: l.size,
	}
	l.s.ep.opts.Observer.Verdict(v)
	if ended := l.traced; ended != nil {
		l.traced = nil
		ended(v)
	}
	l.s.report(&l.account, &v, l.reqCtx, false)
}
