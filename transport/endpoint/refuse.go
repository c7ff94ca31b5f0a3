package endpoint

import (
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

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
		fault = truncated(err)
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
		if req.ProfileID == ErrorProfile || !l.s.opts.ErrorFrames && !needsErrorFrame(profile, req) {
			return false
		}
		answer = errorFrame(&req.Envelope, fault, &l.s.opts.Envelope)
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
	l.s.ep.count(a, &answer)
	return l.out.send(l.ctx, &answer, p) == nil
}

// needsErrorFrame reports whether a refused message opened an exchange of a profile that
// says nothing of refusals: without the error message of this endpoint its sender
// would wait.
func needsErrorFrame(p *profiles.Profile, req *profiles.Request) bool {
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
	spent := fault.Code != profiles.Internal && l.s.limiter.charge(&l.s.opts.Bounds, fault.Pace)
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

// errExcess refuses an answer to a call that was answered to its end.
var errExcess = &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: "after_end", Text: "the exchange has ended"}

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
	if l.s.limiter.charge(&l.s.opts.Bounds, late) {
		action = Closed
	}
	l.verdict(profiles.OK, "unsolicited", nil, false, action)
	if action == Closed {
		l.closeSession(profiles.RateLimitExceeded, errBudget)
	}
}

// maxRefusal is how large a refusal may become by the identity of its author: a peer
// must not be able to have much written for little.
const maxRefusal = 512

// sign says who has written a refusal. One that says so already has passed through.
func (e *Endpoint) sign(answer *e1.Envelope) {
	identity := e.opts.Load().Identity
	if identity == nil {
		return
	}
	id := identity()
	if _, signed := answer.Extensions.Lookup(profiles.ExtEndpoint); id == "" || signed {
		return
	}
	ext := e1.AppendExtension(slices.Clip(answer.Extensions), profiles.ExtEndpoint, []byte(id))
	if answer.Size()+len(ext)-len(answer.Extensions) <= maxRefusal {
		answer.Extensions = ext
	}
}
