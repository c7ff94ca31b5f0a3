// Package profiles is the contract between the endpoint and the profiles: the
// declarations of a profile, its input, its answers.
//
// A Profile is a table of message types with roles, and a Handler. The endpoint
// reads the table: a type that is not in it is refused before its payload is
// looked at. Others read it as well: access rules
// its operations, swp.info its extensions, RPC its methods, a dump how to show a
// payload. A Registry is built once from a list of profiles and never changes.
//
// A profile knows this package, p1, e1, its own schema and the interfaces of package
// store, and nothing of frames, transports or other profiles; imports_test.go lists what
// else it may import.
//
// # Constants
//
// The roles of message types are [Initiating], [Answer], [Terminal], [Concluding], [Lone] and [Within].
// Names lead behind partners or not: [NotBehind], [Told], [PassedOn].
// The codes of errors are [OK], [InvalidFrame], [FrameTooLarge], [InvalidUvarint],
// [UnsupportedVersion], [InvalidEnvelope], [MsgIDInvalid], [PayloadTooLarge],
// [ExtTooLarge], [UnknownProfile], [SecurityPolicy], [RateLimitExceeded],
// [UnsupportedMsgType], [InvalidMCPPayload], [InvalidProfilePayload],
// [DuplicateMsgID], [NotFound], [CompatibilityPolicy] and [Internal]; handlers mostly
// mean InvalidProfilePayload, NotFound, SecurityPolicy or, by [Busy],
// RateLimitExceeded. The extensions of any profile begin with Ext;
// go doc profiles.ExtHops lists them. A profile has its own.
package profiles

import (
	"context"
	"fmt"
	"slices"

	"github.com/slimwire/swp/e1"
)

// Role says how a message type takes part in an exchange.
type Role uint8

// A type can have both roles (SWP profiles §0.3).
const (
	// Initiating messages open an exchange under a fresh msg_id, or stand alone.
	// The duplicate policy applies to them.
	Initiating Role = 1 << iota
	// Answer messages repeat the msg_id of the message they answer.
	Answer
	// Terminal is added to Answer if the answer ends its exchange. A second one is a
	// violation, unless the caller gave the call up before. A profile without Terminal
	// types must check this itself.
	Terminal
	// Concluding is added to Initiating for a message that opens no exchange but belongs to
	// an open one, such as a cancellation. An endpoint that is shutting down refuses new
	// exchanges but still serves these messages.
	Concluding
	// Lone is added to Answer if the exchange has no other answer, but a second one is no
	// violation. An exchange that this side has opened is then recorded as answered.
	Lone
	// Within is added to Initiating for a message of a lifecycle that another message has
	// opened, such as an Event of a task. An endpoint that is shutting down serves these
	// messages, too.
	Within
)

// Type is a row of a profile's table.
type Type struct {
	ID   uint64 // msg_type, never 0
	Name string // as the specification spells it
	Role Role
}

// Profile is built by a profile package and held by a Registry. It must not change after
// NewRegistry.
type Profile struct {
	ID    uint64 // profile_id, never 0
	Name  string // short, lower case: a metric label
	Types []Type

	// Scope is the scope of hints for the lifecycles of the profile, such as ScopeTask.
	// Empty: hints cannot name a lifecycle.
	Scope string

	// Extensions are the extension types that the profile reads or sends, its own and the
	// common ones, for swp.info.
	Extensions []uint64

	// Operations are the operations of the profile: the names that access rules, metrics
	// and the access log use.
	Operations []Operation

	// Open says that rules may also name other operations, because there is no fixed set,
	// as with the methods of MCP.
	Open bool

	// Behind says whether the names of operations may lead to a partner.
	Behind Behind

	// Act returns what an initiating message asks for, for the comparison with the hints of
	// its sender. It is called on the read loop, only if there are hints with MUST or
	// credentials, and must not block; req is valid until it returns. Nil: Crossing says it,
	// and without a Crossing every message is an act of the endpoint itself, but for those
	// with the role Concluding, which end something.
	Act func(req *Request) (Act, error)

	// Inert says that nothing acts on messages of the profile, so that hints do not apply:
	// they describe something, or say something about other messages.
	Inert bool

	// Aside reports whether a message with the role Concluding belongs to an exchange that it names, such
	// as a notification of a call. Nil: none does.
	Aside func(env *e1.Envelope) bool

	// Review is called after the access rules have changed. It ends other work than exchanges
	// if they no longer allow it, such as tasks and sessions. It must not wait. Nil: the
	// profile has no such work.
	Review func()

	// Reviews says that the profile itself ends its held exchanges, if the rules no longer
	// allow them or their chain of credentials has ended. If it is not set, the endpoint ends
	// them; see Permit and Delegation.Watch.
	Reviews bool

	// Crossing says how messages of the profile are forwarded to a partner. Nil: none is,
	// or the Handler does it. A profile that supports targets lists ExtTarget in
	// Extensions; other profiles refuse a message with a target.
	Crossing *Crossing

	// Methods are the RPC methods of the profile; the RPC profile of the same endpoint
	// serves them. The RPC profile lists its own methods here, without functions.
	Methods []Method

	// Show decodes the payload for a dump: field names as in the schema, values that
	// encoding/json accepts, no secrets. It returns nil if the payload is malformed. If
	// Show is nil, a dump prints the payload undecoded.
	Show func(env *e1.Envelope) any

	// Handler receives every initiating message, and every answer without a matching call
	// on its session. Required.
	Handler Handler

	// Check returns an error if the payload of an answer is malformed. It runs before the
	// answer is passed to its call, and must not keep env. If Check is nil, every payload
	// is accepted.
	Check func(env *e1.Envelope) error

	// Lifecycle returns the key of the lifecycle that an initiating message opens or
	// belongs to, such as its task_id or rpc_id. Trace contexts are bound to this key. It
	// returns nothing if there is no key or it cannot be read. The result may alias env.
	// Nil: the profile has no such key.
	Lifecycle func(env *e1.Envelope) []byte

	// Refusal builds the profile's own error message for the sender of req. It is called
	// for every refusal by the endpoint itself (duplicate, capacity, deadline, panic) and
	// for an *Error without an Answer. ok is false if the profile has no error message for
	// req. The result may alias req.
	//
	// If Refusal is nil, the endpoint answers a refused message that opens an exchange with
	// the error message of profile 4096, so that no caller waits for ever. For a peer that
	// does not know profile 4096 this is a message of an unknown profile; to avoid it use
	// Silent.
	Refusal func(req *Request, err *Error) (answer e1.Envelope, ok bool)
}

// Operation is an operation of a profile: something that the access rules can allow.
type Operation struct {
	Name string

	// On says what the name in a rule is, such as "event_type". Empty: rules for this
	// operation have no name.
	On string

	// Free says that the access rules are not asked. The operation then appears in metrics
	// and the access log only.
	Free bool
}

// Behind says whether a name may be partner/name, for something that a partner has.
type Behind uint8

const (
	NotBehind Behind = iota // it cannot
	Told                    // the partner is asked for information about it
	PassedOn                // exchanges about it are also forwarded to the partner
)

// Asked returns the operations for which the access rules are asked.
func (p *Profile) Asked() []Operation {
	return slices.DeleteFunc(slices.Clone(p.Operations), func(o Operation) bool { return o.Free })
}

// Silent is the Refusal of a profile without an error message. A caller that waits for an
// answer then sees its stream reset on QUIC, and gets no reply on other transports.
func Silent(*Request, *Error) (answer e1.Envelope, ok bool) { return e1.Envelope{}, false }

// Opens reports whether a message opens a separate exchange, which both ends list in receipts. Both ends ask
// this function. An answer that can also stand alone, but concludes another exchange, opens none,
// and a message that the profile says is an aside.
func (p *Profile) Opens(env *e1.Envelope) bool {
	t, _ := p.Type(env.MsgType)
	switch {
	case t.Role&Initiating == 0, t.Role&(Answer|Concluding) == Answer|Concluding:
		return false
	case t.Role&Concluding != 0 && p.Aside != nil:
		return !p.Aside(env)
	}
	return true
}

// Type returns the row of a msg_type.
func (p *Profile) Type(id uint64) (Type, bool) {
	// Most tables have at most a dozen rows, numbered from 1.
	if i := id - 1; i < uint64(len(p.Types)) && p.Types[i].ID == id {
		return p.Types[i], true
	}
	for _, t := range p.Types {
		if t.ID == id {
			return t, true
		}
	}
	return Type{}, false
}

// Ends reports whether the profile has answers that end an exchange.
func (p *Profile) Ends() bool {
	for _, t := range p.Types {
		if t.Role&Terminal != 0 {
			return true
		}
	}
	return false
}

// Handler serves the messages of one profile. The read loop of a stream calls Serve for
// each message, in order of arrival. Serve must not block: use Request.Detach for
// computation and I/O, and Request.Hold to wait for another party. Many streams call Serve
// at the same time.
//
// req and everything in it is valid until Serve returns. A nil error means that the message
// was handled, with or without an answer. Any other error refuses the message: an *Error
// with its code, any other error as Internal.
type Handler interface {
	Serve(ctx context.Context, req *Request, w Responder) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, req *Request, w Responder) error

// Serve calls f.
func (f HandlerFunc) Serve(ctx context.Context, req *Request, w Responder) error {
	return f(ctx, req, w)
}

// Registry finds profiles by id. It is immutable and safe for concurrent use.
type Registry struct {
	dense [32]*Profile // by id: the foundational and extended families
	more  map[uint64]*Profile
	list  []*Profile
}

// NewRegistry returns a registry of the profiles given. It fails on an id or a
// msg_type that is 0 or there twice, and on a missing handler.
func NewRegistry(list ...*Profile) (*Registry, error) {
	r := &Registry{more: make(map[uint64]*Profile), list: list}
	for _, p := range list {
		switch _, taken := r.Lookup(p.ID); {
		case p.ID == 0:
			return nil, fmt.Errorf("profiles: %s: profile_id 0 is reserved", p.Name)
		case taken:
			return nil, fmt.Errorf("profiles: %s: profile_id %d is taken", p.Name, p.ID)
		case p.Handler == nil:
			return nil, fmt.Errorf("profiles: %s: no handler", p.Name)
		}
		seen := make(map[uint64]bool)
		for _, t := range p.Types {
			if t.ID == 0 || seen[t.ID] || t.Role&(Initiating|Answer) == 0 || t.Role&(Answer|Terminal) == Terminal ||
				t.Role&(Initiating|Concluding) == Concluding || t.Role&(Initiating|Within) == Within || t.Role&Lone != 0 && t.Role&(Answer|Terminal) != Answer {
				return nil, fmt.Errorf("profiles: %s: msg_type %d: reserved, repeated or without a role", p.Name, t.ID)
			}
			seen[t.ID] = true
		}
		if p.ID < uint64(len(r.dense)) {
			r.dense[p.ID] = p
		} else {
			r.more[p.ID] = p
		}
	}
	return r, nil
}

// Lookup returns the profile of an id.
func (r *Registry) Lookup(id uint64) (*Profile, bool) {
	if id < uint64(len(r.dense)) {
		p := r.dense[id]
		return p, p != nil
	}
	p, ok := r.more[id]
	return p, ok
}

// All returns the profiles in the order they were given. The caller must not
// change the slice.
func (r *Registry) All() []*Profile { return r.list }
