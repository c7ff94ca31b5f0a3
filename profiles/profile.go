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
// The roles of message types are [Initiating], [Answer], [Terminal] and [Concluding].
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
	// Terminal is added to Answer where the answer ends its exchange: another
	// one is a violation, unless the call was given up before its end. A profile
	// without such types judges that itself.
	Terminal
	// Concluding is added to Initiating for a message that opens no exchange, but
	// belongs to an open one, such as a cancellation: an endpoint that is shutting
	// down still serves it, although it refuses new exchanges.
	Concluding
)

// Type is a row of a profile's table.
type Type struct {
	ID   uint64 // msg_type, never 0
	Name string // as the specification spells it
	Role Role
}

// Profile is what a profile package builds and a Registry holds. It is not
// modified after NewRegistry.
type Profile struct {
	ID    uint64 // profile_id, never 0
	Name  string // short, lower case: a metric label
	Types []Type

	// Scope is what scopes of hints call the lifecycles of the profile, such as
	// ScopeTask. Empty: no hint is for one of them.
	Scope string

	// Extensions are the extension types that the profile acts on or sends, its own
	// and those of any profile, for swp.info.
	Extensions []uint64

	// Operations are what peers do in the profile, in the words of access rules,
	// metrics and the access log.
	Operations []Operation

	// Open says that rules may name other operations as well: they are not from a
	// fixed set, such as the methods of MCP.
	Open bool

	// Behind says whether the names of operations may lead to a partner.
	Behind Behind

	// Crossing says how messages of the profile go on to a partner. Nil: none does, or
	// the Handler sees to it. One that heeds targets has ExtTarget among its Extensions;
	// a message with a target of any other profile is refused.
	Crossing *Crossing

	// Methods of RPC come with the profile. The RPC profile of the same endpoint
	// serves them; its own are here without functions.
	Methods []Method

	// Show returns the message in a payload, by the names of its schema and fit for
	// encoding/json, for people who look at a dump; nil if it is malformed. Secrets
	// are left out. A nil Show leaves the payload as it is.
	Show func(env *e1.Envelope) any

	// Handler gets every message that initiates, and the answers that match no
	// call of this session. Required.
	Handler Handler

	// Check says whether the payload of an answer is well-formed, before the
	// answer is handed to the call it matches. It keeps nothing of env. Nil
	// means every payload is.
	Check func(env *e1.Envelope) error

	// Lifecycle returns the key under which trace contexts are bound to the
	// lifecycle that an initiating message opens or belongs to, such as its
	// task_id or rpc_id; empty if it has none or cannot be read. The result may
	// alias env. Nil means the profile has no such key.
	Lifecycle func(env *e1.Envelope) []byte

	// Refusal builds the profile's own message that tells the sender of req why
	// it was refused: for all refusals by the endpoint itself (duplicate,
	// capacity, deadline, panic) and for an *Error without an Answer. ok is
	// false if the profile has none for this message. The result may alias req.
	//
	// Nil means that the endpoint tells the sender of a message that opens an exchange
	// by its own error message (profile 4096), which ends the call, so that no caller
	// waits for a handler that has failed. A peer that knows nothing of that message
	// takes it for one of an unknown profile; Silent is for those.
	Refusal func(req *Request, err *Error) (answer e1.Envelope, ok bool)
}

// Operation is something that peers do in a profile.
type Operation struct {
	Name string

	// On is what the name is that the rules are asked about, such as "event_type";
	// empty: they are asked about no name.
	On string

	// Free says that the rules are not asked: metrics and the access log alone have
	// the operation.
	Free bool
}

// Behind says whether a name can be that of something behind a partner,
// partner/name.
type Behind uint8

const (
	NotBehind Behind = iota // it cannot
	Told                    // the partner is asked for what there is to tell of it
	PassedOn                // and exchanges about it are passed on to the partner
)

// Asked returns the operations of the profile that the rules are asked about.
func (p *Profile) Asked() []Operation {
	return slices.DeleteFunc(slices.Clone(p.Operations), func(o Operation) bool { return o.Free })
}

// Silent is the Refusal of a profile that has no message to say why: whoever waits
// for an answer sees its stream reset on QUIC, and nothing elsewhere.
func Silent(*Request, *Error) (answer e1.Envelope, ok bool) { return e1.Envelope{}, false }

// Type returns the row of a msg_type.
func (p *Profile) Type(id uint64) (Type, bool) {
	// Tables have at most a dozen rows and mostly number them from 1.
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

// Handler serves the messages of one profile. Serve is called in order of
// arrival on the stream's read loop and must not block: computation and I/O go
// to Request.Detach, waiting for another party to Request.Hold. It is called by
// many streams at once.
//
// req and everything in it is valid until Serve returns. A nil error means the
// message was handled, whether or not an answer was sent. Any other error
// refuses it: an *Error with its code, anything else as Internal.
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
				t.Role&(Initiating|Concluding) == Concluding {
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
