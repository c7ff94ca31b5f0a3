package guard

import (
	"errors"
	"strings"

	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// ReasonDenied is the reason of a security event: the access rules deny the
// identity.
const ReasonDenied = "denied"

// TeamPrefix is what the identities of teams begin with.
const TeamPrefix = "team:"

var (
	errDenied = errors.New("access.deny")
	errCaller = errors.New("the identity of an HTTP caller in a certificate")
	errTeam   = errors.New("the identity of a team in a certificate")
	errGone   = errors.New("a caller that http does not let in any more")

	errExpelled = errors.New("a partner that was removed")
)

// IsCaller reports whether an identity belongs to an HTTP caller. No certificate may have
// such an identity (ABUSE TL-11).
func IsCaller(identity string) bool {
	name, ok := strings.CutPrefix(identity, gate.Prefix)
	return ok && gate.ValidName(name)
}

// isTeam reports whether an identity belongs to a team. No certificate may have such an
// identity.
func isTeam(identity string) bool { return strings.HasPrefix(identity, TeamPrefix) }

// Deny returns why an identity is not admitted; nil if it is.
func (g *Guard) Deny(identity string) error {
	if policy := g.policy.Load(); policy.Denied(identity) {
		if why, ok := policy.barred[profiles.Link(identity)]; ok {
			return why
		}
		return errDenied
	}
	if g.expels(identity) {
		return errExpelled
	}
	if g.gone(identity) {
		return errGone
	}
	return nil
}

// Refuse closes a connection whose peer the access rules do not admit, whose identity no peer
// may have, or whose certificate the present trust anchors refuse, and returns the reason. A
// new connection is refused after it is recorded for RecheckAll (part.Connections): its
// handshake may have verified the peer before a change, and have ended after it.
func (g *Guard) Refuse(conn transport.Conn) error { return g.refuse(conn, g.tells) }

// refuse is Refuse. tells is nil for a connection that has a session: then nothing but the session writes.
func (g *Guard) refuse(conn transport.Conn, tells *endpoint.Farewells) error {
	identity := conn.Peer().Identity
	err := g.Deny(identity)
	switch {
	case IsCaller(identity):
		err = errCaller
	case isTeam(identity):
		err = errTeam
	case err == nil:
		return g.distrust(conn)
	}
	g.hangUp(conn, ReasonDenied, err, tells)
	return err
}

// distrust closes a connection whose peer the present trust anchors refuse, and returns the
// reason.
func (g *Guard) distrust(conn transport.Conn) error {
	c, ok := conn.(transport.Rechecker)
	if !ok {
		return nil
	}
	err := c.Recheck()
	if err != nil {
		g.hangUp(conn, transport.ReasonUntrusted, err, nil)
	}
	return err
}

// HangUp closes a connection whose peer is no longer admitted, and logs that.
func (g *Guard) HangUp(conn transport.Conn, why error) { g.hangUp(conn, ReasonDenied, why, nil) }

// hangUp closes a connection for security reasons and logs that. A partner is told the cause: it has proved its
// key.
func (g *Guard) hangUp(conn transport.Conn, reason string, why error, tells *endpoint.Farewells) {
	peer := conn.Peer()
	g.security(transport.SecurityEvent{
		Transport: peer.Transport, Addr: peer.Addr, Identity: peer.Identity, Reason: reason, Err: why,
	})
	code, fault := uint64(profiles.SecurityPolicy), errNotLetIn
	if barred, ok := errors.AsType[*barredError](why); ok && barred.cause != causes.None {
		code, fault = barred.cause.Code(), profiles.Errorf(profiles.SecurityPolicy, "%s", barred.cause)
	}
	if reason != ReasonDenied {
		tells = nil // the trust in the key has ended
	}
	tells.Close(conn, code, fault)
}

var errNotLetIn = &profiles.Error{Code: profiles.SecurityPolicy, Text: "the identity is not let in"}

// RecheckAll closes the connections whose peers are no longer trusted or admitted. It
// returns how many stay and how many were closed.
func (g *Guard) RecheckAll(open []transport.Conn) (kept, closed int) {
	for _, conn := range open {
		if g.refuse(conn, nil) != nil {
			closed++
		} else {
			kept++
		}
	}
	return kept, closed
}
