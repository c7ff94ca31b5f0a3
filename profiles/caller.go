package profiles

import (
	"context"
	"strings"
)

// A peer may act for one of its callers, which it asserts in a message (extension 51). Such
// a message has the identity
//
//	PEER for CALLER
//
// in rules, owners, quotas and logs. CALLER has the form ENDPOINT for CALLER if other
// endpoints are between the peer and the caller. No identity of a peer or a caller contains
// a space, so that the parts can be told apart.
const behalf = " for "

// OnBehalf returns the identity of a peer that acts for a caller.
func OnBehalf(peer, caller string) string { return peer + behalf + caller }

// Link returns the identity of the peer of an identity: the part that the channel has
// authenticated.
func Link(identity string) string {
	peer, _, _ := strings.Cut(identity, behalf)
	return peer
}

// For returns the caller of an identity for which its peer acts; empty if nothing was
// asserted.
func For(identity string) string {
	_, caller, _ := strings.Cut(identity, behalf)
	return caller
}

// Origin returns the caller at the first endpoint, without the endpoints in between.
func Origin(identity string) string {
	if i := strings.LastIndex(identity, behalf); i >= 0 {
		return identity[i+len(behalf):]
	}
	return identity
}

// Steps returns the parts of an identity: the peer, the endpoints behind it, and the caller.
func Steps(identity string) []string { return strings.Split(identity, behalf) }

// Peer describes who the message is from. If the peer of the Session has asserted a caller,
// it is a copy of that Peer with the Identity of both, see OnBehalf. It is never nil, and
// valid for good.
func (r *Request) Peer() *Peer {
	if r.Caller != nil {
		return r.Caller
	}
	return r.Session.Peer()
}

// Identity returns the identity of Peer: the owner of everything that the message creates, and the
// subject of rules and quotas.
func (r *Request) Identity() string { return r.Peer().Identity }

// Inherit makes the message one of from, because it belongs to a lifecycle that from has
// opened. It reports whether it may: a message without an assertion belongs to any caller of
// its peer, one with an assertion only to its own.
func (r *Request) Inherit(from *Peer) bool {
	if r.Caller != nil || Link(from.Identity) != r.Session.Peer().Identity {
		return r.Identity() == from.Identity
	}
	r.Caller = from
	return true
}

type callerKey struct{}

// WithCaller returns ctx for messages on behalf of an identity of this endpoint. A session
// to a partner asserts it there.
func WithCaller(ctx context.Context, identity string) context.Context {
	return context.WithValue(ctx, callerKey{}, identity)
}

// CallerOf returns the identity that WithCaller has set, or "".
func CallerOf(ctx context.Context) string {
	identity, _ := ctx.Value(callerKey{}).(string)
	return identity
}
