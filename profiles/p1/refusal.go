package p1

import (
	"errors"
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// MaxRefusal bounds the payload of a refusal in octets: with a msg_id of 64 octets, the
// frame then has at most 512 octets.
const MaxRefusal = 400

// maxCode bounds the code of a refusal, in octets. The codes of a profile are shorter; a
// forwarded code of another endpoint may be longer.
const maxCode = 64

// ErrMessage is the error message of a profile: a code, and a text for people.
type ErrMessage interface {
	Decode(payload []byte) error
	Size() int
	Append(dst []byte) []byte
}

// ErrFields point at the fields of an ErrMessage.
type ErrFields struct {
	Code, Message *[]byte
	Retryable     *bool // nil: the message has no such field
}

// Refusals say how a profile refuses messages and reads the refusals of peers. They must
// not change while in use, and are then safe for concurrent use.
type Refusals struct {
	Profile string   // its short name
	Type    uint64   // msg_type of the error message
	Of      []uint64 // msg_types that the error message answers

	// New returns an empty error message and pointers to its fields.
	New func() (ErrMessage, ErrFields)

	// Own returns the code of the profile for the Detail of an *Error, if there is one.
	// Otherwise the code is the alias of the canonical code. May be nil.
	Own func(detail string) (code string, ok bool)

	// Later are the codes of the profile that mean that the same message may succeed later.
	Later []string
}

// Refusal builds the error message for a refused message; it is the Refusal of the profile.
// There is none for a msg_id in use, because the peer would take it for the answer to the
// first message with that msg_id.
func (r *Refusals) Refusal(req *profiles.Request, fault *profiles.Error) (answer e1.Envelope, ok bool) {
	if !slices.Contains(r.Of, req.MsgType) || fault.Code == profiles.DuplicateMsgID {
		return e1.Envelope{}, false
	}
	code := fault.Code.Alias()
	if _, fields := r.New(); fault.Retryable && fields.Retryable == nil {
		code = profiles.RateLimitExceeded.Alias()
	}
	if r.Own != nil {
		if own, named := r.Own(fault.Detail); named {
			code = own
		}
	}
	text := fault.Text
	if text == "" {
		text = fault.Code.String()
	}
	return r.Answer(code, text, fault.Retryable), true
}

// Answer builds the error message. It shortens a text that is too long.
func (r *Refusals) Answer(code, text string, retryable bool) e1.Envelope {
	m, fields := r.New()
	*fields.Code, *fields.Message = []byte(Clip(code, maxCode)), []byte(text)
	if fields.Retryable != nil {
		*fields.Retryable = retryable
	}
	if over := m.Size() - MaxRefusal; over > 0 {
		*fields.Message = Clip(*fields.Message, len(text)-over)
	}
	return e1.Envelope{MsgType: r.Type, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// Read returns the error message of a peer as a *profiles.PeerError. The error is an
// *profiles.Error of InvalidProfilePayload if env is another message, or malformed.
func (r *Refusals) Read(env *e1.Envelope) error {
	if env.MsgType != r.Type {
		return profiles.Errorf(profiles.InvalidProfilePayload, "%s: answered with msg_type %d, want %d", r.Profile, env.MsgType, r.Type)
	}
	m, fields := r.New()
	if err := m.Decode(env.Payload); err != nil {
		return err
	}
	author, _ := env.Extensions.Lookup(profiles.ExtEndpoint)
	code := string(*fields.Code)
	return &profiles.PeerError{
		Profile: r.Profile, Code: code, Message: string(*fields.Message), Endpoint: string(author),
		Later: slices.Contains(r.Later, code) || fields.Retryable != nil && *fields.Retryable,
	}
}

// Refused implements profiles.Crossing.
func (r *Refusals) Refused(env *e1.Envelope) *profiles.PeerError {
	if env.MsgType != r.Type {
		return nil
	}
	refused, _ := errors.AsType[*profiles.PeerError](r.Read(env))
	return refused
}

// Refuse implements profiles.Crossing: the error keeps the endpoint that refused.
func (r *Refusals) Refuse(refused *profiles.PeerError) e1.Envelope {
	env := r.Answer(refused.Code, refused.Message, refused.Later)
	if refused.Endpoint != "" {
		env.Extensions = e1.AppendExtension(nil, profiles.ExtEndpoint, []byte(refused.Endpoint))
	}
	return env
}

// OneOf returns an Own for codes that are also details.
func OneOf(codes ...string) func(detail string) (code string, ok bool) {
	return func(detail string) (string, bool) { return detail, slices.Contains(codes, detail) }
}
