package profiles

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/e1"
)

// Crossing says how messages of a profile are forwarded to a partner: where a message
// contains names, and how it is answered. Its functions are called by several goroutines,
// and must not keep an envelope after they return.
type Crossing struct {
	// Read returns the subject of an initiating message. It must not wait. An error refuses
	// the message.
	Read func(env *e1.Envelope) (Errand, error)

	// Target returns the target of a message without extension 52, from its payload. It must
	// not wait. An empty target, or a nil Target: the names in the message decide.
	Target func(env *e1.Envelope) string

	// Admit is called for a message that the rules allow, with the identity of the partner.
	// It must not wait. An error refuses the message. Nil: every message is admitted.
	Admit func(req *Request, e *Errand, partner string) error

	// Patience is the time a partner has to answer a message without a deadline; 0 means
	// two minutes.
	Patience func() time.Duration

	// Rename returns the payload of a message or an answer with each of its names changed
	// by f, in new memory. Nil: names of the profile never lead to a partner.
	Rename func(env *e1.Envelope, f func(name []byte) []byte) ([]byte, error)

	// May asks the rules whether an identity may use a name. It may ask the rules of
	// another profile. Nil: the rules of this profile are asked about operation.
	May func(a Access, identity, operation, name string) bool

	// Visible removes the parts of an answer that the caller may not see, from env and not
	// from its memory. It calls may with the name of each part, as the answer spells it. Nil:
	// answers have no parts.
	Visible func(env *e1.Envelope, may func(name string) bool) error

	// Keep is called with the answers of partners that a caller may get again if the rules
	// allow the name, and Kept answers a message from these while the partner has been
	// unreachable for away. name is the full name at this endpoint. caller is empty if the
	// answer is for every caller. Kept returns false if it has no answer. Both are nil if
	// the profile keeps nothing.
	Keep func(name, caller string, req, answer *e1.Envelope)
	Kept func(name, caller string, req *e1.Envelope, away time.Duration) (answer e1.Envelope, ok bool)

	// Fits returns why an answer does not belong to the message that was sent to the partner: it is
	// about something else, or its content is not what was asked for. The answer is
	// well-formed, and of a type that Errand.By lists. Nil: every such answer is one.
	Fits func(asked, answer *e1.Envelope) error

	// Refused reads the error message of the profile. It returns nil if env is another
	// message, or malformed.
	Refused func(env *e1.Envelope) *PeerError

	// Refuse builds the error message that tells the caller why a partner refused. Required
	// with Pass.
	Refuse func(refused *PeerError) e1.Envelope

	// Pass answers a message whose Errand says Many or Endless. It is called on the read
	// loop and must not wait. The function that it returns runs on a goroutine until the
	// exchange is over or ctx ends, may wait, and returns the error for Fail. req and w are
	// a held exchange; run need not end it.
	Pass func(way *Way, req *Request, w Responder) (run func(ctx context.Context) error, err error)
}

// Errand is the subject of an initiating message, and how the message is answered.
type Errand struct {
	Operation string   // in the words of Access
	Free      bool     // the rules are not asked, or only about each answer
	Part      bool     // it belongs to a larger exchange, see Subject
	Names     []string // for the access rules; a name that Rename changes can begin with a partner
	Answers   Answers
	By        []uint64 // msg_types that answer it, beside the error message
	Sole      Sole
}

// Answers says how a message is answered.
type Answers uint8

const (
	Once    Answers = iota // by one answer
	Refusal                // by one if it is refused, else by one or none: swp.sync shows which
	Many                   // by several: Crossing.Pass sees to them
	Endless                // by several, and without an expected end
	Here                   // by this endpoint, because it is about an earlier message of the connection
)

// Sole is work that only one peer may do at a time over a link to a partner, because the
// partner cannot tell the peers of this endpoint apart. The zero value means that there is
// none.
type Sole struct {
	On     string // the object of the work
	Begins bool   // the message begins the work; otherwise the work has begun before
	Ends   bool   // the message ends the work
}

// Way is the way to a partner, for Crossing.Pass.
type Way struct {
	// Session returns a session whose messages carry the required extensions on the way to
	// the partner. If the session was just lost, it waits a moment for the next one. The
	// error is an *Error, or that of ctx.
	Session func(ctx context.Context) (Session, error)

	// Sync returns after the partner has processed and committed all earlier messages of a
	// lane of a Session.
	Sync Sync

	// Shared says that equal requests may share the answers, if they have the same Caller:
	// the caller that the answers are for, or empty if no answer depends on the caller.
	Shared bool
	Caller string

	// Prefix is the path of the partner, with a slash at its end: this endpoint puts it in
	// front of the names of the partner. Named says that the message carries this path in
	// its names and not as a target.
	Prefix string
	Named  bool
}

// Here returns the name that this endpoint uses for a name of the partner.
func (w *Way) Here(name string) string { return w.Prefix + name }

// Answered is the error for the function of Request.Defer if a message was accepted and has
// an answer. It does not refuse the message.
type Answered struct{ Answer e1.Envelope }

func (*Answered) Error() string { return "profiles: accepted, with an answer" }

// AnswerOf returns the answer of a message that was accepted, if err is an *Answered.
func AnswerOf(err error) (e1.Envelope, bool) {
	if err == nil {
		return e1.Envelope{}, false
	}
	a, ok := errors.AsType[*Answered](err)
	if !ok {
		return e1.Envelope{}, false
	}
	return a.Answer, true
}
