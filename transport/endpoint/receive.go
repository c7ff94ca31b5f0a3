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
	opts := l.s.opts
	l.size = 4 + len(body)
	if s := l.s; !s.arrived.Load() {
		s.arrived.Store(true)
	}
	l.taken, l.ended, l.typ = nil, false, profiles.Type{}
	l.account.opens, l.account.kept = false, false
	l.req = profiles.Request{Session: l.s, Lane: l, Rules: l.s.opts.Access, Exchange: (*exchanger)(l)}
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
	l.s.known.Used(env.ProfileID)
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
	l.begin(profile)
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

// fresh applies the policy for timestamps (SWP Core §7). It compares unsigned milliseconds,
// so that a timestamp in the far future does not wrap around.
func (l *lane) fresh(ts uint64) *profiles.Error {
	f := &l.s.opts.Freshness
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
		l.s.opts.Observer.Security(transport.SecurityEvent{
			Transport: l.s.peer.Transport, Addr: l.s.peer.Addr, Identity: l.s.peer.Identity,
			Reason: transport.ReasonStale, Err: fmt.Errorf("endpoint: ts_unix_ms %d, now %d", ts, now),
		})
	}
	return err
}

// paced applies the rate policies: the bucket pauses reading, the window
// refuses.
func (l *lane) paced() *profiles.Error {
	opts := l.s.opts
	if opts.Rate.Frames > 0 {
		if d := l.s.limiter.wait(opts.Rate, time.Now()); d > 0 {
			l.out.flush()
			_ = backoff.Wait(l.s.ctx, d) // the end of the session shows where it reads on
		}
	}
	if opts.Window.Frames > 0 && !l.s.limiter.allow(opts.Window, l.now) {
		return profiles.Busy("window", "too many frames")
	}
	return nil
}

// duplicate refuses an initiating message whose msg_id is in flight on this connection (SWP
// Core §9). The tables are usually empty.
func (l *lane) duplicate(id []byte) *profiles.Error {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inflight) > 0 {
		if _, ok := s.inflight[string(id)]; ok {
			return profiles.Errorf(profiles.DuplicateMsgID, "msg_id is in flight")
		}
	}
	if window := s.opts.ReplayWindow; window > 0 {
		if s.replay == nil {
			s.replay = new(replay)
		}
		if s.replay.repeated(id, l.now, window) {
			return profiles.Errorf(profiles.DuplicateMsgID, "msg_id was used less than %v ago", window)
		}
		s.replay.add(id, l.now)
	}
	if s.draining.Load() && l.typ.Role&(profiles.Concluding|profiles.Within) == 0 {
		return errDraining
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
	if err := l.hear(profile); err != nil {
		l.refuse(profile, profiles.AsError(err), ordinary)
		return
	}
	if err := l.mayDefer(); err != nil {
		l.refuse(profile, profiles.AsError(err), ordinary)
		return
	}
	if err := l.admit(); err != nil {
		l.refuse(profile, profiles.AsError(err), ordinary)
		return
	}
	l.account.digestRequest(&l.req) // the handler may release its octets
	l.trace(profile)
	var err error
	if l.carries || len(l.req.Extensions) > 0 {
		err = l.conditions(profile)
	}
	if err == nil {
		err = l.callHandler(profile.Handler)
	}
	switch {
	case l.taken != nil:
		if err != nil {
			// The receiver of the copy still uses it, unless the message was deferred.
			l.taken.end(err, l.taken.place != nil)
		}
		if l.taken.lent.open { // which only this goroutine changes
			l.taken.served()
		}
	case l.s.unanswerable(l.ctx, err, l.ended):
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

// callHandler calls the handler; a panic becomes an error of this message alone.
func (l *lane) callHandler(h profiles.Handler) (err error) {
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

// detailGone marks a message that was accepted, but whose sender has disconnected.
const detailGone = "gone"

// unanswerable reports whether a handler failed because its peer has disconnected, which is
// no violation, or because the terminal answer has been sent already. ctx is the one of the
// message, and answered says whether there was such an answer: the error may be that of
// another exchange, on which the handler depends.
func (s *Session) unanswerable(ctx context.Context, err error, answered bool) bool {
	if err == nil {
		return false
	}
	if answered && errors.Is(err, profiles.ErrFinished) {
		return true
	}
	if caused(err, s.ctx) || caused(err, ctx) { // also if a handler wrapped it in an *Error
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

// deliver hands an answer to the call it belongs to.
func (l *lane) deliver(profile *profiles.Profile, n uint64) {
	if err := check(profile, &l.req.Envelope); err != nil {
		fault := profiles.AsError(err)
		l.s.failCall(n, fault)
		l.refuse(profile, fault, ordinary)
		return
	}
	l.s.hearDraining(l.req.Extensions)
	switch l.hand(n, l.typ.Role&profiles.Terminal != 0) {
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
