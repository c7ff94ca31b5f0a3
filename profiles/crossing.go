package profiles

import (
	"context"
	"errors"

	"github.com/slimwire/swp/e1"
)

// Crossing says how messages of a profile go on to a partner: where a message names what
// it is about, and how it is answered. Its functions are called by several goroutines,
// and keep nothing of the envelopes that they get.
type Crossing struct {
	// Read returns what an initiating message is about. It does not wait. The error
	// refuses the message.
	Read func(env *e1.Envelope) (Errand, error)

	// Rename returns the payload of a message or an answer with each of its names
	// changed by f, as fresh octets. Nil: names of the profile lead to no partner.
	Rename func(env *e1.Envelope, f func(name []byte) []byte) ([]byte, error)

	// May asks the rules whether an identity may do something with what has a name, and
	// may ask those of another profile. Nil: operation of this profile is asked.
	May func(a Access, identity, operation, name string) bool

	// Visible returns the payload of an answer with those parts only that the caller may
	// see: may is told the name of a part, as the answer has it. Nil: there are no parts.
	Visible func(env *e1.Envelope, may func(name string) bool) ([]byte, error)

	// Refused reads the error message of the profile. Nil if env is another message, or
	// malformed.
	Refused func(env *e1.Envelope) *PeerError

	// Refuse builds the error message by which the caller learns what a partner has
	// refused. Required with Pass.
	Refuse func(refused *PeerError) e1.Envelope

	// Pass begins to answer a message whose Errand says Many or Endless with what the
	// partner answers. It is called on the read loop and must not wait: what it returns
	// does, on its own goroutine, until the exchange is over or ctx ends, and returns the
	// error of Fail. req and w are a held exchange, which it need not end.
	Pass func(way *Way, req *Request, w Responder) (run func(ctx context.Context) error, err error)
}

// Errand is what an initiating message is about, and how it is answered.
type Errand struct {
	Operation string   // in the words of Access
	Free      bool     // Access is not asked, or only about each answer
	Part      bool     // it belongs to a larger exchange, see Subject
	Names     []string // that Access is asked about; each that Rename changes can begin with a partner
	Answers   Answers
	Sole      Sole
}

// Answers says how a message is answered.
type Answers uint8

const (
	Once    Answers = iota // by one answer
	Refusal                // by one where it is not accepted, else by one or by none: swp.sync tells
	Many                   // by several: Crossing.Pass sees to them
	Endless                // by several, and without an expected end
	Here                   // by this endpoint: it is about another message that came on the connection
)

// Sole is work that only one peer at a time may do over a link to a partner, which takes
// all peers here for one. The zero value is none.
type Sole struct {
	On     string // what is worked on
	Begins bool   // the message begins the work; others belong to work that has begun
	Ends   bool   // and is the last one of it
}

// Way is the way to a partner, for Crossing.Pass.
type Way struct {
	// Session returns a session on which every message carries what it has to on the
	// way to the partner. It waits a moment for one that was just lost. The error is an
	// *Error, or that of ctx.
	Session func(ctx context.Context) (Session, error)

	// Sync returns once the partner has processed, and committed, what was sent on a lane of
	// a Session before.
	Sync func(ctx context.Context, lane Lane) error

	// Shared says that whoever asks for the same may share what a Session of this way
	// brings: nothing of it is about one caller.
	Shared bool

	// Prefix begins the names here of what is there: the partner, or several, and a
	// slash. Named says that the message has it in its names, which cross without it.
	Prefix string
	Named  bool
}

// Here returns the name here of what a message or an answer calls name.
func (w *Way) Here(name string) string { return w.Prefix + name }

// Answered is what the function of Request.Defer is called with for a message that was
// accepted and has an answer. It is no error of the message.
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
