package slip

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/slip/ucr"
)

// Bridge reaches agents of this endpoint that get lines of SLIP v1 in another way than over
// this profile. It must be safe for concurrent use.
type Bridge interface {
	// Has reports whether an agent is reached so. It must not block.
	Has(agentID string) bool

	// Cross gives a line to an agent. It returns when the agent is certain to be asked, or
	// with the reason why it is not; see Refuse. In the first case answered is called once,
	// now or later. ctx has the hints and credentials of the message, which the Bridge
	// compares with the declarations for the agent.
	Cross(ctx context.Context, c *Crossing, answered func(Answered)) error
}

// Crossing is a line for an agent of a Bridge.
type Crossing struct {
	Identity string // of the sender, which may speak as Src and send to Dst
	Src, Dst string
	Line     string
	Same     bool   // the sender has said that it uses the same anchors
	Hops     uint64 // endpoints before this one
}

// Answered is what became of a Crossing: the line of an answer, a refusal, or neither.
type Answered struct {
	Line string
	Same bool // the agent has said that it uses the same anchors

	Code, Text string // of the SLIP_ERR for the sender
}

// Codes of a SLIP_ERR at a Bridge.
const (
	CodeRefused    = "refused"    // the agent has refused the message
	CodeLanguage   = "language"   // the agent gets lines of SLIP v1 only
	CodeUnanswered = "unanswered" // the agent has the message, and its answer cannot be passed on
)

func (s *Service) bridged(agentID string) bool {
	return s.opts.Bridge != nil && s.opts.Bridge.Has(agentID)
}

// bridge gives the message to an agent of the Bridge.
func (p *passing) bridge(ctx context.Context) error {
	if p.strange != nil {
		return unreadable(p.strange)
	}
	hash, _ := p.ext.Lookup(ExtUCRHash) // another than ours was refused
	c := &Crossing{Identity: p.identity, Src: p.src, Dst: p.dst, Line: string(p.payload), Same: len(hash) > 0, Hops: p.hops}
	return p.s.opts.Bridge.Cross(profiles.Carrying(ctx, p.carried), c, p.answered)
}

// answered passes the answer of an agent on to the sender of the message, or tells it why there
// is none.
func (p *passing) answered(a Answered) {
	s := p.s
	if a.Code == "" && a.Line == "" {
		return
	}
	s.queues.push(backTo+p.session.Peer().Identity, job{p.identity, len(a.Line) + len(a.Text), func(ctx context.Context) error {
		if a.Code == "" {
			err := p.answer(ctx, &a)
			if err == nil {
				return nil
			}
			a.Code, a.Text = CodeUnanswered, fmt.Sprintf("slip: agent %.100q has the message, and has answered; %s", p.dst, profiles.AsError(err).Text)
		}
		return p.session.Send(ctx, refusalOf(p.msgID, a.Code, a.Text))
	}, func(error) {}})
}

// answer sends a line of p.dst to p.src: to the session that has declared it, else to the
// session of the message. It is never for another Bridge, so that two agents which answer every
// message do not do so for ever.
func (p *passing) answer(ctx context.Context, a *Answered) error {
	s := p.s
	m := new(Message)
	words := s.words.Load()
	if err := words.read(m, TypeSLIP, []byte(a.Line)); err != nil {
		return err
	}
	if m.SLIP.Src != p.dst || m.SLIP.Dst != p.src {
		return fault(profiles.SecurityPolicy, CodeDenied, "its answer is from %.100q to %.100q", m.SLIP.Src, m.SLIP.Dst)
	}
	if p.hops >= profiles.MaxHops {
		return tooFar(p.src)
	}
	to, here := p.session, false
	if s.ours(p.src) {
		if s.taken(p.identity, p.src) {
			return denied("agent %.100q now belongs to another identity", p.src)
		}
		if to, here = s.opts.Agents.Session(p.src); !here {
			return p.keepAnswer(ctx, a)
		}
	}
	var ext e1.Extensions
	if a.Same {
		ext = e1.AppendExtension(ext, ExtUCRHash, []byte(ucr.CoreHash))
	}
	if !here {
		ext = e1.AppendExtensionUvarint(ext, profiles.ExtHops, p.hops+1)
	}
	err := to.Send(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeSLIP, MsgID: profiles.NewMsgID(), Extensions: ext, Payload: []byte(a.Line)})
	if err != nil && (to.Context().Err() != nil || profiles.IsUnserved(err)) {
		return p.keepAnswer(ctx, a)
	}
	return err
}

// keepAnswer has the relay keep an answer for an agent that is away.
func (p *passing) keepAnswer(ctx context.Context, a *Answered) error {
	if relay := p.s.opts.Relay; relay != nil && relay.Keeps(p.src) {
		return relay.Keep(ctx, p.identity, p.src, profiles.NewMsgID(), []byte(a.Line), p.hops)
	}
	return unknown(p.src)
}

// refusalOf is a SLIP_ERR for the message with a msg_id.
func refusalOf(msgID []byte, code, text string) e1.Envelope {
	env := refusals.Answer(code, text, false)
	env.ProfileID, env.MsgID = ProfileID, msgID
	return env
}
