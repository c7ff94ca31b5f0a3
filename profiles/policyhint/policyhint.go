// Package policyhint is the POLICYHINT profile: constraints of a peer on work
// that is done for it.
//
//	SET → ACK         the constraints are in force
//	SET → VIOLATION   one cannot be set, and none of them was
//	SET → ERR
//	VIOLATION         one has stopped something
//
// New builds the Hints of an endpoint. Its Attach puts those of an exchange where
// handlers find them, profiles.HintsOf, and as a profiles.Policy it says which
// actions a MUST keeps from being done: what is known of a target is in Targets,
// and what is not known keeps no MUST. Put and Hints.Forward are the sending
// side.
//
// # Keys
//
//	no_external_network  true, false
//	no_pii               true, false
//	cost_limit           a number, perhaps with a unit: 0.05 EUR
//	region               names with commas between them: eu,ch
//
// An unknown key with MUST is a violation, UNKNOWN_KEY: nobody here could keep it.
// With SHOULD or MAY it is accepted, and handlers get it.
//
// # Scopes and precedence
//
// A constraint holds for its scope: connection, the default, task:<hex> and
// rpc:<hex> for one lifecycle, target:<name> for an MCP server, a kind of task or
// a method. All that hold for an action hold together: one of a narrower scope
// does not relax one of a wider.
//
// In one scope a key has one value, that of the strongest mode; a weaker one is
// accepted without effect. Of two with MUST and different values the second is a
// violation, CONFLICT; otherwise the later one of equal strength counts. A SET
// is taken whole or not at all.
//
// Hints belong to their connection: no other one sees them, and they are gone with
// it. A connection has at most 512, in 96 KiB, and all together have 64 MiB;
// those of lifecycles that have begun make room for others, the oldest first, and
// beyond that a SET is refused: no MUST is forgotten before it could be kept.
//
// Specification: SWP profiles §16.
package policyhint

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of POLICYHINT, Name its short name.
const (
	ProfileID = 16
	Name      = "policyhint"
)

// Targets knows what acts for peers behind this endpoint. It must not block, and
// is safe for concurrent use.
type Targets interface {
	// Target returns what is declared of what a profile calls by a name, as
	// profiles.Access has both. False means nothing.
	Target(profile, name string) (*Target, bool)
}

// Options configure a Hints.
type Options struct {
	// Access is asked for the operation set. Nil denies nothing.
	Access profiles.Access

	// Targets are what actions are held against. Nil declares nothing.
	Targets Targets

	// Told gets the VIOLATIONs that peers send: something that was asked of them
	// was stopped. It must not block. It may be nil.
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

// New returns the hints of an endpoint, none yet.
func New(opts Options) *Hints {
	h := &Hints{opts: opts}
	if h.opts.Access == nil {
		h.opts.Access = profiles.Everyone
	}
	h.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeSet, Name: "POLICY_HINT_SET", Role: profiles.Initiating},
			{ID: TypeAck, Name: "POLICY_HINT_ACK", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeViolation, Name: "POLICY_VIOLATION", Role: profiles.Initiating | profiles.Answer | profiles.Terminal},
			{ID: TypeErr, Name: "POLICY_ERR", Role: profiles.Answer | profiles.Terminal},
		},
		Operations: []profiles.Operation{
			{Name: "set"},
			{Name: "violation", Free: true},
		},
		Show:    p1.Show(Messages),
		Handler: profiles.HandlerFunc(h.serve),
		Check:   check,
		Refusal: refusals.Refusal,
	}
	return h
}

// Profile returns the profile that sets them. It is the same each time.
func (h *Hints) Profile() *profiles.Profile { return h.profile }

// Attach returns ctx with the hints for a message: those of its connection, of
// its lifecycle and of targets. Where nothing was ever set it costs next to
// nothing.
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
	if hints := conn.begin(scope); len(hints) > 0 {
		return profiles.WithHints(ctx, hints)
	}
	return ctx
}
