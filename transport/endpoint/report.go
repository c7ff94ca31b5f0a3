package endpoint

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
)

// ExchangeObserver is an Observer that also receives a Report of each exchange. Without it
// no time is measured.
type ExchangeObserver interface {
	// Exchange is called once for each exchange that the peer opened with a known message
	// type, after the Verdict of that message. The rules of Observer apply.
	Exchange(r Report)
}

// Report describes one exchange that has ended. It is valid until Exchange returns.
type Report struct {
	Verdict Verdict // of the message that opened it

	// Subject always has a Profile and an Operation. If the profile has not set them, they
	// are its name and the name of the message type.
	Subject profiles.Subject
	Outcome profiles.Outcome

	Peer *profiles.Peer // who the message is from, see Request.Peer

	Began time.Time     // when the message was read, by Options.Now
	Took  time.Duration // until the verdict
	Sent  int           // octets of the frames that answered, prefixes included

	// Digests are only known to a Recorder.
	Digests

	// Aside says that the message opens no separate exchange, so that its sender has no CallReport of it.
	Aside bool

	// Begun is what Recorder.Begin returned for this exchange, 0 if it was not called.
	Begun uint64

	Context context.Context // context of the handler, for its values
}

// account collects the data for the Report of an exchange.
type account struct {
	subject profiles.Subject
	outcome profiles.Outcome // as the profile reported it
	sent    int
	forward bool   // an answer was an error of another endpoint
	opens   bool   // the message opens an exchange
	aside   bool   // or only belongs to another one, see Profile.Opens
	kept    bool   // and the Recorder keeps records of it
	kind    string // name of its type
	began   time.Time
	size    int // octets of the message
	record  *record
	permits permits
	reviews uint64 // of the endpoint when it began
}

// begin begins the account of the message being served.
func (l *lane) begin(p *profiles.Profile) {
	l.account = account{opens: l.typ.Role&profiles.Initiating != 0, kind: l.typ.Name, began: l.now, size: l.size, reviews: l.s.ep.reviews.Load()}
	if keeper := l.s.ep.recorder; keeper != nil && l.account.opens {
		l.account.kept = keeper.Keeps(&l.req.Envelope)
		l.account.aside = !p.Opens(&l.req.Envelope)
	}
}

// count adds a message of size octets to the totals of the exchange with a msg_id. A message
// with another one is no answer: the peer records it as a separate exchange.
func (e *Endpoint) count(a *account, id []byte, env *e1.Envelope, size int) {
	a.sent += frame.HeaderSize + size
	if author, signed := env.Extensions.Lookup(profiles.ExtEndpoint); signed && string(author) != e.identity() {
		a.forward = true
	}
	if a.kept && bytes.Equal(env.MsgID, id) {
		a.recording().answered(env)
	}
}

// report reports an exchange that has ended. gone says that the peer had disconnected
// before the answer.
func (s *Session) report(a *account, req *profiles.Request, v *Verdict, ctx context.Context, gone bool) {
	if !a.opens {
		return
	}
	s.record(a, req, v, ctx, gone)
	if watch := s.ep.exchanges; watch != nil {
		watch.Exchange(s.reportOf(a, req, v, ctx, gone))
	}
}

// reportOf describes an exchange that ends with a verdict.
func (s *Session) reportOf(a *account, req *profiles.Request, v *Verdict, ctx context.Context, gone bool) Report {
	r := Report{
		Verdict: *v, Peer: req.Peer(), Subject: a.subject, Outcome: a.outcomeOf(v, gone),
		Began: a.began, Took: max(0, s.opts.Now().Sub(a.began)), Sent: a.sent, Aside: a.aside, Context: ctx,
	}
	if r.Subject.Operation == "" {
		r.Subject.Operation = a.kind
	}
	if r.Subject.Profile == "" {
		profile, _ := s.opts.Registry.Lookup(v.ProfileID) // which has listed the type
		r.Subject.Profile = profile.Name
	}
	return r
}

func (a *account) outcomeOf(v *Verdict, gone bool) profiles.Outcome {
	switch {
	case a.outcome == profiles.OutcomeDenied, isDenial(v.Err):
		return profiles.OutcomeDenied
	case gone, v.Detail == detailGone:
		return profiles.OutcomeLost
	case a.forward:
		return profiles.OutcomeRefusedByPartner
	case a.outcome != profiles.OutcomeOpen:
		return a.outcome
	case v.Code == profiles.OK:
		return profiles.OutcomeOK
	case v.Reject && v.Code != profiles.Internal:
		return profiles.OutcomeRefused
	}
	return profiles.OutcomeFailed
}

func isDenial(err error) bool {
	if err == nil {
		return false
	}
	fault, ok := errors.AsType[*profiles.Error](err)
	return ok && fault.Denied
}

// About implements profiles.Exchange.
func (x *exchanger) About(s profiles.Subject) { x.account.subject = s }

// About implements profiles.Witness.
func (r *responder) About(s profiles.Subject) { r.account.subject = s }

// end sets the outcome. A denial is final.
func (a *account) end(o profiles.Outcome) {
	if a.outcome != profiles.OutcomeDenied {
		a.outcome = o
	}
}

// Ended implements profiles.Witness.
func (r *responder) Ended(o profiles.Outcome) { r.account.end(o) }

// Sending implements profiles.Witness.
func (r *responder) Sending(env *e1.Envelope, last bool) {
	r.s.ep.count(&r.account, r.req.MsgID, env, env.Size())
	if last {
		(*lane)(r).last(&r.account, &r.req, nil, r.reqCtx)
	}
}

// About implements profiles.Exchange. It does nothing: the Responder of the copied request
// has its own About.
func (taken) About(profiles.Subject) {}

// About implements profiles.Witness.
func (e *exchange) About(s profiles.Subject) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.account.subject = s
}

// Ended implements profiles.Witness.
func (e *exchange) Ended(o profiles.Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.account.end(o)
}

// Sending implements profiles.Witness.
func (e *exchange) Sending(env *e1.Envelope, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done {
		return
	}
	e.s.ep.count(&e.account, e.req.MsgID, env, env.Size())
	if last {
		e.l.last(&e.account, &e.req, nil, e.ctx)
	}
}
