package main

import (
	"crypto/sha256"

	"github.com/slimwire/swp/vectors"
)

const artifact = 14

// nineOctets is an artifact that no text is.
const nineOctets = "\x00\xffnine\r\n\x80"

// artOffer announces octets, which may differ from those sent later.
func artOffer(msgID, octets string, more ...[]byte) message {
	sum := sha256.Sum256([]byte(octets))
	return of(artifact, 1, msgID, opaque(1, "a"), number(2, uint64(len(octets))), opaque(3, "sha256"), opaque(4, string(sum[:])), join(more...))
}

// artGet asks for an artifact. Fields of a range, or a token, follow.
func artGet(msgID string, more ...[]byte) message {
	return of(artifact, 2, msgID, opaque(1, "a"), join(more...))
}

func from(n uint64) []byte        { return number(2, n) }
func upTo(n uint64) []byte        { return number(3, n) }
func token(text string) []byte    { return opaque(4, text) }
func resumeToken(t string) []byte { return opaque(6, t) }
func artMetadata(m string) []byte { return opaque(5, m) }
func numbered(f, n uint64) []byte { // default values are left out
	if n == 0 {
		return nil
	}
	return number(f, n)
}

// artChunk is a chunk of an upload, or of an answer under its own msg_id.
func artChunk(msgID string, index, offset uint64, data string, terminal bool, more ...[]byte) message {
	fields := [][]byte{opaque(1, "a"), numbered(2, index), numbered(3, offset)}
	if data != "" {
		fields = append(fields, opaque(4, data))
	}
	if terminal {
		fields = append(fields, number(5, yes))
	}
	return of(artifact, 3, msgID, append(fields, more...)...)
}

// artAcked is the ART_ACK of a chunk.
func artAcked(index uint64) step {
	return answered("which is durable", of(artifact, 4, usualID, opaque(1, "a"), numbered(2, index)))
}

// artErr is an ART_ERR of a code.
func artErr(why, code string) step {
	return out(why, of(artifact, 5, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// offers is an offer that is accepted without a word.
func offers(octets string) step {
	return in("an offer", artOffer("offer 01", octets).frame(), accept)
}

// sent is a chunk that is accepted.
func sent(index, offset uint64, data string, terminal bool) []step {
	return []step{in("a chunk", artChunk("chunk no "+string(rune('0'+index)), index, offset, data, terminal).frame(), accept), artAcked(index)}
}

// uploaded is an artifact in one chunk.
func uploaded(octets string) []step { return steps(one(offers(octets)), sent(0, 0, octets, true)) }

// got requests an artifact of one chunk and expects all its octets.
func got(octets string) []step {
	return []step{
		in("it is asked for", artGet("get no 1").frame(), accept),
		answered("and is as it was sent", artChunk(usualID, 0, 0, octets, true)),
	}
}

// missing asks for it and wants nothing.
func missing() []step {
	return []step{
		in("it is asked for", artGet("get no 1").frame(), reject("NOT_FOUND", "")),
		artErr("and is not there", "NOT_FOUND"),
	}
}

// refusedChunk is a chunk that is refused with a code.
func refusedChunk(why, code string, m message) []step {
	return []step{in(why, m.frame(), badPayload), artErr("is refused", code)}
}

// part is a chunk that goes out and does not end the artifact: its resume_token is
// the endpoint's own.
func part(why string, offset uint64, data string) step {
	m := artChunk(usualID, 0, offset, data, false, resumeToken("any"))
	return out(why, m.frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{6}})
}

// ranged asks for a range of nine octets and wants those up to a place.
func ranged(why string, start, end uint64, data string, terminal bool) sibling {
	var fields [][]byte
	if start > 0 {
		fields = append(fields, from(start))
	}
	if end > 0 {
		fields = append(fields, upTo(end))
	}
	ask := in(why, artGet("get no 1", fields...).frame(), accept)
	if terminal {
		return scene(why, steps(uploaded(nineOctets), one(ask, answered("comes", artChunk(usualID, 0, start, data, true))))...)
	}
	return scene(why, steps(uploaded(nineOctets), one(ask, part("comes", start, data)))...)
}

func badRange(why string, start, end uint64) sibling {
	return scene(why, steps(uploaded(nineOctets), one(
		in(why, artGet("get no 1", numbered(2, start), numbered(3, end)).frame(), badPayload), artErr("is refused", "INVALID_RANGE"),
	), got(nineOctets))...)
}

// corrupted is an artifact in three chunks with a flipped bit in the middle one, which
// shows only at the end.
var corrupted = "abcdef"

const most = 1<<64 - 1

var artifacts = []vector{
	{
		id: "artifact_0001_offer_get_success", about: "what was offered and sent is got octet for octet",
		expect: accept, bin: artOffer("offer 01", nineOctets, artMetadata("\x00meta\xff")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: steps(
			one(mainStep("an offer")), sent(0, 0, nineOctets[:4], false), sent(1, 4, nineOctets[4:], true), got(nineOctets),
		),
		siblings: []sibling{
			scene("in one chunk", steps(uploaded(nineOctets), got(nineOctets))...),
			scene("of no octets", steps(uploaded(""), got(""))...),
			scene("an empty chunk at the end", steps(one(offers(nineOctets)), sent(0, 0, nineOctets, false), sent(1, 9, "", true), got(nineOctets))...),
			scene("several chunks come back, numbered from 0", steps(uploaded("0123456789abcdefghij"), one(
				in("it is asked for", artGet("get no 1").frame(), accept),
				part("the first chunk", 0, "0123456789abcdef"),
				answered("and the last", artChunk(usualID, 1, 16, "ghij", true)),
			))...),
			scene("it is not there before all of it is", steps(one(offers(nineOctets)), sent(0, 0, nineOctets[:4], false), missing())...),
			scene("what was never offered", steps(missing(), one(
				in("a chunk of it", artChunk("chunk no 0", 0, 0, nineOctets, true).frame(), reject("NOT_FOUND", "")),
				artErr("has no offer", "NOT_FOUND"),
			))...),
			scene("of another identity it is another artifact", steps(uploaded(nineOctets), one(
				in("somebody else offers the same id", artOffer("offer 01", "xyz").frame(), accept).on("b"),
				in("and sends it", artChunk("chunk no 0", 0, 0, "xyz", true).frame(), accept).on("b"),
				artAcked(0).on("b"),
			), got(nineOctets))...),
			scene("an offer with other metadata while one is under way", steps(one(offers(nineOctets)), sent(0, 0, nineOctets[:4], false), one(
				in("another one", artOffer("offer 02", nineOctets, artMetadata("m")).frame(), badPayload), artErr("is refused", "OFFER_CONFLICT"),
			), sent(1, 4, nineOctets[4:], true), got(nineOctets))...),
			scene("a hash_alg that is not supported", in("is refused", of(artifact, 1, "offer 01", opaque(1, "a"), number(2, 1), opaque(3, "md5"), opaque(4, "0123456789abcdef")).frame(), badPayload),
				artErr("by its name", "UNSUPPORTED_HASH")),
			like("sha256 in another case", of(artifact, 1, usualID, opaque(1, "a"), number(2, 1), opaque(3, "SHA256"), opaque(4, stateOf("x"))).frame(), accept),
			like("fields that nobody knows do not matter", artOffer(usualID, nineOctets, unlisted).frame(), accept),
			like("no artifact_id", of(artifact, 1, usualID, number(2, 1), opaque(3, "sha256"), opaque(4, stateOf("x"))).frame(), badPayload),
			like("a blank artifact_id", of(artifact, 1, usualID, opaque(1, " \t"), number(2, 1), opaque(3, "sha256"), opaque(4, stateOf("x"))).frame(), badPayload),
			like("no hash_alg", of(artifact, 1, usualID, opaque(1, "a"), number(2, 1), opaque(4, stateOf("x"))).frame(), badPayload),
			like("no hash", of(artifact, 1, usualID, opaque(1, "a"), number(2, 1), opaque(3, "sha256")).frame(), badPayload),
			like("a hash that is too short", of(artifact, 1, usualID, opaque(1, "a"), number(2, 1), opaque(3, "sha256"), opaque(4, "short")).frame(), badPayload),
			like("a size that no disk has", of(artifact, 1, usualID, opaque(1, "a"), number(2, 1<<63), opaque(3, "sha256"), opaque(4, stateOf("x"))).frame(), badPayload),
		},
	},
	{
		id: "artifact_0002_chunk_ordering", about: "a chunk that is not the next one is refused and changes nothing",
		expect: accept, bin: artChunk("chunk no 0", 0, 0, nineOctets[:4], false).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: steps(
			one(offers(nineOctets)),
			refusedChunk("chunk 1 first", "ORDERING", artChunk("chunk no 1", 1, 4, nineOctets[4:], true)),
			one(mainStep("chunk 0"), artAcked(0)), sent(1, 4, nineOctets[4:], true), got(nineOctets),
		),
		siblings: []sibling{
			scene("several without waiting", steps(one(offers("abcdef"), in("three chunks", join(
				artChunk("chunk no 0", 0, 0, "ab", false).frame(), artChunk("chunk no 1", 1, 2, "cd", false).frame(),
				artChunk("chunk no 2", 2, 4, "ef", true).frame(),
			), accept, vectors.Expect{Frames: 3})), one(
				out("the first is durable", of(artifact, 4, usualID, opaque(1, "a")).frame(), vectors.Expect{}),
				out("the second", of(artifact, 4, usualID, opaque(1, "a"), number(2, 1)).frame(), vectors.Expect{}),
				out("the third", of(artifact, 4, usualID, opaque(1, "a"), number(2, 2)).frame(), vectors.Expect{}),
			), got("abcdef"))...),
			scene("the same chunk again", steps(one(offers(nineOctets)), sent(0, 0, nineOctets[:4], false),
				refusedChunk("chunk 0 again", "ORDERING", artChunk("chunk no 9", 0, 0, nineOctets[:4], false)),
				sent(1, 4, nineOctets[4:], true), got(nineOctets))...),
			scene("the largest index", steps(one(offers(nineOctets)),
				refusedChunk("it", "ORDERING", artChunk("chunk no 9", most, 0, nineOctets, true)), uploaded(nineOctets)[1:], got(nineOctets))...),
			scene("an offset before the end of the last chunk", steps(one(offers(nineOctets)), sent(0, 0, nineOctets[:4], false),
				refusedChunk("it", "INVALID_OFFSET", artChunk("chunk no 9", 1, 3, nineOctets[4:], true)),
				sent(1, 4, nineOctets[4:], true), got(nineOctets))...),
			scene("an offset that wraps", steps(one(offers(nineOctets)), sent(0, 0, nineOctets[:4], false),
				refusedChunk("it", "INVALID_OFFSET", artChunk("chunk no 9", 1, most, nineOctets[4:], true)),
				sent(1, 4, nineOctets[4:], true), got(nineOctets))...),
		},
	},
	{
		id: "artifact_0003_integrity_mismatch", about: "octets that are not those of the hash are refused and discarded",
		expect: reject("INVALID_PROFILE_PAYLOAD", "artifact integrity mismatch"), bin: artChunk("chunk no 0", 0, 0, "nine more", true).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: steps(
			one(offers(nineOctets), mainStep("as many octets, and others"), artErr("are refused", "INTEGRITY_MISMATCH")), missing(),
			one(in("a chunk after that", artChunk("chunk no 1", 1, 9, "", true).frame(), reject("NOT_FOUND", "")), artErr("has no offer", "NOT_FOUND")),
			uploaded(nineOctets), got(nineOctets),
		),
		siblings: []sibling{
			scene("what was there before stays", steps(uploaded(nineOctets), one(
				in("an offer of something else", artOffer("offer 02", "abc").frame(), accept),
				in("other octets", artChunk("chunk no 9", 0, 0, "abd", true).frame(), badPayload), artErr("are refused", "INTEGRITY_MISMATCH"),
			), got(nineOctets))...),
			scene("fewer octets than were offered", steps(one(offers(nineOctets)),
				refusedChunk("they end too early", "SIZE_MISMATCH", artChunk("chunk no 0", 0, 0, nineOctets[:8], true)), missing())...),
			scene("more octets than were offered", steps(one(offers(nineOctets)),
				refusedChunk("they end too late", "SIZE_MISMATCH", artChunk("chunk no 0", 0, 0, nineOctets+"x", true)), missing())...),
		},
	},
	{
		id: "artifact_0004_resume_token", about: "a GET with the resume_token of a chunk goes on behind it",
		expect: accept, bin: artGet("get no 2", token("any")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: steps(uploaded(nineOctets), one(
			in("the first four octets", artGet("get no 1", upTo(4)).frame(), accept),
			part("come with a token", 0, nineOctets[:4]),
			mainStep("the token").continues(),
			answered("stands for the octet behind them", artChunk(usualID, 0, 4, nineOctets[4:], true)),
		)),
		siblings: []sibling{
			scene("a token and an end", steps(uploaded(nineOctets), one(
				in("the first two octets", artGet("get no 1", upTo(2)).frame(), accept),
				part("come with a token", 0, nineOctets[:2]),
				in("some behind them", artGet("get no 2", upTo(5), token("any")).frame(), accept).continues(),
				part("come, too", 2, nineOctets[2:5]),
			))...),
			scene("a token that was not given out", steps(uploaded(nineOctets), one(
				in("is asked with", artGet("get no 1", token("a:4")).frame(), badPayload), artErr("is refused", "INVALID_RESUME_TOKEN"),
			), got(nineOctets))...),
			scene("an upload that was cut off goes on", steps(one(offers(nineOctets)), sent(0, 0, nineOctets[:4], false), one(
				in("on another connection of the same peer the offer comes again", artOffer("offer 02", nineOctets).frame(), accept),
				answered("and chunk 0 is held", of(artifact, 4, usualID, opaque(1, "a"))),
			), sent(1, 4, nineOctets[4:], true), got(nineOctets))...),
			scene("an offer of what is complete", steps(uploaded(nineOctets), one(
				in("comes again", artOffer("offer 02", nineOctets).frame(), accept),
				answered("and all of it is held", of(artifact, 4, usualID, opaque(1, "a"))),
			), got(nineOctets))...),
		},
	},
	{
		id: "artifact_0005_range_request", about: "a range is answered with its octets, or refused",
		expect: accept, bin: artGet("get no 1", from(2), upTo(6)).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: steps(uploaded(nineOctets), one(mainStep("a range inside"), part("comes", 2, nineOctets[2:6]))),
		siblings: []sibling{
			ranged("from the beginning", 0, 3, nineOctets[:3], false),
			ranged("to the end", 5, 0, nineOctets[5:], true),
			ranged("up to the end, named", 5, 9, nineOctets[5:], true),
			ranged("beyond the end, which is clamped", 5, 10, nineOctets[5:], true),
			ranged("as far beyond the end as can be", 5, most, nineOctets[5:], true),
			ranged("from the end", 9, 0, "", true),
			badRange("from beyond the end", 10, 0),
			badRange("from as far as can be", most, most),
			badRange("from behind its own end", 4, 3),
		},
	},
	{
		id: "artifact_0006_corruption_rejected", about: "a chunk that was corrupted is found at the end, and nothing of it is served",
		expect: reject("INVALID_PROFILE_PAYLOAD", "corrupted chunk"), bin: artChunk("chunk no 2", 2, 4, "ef", true).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: steps(
			one(offers(corrupted)), sent(0, 0, "ab", false), sent(1, 2, "cD", false),
			one(mainStep("the last chunk"), artErr("shows it", "INTEGRITY_MISMATCH")), missing(),
			one(offers(corrupted)), sent(0, 0, "ab", false), sent(1, 2, "cd", false), sent(2, 4, "ef", true), got(corrupted),
		),
	},
	{
		id: "artifact_0007_unsupported_msg_type", about: "unsupported ARTIFACT `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(artifact, "artifact", "artifact_0007_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(artifact, 6, usualID).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(artifact).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}
