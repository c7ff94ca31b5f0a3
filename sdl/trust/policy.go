// Package trust decides which messages of A2A-SDL are trusted: by the key that
// signed them, replays, the receiver, and the permissions of the sender. It keeps
// what that takes: the trust registry and how it is changed, the nonces that were
// used, the sessions that were opened.
//
// It reads envelopes that package sdl found to be well formed. The caller supplies the
// time. All types may be used by many at once.
//
// Specification: A2A-SDL §6.6, §7, §10.4 and §10.5.
package trust

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// Policy is the security policy of a receiver (§7.1). Its fields must not change while
// it is used. A Policy without a Registry trusts no key and admits nothing.
type Policy struct {
	// Mode is the one that envelopes must have; empty means any that is signed.
	Mode string

	// Agents are the from.agent_id that are admitted; none means all.
	Agents []string

	// Local is the to.agent_id of envelopes that are for this receiver; empty means
	// that it takes those for others as well.
	Local string

	// Registry has the keys: who may sign with which, and until when.
	Registry *Registry

	// DecryptKeys are the private keys by kid of the recipient.
	DecryptKeys map[string]*ecdh.PrivateKey

	// Replay refuses what was seen before; nil looks at no nonce. An envelope without
	// sec.replay passes unless RequireReplay is set, which takes a Replay.
	Replay        *Replay
	RequireReplay bool

	// RequireSession demands that sec.session names a session that Sessions knows, of
	// the two agents. SessionExempt are the content types that need none; nil means
	// session.v1, error.v1 and negotiation.v1.
	RequireSession bool
	Sessions       *Sessions
	SessionExempt  []string
}

// sessionExempt is the default of Policy.SessionExempt.
var sessionExempt = []string{sdl.CTSession, sdl.CTError, sdl.CTNegotiation}

// Admit checks an envelope against the policy, in the order of §7.2, and returns its
// payload in clear, which satisfies its schemas and limits. The first check that fails
// decides; nothing of an envelope whose signature does not verify is remembered.
func (p *Policy) Admit(ctx context.Context, e *sdl.Envelope, now time.Time) (canonical.Value, *sdl.Error) {
	for _, check := range []func(*sdl.Envelope, time.Time) *sdl.Error{
		p.mode, p.parties, p.signature,
	} {
		if refused := check(e, now); refused != nil {
			return canonical.Value{}, refused
		}
	}
	if refused := p.replay(ctx, e, now); refused != nil {
		return canonical.Value{}, refused
	}
	if refused := p.session(e, now); refused != nil {
		return canonical.Value{}, refused
	}
	if !e.Sec.Encrypted() {
		return e.Payload, nil // package sdl held it against the schemas
	}
	return p.decrypt(e)
}

// mode is rows 1 and 2.
func (p *Policy) mode(e *sdl.Envelope, _ time.Time) *sdl.Error {
	if !e.Sec.Present {
		return sdl.Insecure(false, "no sec")
	}
	if p.Mode != "" && e.Sec.Mode != p.Mode {
		return sdl.Insecure(false, "mode %q, want %q", e.Sec.Mode, p.Mode)
	}
	return nil
}

// parties is rows 3 and 3a.
func (p *Policy) parties(e *sdl.Envelope, _ time.Time) *sdl.Error {
	if len(p.Agents) > 0 && !slices.Contains(p.Agents, e.From.AgentID) {
		return sdl.Insecure(false, "from.agent_id %.100q is not admitted", e.From.AgentID)
	}
	if p.Local != "" && e.To.AgentID != p.Local {
		return sdl.Insecure(false, "to.agent_id %.100q, want %q", e.To.AgentID, p.Local)
	}
	return nil
}

// signature is rows 4 to 7a.
func (p *Policy) signature(e *sdl.Envelope, now time.Time) *sdl.Error {
	key, err := p.Registry.key(e.From.AgentID, e.Sec.Kid, now)
	if err != nil {
		return sdl.Insecure(false, "%v", err)
	}
	if _, err := seal.Verify(e.Value, key); err != nil {
		return sdl.Insecure(false, "%v", err)
	}
	if e.Sec.Mode == sdl.ModeNone {
		return sdl.Insecure(false, "mode none under a policy")
	}
	return nil
}

// replay is row 8.
func (p *Policy) replay(ctx context.Context, e *sdl.Envelope, now time.Time) *sdl.Error {
	switch {
	case e.Sec.Replay == nil && p.RequireReplay:
		return sdl.Insecure(false, "no sec.replay")
	case e.Sec.Replay == nil:
		return nil
	case p.Replay != nil:
		return p.Replay.Check(ctx, e, now)
	case p.RequireReplay:
		return sdl.Refuse(sdl.Internal, "the policy demands sec.replay and has nothing to check it with")
	}
	return nil
}

// session is row 9.
func (p *Policy) session(e *sdl.Envelope, now time.Time) *sdl.Error {
	exempt := p.SessionExempt
	if exempt == nil {
		exempt = sessionExempt
	}
	if !p.RequireSession || slices.Contains(exempt, e.CT) {
		return nil
	}
	session := e.Sec.Value.Get("session")
	id, _ := session.Get("binding_id").Text()
	if id == "" {
		return sdl.Insecure(false, "no sec.session.binding_id")
	}
	if exp := session.Get("exp"); !exp.IsNull() {
		text, _ := exp.Text()
		if t, ok := sdl.ParseTime(text); !ok || sdl.Over(t, now) {
			return sdl.Insecure(false, "sec.session.exp is no timestamp, or over")
		}
	}
	if p.Sessions == nil || !p.Sessions.Active(id, e.From.AgentID, e.To.AgentID, now) {
		return sdl.Insecure(false, "no such session of these agents")
	}
	return nil
}

// decrypt is rows 10 and 11.
func (p *Policy) decrypt(e *sdl.Envelope) (canonical.Value, *sdl.Error) {
	payload, err := seal.Decrypt(e.Value, func(kid string) *ecdh.PrivateKey { return p.DecryptKeys[kid] })
	if broken, ok := errors.AsType[*canonical.ValueError](err); ok {
		return canonical.Value{}, sdl.Refuse(sdl.BadRequest, "plaintext: %v", broken)
	}
	if err != nil {
		return canonical.Value{}, sdl.Insecure(false, "%v", err)
	}
	if refused := e.CheckPayload(payload); refused != nil {
		return canonical.Value{}, refused
	}
	return payload, nil
}

// key returns the key of a kid with which an agent may sign now: rows 4 to 6.
func (r *Registry) key(agent, kid string, now time.Time) (ed25519.PublicKey, error) {
	if kid == "" {
		return nil, errors.New("trust: no sec.kid")
	}
	if r == nil {
		return nil, errors.New("trust: no registry")
	}
	m := r.state.Load()
	if m.revoked[kid] {
		return nil, errors.New("trust: sec.kid is revoked")
	}
	if end, ok := m.notAfter[kid]; ok && sdl.Over(end, now) {
		return nil, errors.New("trust: sec.kid is past its end")
	}
	required, one := m.required[agent]
	if one && kid != required {
		return nil, errors.New("trust: sec.kid is not the one of from.agent_id")
	}
	rotation, several := m.allowed[agent]
	if several && !slices.Contains(rotation, kid) {
		return nil, errors.New("trust: sec.kid is not one of from.agent_id")
	}
	if !one && !several && !bound(kid, agent) {
		return nil, errors.New("trust: sec.kid is bound to from.agent_id neither by the registry nor by its form")
	}
	key, ok := m.keys[kid]
	if !ok {
		return nil, errors.New("trust: sec.kid is not trusted")
	}
	return key, nil
}

// bound reports whether a kid says whose it is: agent_id, #, a label.
func bound(kid, agent string) bool {
	i := strings.LastIndexByte(kid, '#')
	return i >= 0 && kid[:i] == agent && kid[i+1:] != ""
}
