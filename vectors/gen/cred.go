package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/slimwire/swp/vectors"
)

const (
	cred = 15

	// credSelf is who the endpoint is in tokens, issuer whose tokens begin chains
	// there. The peers, and the subjects that chained writes, may delegate.
	credSelf = "spiffe://endpoint.invalid/self" //nolint:gosec // a name
	issuer   = "https://idp.invalid"

	// methodWho returns the content of the credentials of a call: subject, scopes and
	// depth, or "nobody".
	methodWho = "vector.who"

	chain1 = "chain-0000000001"

	// secret is an opaque credential that is known to the endpoint.
	secret = "correct horse battery staple"

	nowS = now / 1000 // the moment of these vectors, in seconds
	hour = 3_600_000  // ms
)

// signedBy returns a token with claims. The key of an issuer follows from its name.
func signedBy(name, claims string) string {
	seed := sha256.Sum256([]byte("key of " + name))
	enc := base64.RawURLEncoding.EncodeToString
	text := enc([]byte(`{"alg":"EdDSA","typ":"JWT"}`)) + "." + enc([]byte(claims))
	return text + "." + enc(ed25519.Sign(ed25519.NewKeyFromSeed(seed[:]), []byte(text)))
}

// issued is a token for the endpoint that is good for so many seconds.
func issued(by, subject, scope string, seconds int) string {
	return signedBy(by, fmt.Sprintf(`{"iss":%q,"sub":%q,"aud":%q,"exp":%d,"scope":%q}`, by, subject, credSelf, nowS+seconds, scope))
}

// firstToken is the credential of peer a.
func firstToken() string { return issued(issuer, peerA, "read write", 3600) }

func present(kind, credential string, chain ...string) message {
	m := [][]byte{opaque(1, kind), opaque(2, credential)}
	for _, id := range chain {
		m = append(m, opaque(3, id))
	}
	return of(cred, 1, "cred present 1", m...)
}

func delegate(delegation string, expires uint64) message {
	return of(cred, 2, "cred delegate 1", opaque(1, chain1), opaque(2, delegation), number(3, expires))
}

func revoke(chain string) message {
	return of(cred, 3, "cred revoke 1", opaque(1, chain), opaque(2, "enough"))
}

// presented is a credential that is taken: nothing is said.
func presented(kind, credential string) step {
	return in("a credential", present(kind, credential, chain1).frame(), accept)
}

// credErr is a CRED_ERR of a code.
func credErr(code string) step {
	return out("is refused", of(cred, 4, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// notTaken is a message that is refused in the words of the profile.
func notTaken(why, code string, m message) []step {
	canonical := "INVALID_PROFILE_PAYLOAD"
	if code == "REVOKED" {
		canonical = "SECURITY_POLICY"
	}
	return []step{in(why, m.frame(), reject(canonical, "")), credErr(code)}
}

// isDone calls a method under a chain; who says what the endpoint knows of that.
func isDone(who string) []step {
	return []step{
		in("a call under the chain", rpcReq("request 1", rpc1, methodWho).withExtension(50, chain1).frame(), accept),
		answered("is done", rpcResp(rpc1, who)),
	}
}

// isNotDone calls a method under a chain that is of no use.
func isNotDone() []step {
	return []step{
		in("a call under the chain", rpcReq("request 1", rpc1, methodWho).withExtension(50, chain1).frame(), reject("SECURITY_POLICY", "")),
		out("is not done", rpcErr(rpc1, "unauthorized", 0, "any").frame(), textIsFree),
	}
}

// subjects are whom a chain of tokens is delegated to, one after the other.
func subject(depth int) string {
	if depth == 1 {
		return peerA
	}
	return fmt.Sprintf("spiffe://peer.invalid/hop-%d", depth)
}

// chained are delegations that make the chain of peer a so deep.
func chained(from, to int) (list []step) {
	for depth := from; depth <= to; depth++ {
		list = append(list, in(fmt.Sprint("part ", depth, " of the chain"), link(depth).frame(), accept))
	}
	return list
}

// link is the DELEGATE that makes the chain of peer a so deep.
func link(depth int) message {
	return delegate(issued(subject(depth-1), subject(depth), "read", 3600-100*depth), now+hour-100_000*uint64(depth))
}

// badDelegation is a DELEGATE that is refused, and uses no depth.
func badDelegation(why, code string, m message) sibling {
	return scene(why, steps(
		one(presented("jwt", firstToken())), notTaken("a delegation", code, m), isDone(peerA+" [read write] 1"),
	)...)
}

// badCredential is a PRESENT that is refused, and begins no chain.
func badCredential(why, code, kind, credential string) sibling {
	return scene(why, steps(notTaken("a credential", code, present(kind, credential, chain1)), isNotDone())...)
}

// claims returns the claims of a valid token with one change.
func claims(old, changed string) string {
	good := fmt.Sprintf(`{"iss":%q,"sub":%q,"aud":%q,"exp":%d,"scope":"read"}`, issuer, peerA, credSelf, nowS+60)
	return strings.Replace(good, old, changed, 1)
}

// tampered is a good token with another payload than was signed.
func tampered() string {
	parts := strings.Split(firstToken(), ".")
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(claims(`"read"`, `"admin"`)))
	return strings.Join(parts, ".")
}

// unsigned is a token that says it need not be signed.
func unsigned() string {
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"none"}`)) + "." + enc([]byte(claims("", ""))) + "."
}

// toldOnwards are the credentials on their way to the next hop, which takes them.
func toldOnwards(messages ...message) (list []step) {
	for _, m := range messages {
		list = append(list, out("the credentials go ahead of it, octet for octet", m.frame(), vectors.Expect{}).on("b"))
	}
	return append(list,
		out("the next hop is asked whether it has taken them", rpcReq("request 1", rpc2, "swp.sync").frame(), vectors.Expect{}).on("b"),
		in("which it has", rpcResp(rpc2, "").frame(), accept).on("b").answers(),
	)
}

// passedOn is a call that the endpoint forwards: it sends the frames of ahead, and then
// further, to the next endpoint.
func passedOn(ahead []step, call, further message) []step {
	return steps(
		one(in("a call", call.frame(), accept)), ahead,
		one(
			out("the call goes on", further.frame(), vectors.Expect{}).on("b"),
			in("and is answered", rpcResp(rpc1, "done").frame(), accept).on("b").answers(),
			answered("in both directions", rpcResp(rpc1, "done")),
		),
	)
}

func heldCall() message { return rpcReq("request 1", rpc1, held, params("p")) }

var credClock = &vectors.Clock{NowUnixMs: now}

var creds = []vector{
	{
		id: "cred_0001_expiry_enforced", about: "what has expired is refused, when it is shown and when it is used",
		expect: reject("INVALID_PROFILE_PAYLOAD", "expired credential"), bin: present("jwt", issued(issuer, peerA, "read", -1), chain1).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Clock: credClock},
		transcript: steps(one(mainStep("a token that has expired"), credErr("EXPIRED")), isNotDone()),
		siblings: []sibling{
			badCredential("a token that expires now", "EXPIRED", "jwt", issued(issuer, peerA, "read", 0)),
			scene("a token that is good for a moment", steps(
				one(presented("jwt", issued(issuer, peerA, "read", 1))), isDone(peerA+" [read] 1"),
			)...),
			scene("and then not", steps(
				one(presented("jwt", issued(issuer, peerA, "read", 1))),
				one(in("a call under the chain a second later", rpcReq("request 1", rpc1, methodWho).withExtension(50, chain1).frame(), reject("SECURITY_POLICY", "")).at(1000),
					out("is not done", rpcErr(rpc1, "unauthorized", 0, "any").frame(), textIsFree)),
			)...),
			badDelegation("a delegation that has expired", "EXPIRED", delegate(issued(peerA, subject(2), "read", 60), now-1)),
			badDelegation("one that expires now", "EXPIRED", delegate(issued(peerA, subject(2), "read", 60), now)),
			badDelegation("one whose token has expired", "EXPIRED", delegate(issued(peerA, subject(2), "read", 0), now+1)),
			badDelegation("one that lasts longer than what it is made from", "INVALID_CREDENTIAL", delegate(issued(peerA, subject(2), "read", 60), (nowS+3600)*1000+1)),
			badDelegation("one whose token does", "INVALID_CREDENTIAL", delegate(issued(peerA, subject(2), "read", 3601), now+1)),
			badDelegation("one without an end", "INVALID_CREDENTIAL", delegate(issued(peerA, subject(2), "read", 60), 1<<64-1)),
			scene("one that lasts longer than a day", steps(
				one(presented("jwt", issued(issuer, peerA, "read", 7*24*3600))),
				notTaken("a delegation", "INVALID_CREDENTIAL", delegate(issued(peerA, subject(2), "read", 7*24*3600), now+24*hour+1)),
				one(in("a day", delegate(issued(peerA, subject(2), "read", 7*24*3600), now+24*hour).frame(), accept)),
			)...),
			like("one that says nothing of its end", delegate(issued(peerA, subject(2), "read", 60), 0).frame(), badPayload),
			scene("a delegation that is good for a moment, and then not", steps(
				one(presented("jwt", firstToken()),
					in("a delegation", delegate(issued(peerA, subject(2), "read", 60), now+1000).frame(), accept)),
				isDone(subject(2)+" [read] 2"),
				one(in("another a second later", link(3).frame(), badPayload).at(1000), credErr("EXPIRED")),
				isNotDone(),
			)...),
		},
	},
	{
		id: "cred_0002_chain_length_enforced", about: "a chain has 8 parts at most",
		expect: accept, bin: link(8).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2)), Clock: credClock},
		transcript: steps(
			one(presented("jwt", firstToken())), chained(2, 7), one(mainStep("part 8 of the chain")),
			notTaken("part 9 is too many", "CHAIN_LIMIT", link(9)),
			isDone(subject(8)+" [read] 8"),
		),
		siblings: []sibling{
			scene("what is refused uses no depth", steps(
				one(presented("jwt", firstToken())), chained(2, 6),
				notTaken("a bad delegation", "INVALID_CREDENTIAL", delegate("no token", now+1)),
				notTaken("another", "EXPIRED", delegate("no token", now-1)),
				chained(7, 8), isDone(subject(8)+" [read] 8"),
			)...),
			scene("delegations of other types count as well", steps(
				one(presented("opaque", secret)), sevenOpaque(),
				notTaken("part 9 is too many", "CHAIN_LIMIT", delegate("part 9", now+1)),
				isDone(peerA+" [] 8"),
			)...),
			scene("chains do not count together", steps(
				one(presented("jwt", firstToken())), chained(2, 8),
				one(in("another chain", present("opaque", secret, "another chain").frame(), accept)),
			)...),
			scene("a chain that was never begun has no parts", steps(notTaken("a delegation", "INVALID_CREDENTIAL", link(2)), isNotDone())...),
		},
	},
	{
		id: "cred_0003_invalid_credential", about: "a credential that is not verified is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "invalid credential"), bin: present("jwt", tampered(), chain1).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Clock: credClock},
		transcript: steps(one(mainStep("a token that is not what was signed"), credErr("INVALID_CREDENTIAL")), isNotDone()),
		siblings: []sibling{
			badCredential("a type that there is not", "UNSUPPORTED_CRED_TYPE", "saml", "octets"),
			scene("types in upper case, between blanks", steps(one(presented(" JWT\t", firstToken())), isDone(peerA+" [read write] 1"))...),
			badCredential("octets that are no token", "INVALID_CREDENTIAL", "jwt", "\x00\xff"),
			badCredential("a token that is not signed", "INVALID_CREDENTIAL", "jwt", unsigned()),
			badCredential("one of an issuer that nobody knows", "INVALID_CREDENTIAL", "jwt", issued("https://other.invalid", peerA, "read", 60)),
			badCredential("one of somebody who may only delegate", "INVALID_CREDENTIAL", "jwt", issued(peerA, peerA, "read", 60)),
			badCredential("one that is signed with the key of another", "INVALID_CREDENTIAL", "jwt", signedBy(peerA, claims("", ""))),
			badCredential("one for another endpoint", "INVALID_CREDENTIAL", "jwt", signedBy(issuer, claims(credSelf, "spiffe://endpoint.invalid/other"))),
			badCredential("one that is not yet good", "INVALID_CREDENTIAL", "jwt", signedBy(issuer, claims(`"scope"`, fmt.Sprintf(`"nbf":%d,"scope"`, nowS+1)))),
			badCredential("one without an end", "INVALID_CREDENTIAL", "jwt", signedBy(issuer, claims(`"exp"`, `"other"`))),
			badCredential("one without a subject", "INVALID_CREDENTIAL", "jwt", signedBy(issuer, claims(`"sub"`, `"other"`))),
			badCredential("an opaque credential that nobody knows", "INVALID_CREDENTIAL", "opaque", secret+"r"),
			scene("one that is known", steps(one(presented("opaque", secret)), isDone(peerA+" [] 1"))...),
			badCredential("31 octets of mtls", "INVALID_CREDENTIAL", "mtls", strings.Repeat("m", 31)),
			badCredential("33 octets of mtls", "INVALID_CREDENTIAL", "mtls", strings.Repeat("m", 33)),
			badCredential("a certificate that is not that of the channel", "INVALID_CREDENTIAL", "mtls", strings.Repeat("m", 32)),
			badDelegation("a delegation by somebody else", "INVALID_CREDENTIAL", delegate(issued(subject(2), subject(3), "read", 60), now+1)),
			badDelegation("one with a scope too many", "INVALID_CREDENTIAL", delegate(issued(peerA, subject(2), "read admin", 60), now+1)),
			scene("a credential under the chain_id of another", steps(
				one(presented("jwt", firstToken())),
				notTaken("another credential", "INVALID_CREDENTIAL", present("opaque", secret, chain1)),
				one(presented("jwt", firstToken())), isDone(peerA+" [read write] 1"),
			)...),
			scene("without a chain_id it is only verified", steps(
				one(in("a good one", present("opaque", secret).frame(), accept)),
				notTaken("a bad one", "INVALID_CREDENTIAL", present("opaque", "bad")), isNotDone(),
			)...),
			like("no type", of(cred, 1, usualID, opaque(2, secret)).frame(), badPayload),
			like("no credential", of(cred, 1, usualID, opaque(1, "opaque")).frame(), badPayload),
			like("no chain_id to delegate from", of(cred, 2, usualID, opaque(2, "d"), number(3, now+1)).frame(), badPayload),
			like("no delegation", of(cred, 2, usualID, opaque(1, chain1), number(3, now+1)).frame(), badPayload),
			like("no chain_id to revoke", of(cred, 3, usualID, opaque(2, "enough")).frame(), badPayload),
		},
	},
	{
		id: "cred_0004_delegation_propagation", about: "a chain reaches the next hop, octet for octet",
		expect: accept, bin: present("jwt", firstToken(), chain1).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Setup: vectors.Relay, Clock: credClock},
		transcript: steps(
			one(mainStep("a credential"), in("a delegation", link(2).frame(), accept)),
			passedOn(toldOnwards(present("jwt", firstToken(), chain1), link(2)), heldCall().withExtension(50, chain1), heldCall().withExtension(50, chain1)),
		),
		siblings: []sibling{
			scene("a call that names no chain goes without", steps(
				one(presented("jwt", firstToken())), passedOn(nil, heldCall(), heldCall()),
			)...),
			scene("each part of a longer one", steps(
				one(presented("jwt", firstToken())), chained(2, 4),
				passedOn(toldOnwards(present("jwt", firstToken(), chain1), link(2), link(3), link(4)), heldCall().withExtension(50, chain1), heldCall().withExtension(50, chain1)),
			)...),
			scene("nothing goes on under a chain that is not there", one(
				in("a call", heldCall().withExtension(50, chain1).frame(), reject("SECURITY_POLICY", "")),
				out("is not done", rpcErr(rpc1, "unauthorized", 0, "any").frame(), textIsFree),
			)...),
			scene("nor where the next hop does not take it", steps(
				one(presented("jwt", firstToken()),
					in("a call", heldCall().withExtension(50, chain1).frame(), accept),
					out("the credentials go ahead of it", present("jwt", firstToken(), chain1).frame(), vectors.Expect{}).on("b"),
					in("which does not take them", of(cred, 4, usualID, opaque(1, "INVALID_CREDENTIAL")).frame(), accept).on("b").answers(),
					out("it is asked", rpcReq("request 1", rpc2, "swp.sync").frame(), vectors.Expect{}).on("b"),
					in("and answers", rpcResp(rpc2, "").frame(), accept).on("b").answers(),
					out("so it is not done", rpcErr(rpc1, "unauthorized", 0, "any").frame(), textIsFree)),
			)...),
			scene("the chain stands as it was delegated", steps(
				one(presented("jwt", firstToken())), isDone(peerA+" [read write] 1"),
				chained(2, 3), isDone(subject(3)+" [read] 3"),
				one(in("the same again", link(2).frame(), accept), in("and again", link(3).frame(), accept)), isDone(subject(3)+" [read] 3"),
			)...).setup(vectors.Serve),
			scene("whom it is delegated to may use it, and nobody else", steps(
				one(presented("jwt", firstToken())), on("c", isNotDone()...),
				one(in("a delegation to c", delegate(issued(peerA, peerC, "read", 60), now+60_000).frame(), accept)),
				on("c", isDone(peerC+" [read] 2")...), on("b", isNotDone()...),
			)...).setup(vectors.Serve),
			scene("a token of somebody else is of no use without a delegation", steps(
				one(in("a credential of c", present("jwt", issued(issuer, peerC, "read", 60), chain1).frame(), accept)), isNotDone(),
				one(in("a delegation of c", delegate(issued(peerC, peerA, "read", 60), now+1000).frame(), accept)), isDone(peerA+" [read] 2"),
			)...).setup(vectors.Serve),
		},
	},
	{
		id: "cred_0005_revoke_behavior", about: "a chain that was revoked stays so",
		expect: accept, bin: revoke(chain1).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3)), Clock: credClock},
		transcript: steps(
			one(presented("jwt", firstToken())), isDone(peerA+" [read write] 1"),
			one(mainStep("it is revoked")),
			isNotDone(),
			notTaken("the credential again", "REVOKED", present("jwt", firstToken(), chain1)),
			notTaken("a delegation", "REVOKED", link(2)),
		),
		siblings: []sibling{
			scene("another credential for the same chain_id", steps(
				one(presented("jwt", firstToken()), in("it is revoked", revoke(chain1).frame(), accept)),
				notTaken("another credential", "REVOKED", present("opaque", secret, chain1)), isNotDone(),
			)...),
			scene("for as long as the credential is good", steps(
				one(presented("jwt", issued(issuer, peerA, "read", 60)), in("it is revoked", revoke(chain1).frame(), accept)),
				one(in("a longer one at its last moment", present("jwt", firstToken(), chain1).frame(), reject("SECURITY_POLICY", "")).at(nowS*1000+60_000-now-1), credErr("REVOKED")),
			)...),
			scene("whom it was delegated to can not use it any more", steps(
				one(presented("jwt", firstToken()), in("a delegation to c", delegate(issued(peerA, peerC, "read", 60), now+60_000).frame(), accept)),
				on("c", isDone(peerC+" [read] 2")...),
				one(in("it is revoked", revoke(chain1).frame(), accept)), on("c", isNotDone()...),
			)...),
			scene("by nobody but its owner", steps(
				one(presented("jwt", firstToken()), in("c tries", revoke(chain1).frame(), accept).on("c")), isDone(peerA+" [read write] 1"),
			)...),
			scene("one that there is not", steps(
				one(in("it is revoked", revoke(chain1).frame(), accept), presented("jwt", firstToken())), isDone(peerA+" [read write] 1"),
			)...),
			scene("others stay", steps(
				one(presented("jwt", firstToken()), in("another chain", present("opaque", secret, "another chain").frame(), accept),
					in("that is revoked", revoke("another chain").frame(), accept)), isDone(peerA+" [read write] 1"),
			)...),
			scene("twice", steps(
				one(presented("opaque", secret), in("it is revoked", revoke(chain1).frame(), accept), in("and again", revoke(chain1).frame(), accept)),
				notTaken("the credential again", "REVOKED", present("opaque", secret, chain1)),
			)...),
		},
	},
	{
		id: "cred_0006_unsupported_msg_type", about: "unsupported CRED `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(cred, "cred", "cred_0006_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(cred, 5, usualID).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(cred).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}

// sevenOpaque returns delegations of a chain whose credential is opaque.
func sevenOpaque() (list []step) {
	for depth := 2; depth <= 8; depth++ {
		list = append(list, in(fmt.Sprint("part ", depth, " of the chain"), delegate("the same octets", now+hour).frame(), accept))
	}
	return list
}
