package fair

import "github.com/slimwire/swp/profiles"

// PeerOf returns the peer of an identity: the identity itself, or the one that asserts the caller.
func PeerOf(identity string) string { return profiles.Link(identity) }

// CallersOf returns a range of strings: the identities of the callers of a peer are after the first
// and before the second.
func CallersOf(peer string) (after, before string) {
	after = profiles.OnBehalf(peer, "")
	return after, after[:len(after)-1] + "!" // after ends with a space, the octet before
}

// Apart reports whether an identity has the bounds of one identity without the others of its peer.
func Apart(identity string, apart func(peer string) bool) bool {
	return apart != nil && apart(PeerOf(identity))
}
