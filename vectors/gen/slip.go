package main

import (
	"strings"

	"github.com/slimwire/swp/vectors"
)

const slip = 1025

// Messages of nSLIP and SLIP v1. coordinator is 0, planner 1, executor 2, sleeper 3 and
// nobody 4; executor wants nSLIP in binary.
const (
	slipText  = `@a3|f0|c3|S0|d1|T1|gH|kg|q2|t"refactor_auth"#`
	slipWords = "SLIP v1 coordinator planner RequestReview auth_module" //nolint:gosec // no credential

	slipHash    = "sha256:19bb36792d59061553d1b63cc4d56ec3e8748b7b059737754057fa3e7abbc700"
	slipForeign = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

	extUCRHash = 16
	extHandle  = 17
)

// slipSlot is an NSlipSlot. The code 0 is left out.
func slipSlot(code uint64, value []byte) []byte {
	if code == 0 {
		return nested(7, value)
	}
	return nested(7, number(1, code), value)
}

// slipBinary is slipText as an NSlipMessage.
var slipBinary = string(join(
	number(1, 3), number(2, 1), number(4, 1), number(5, 3),
	slipSlot(0, number(2, 17)), slipSlot(1, number(2, 42)), slipSlot(10, number(2, 2)), slipSlot(20, opaque(3, "refactor_auth")),
))

func slipSays(msgType uint64, payload string) message {
	return typical.withProfile(slip).withType(msgType).withPayload(payload)
}

// declares is an agent that declares itself on another connection.
func declares(agent string) step {
	return in(agent+" declares itself", handshake("handshake 1", agent).frame(), accept).on("b")
}

// deliveredTo is a message that the agent on the other connection gets.
func deliveredTo(m message) step { return forwarded("it is delivered as it came", "b", m) }

// notDelivered is a SLIP_ERR of a code.
func notDelivered(code string) step {
	return out("the sender is told why", of(slip, 4, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// badSlip is a message that is refused with a given code.
func badSlip(why string, msgType uint64, payload, code string) sibling {
	return scene(why, in("the message", slipSays(msgType, payload).frame(), badPayload), notDelivered(code))
}

var slipDenied = reject("SECURITY_POLICY", "")

var slips = []vector{
	{
		id: "slip_0001_nslip_delivered", about: "nSLIP is delivered to the session that declared its agent",
		expect: accept, bin: slipSays(1, slipText).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: []step{declares("planner"), mainStep("a request of the coordinator"), deliveredTo(slipSays(1, slipText))},
		siblings: []sibling{
			scene("what the language tolerates is delivered as it came",
				declares("planner"), in("another order, blanks and zeros", slipSays(1, " @||T01|d1|S0|c3|f0|a3|# ").frame(), accept),
				deliveredTo(slipSays(1, " @||T01|d1|S0|c3|f0|a3|# "))),
			scene("an integer of 64 bits", declares("planner"), in("the largest", slipSays(1, "@aA|f4|cLygHa16AHYF|S0|d1|T1#").frame(), accept),
				deliveredTo(slipSays(1, "@aA|f4|cLygHa16AHYF|S0|d1|T1#"))),
			badSlip("one more", 1, "@aA|f4|cLygHa16AHYG|S0|d1|T1#", "bad_integer"),
		},
	},
	{
		id: "slip_0002_slip_v1_delivered", about: "a line of SLIP v1 is delivered to the session that declared its agent",
		expect: accept, bin: slipSays(2, slipWords).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{declares("planner"), mainStep("a request of the coordinator"), deliveredTo(slipSays(2, slipWords))},
		siblings: []sibling{
			scene("with the hash of the core anchors", declares("planner"),
				in("which goes on", slipSays(2, slipWords).withExtension(extUCRHash, slipHash).frame(), accept),
				deliveredTo(slipSays(2, slipWords).withExtension(extUCRHash, slipHash))),
			scene("a Fallback", declares("planner"), in("text", slipSays(2, `SLIP v1 a planner Fallback "look at it"`).frame(), accept),
				deliveredTo(slipSays(2, `SLIP v1 a planner Fallback "look at it"`))),
			scene("tokens that are not written here", declares("planner"), in("they mean themselves", slipSays(2, "SLIP v1 a planner MetaAck {x}=[1] thread7").frame(), accept),
				deliveredTo(slipSays(2, "SLIP v1 a planner MetaAck {x}=[1] thread7"))),
		},
	},
	{
		id: "slip_0003_binary_delivered", about: "binary nSLIP is delivered, and is the same message as its text",
		expect: accept, bin: slipSays(3, slipBinary).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: []step{declares("planner"), mainStep("a request of the coordinator"), deliveredTo(slipSays(3, slipBinary))},
		siblings: []sibling{
			scene("text for an agent that wants binary", declares("executor"),
				in("a message", slipSays(1, strings.Replace(slipText, "d1", "d2", 1)).frame(), accept),
				forwarded("it is converted", "b", slipSays(3, string(join(
					number(1, 3), number(2, 1), number(4, 2), number(5, 3),
					slipSlot(0, number(2, 17)), slipSlot(1, number(2, 42)), slipSlot(10, number(2, 2)), slipSlot(20, opaque(3, "refactor_auth")),
				))))),
			scene("SLIP v1 is never converted", declares("executor"), in("a line", slipSays(2, "SLIP v1 a executor MetaAck").frame(), accept),
				deliveredTo(slipSays(2, "SLIP v1 a executor MetaAck"))),
			badSlip("a zero that has to be there", 3, string(join(number(4, 1), nested(7, number(1, 1)))), "bad_type"),
			badSlip("another schema_version", 3, string(join(number(4, 1), number(8, 1))), "bad_version"),
			badSlip("a header twice", 3, string(join(number(4, 1), number(4, 1))), "duplicate"),
		},
	},
	{
		id: "slip_0004_unknown_destination", about: "a message for nobody is refused with unknown_destination",
		expect: reject("NOT_FOUND", "unknown destination"), bin: slipSays(2, slipWords).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{mainStep("nobody has declared planner"), notDelivered("unknown_destination")},
		siblings: []sibling{
			scene("a number that is nobody's", in("the message", slipSays(1, "@a3|f0|c3|S0|d9|T1#").frame(), reject("NOT_FOUND", "")), notDelivered("no_mapping")),
			scene("a number that nobody speaks as", in("the message", slipSays(1, "@a3|f0|c3|S9|d1|T1#").frame(), reject("NOT_FOUND", "")), notDelivered("no_mapping")),
			scene("an agent that is away and whose messages are kept", in("is no stranger", slipSays(2, "SLIP v1 a sleeper MetaAck").frame(), accept)),
			scene("what the agent refuses is passed back", declares("planner"),
				in("a message", slipSays(2, slipWords).frame(), accept), deliveredTo(slipSays(2, slipWords)),
				in("the agent has no use for it", of(slip, 4, usualID, opaque(1, "not_now"), opaque(2, "any")).frame(), accept).on("b").answers(),
				out("the sender is told why, in its words", of(slip, 4, usualID, opaque(1, "not_now"), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true)})),
		},
	},
	{
		id: "slip_0005_denied", about: "nobody speaks as an agent of another identity",
		expect: reject("SECURITY_POLICY", "not an agent of this identity"), bin: slipSays(2, "SLIP v1 planner planner MetaAck").frame(), //nolint:dupword // to itself
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{declares("planner"), mainStep("another peer speaks as planner"), notDelivered("denied")},
		siblings: []sibling{
			scene("by its number", declares("planner"), in("the message", slipSays(1, "@a3|f0|c3|S1|d1|T1#").frame(), slipDenied), notDelivered("denied")),
			scene("an agent that a peer may not use", in("the message", slipSays(2, "SLIP v1 reserved planner MetaAck").frame(), slipDenied).on("b"), notDelivered("denied").on("b")),
		},
	},
	{
		id: "slip_0006_malformed", about: "a message that can not be read is refused with its class",
		expect: reject("INVALID_PROFILE_PAYLOAD", "malformed nSLIP"), bin: slipSays(1, "@a3|f0|c3|S0|d1|T1|g1|g2#").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: []step{mainStep("a slot twice"), notDelivered("duplicate")},
		siblings: []sibling{
			badSlip("no frame", 1, "a3|f0|c3|S0|d1|T1", "framing"),
			badSlip("nothing in it", 1, "@#", "empty"),
			badSlip("no such letter", 1, "@a3|f0|c3|S0|d1|T1|x1#", "unknown_prefix"),
			badSlip("an integer without digits", 1, "@a3|f0|c3|S0|d1|T1|g#", "bad_integer"),
			badSlip("a quote that is not closed", 1, `@a3|f0|c3|S0|d1|T1|t"a#`, "bad_string"),
			badSlip("a string for an integer", 1, `@a3|f0|c3|S0|d1|T1|g"1"#`, "bad_type"),
			badSlip("a header that is missing", 1, "@a3|f0|c3|S0|d1#", "missing_header"),
			badSlip("an act that there is not", 1, "@aB|f0|c3|S0|d1|T1#", "bad_act"),
			badSlip("a frame that there is not", 1, "@a3|f5|c3|S0|d1|T1#", "bad_frame"),
			badSlip("too many octets", 1, slipText+strings.Repeat(" ", 4096), "too_long"),
			badSlip("binary as text", 1, slipBinary, "framing"),
			badSlip("a hexadecimal anchor", 2, "SLIP v1 a planner 0x0032", "hex_anchor"),
			badSlip("an anchor that nobody knows", 2, "SLIP v1 a planner LaunchRocket", "unknown_anchor"),
			badSlip("a second line", 2, slipWords+"\nSLIP v1 planner a MetaAck", "bad_delimiter"),
			badSlip("a quote within a token", 2, `SLIP v1 a planner MetaAck a"b"`, "bad_quote"),
			badSlip("another version", 2, "SLIP v2 a planner MetaAck", "bad_version"),
			badSlip("an agent_id with a slash", 2, "SLIP v1 a/b planner MetaAck", "bad_agent_id"),
			badSlip("too few words", 2, "SLIP v1 a planner", "too_few_tokens"),
			like("a SLIP_ERR without a code", of(slip, 4, usualID, opaque(2, "any")).frame(), badPayload),
		},
	},
	{
		id: "slip_0007_ucr_mismatch", about: "a sender that knows other anchors is refused",
		expect: reject("COMPATIBILITY_POLICY", "ucrHash"), bin: slipSays(2, slipWords).withExtension(extUCRHash, slipForeign).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{declares("planner"), mainStep("another hash"), notDelivered("ucr_mismatch")},
		siblings: []sibling{
			scene("hashes are compared exactly", declares("planner"),
				in("in upper case", slipSays(2, slipWords).withExtension(extUCRHash, strings.ToUpper(slipHash)).frame(), reject("COMPATIBILITY_POLICY", "")), notDelivered("ucr_mismatch")),
			scene("nSLIP has no anchors", declares("planner"), in("a message", slipSays(1, slipText).withExtension(extUCRHash, slipForeign).frame(), accept), deliveredTo(slipSays(1, slipText))),
		},
	},
	{
		id: "slip_0008_handles", about: "what a handle of a conversation stands for goes with its messages",
		expect: accept, bin: slipSays(1, slipText).withExtension(extHandle, "k=task:0011").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: []step{
			declares("planner"), mainStep("a handle is named"), deliveredTo(slipSays(1, slipText).withExtension(extHandle, "k=task:0011")),
			in("and used", slipSays(1, "@a3|f0|c3|S0|d1|T2|pg#").withID("message 2").frame(), accept),
			forwarded("as a parent too", "b", slipSays(1, "@a3|f0|c3|S0|d1|T2|pg#").withExtension(extHandle, "p=task:0011")),
		},
		siblings: []sibling{
			scene("in no slot of the message", in("a handle", slipSays(1, slipText).withExtension(extHandle, "r=state:0011").frame(), badPayload), notDelivered("bad_handle")),
			scene("of no kind", in("a handle", slipSays(1, slipText).withExtension(extHandle, "k=file:0011").frame(), badPayload), notDelivered("bad_handle")),
			scene("with words", in("a handle", slipSays(2, slipWords).withExtension(extHandle, "k=task:0011").frame(), badPayload), notDelivered("bad_handle")),
		},
	},
	{
		id: "slip_0009_unsupported_msg_type", about: "unsupported SLIP `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(slip, "slip", "slip_0009_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings:   []sibling{like("the first that there is not", of(slip, 5, usualID).frame(), badType)},
	},
}
