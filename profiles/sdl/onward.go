package sdl

import (
	"context"
	"fmt"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Onward forwards envelopes between agents and partners. It does not open or change an
// envelope: it reads only the agent_ids of sender and receiver, which are never encrypted.
// It must be safe for concurrent use.
type Onward interface {
	// Head reads sender and receiver of an envelope. It must not wait.
	Head(form Form, body []byte) (Head, *Fault)

	// Refusal replaces Server.Refusal if there is no Server.
	Refusal(form Form, f *Fault) []byte

	// Owns reports whether an agent_id belongs to an identity. May reports whether the
	// identity may act as that agent here.
	Owns(identity, agentID string) bool
	May(identity, agentID string) bool

	// Route returns the target for envelopes to an agent that name no target; empty for
	// local handling. It must not wait.
	Route(agentID string) string

	// Concerns reports whether an event from an identity for an agent is for Bring: the
	// identity is a partner, and the agent is not this endpoint.
	Concerns(identity, agentID string) bool

	// Bring delivers an event to an agent, here or behind a partner. It returns when the
	// event is delivered or stored for the agent.
	Bring(ctx context.Context, e *Event) error
}

// Head holds the agent_ids of sender and receiver of an envelope.
type Head struct{ From, To string }

// Event is an envelope of type evt for an agent.
type Event struct {
	From    string           // identity of the sender
	To      string           // identity of the agent; empty: unknown
	AgentID string           // agent_id of the receiver
	Session profiles.Session // last session of the agent; nil: ended or unknown
	Passage profiles.Passage
	Body    []byte
}

// crossing describes how envelopes are forwarded to partners.
func (s *Service) crossing() *profiles.Crossing {
	if s.opts.Onward == nil {
		return nil
	}
	return &profiles.Crossing{
		Read: s.errand, Target: s.route, Admit: s.admit, Patience: s.patience,
		Refused: func(*e1.Envelope) *profiles.PeerError { return nil }, // an SDL error is an ordinary answer
	}
}

// head reads the head of a message. The error is the verdict.
func (s *Service) head(env *e1.Envelope) (Head, error) {
	form, _ := FormOf(env.Payload)
	h, fault := s.opts.Onward.Head(form, env.Payload)
	if fault != nil {
		return Head{}, fault.verdict(env.MsgType, s.opts.Onward.Refusal(form, fault))
	}
	return h, nil
}

// errand returns the errand for the access rules: acting as an agent.
func (s *Service) errand(env *e1.Envelope) (profiles.Errand, error) {
	h, err := s.head(env)
	e := profiles.Errand{Operation: "send", Names: []string{h.From}}
	if env.MsgType == TypeEvt {
		e.Answers = profiles.Refusal
	} else {
		e.By = []uint64{TypeRes}
	}
	return e, err
}

// route returns the target of an envelope without one. An unreadable envelope stays here
// and is refused.
func (s *Service) route(env *e1.Envelope) string {
	form, _ := FormOf(env.Payload)
	h, fault := s.opts.Onward.Head(form, env.Payload)
	if fault != nil {
		return ""
	}
	return s.opts.Onward.Route(h.To)
}

// act is the envelope for a partner. What another envelope asks for is known once it is opened:
// the Server then compares that with the hints.
func (s *Service) act(req *profiles.Request) (profiles.Act, error) {
	act := profiles.Act{Operation: "send", Free: true}
	if s.opts.Onward == nil {
		return act, nil
	}
	target, err := profiles.TargetOf(req.Extensions)
	if err != nil {
		return act, err
	}
	if target == "" {
		target = s.route(&req.Envelope)
	}
	if target == "" {
		return act, nil
	}
	h, err := s.head(&req.Envelope)
	return profiles.Act{Operation: "send", Name: target + "/" + h.From, Ruled: true}, err
}

// admit checks that the sender uses its own agent_id, and records its session for returning
// events.
func (s *Service) admit(req *profiles.Request, e *profiles.Errand, partner string) error {
	identity, agentID := req.Identity(), e.Names[0]
	if !s.opts.Onward.Owns(identity, agentID) {
		return errNotOwn(agentID)
	}
	if other := s.agents.behind(partner, agentID); other != "" && other != identity {
		if _, there := s.agents.session(other, agentID); there {
			return errUsed
		}
	}
	s.agents.heard(req.Session, identity, agentID)
	s.agents.passed(partner, agentID, identity)
	return nil
}

func errNotOwn(agentID string) error {
	return profiles.Deny(&profiles.Error{
		Code: profiles.SecurityPolicy, Detail: detailOf(CodeSecurity), Text: fmt.Sprintf("sdl: this identity may not speak as %.200q", agentID),
	})
}

// errUsed separates two identities that may use the same agent_id: a partner could not
// distinguish their agents.
var errUsed = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "partner_agent", Retryable: true, Domain: true,
	Text: "another identity speaks to this partner as the same agent now; or partners pass the envelope on in a circle",
}

// backwards reports whether a message is an event of a partner for an agent here, or for an
// agent whose envelopes were forwarded here.
func (s *Service) backwards(req *profiles.Request) (Head, bool) {
	if s.opts.Onward == nil || req.MsgType != TypeEvt {
		return Head{}, false
	}
	h, err := s.head(&req.Envelope)
	return h, err == nil && s.opts.Onward.Concerns(req.Identity(), h.To)
}

// bring delivers an event of a partner to its agent.
func (s *Service) bring(ctx context.Context, h Head, env *e1.Envelope, from string) error {
	passage := profiles.PassageOf(env.Extensions, time.Now())
	if !s.opts.Onward.May(from, h.From) {
		return errNotOwn(h.From)
	}
	if fault := passage.Spent(); fault != nil {
		return fault
	}
	e := &Event{From: from, To: s.agents.behind(profiles.Link(from), h.To), AgentID: h.To, Passage: passage, Body: env.Payload}
	e.Session, _ = s.agents.session(e.To, h.To)
	return s.opts.Onward.Bring(ctx, e)
}

// passages records the identities whose agents have sent envelopes to partners. Above the
// limit it forgets the least recently used.
type passages struct {
	bound      int
	young, old map[passage]string
}

type passage struct{ partner, agentID string } // partner is an identity

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

// behind returns the identity whose agent has sent envelopes to a partner; empty if
// unknown.
func (a *agents) behind(partner, agentID string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passages.get(passage{partner, agentID})
}

// passed records that an agent of an identity sends envelopes to a partner.
func (a *agents) passed(partner, agentID, identity string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passages.set(passage{partner, agentID}, identity)
}
