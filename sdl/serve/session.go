package serve

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/trust"
)

const (
	// minNonce is the minimum length of the nonce of a session in characters.
	minNonce = 8

	// sessionLifetime is the life of a session whose request has no expiry.
	sessionLifetime = 10 * time.Minute
)

// session answers session.v1: it binds the two agents to the agreed session (A2A-SDL
// §10.5). Op open stores the session; ack confirms one that is open, and opens none.
func (s *Server) session(_ context.Context, r *Request) (Result, error) {
	profile, nonce, op := r.Payload.Get("profile"), text(r.Payload.Get("nonce")), text(r.Payload.Get("op"))
	if profile.Kind() != canonical.KindObject || utf8.RuneCountInString(nonce) < minNonce {
		return Result{}, sdl.Refuse(sdl.BadRequest, "session: want a profile, and a nonce of %d characters or more", minNonce)
	}
	if op != "open" && op != "ack" {
		return Result{}, sdl.Refuse(sdl.BadRequest, "session: op %.40q, want open or ack", op)
	}
	if !s.o.Compat.UnauthenticatedSession && !r.authentic() {
		return Result{}, sdl.Insecure(false, "session: opened by an agent that nothing vouches for")
	}
	expires, end, err := s.expires(r)
	if err != nil {
		return Result{}, err
	}
	document := trust.BindingDocument(r.Agent(), r.Envelope.To.AgentID, profile, nonce, expires)
	id := trust.BindingID(document)
	if s.o.Sessions != nil && op == "open" {
		session := trust.Session{ID: id, From: r.Agent(), To: r.Envelope.To.AgentID, Expires: end}
		if err := s.o.Sessions.Register(session, r.Now); err != nil {
			return Result{}, sdl.Refuse(sdl.BadRequest, "session: %v", err)
		}
	}
	bound, message := true, "bound"
	if op == "ack" && !s.o.Compat.AcksUnopened && (s.o.Sessions == nil || !s.o.Sessions.Active(id, r.Agent(), r.Envelope.To.AgentID, r.Now)) {
		bound, message = false, "no such session is open; open it with op open"
	}
	answer := object(
		member("op", canonical.String("ack")),
		member("accepted", canonical.Bool(bound)),
		member("profile", profile),
		member("nonce", canonical.String(nonce)),
		member("expires", canonical.String(expires)),
		member("binding_id", canonical.String(id)),
		member("message", canonical.String(message)),
	)
	if s.o.SessionKey != nil && bound {
		answer = answer.With("binding_alg", canonical.String(seal.Ed25519)).
			With("binding_sig", canonical.String(seal.SignDetached(document, s.o.SessionKey)))
	}
	return Result{sdl.CTSession, answer}, nil
}

// expires returns the end of the requested session, as the text that is bound and as a
// time. It is at most the maximum life of a stored session.
func (s *Server) expires(r *Request) (string, time.Time, error) {
	v := r.Payload.Get("expires")
	if v.IsNull() {
		text := sdl.FormatTime(r.Now.Add(sessionLifetime))
		end, _ := sdl.ParseTime(text) // was just written
		return text, end, nil
	}
	end, ok := sdl.ParseTime(text(v))
	if !ok {
		return "", end, sdl.Refuse(sdl.BadRequest, "session: expires is no timestamp")
	}
	if end.After(r.Now.Add(trust.MaxSessionLifetime)) {
		return "", end, sdl.Refuse(sdl.BadRequest, "session: expires is more than %v ahead", trust.MaxSessionLifetime)
	}
	return text(v), end, nil
}
