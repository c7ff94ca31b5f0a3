package main

import (
	"encoding/hex"
	"slices"

	"github.com/slimwire/swp/vectors"
)

// early is a good frame that the peer sends as soon as it can.
var early = typical.withPayload(`{"jsonrpc":"2.0","id":"s1","method":"tools/list"}`)

func refused(reason string) vectors.Expect {
	return vectors.Expect{Close: new(true), SecurityEvent: reason}
}

// peer is what the other side of the channel shows.
func peer(certificate string) vectors.Channel { return vectors.Channel{PeerCertificate: certificate} }

// server is the same where the endpoint under test dials.
func server(certificate string) vectors.Channel {
	return vectors.Channel{Endpoint: "dial", PeerCertificate: certificate}
}

func attempt(why, reason string, c vectors.Channel) sibling {
	return scene(why, in("the peer sends a frame as soon as it can", early.frame(), reject("SECURITY_POLICY", ""), refused(reason))).channel(c)
}

// overQUIC returns a scene that is played over QUIC.
func overQUIC(s sibling) sibling {
	c := *s.Channel
	c.Transport = vectors.QUIC
	s.Why += ", over QUIC"
	return s.channel(c)
}

// onBoth returns scenes over TLS, and the same over QUIC.
func onBoth(scenes ...sibling) []sibling {
	for _, s := range slices.Clone(scenes) {
		scenes = append(scenes, overQUIC(s))
	}
	return scenes
}

// other offers another protocol than SWP.
func other(endpoint string) vectors.Channel {
	return vectors.Channel{Endpoint: endpoint, PeerProtocol: "swp/0"}
}

// resent is the scene over QUIC in which a bit changes on the way. A packet that fails
// authentication has no effect (RFC 9001 §5.5 and §6.6), and QUIC sends its content again.
func resent(why, endpoint string) sibling {
	altered := early.withID("altered in flight")
	return scene(why,
		in("the channel works", early.frame(), accept),
		in("one bit of the packet changes on the way; what arrives is what was sent", altered.frame(), accept,
			vectors.Expect{Envelope: &vectors.Envelope{MsgID: new(hex.EncodeToString(altered.id))}, Reencode: true}).flip(),
		in("the channel still works", early.withID("not too late").frame(), accept),
	).channel(vectors.Channel{Transport: vectors.QUIC, Endpoint: endpoint})
}

var s1 = []vector{
	{
		id: "s1_0001_unauthenticated_peer_rejected", about: "a peer without a certificate is refused before any frame is handled",
		expect: reject("SECURITY_POLICY", "peer is not authenticated"), bin: early.frame(),
		assertions: vectors.Assertions{Channel: &vectors.Channel{PeerCertificate: "none"}},
		transcript: []step{mainStep("TLS 1.3 lets the client write before it knows that it is refused", refused("no_certificate"))},
		siblings:   []sibling{overQUIC(attempt("a client without a certificate", "no_certificate", peer("none")))},
	},
	{
		id: "s1_0002_authentication_failure_terminates", about: "a failed authentication of the peer ends the channel, on either side",
		expect: reject("SECURITY_POLICY", "peer authentication failed"), bin: early.frame(),
		assertions: vectors.Assertions{Channel: &vectors.Channel{PeerCertificate: "untrusted"}},
		transcript: []step{mainStep("a client certificate from an authority that nobody trusts", refused("untrusted"))},
		siblings: append(onBoth(
			attempt("a client certificate that has expired", "untrusted", peer("expired")),
			attempt("a client certificate without exactly one name", "identity", peer("wrong_name")),
			attempt("a server certificate from an authority that nobody trusts", "untrusted", server("untrusted")),
			attempt("a server certificate that has expired", "untrusted", server("expired")),
			attempt("a server certificate for another name than the one dialled", "untrusted", server("wrong_name")),
			scene("the same with good certificates goes through", in("the peer sends a frame as soon as it can", early.frame(), accept)).channel(vectors.Channel{}),
			scene("and so it does where the endpoint dials", in("the peer sends a frame as soon as it can", early.frame(), accept)).channel(vectors.Channel{Endpoint: "dial"}),
		), overQUIC(attempt("a client certificate from an authority that nobody trusts", "untrusted", peer("untrusted")))),
	},
	{
		id: "s1_0003_downgrade_policy_failure", about: "where the required parameters are not to be had the channel fails closed",
		expect: reject("SECURITY_POLICY", "required parameters unavailable"), bin: early.frame(),
		assertions: vectors.Assertions{Channel: &vectors.Channel{PeerMaxVersion: "1.2"}},
		transcript: []step{mainStep("a client that has nothing above TLS 1.2", refused("downgrade"))},
		siblings: append(onBoth(
			attempt("a client that offers another protocol", "downgrade", other("")),
			attempt("a server that offers another protocol", "downgrade", other("dial")),
		),
			attempt("a server that has nothing above TLS 1.2", "downgrade", vectors.Channel{Endpoint: "dial", PeerMaxVersion: "1.2"}),
			scene("plaintext is not listened for beyond this machine", in("the peer sends a frame as soon as it can", early.frame(), reject("SECURITY_POLICY", ""))).
				channel(vectors.Channel{Plaintext: "0.0.0.0:0"}),
			scene("nor spoken to another machine", in("the peer sends a frame as soon as it can", early.frame(), reject("SECURITY_POLICY", ""))).
				channel(vectors.Channel{Endpoint: "dial", Plaintext: "203.0.113.1:7777"}),
		),
	},
	{
		id: "s1_0004_integrity_failure_terminates", about: "a failed integrity check ends the channel and is reported",
		expect: reject("SECURITY_POLICY", "record failed authentication"), bin: early.withID("altered in flight").frame(),
		assertions: vectors.Assertions{Channel: &vectors.Channel{}},
		transcript: []step{
			in("the channel works", early.frame(), accept),
			mainStep("one bit of the protected record changes on the way", refused("integrity")).flip(),
			in("nothing is handled afterwards", early.withID("too late now").frame(), verdict{outcome: "none"}),
		},
		siblings: []sibling{
			scene("the same where the endpoint dialled",
				in("the channel works", early.frame(), accept),
				in("one bit changes", early.withID("altered in flight").frame(), reject("SECURITY_POLICY", ""), refused("integrity")).flip(),
			).channel(vectors.Channel{Endpoint: "dial"}),
			resent("QUIC discards the packet, and sends its content again", ""),
			resent("and so it does where the endpoint dialled", "dial"),
		},
	},
	{
		id: "s1_0005_timestamp_freshness_enforced", about: "a stale frame is refused where the channel binding enforces freshness",
		expect: reject("SECURITY_POLICY", "stale timestamp"), bin: early.withTime(staleTime).frame(),
		assertions: vectors.Assertions{
			Channel: &vectors.Channel{}, Clock: &vectors.Clock{NowUnixMs: now},
			Policy: &vectors.Policy{Freshness: "s1", MaxClockSkewMs: skew},
		},
		transcript: []step{
			in("a fresh frame is served", early.frame(), accept),
			mainStep("a day and a millisecond old"),
		},
		siblings: []sibling{
			scene("the same over QUIC",
				in("a fresh frame is served", early.frame(), accept),
				in("a day and a millisecond old", early.withTime(staleTime).frame(), reject("SECURITY_POLICY", "")),
			).channel(vectors.Channel{Transport: vectors.QUIC}),
		},
	},
	{
		id: "s1_0006_timestamp_freshness_disabled_documented", about: "where freshness is off, and documented to be, the same stale frame is accepted",
		expect: accept, bin: early.withTime(staleTime).frame(),
		assertions: vectors.Assertions{
			Channel: &vectors.Channel{}, Clock: &vectors.Clock{NowUnixMs: now},
			Policy:   &vectors.Policy{Label: "timestamp freshness disabled and documented"},
			Artifact: "docs/conformance.md", States: "Timestamp freshness is off by default.",
		},
		siblings: []sibling{
			like("the same over QUIC", early.withTime(staleTime).frame(), accept).channel(vectors.Channel{Transport: vectors.QUIC}),
		},
	},
}
