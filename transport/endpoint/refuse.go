package endpoint

import (
	"context"
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// severity says what a refusal does to the stream of the peer.
type severity uint8

const (
	ordinary        severity = iota // refuses the message, the stream continues
	fatalUnlessTold                 // ends the stream unless the error path can report the reason
	fatal                           // ends the stream
)

var errBudget = &profiles.Error{Code: profiles.RateLimitExceeded, Detail: "error_budget", Text: "too many refused messages"}

// refuseFrame refuses octets that are not an envelope.
func (l *lane) refuseFrame(err error) {
	fault := CodeOf(err)
	if fault.Code == profiles.Internal {
		fault = truncated(err)
	}
	have, _ := l.rd.Partial()
	l.size = have
	l.seq++
	l.account.opens, l.account.kept = false, false
	l.req = profiles.Request{Session: l.s, Lane: l, Exchange: (*exchanger)(l)}
	l.refuse(nil, fault, fatal)
}

// refuse ends the message being served with an error: it sends the error message of the
// profile or the error path, charges the error budget, resets or closes as sev says, and
// reports the verdict. profile is nil if no profile may answer.
func (l *lane) refuse(profile *profiles.Profile, fault *profiles.Error, sev severity) {
	spent := l.s.chargeRefusal(&l.req, fault)
	told := l.answerRefusal(profile, &l.req, &l.account, fault, l.ended, inline, l.reqCtx)
	if !fault.Domain {
		l.punish(fault, sev, told, spent)
		return
	}
	l.verdict(fault.Code, fault.Detail, fault, false, Kept)
}

// answerRefusal sends the profile's own error message, or an error frame.
func (l *lane) answerRefusal(profile *profiles.Profile, req *profiles.Request, a *account, fault *profiles.Error, ended bool, p patience, ctx context.Context) (told bool) {
	if ended {
		return true
	}
	answer, ok := fault.Answer, fault.Answer.MsgType != 0
	if !ok && profile != nil && profile.Refusal != nil {
		answer, ok = refusal(profile, req, fault)
	}
	if !ok {
		if req.ProfileID == ErrorProfile || !l.s.opts.ErrorFrames && !needsErrorFrame(profile, req) && !l.mustTell(fault) {
			return false
		}
		answer = errorFrame(&req.Envelope, fault, 0, &l.s.opts.Envelope)
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
	l.complete(&answer, l.s.opts.Now())
	l.s.ep.sign(&answer)
	tellDraining(&answer, fault)
	size, err := l.out.sizeOf(&answer)
	if err != nil {
		return false
	}
	l.s.ep.count(a, req.MsgID, &answer, size)
	l.last(a, req, fault, ctx)
	return l.out.queue(l.ctx, &answer, size, p) == nil
}

// needsErrorFrame reports whether a refused message opened an exchange of a profile without
// an error message. Without the error message of this endpoint its sender would wait for
// ever.
func needsErrorFrame(p *profiles.Profile, req *profiles.Request) bool {
	if p == nil || p.Refusal != nil {
		return false
	}
	t, ok := p.Type(req.MsgType)
	return ok && t.Role&(profiles.Initiating|profiles.Concluding) == profiles.Initiating
}

// mustTell reports whether the peer is told of a refusal although the profile of its message has
// no error message: it is to send it on another connection. A peer that knows extension 54 knows
// the error path.
func (l *lane) mustTell(fault *profiles.Error) bool {
	return fault == errDraining && l.s.known.Heeds(0, profiles.ExtDraining)
}

// refusal asks the profile for its own error message. If the profile panics, it has none.
func refusal(p *profiles.Profile, req *profiles.Request, fault *profiles.Error) (answer e1.Envelope, ok bool) {
	defer func() {
		if recover() != nil {
			answer, ok = e1.Envelope{}, false
		}
	}()
	return p.Refusal(req, fault)
}

// punish applies the severity of a refusal. spent says that the error budget of the
// connection is spent.
func (l *lane) punish(fault *profiles.Error, sev severity, told, spent bool) {
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
		// If the first message with that msg_id is on this stream, a reset would end it,
		// too.
	case quic && !told:
		action = Reset
	}
	l.verdict(fault.Code, fault.Detail, fault, true, action)
	switch action {
	case Reset:
		l.stopped = true
		l.out.stop()
		l.s.failCallsOf(l, garbled(fault))
		l.sever(fault.Code, told)
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

// chargeRefusal charges the refusal of a message, before its sender knows of it: one for rate,
// capacity or lack of a right to the larger budget, because a partner sends what its own
// clients may ask for. An internal error, or one that excuses the sender, is counted as a
// refusal, but is not charged.
func (s *Session) chargeRefusal(req *profiles.Request, fault *profiles.Error) (spent bool) {
	return fault.Code != profiles.Internal && !fault.Domain && !fault.Excused && s.charge(req.Caller, fault.Pace || fault.Denied)
}

// sever ends the stream with a code, which every exchange that is open on it gets. The peer
// first receives what was written. If it does not support that, a reset may take octets
// back; so if it was told why and nothing else is open, the stream ends in order first. Only
// the read loop may set told.
func (l *lane) sever(code profiles.Code, told bool) {
	if c, ok := l.s.conn.(transport.Concluder); ok && c.Conclude(l.stream, uint64(code)) {
		return
	}
	if told && l.refs.Load() == 1 {
		_ = l.stream.CloseWrite()
		l.discard()
	}
	l.stream.Reset(uint64(code))
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

// hangUp half-closes the stream after what is queued has been written.
func (l *lane) hangUp() {
	l.out.finish()
	l.discard()
}

// discard reads, for a limited time and up to a bound, the rest of the peer's octets on a stream
// that was half-closed. A socket closed with unread octets sends a reset, which would
// discard the answer with the reason.
func (l *lane) discard() {
	_ = l.stream.SetReadDeadline(time.Now().Add(lingerTime))
	buf := l.s.ep.pool.Get(4096)
	defer l.s.ep.pool.Put(buf)
	for range 64 {
		if _, err := l.stream.Read(buf[:cap(buf)]); err != nil {
			return
		}
	}
}

// errForeign fails a call that is answered with a message of another profile.
var errForeign = &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: "foreign_answer", Text: "the answer is of another profile than the request"}

// garbled is the error of calls whose stream has brought what is no message.
func garbled(fault *profiles.Error) error {
	switch {
	case fault == errLate:
		return errStalled
	case fault.Pace, fault.Retryable:
		return untaken(fault)
	}
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: fault.Detail, Text: "no answer, but a broken stream: " + fault.Text, Cause: fault}
}

// untaken is the error of a call whose answer this side does not take for a reason of its own. It is not retryable:
// the peer may have carried the request out.
func untaken(fault *profiles.Error) *profiles.Error {
	e := *fault
	e.Retryable, e.Text = false, "the answer was not taken: "+fault.Text
	return &e
}

// errExcess refuses an answer to a call that has ended.
var errExcess = &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: "after_end", Text: "the exchange has ended"}

// unsolicited drops an answer without an open call. Late answers to calls that this side
// closed are free up to a bound; others are charged to the peer.
func (l *lane) unsolicited() {
	_, late := l.s.ownID(l.req.MsgID)
	if late && l.ours && !l.own.Load() && l.s.conn.Multiplexed() {
		// No caller waits for answers on this stream, so tell the peer.
		l.stopped = true
		l.verdict(profiles.OK, "unsolicited", nil, false, Reset)
		l.stream.Reset(uint64(profiles.OK))
		return
	}
	action := Kept
	if free := late && l.s.limiter.allowLate(l.size); !free && l.s.limiter.charge(&l.s.opts.Bounds, late) {
		action = Closed
	}
	l.verdict(profiles.OK, "unsolicited", nil, false, action)
	if action == Closed {
		l.closeSession(profiles.RateLimitExceeded, errBudget)
	}
}

// identity returns the identity of this endpoint; empty if it is not known.
func (e *Endpoint) identity() string {
	if identity := e.opts.Load().Identity; identity != nil {
		return identity()
	}
	return ""
}

// maxRefusal bounds a refusal with the identity of its author, so that a small message
// cannot cause a large answer.
const maxRefusal = 512

// sign adds the identity of this endpoint to a refusal. A refusal that has an identity was
// forwarded, and stays unchanged.
func (e *Endpoint) sign(answer *e1.Envelope) {
	id := e.identity()
	if _, signed := answer.Extensions.Lookup(profiles.ExtEndpoint); id == "" || signed {
		return
	}
	ext := e1.AppendExtension(slices.Clip(answer.Extensions), profiles.ExtEndpoint, []byte(id))
	if answer.Size()+len(ext)-len(answer.Extensions) <= maxRefusal {
		answer.Extensions = ext
	}
}
