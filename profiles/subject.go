package profiles

import "github.com/slimwire/swp/e1"

// Subject is what an exchange is about: operation and name, as the access rules use them. A
// profile reports it with About, for the access log and metrics.
type Subject struct {
	Profile   string // by its short name; empty: the profile of the message
	Operation string // as Access has it; empty: not known
	Name      string // the name for Access; written by a peer, of any length

	// Part marks a message that belongs to a larger exchange, such as a chunk of an upload
	// that is not the last one. It gets an access line only if it fails.
	Part bool

	// Why is a word that says why this was denied, if not because no rule allows it.
	Why string

	// Before is the number of octets in the earlier parts of the exchange.
	Before uint64
}

// Outcome says how an exchange ended for the caller.
type Outcome uint8

// The outcomes. The verdict of the message determines the outcome unless the profile
// reports one with Ended.
const (
	OutcomeOpen             Outcome = iota // not told
	OutcomeOK                              // done
	OutcomeDenied                          // by the access rules of this endpoint
	OutcomeRefused                         // a violation, or a bound
	OutcomeFailed                          // a regular answer that reports a failure
	OutcomeCancelled                       // by the caller
	OutcomeLost                            // the connection of the caller ended before the answer
	OutcomeRefusedByPartner                // the answer is an error of another endpoint
)

var outcomes = [...]string{"open", "ok", "denied", "refused", "failed", "cancelled", "lost", "refused_by_partner"}

// Outcomes is how many there are.
const Outcomes = len(outcomes)

// String returns the word for log lines and metrics.
func (o Outcome) String() string { return outcomes[min(int(o), Outcomes-1)] }

// With returns the word for log lines and the audit trail: of a refusal with its code.
func (o Outcome) With(code Code) string {
	if o == OutcomeRefused {
		return o.String() + ":" + code.String()
	}
	return o.String()
}

// Witness records the subject and the outcome of an exchange for an endpoint. Responders of
// an endpoint are Witnesses.
type Witness interface {
	About(s Subject)
	Ended(o Outcome)
	Sending(env *e1.Envelope, last bool)
}

// About sets the subject of the request. Call it in Serve, before Detach, Hold or Defer. A
// later call replaces an earlier one.
func (r *Request) About(operation, name string) {
	r.Exchange.About(Subject{Operation: operation, Name: name})
}

// May asks a whether the peer may carry out an operation of a profile on a name, and sets
// that as the subject of the request; see Allowed. Call it in Serve, as About.
func (r *Request) May(a Access, profile, operation, name string) bool {
	r.About(operation, name)
	return Allowed(r.Exchange, a, r.Identity(), profile, operation, name)
}

// Forbid records that an operation on a name is denied although the rules of a may allow it, and
// sets it as the subject of the request. why is one word for logs. Call it in Serve, as About,
// and then deny the request.
func (r *Request) Forbid(a Access, profile, operation, name, why string) {
	r.Exchange.About(Subject{Profile: profile, Operation: operation, Name: name, Why: why})
	if a, ok := a.(Auditor); ok {
		a.Audit(r.Identity(), profile, operation, name, why)
	}
}

// About sets the subject of the exchange of a Responder. It may be called until the
// exchange has ended.
func About(w Responder, s Subject) {
	if x, ok := w.(Witness); ok {
		x.About(s)
	}
}

// Sending adds a message to the octet count of the exchange of a Responder. Call it before
// the message is sent on a lane. last says that the message is the terminal answer: the
// exchange is recorded before the peer can have it, as with Finish.
func Sending(w Responder, env *e1.Envelope, last bool) {
	if x, ok := w.(Witness); ok {
		x.Sending(env, last)
	}
}

// Ended sets the outcome of the exchange of a Responder, for cases in which the endpoint
// cannot derive it from the answer. Call it before the Finish or Fail that ends the
// exchange. OutcomeDenied is final: set it as soon as the rules have denied the exchange,
// because the connection may be lost before the peer is told.
func Ended(w Responder, o Outcome) {
	if x, ok := w.(Witness); ok {
		x.Ended(o)
	}
}
