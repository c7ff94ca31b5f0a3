package profiles

import "github.com/slimwire/swp/e1"

// Subject is what an exchange is about, in the words of the access rules. A
// profile says it with About, for access lines and metrics.
type Subject struct {
	Profile   string // by its short name; empty: the profile of the message
	Operation string // as Access has it; empty: not known
	Name      string // as Access has it; what a peer wrote, unbounded

	// Part marks a message that belongs to a larger exchange, such as a chunk of an
	// upload that others follow: it gets no access line unless it fails.
	Part bool

	// Before is how many octets the earlier parts of the exchange brought.
	Before uint64
}

// Outcome is how an exchange ended for who asked.
type Outcome uint8

// The outcomes. Those that a profile does not tell with Ended follow from the
// verdict of the message.
const (
	OutcomeOpen      Outcome = iota // not told
	OutcomeOK                       // done
	OutcomeDenied                   // the access rules of this endpoint said no
	OutcomeRefused                  // a violation, or a bound that was reached
	OutcomeFailed                   // a proper answer that says that it was not done
	OutcomeCancelled                // who asked took it back
	OutcomeLost                     // who asked was gone before the answer
)

var outcomes = [...]string{"open", "ok", "denied", "refused", "failed", "cancelled", "lost"}

// Outcomes is how many there are.
const Outcomes = len(outcomes)

// String returns the word for log lines and metrics.
func (o Outcome) String() string { return outcomes[min(int(o), Outcomes-1)] }

// Witness is the side of an endpoint that keeps what an exchange is about and how
// it ended. Responders of an endpoint are Witnesses.
type Witness interface {
	About(s Subject)
	Ended(o Outcome)
	Sent(env *e1.Envelope)
}

// About says what the request is about. It is called in Serve, before Detach, Hold
// or Defer; later ones replace earlier ones.
func (r *Request) About(operation, name string) {
	r.Exchange.About(Subject{Operation: operation, Name: name})
}

// May asks a whether the peer may carry out an operation of a profile on a name,
// and says that the request is about that. Like About it is called in Serve. A nil
// Access, as Rules may be, denies nothing.
func (r *Request) May(a Access, profile, operation, name string) bool {
	r.About(operation, name)
	return a == nil || a.Allowed(r.Session.Peer().Identity, profile, operation, name)
}

// About says what the exchange of a Responder is about. It may be called until the
// exchange has ended.
func About(w Responder, s Subject) {
	if x, ok := w.(Witness); ok {
		x.About(s)
	}
}

// Sent says that a message that went out on a lane belongs to the exchange of a
// Responder, for its octets to be counted there.
func Sent(w Responder, env *e1.Envelope) {
	if x, ok := w.(Witness); ok {
		x.Sent(env)
	}
}

// Ended says how the exchange of a Responder ends, where its answer does not tell
// the endpoint. It is called before the Finish or Fail that ends it.
func Ended(w Responder, o Outcome) {
	if x, ok := w.(Witness); ok {
		x.Ended(o)
	}
}
