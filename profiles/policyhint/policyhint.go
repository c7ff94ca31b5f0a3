// Package policyhint is the POLICYHINT profile: conditions that a peer sets for work that
// is done for it.
//
//	SET → ACK         the hints are in force
//	SET → VIOLATION   one hint cannot be set, and none of them was
//	SET → ERR
//	VIOLATION         a hint has stopped an action
//
// New builds the Hints of an endpoint. Its Attach puts the hints of an exchange into the
// context of the handler, profiles.HintsOf. As a profiles.Policy it says which actions a
// MUST forbids: Targets has the declarations, and without a declaration a MUST is not
// satisfied. Put and Hints.Forward are the sending side.
//
// # Keys
//
//	no_external_network  true, false
//	no_pii               true, false
//	cost_limit           a number, optionally with a unit: 0.05 EUR
//	region               names separated by commas: eu,ch
//
// An unknown key with MUST is a violation, UNKNOWN_KEY, because nothing here could satisfy
// it. With SHOULD or MAY it is accepted, and handlers get it.
//
// # Scopes and precedence
//
// A hint applies to its scope: connection, the default, task:<hex> and rpc:<hex> for one
// lifecycle, target:<name> for an MCP server, a kind of task or a method. All hints for an
// action apply together: a narrower scope does not relax a wider one.
//
// In one scope a key has one value, from the strongest mode; a weaker hint is accepted
// without effect. Of two MUST hints with different values the second is a violation,
// CONFLICT. Otherwise the later of two hints with the same mode applies. A SET is accepted
// completely or not at all.
//
// Hints belong to their connection: they are not visible to others, and end with it. A
// connection has at most 512, in 96 KiB, and all connections together 64 MiB, which their identities share. Hints of
// lifecycles that have begun are removed to make room, the oldest first; beyond that a SET
// is refused, so that no MUST is dropped before it was applied.
//
// Specification: SWP profiles §16.
package policyhint

import (
	"cmp"
	"context"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ExtMessage is an extension of a SET: the msg_id of a message of the same side. The hints
// are for that message only.
const ExtMessage = 16

// ProfileID is the profile_id of POLICYHINT, Name its short name.
const (
	ProfileID = 16
	Name      = "policyhint"
)

// Targets has the declarations of everything that acts for peers behind this endpoint. It
// must not block, and is safe for concurrent use.
type Targets interface {
	// Target returns the declaration of the executor for a name of a profile, as in profiles.Access:
	// a server, a worker, a partner, or this endpoint itself. False means that it has no declaration.
	Target(profile, name string) (*Target, bool)
}

// Options configure a Hints.
type Options struct {
	// Access is asked for the operation set. Nil denies nothing.
	Access profiles.Access

	// Targets are compared with the hints. Nil declares nothing.
	Targets Targets

	// Forward is how long a message waits at most until the next hop has accepted its hints;
	// default 10 s.
	Forward time.Duration

	// Told is called with the VIOLATIONs that peers send: an action that was requested of
	// them was stopped. It must not block. It may be nil.
	Told func(peer *profiles.Peer, v *ViolationError)
}

// Hints are the hints of the connections of one endpoint. It is safe for
// concurrent use.
type Hints struct {
	opts    Options
	profile *profiles.Profile
	table   table
}

var _ profiles.Policy = (*Hints)(nil)

// New returns the hints of an endpoint, initially none.
func New(opts Options) *Hints {
	h := &Hints{opts: opts}
	if h.opts.Access == nil {
		h.opts.Access = profiles.Everyone
	}
	h.opts.Forward = cmp.Or(h.opts.Forward, 10*time.Second)
	h.table.octets.Bound(maxAllOctets)
	h.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeSet, Name: "POLICY_HINT_SET", Role: profiles.Initiating},
			{ID: TypeAck, Name: "POLICY_HINT_ACK", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeViolation, Name: "POLICY_VIOLATION", Role: profiles.Initiating | profiles.Answer | profiles.Terminal | profiles.Concluding},
			{ID: TypeErr, Name: "POLICY_ERR", Role: profiles.Answer | profiles.Terminal},
		},
		Operations: []profiles.Operation{
			{Name: "set"},
			{Name: "violation", Free: true},
		},
		Extensions: []uint64{ExtMessage},
		Inert:      true,
		Show:       p1.Show(Messages),
		Handler:    profiles.HandlerFunc(h.serve),
		Check:      check,
		Refusal:    refusals.Refusal,
	}
	return h
}

// Profile returns the profile by which peers set them, the same one each time.
func (h *Hints) Profile() *profiles.Profile { return h.profile }

// Attach returns ctx with the hints for a message: the ones of its connection, of its
// lifecycle and of targets. On a connection without hints it is cheap.
func (h *Hints) Attach(ctx context.Context, p *profiles.Profile, req *profiles.Request) context.Context {
	conn := h.table.Find(req.Session)
	if conn == nil {
		return ctx
	}
	var scope string
	if p.Scope != "" && p.Lifecycle != nil {
		if id := p.Lifecycle(&req.Envelope); len(id) > 0 {
			scope = scopeOf(p.Scope, id)
		}
	}
	if hints := conn.begin(scope, messageScope(req.MsgID)); len(hints) > 0 {
		return profiles.WithPolicy(ctx, hints, h)
	}
	return ctx
}
