// Package agdisc is the AGDISC profile: the cards of agents, unchanged.
//
//	GET → DOC | NOT_MODIFIED | ERR
//
// New builds a Service that gives peers the cards of its Sources: a Table for configured
// cards, Sessions for the cards of connected agents. The octets of a card are neither
// changed nor parsed.
//
// A card has an etag for revalidation, and a max_age during which a copy is fresh. Cache is
// the asking side that observes both; Ask sends one request.
//
// A card that a peer may not get looks absent.
//
// Specification: SWP profiles §10.
package agdisc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of AGDISC, Name its short name.
const (
	ProfileID = 10
	Name      = "agdisc"
)

// Card is the card of an agent. Its Payload must not be changed.
type Card struct {
	AgentID  string
	Revision string // schema_revision
	ETag     string // of the Payload
	Payload  []byte // opaque

	// MaxAge is how long the card is fresh from now on; 0 means that it must be requested
	// each time. Its unit is a millisecond.
	MaxAge time.Duration

	// Stale is the time for which the partner of the agent has been unreachable, 0 if it is
	// reachable. Only Ask sets it.
	Stale time.Duration
}

// HashOf returns the etag of a card without one: a hash of its octets.
func HashOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Entry is an agent in a listing.
type Entry struct {
	AgentID  string `json:"agent_id"`
	Revision string `json:"schema_revision,omitempty"` // of its card, if known
	Card     *bool  `json:"card,omitempty"`            // false: it has no card; nil: not known
	Own      bool   `json:"own,omitempty"`             // the asking identity has declared it, and it is connected

	// StaleMillis is how long the partner of the agent has been unreachable: the entry may
	// be outdated.
	StaleMillis int64 `json:"stale_ms,omitempty"`

	// Behind says that it is an agent of a partner.
	Behind bool `json:"-"`
}

// Source has the cards of some agents. It is safe for concurrent use, and its methods do
// not wait.
type Source interface {
	// Agents returns the agents whose cards it may have, in any order. The caller may
	// change the slice.
	Agents() []Entry

	// Card finds the card of an agent. It returns false if the agent does not belong to
	// this source. Otherwise it calls found once, immediately or later, from any goroutine;
	// found must not wait. An error that is a *profiles.PeerError means that the agent has
	// no card.
	Card(agentID string, found func(Card, error)) bool
}

// Options configure a Service. The zero value has no cards.
type Options struct {
	// Sources have the cards. If several have the same agent, the first one is used.
	Sources []Source

	// Partners keep the agents and cards of partners, and are a further source. Nil: nothing
	// is kept.
	Partners *Partners

	// Refresh updates the lists of the partners that are wanted which are too old, and waits
	// for that or for ctx. It returns the names of the partners that have not listed their
	// agents yet. Nil: the lists stay unchanged.
	Refresh func(ctx context.Context, wanted func(partner string) bool) (unlisted []string)

	// Access is asked for the operation get on an agent_id. Nil denies nothing.
	Access profiles.Access

	// Kinds returns the kinds of tasks that an identity may ask for, sorted. Nil: none is
	// listed.
	Kinds func(identity string) []string

	// Partner reports whether an identity is a partner. Agents of partners are not listed
	// to partners, because two that list each other would never end. Nil: there are no
	// partners.
	Partner func(identity string) bool
}

// Service answers requests for the cards of agents. It is safe for concurrent use.
type Service struct {
	sources  []Source
	access   profiles.Access
	partners *Partners
	partner  func(identity string) bool
	kinds    func(identity string) []string
	refresh  func(ctx context.Context, wanted func(partner string) bool) []string
	profile  *profiles.Profile
}

// New returns a Service.
func New(opts Options) *Service {
	s := &Service{sources: opts.Sources, access: opts.Access, partners: opts.Partners, partner: opts.Partner, kinds: opts.Kinds, refresh: opts.Refresh}
	if s.partners != nil {
		s.sources = append(slices.Clone(s.sources), s.partners)
	}
	if s.access == nil {
		s.access = profiles.Everyone
	}
	s.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeGet, Name: "AGDISC_GET", Role: profiles.Initiating},
			{ID: TypeDoc, Name: "AGDISC_DOC", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeNotModified, Name: "AGDISC_NOT_MODIFIED", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeErr, Name: "AGDISC_ERR", Role: profiles.Answer | profiles.Terminal},
		},
		Extensions: []uint64{ExtStale},
		Operations: []profiles.Operation{
			{Name: "get", On: "agent_id"},
		},
		Behind:   profiles.PassedOn,
		Crossing: s.crossing(),
		Methods:  []profiles.Method{{Name: MethodList, Open: true, Repeatable: true, Detached: s.list}},
		Show:     p1.Show(Messages),
		Inert:    true,
		Handler:  profiles.HandlerFunc(s.serve),
		Check:    check,
		Refusal:  refusals.Refusal,
	}
	return s
}

// names describes the agent_ids that can belong to partners.
var names = p1.Names{Messages: Messages, Field: "agent_id"}

// Profile returns the profile that serves peers, the same one each time.
func (s *Service) Profile() *profiles.Profile { return s.profile }

func (s *Service) serve(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
	if req.MsgType != TypeGet {
		return check(&req.Envelope) // an answer without a call: if it is well formed, it is counted and dropped
	}
	var in Get
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	agentID := string(in.AgentID)
	if !req.May(s.access, s.profile.Name, "get", agentID) {
		return errHidden
	}
	etag := string(in.IfNoneMatch)
	_, w, err := req.Hold()
	if err != nil {
		return err
	}
	for _, source := range s.sources {
		if source.Card(agentID, func(card Card, err error) { answerCard(w, etag, &card, err) }) {
			return nil
		}
	}
	w.Fail(errUnknown)
	return nil
}

// Card returns the card that peers get for an agent of this endpoint. The error is a
// *profiles.PeerError if there is none.
func (s *Service) Card(ctx context.Context, agentID string) (Card, error) {
	return CardOf(ctx, agentID, s.sources...)
}

// CardOf returns the card of an agent from the first of some sources that has it; a Source may
// be nil. It waits for the card, or for ctx. The error is a *profiles.PeerError if no source
// has it.
func CardOf(ctx context.Context, agentID string, sources ...Source) (Card, error) {
	type outcome struct {
		card Card
		err  error
	}
	found := make(chan outcome, 1)
	for _, source := range sources {
		if source == nil || !source.Card(agentID, func(card Card, err error) { found <- outcome{card, err} }) {
			continue
		}
		select {
		case o := <-found:
			return o.card, o.err
		case <-ctx.Done():
			return Card{}, context.Cause(ctx)
		}
	}
	return Card{}, &profiles.PeerError{Profile: Name, Code: CodeNotFound, Message: errUnknown.Text}
}

// check returns an error for a malformed answer.
var check = p1.WellFormed(Messages)
