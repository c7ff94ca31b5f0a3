package sdl

import (
	"context"
	"fmt"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Onward passes envelopes on between agents and partners. Nothing of an envelope is
// opened or changed: the agent_ids of its sender and its receiver are read, which are in
// clear always. It is safe for concurrent use.
type Onward interface {
	// Head reads between whom an envelope is. It does not wait.
	Head(form Form, body []byte) (Head, *Fault)

	// Refusal is that of a Server, where there is none.
	Refusal(form Form, f *Fault) []byte

	// Owns reports whether an identity may use an agent_id as its own, and May whether
	// it may speak as that agent here.
	Owns(identity, agentID string) bool
	May(identity, agentID string) bool

	// Route returns the target of envelopes for an agent that have none; empty: they stay
	// here. It does not wait.
	Route(agentID string) string

	// Concerns reports whether an event from an identity for an agent is for Bring: the
	// identity is that of a partner, and the agent is not this endpoint.
	Concerns(identity, agentID string) bool

	// Bring takes an event to an agent here, or behind a partner. It returns once the
	// event is with the agent or is kept for it.
	Bring(ctx context.Context, e *Event) error
}

// Head says between whom an envelope is, by agent_ids.
type Head struct{ From, To string }

// Event is an envelope of type evt on its way to an agent.
type Event struct {
	From    string           // identity that sent it
	To      string           // identity that speaks as the agent; empty: not known
	AgentID string           // of the receiver
	Session profiles.Session // on which the agent spoke last; nil: it is gone, or not known
	Passage profiles.Passage
	Body    []byte
}

// crossing is how envelopes go on to partners.
func (s *Service) crossing() *profiles.Crossing {
	if s.opts.Onward == nil {
		return nil
	}
	return &profiles.Crossing{
		Read: s.errand, Target: s.route, Admit: s.admit, Patience: s.opts.Deadline,
		Refused: func(*e1.Envelope) *profiles.PeerError { return nil }, // an error of the language is an answer like others
	}
}

// head reads the head of a message. The error is its verdict.
func (s *Service) head(env *e1.Envelope) (Head, error) {
	form, _ := FormOf(env.Payload)
	h, fault := s.opts.Onward.Head(form, env.Payload)
	if fault != nil {
		return Head{}, fault.verdict(env.MsgType, s.opts.Onward.Refusal(form, fault))
	}
	return h, nil
}

// errand says that the rules are asked whether the sender may speak as an agent there.
func (s *Service) errand(env *e1.Envelope) (profiles.Errand, error) {
	h, err := s.head(env)
	e := profiles.Errand{Operation: "send", Names: []string{h.From}}
	if env.MsgType == TypeEvt {
		e.Answers = profiles.Refusal
	}
	return e, err
}

// route returns where an envelope without a target goes. One that cannot be read stays
// here and is refused.
func (s *Service) route(env *e1.Envelope) string {
	form, _ := FormOf(env.Payload)
	h, fault := s.opts.Onward.Head(form, env.Payload)
	if fault != nil {
		return ""
	}
	return s.opts.Onward.Route(h.To)
}

// admit holds the sender to its own agent_ids, and notes where the agent is, for the
// events that come back.
func (s *Service) admit(req *profiles.Request, e *profiles.Errand, partner string) error {
	identity, agentID := req.Session.Peer().Identity, e.Names[0]
	if !s.opts.Onward.Owns(identity, agentID) {
		return errNotOwn(agentID)
	}
	if other := s.agents.behind(partner, agentID); other != "" && other != identity {
		if _, there := s.agents.session(other, agentID); there {
			return errUsed
		}
	}
	s.agents.heard(req.Session, agentID)
	s.agents.passed(partner, agentID, identity)
	return nil
}

func errNotOwn(agentID string) error {
	return profiles.Deny(&profiles.Error{
		Code: profiles.SecurityPolicy, Detail: detailOf(CodeSecurity), Text: fmt.Sprintf("sdl: this identity may not speak as %.200q", agentID),
	})
}

// errUsed keeps apart two identities that may use one agent_id: to a partner they are one.
var errUsed = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "partner_agent", Retryable: true, Domain: true,
	Text: "another identity speaks to this partner as the same agent now; or partners pass the envelope on in a circle",
}

// backwards reports whether a message is an event of a partner for an agent here, or for
// one whose envelopes came through here.
func (s *Service) backwards(req *profiles.Request) (Head, bool) {
	if s.opts.Onward == nil || req.MsgType != TypeEvt {
		return Head{}, false
	}
	h, err := s.head(&req.Envelope)
	return h, err == nil && s.opts.Onward.Concerns(req.Session.Peer().Identity, h.To)
}

// bring takes an event of a partner to its agent.
func (s *Service) bring(ctx context.Context, h Head, env *e1.Envelope, session profiles.Session) error {
	from, passage := session.Peer().Identity, profiles.PassageOf(env.Extensions, time.Now())
	if !s.opts.Onward.May(from, h.From) {
		return errNotOwn(h.From)
	}
	if fault := passage.Spent(); fault != nil {
		return fault
	}
	e := &Event{From: from, To: s.agents.behind(from, h.To), AgentID: h.To, Passage: passage, Body: env.Payload}
	e.Session, _ = s.agents.session(e.To, h.To)
	return s.opts.Onward.Bring(ctx, e)
}

// passages remember as which identity's agents envelopes went to which partner. Above the
// bound those are forgotten that were used longest ago.
type passages struct {
	bound      int
	young, old map[passage]string
}

type passage struct{ partner, agentID string } // the identity of the partner

func (p *passages) get(k passage) string {
	if identity, ok := p.young[k]; ok {
		return identity
	}
	identity, ok := p.old[k]
	if ok {
		p.set(k, identity)
	}
	return identity
}

func (p *passages) set(k passage, identity string) {
	if _, known := p.young[k]; !known && len(p.young) >= max(1, p.bound/2) || p.young == nil {
		p.young, p.old = make(map[passage]string), p.young
	}
	p.young[k] = identity
}

// behind returns the identity whose agent has sent envelopes to a partner, empty if it is
// not known.
func (a *agents) behind(partner, agentID string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passages.get(passage{partner, agentID})
}

// passed notes that an agent of an identity sends envelopes to a partner.
func (a *agents) passed(partner, agentID, identity string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passages.set(passage{partner, agentID}, identity)
}
