package slip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/slip/ucr"
)

// serve accepts a message.
func (s *Service) serve(ctx context.Context, req *profiles.Request, _ profiles.Responder) error {
	if req.MsgType == TypeErr {
		req.About("return", "")
		return s.returned(req)
	}
	m := s.parsed.Get().(*Message) //nolint:errcheck // the pool holds nothing else
	defer s.parsed.Put(m)
	words := s.words.Load()
	if err := words.read(m, req.MsgType, req.Payload); err != nil {
		return unreadable(err)
	}
	if hash, ok := req.Extensions.Lookup(ExtUCRHash); ok && req.MsgType == TypeSLIP && string(hash) != ucr.CoreHash {
		return fault(profiles.CompatibilityPolicy, CodeMismatch, "ucrHash %.80q, want that of UCR %s", hash, ucr.Version)
	}
	if err := m.meanings(req.Extensions); err != nil {
		return err
	}
	if s.opts.Receive != nil {
		return s.opts.Receive(req.Session, m)
	}
	return s.pass(ctx, req, m, words)
}

// act is the delivery of a message to its agent.
func (s *Service) act(req *profiles.Request) (profiles.Act, error) {
	if req.MsgType == TypeErr {
		return profiles.Act{Operation: "return", Ends: true}, nil
	}
	m := s.parsed.Get().(*Message) //nolint:errcheck // the pool holds nothing else
	defer s.parsed.Put(m)
	words := s.words.Load()
	if err := words.read(m, req.MsgType, req.Payload); err != nil {
		return profiles.Act{}, unreadable(err)
	}
	act := profiles.Act{Operation: "send", Ruled: true}
	var err error
	if s.opts.Receive == nil {
		_, act.Name, err = words.agents(m)
		act.Free = s.opts.Partners != nil && !s.ours(act.Name) // compared when it is known where the message goes
	}
	return act, err
}

// pass forwards a message to its receiving agent.
func (s *Service) pass(ctx context.Context, req *profiles.Request, m *Message, words *words) error {
	src, dst, err := words.agents(m)
	if err != nil {
		return err
	}
	identity := req.Identity()
	req.About("send", dst)
	hops, _, err := profiles.Uvarint(req.Extensions, profiles.ExtHops)
	switch {
	case err != nil:
		return err
	case s.taken(identity, src):
		req.Forbid(s.opts.Access, s.profile.Name, "send", dst, "agent_id")
		return denied("agent %.100q is not for this identity to speak as", src)
	case !s.opts.MayUse(identity, src):
		return denied("agent %.100q is not for this identity to speak as", src)
	case !s.opts.Access.Allowed(identity, s.profile.Name, "send", dst):
		return denied("sending to agent %.100q is not allowed", dst)
	}
	strange := words.known(m)
	if strange != nil && s.ours(dst) {
		return unreadable(strange)
	}
	if err := s.resolve(m, identity, src, dst); err != nil {
		return err
	}
	form := words.form(m, dst)
	payload, err := words.write(m, form)
	if err != nil {
		return unreadable(err)
	}
	p := &passing{
		s: s, carried: context.WithoutCancel(ctx), session: req.Session, identity: identity, msgID: slices.Clone(req.MsgID),
		src: src, dst: dst, hops: hops, msgType: form, payload: bytes.Clone(payload), strange: strange,
	}
	if hash, ok := req.Extensions.Lookup(ExtUCRHash); ok {
		p.ext = e1.AppendExtension(p.ext, ExtUCRHash, hash)
	}
	for _, one := range m.Handles {
		p.ext = appendMeaning(p.ext, one)
	}
	s.queues.push(dst, job{identity, len(p.payload) + len(p.ext), p.run, req.Defer()})
	return nil
}

// ours reports whether an identity of this endpoint has declared an agent.
func (s *Service) ours(agentID string) bool {
	if s.opts.Agents == nil {
		return false
	}
	_, known := s.opts.Agents.Owner(agentID)
	return known
}

// taken reports whether another identity has declared an agent.
func (s *Service) taken(identity, agent string) bool {
	if s.opts.Agents == nil {
		return false
	}
	owner, known := s.opts.Agents.Owner(agent)
	return known && owner != profiles.Link(identity)
}

// passing is a message that is being forwarded.
type passing struct {
	s        *Service
	carried  context.Context  // has the hints and credentials of the message
	session  profiles.Session // session of the message
	identity string
	msgID    []byte
	src, dst string
	hops     uint64 // endpoints before this one

	msgType uint64
	payload []byte
	ext     e1.Extensions
	strange error // set if this endpoint does not know the anchor: it is for a partner, or refused
}

// run passes the message on. If the agent leaves before that, or is not known to serve this
// profile, it counts as absent.
func (p *passing) run(ctx context.Context) error {
	s := p.s
	bridged := s.bridged(p.dst)
	if bridged && p.msgType == TypeSLIP {
		return p.bridge(ctx)
	}
	if s.opts.Agents != nil && p.strange == nil {
		if to, ok := s.opts.Agents.Session(p.dst); ok {
			if err := p.keeps(ctx, p.dst); err != nil {
				return err
			}
			if err := p.send(ctx, to, p.ext); p.settled(to, err) && !profiles.IsUnserved(err) {
				return err
			}
		}
	}
	// A message for an identity here must not go to another identity that announces the
	// same name.
	if s.opts.Partners != nil && !bridged && !s.ours(p.dst) {
		if way, ok := s.opts.Partners.Find(ctx, p.dst); ok && way.Session.Peer().Identity != profiles.Link(p.identity) {
			if p.hops >= profiles.MaxHops {
				return tooFar(p.dst)
			}
			if err := p.cross(ctx, &way); p.settled(way.Session, err) {
				return err
			}
		}
	}
	if p.strange != nil {
		return unreadable(p.strange)
	}
	if p.kept() {
		if err := p.keeps(ctx, p.dst); err != nil {
			return err
		}
		text, err := p.text()
		if err != nil {
			return err
		}
		return s.opts.Relay.Keep(ctx, p.identity, p.dst, p.msgID, text, p.hops)
	}
	if bridged {
		return Refuse(CodeLanguage, fmt.Sprintf("agent %.100q gets lines of SLIP v1 only, and nSLIP is not translated", p.dst))
	}
	return unknown(p.dst)
}

// settled reports whether the outcome of a send on a session stands. One that has failed because
// the session has ended does not. A message that was sent may have arrived just before that end: it
// is sent no other way unless the relay is to lose none for the agent.
func (p *passing) settled(on profiles.Session, err error) bool {
	return on.Context().Err() == nil || err == nil && !p.kept()
}

// kept reports whether the relay keeps messages for the agent.
func (p *passing) kept() bool {
	relay := p.s.opts.Relay
	return relay != nil && relay.Keeps(p.dst)
}

// keeps compares the hints of the message with what is declared for where it goes.
func (p *passing) keeps(ctx context.Context, name string) error {
	policy := profiles.PolicyOf(p.carried)
	if policy == nil {
		return nil
	}
	v := policy.Violated(p.carried, &profiles.Act{Profile: p.s.profile.Name, Operation: "send", Name: name})
	if v == nil {
		return nil
	}
	_ = p.session.Send(ctx, v.Notice) // an error means that the sender is gone
	return v.Refusal()
}

// cross sends the message to an agent of a partner, under its conditions.
func (p *passing) cross(ctx context.Context, way *Way) error {
	if err := p.keeps(ctx, way.Name); err != nil {
		return err
	}
	ctx, ext, err := way.Onward(profiles.Carrying(ctx, p.carried), p.identity, profiles.Passage{Hops: p.hops})
	if err != nil {
		return err
	}
	return p.send(ctx, way.Session, append(slices.Clone(p.ext), ext...))
}

// send sends the message on a session, after earlier messages there.
func (p *passing) send(ctx context.Context, to profiles.Session, ext e1.Extensions) error {
	id := profiles.NewMsgID()
	p.s.returns.expect(&origin{session: p.session, msgID: p.msgID, to: to, sent: string(id)})
	err := to.Send(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: p.msgType, MsgID: id, Extensions: ext, Payload: p.payload})
	if err != nil && ctx.Err() != nil {
		return profiles.Busy("waiting_slow", "slip: the agent does not read")
	}
	return err
}

// text returns the message as text. The text itself shows its language.
func (p *passing) text() ([]byte, error) {
	if p.msgType != TypeBinary {
		return p.payload, nil
	}
	var m Message
	words := p.s.words.Load()
	if err := words.read(&m, p.msgType, p.payload); err != nil {
		return nil, unreadable(err)
	}
	text, err := words.write(&m, m.text())
	if err != nil {
		return nil, unreadable(err)
	}
	return text, nil
}

// returned handles a SLIP_ERR and forwards it to the origin of its message.
func (s *Service) returned(req *profiles.Request) error {
	err := refusals.Read(&req.Envelope)
	e, ok := errors.AsType[*profiles.PeerError](err)
	if !ok {
		return err
	}
	o := s.returns.take(req.Session, req.MsgID)
	if o == nil {
		if s.opts.Returned != nil {
			s.opts.Returned(req.Session, req.MsgID, e)
		}
		return nil // too late, or for no sent message
	}
	env := refusalOf(o.msgID, e.Code, e.Message)
	s.queues.push(backTo+o.session.Peer().Identity, job{
		o.session.Peer().Identity, len(env.Payload), func(ctx context.Context) error { return o.session.Send(ctx, env) }, func(error) {},
	})
	return nil
}

// backTo is the prefix of queue keys for returned messages. No agent_id begins with it.
const backTo = "/"
