package main

import (
	"strings"

	"github.com/slimwire/swp/vectors"
)

const (
	errorPath  = 4096
	day        = 86_400_000
	skew       = 300_000
	staleTime  = now - day - 1
	futureTime = now + day
)

var (
	coreFreshness = vectors.Policy{Freshness: "core", MaxClockSkewMs: skew}
	withErrorPath = vectors.Policy{ErrorPath: true}

	// rate is the setting of the reference peer: the frame after it is refused.
	rate = vectors.Policy{Rate: &vectors.Rate{Frames: 128, WindowMs: 1000}}

	closes = vectors.Expect{Close: new(true)}
)

// core: one frame has one fault, the rest of it is good.
var core = []vector{
	{
		id: "core_0001_valid_min_frame", about: "the smallest acceptable frame: supported version and profile, empty payload",
		expect: accept,
		// No payload of profile 1 is empty: whoever looked into it would refuse.
		bin: typical.withTime(0).withID("12345678").withPayload("").frame(),
		assertions: vectors.Assertions{Envelope: &vectors.Envelope{
			Version: new(uint64(1)), ProfileID: new(uint64(1)), MsgType: new(uint64(1)), PayloadLen: new(0), MinMsgIDBytes: new(8),
			Flags: new(uint64(0)), TimestampMs: new(uint64(0)), MsgID: hexOf("12345678"),
		}},
		siblings: []sibling{like("the same with the usual msg_id and a timestamp", typical.withPayload("").frame(), accept)},
	},
	{
		id: "core_0002_valid_typical_frame", about: "an ordinary frame with a msg_id of 16 octets and a small payload",
		expect: accept, bin: typical.frame(),
		assertions: vectors.Assertions{Envelope: &vectors.Envelope{
			Version: new(uint64(1)), ProfileID: new(uint64(1)), MsgType: new(uint64(1)), PayloadLen: new(9), MinMsgIDBytes: new(16),
			Flags: new(uint64(0)), TimestampMs: new(uint64(now)), MsgID: hexOf(usualID), PayloadHex: hexOf(`{"k":"v"}`),
		}},
	},
	{
		id: "core_0003_invalid_zero_length", about: "a length prefix of zero is refused",
		expect: reject("INVALID_FRAME", "zero length"), bin: octets("00000000"),
		transcript: []step{mainStep("nothing can follow a frame that has no body", closes)},
	},
	{
		id: "core_0004_invalid_truncated_prefix", about: "the stream ends inside the length prefix",
		expect: reject("INVALID_FRAME", "truncated length prefix"), bin: octets("0000"),
		siblings: []sibling{
			like("one octet is no prefix either", octets("00"), reject("INVALID_FRAME", "")),
			like("three octets are one short", octets("000000"), reject("INVALID_FRAME", "")),
			scene("a stream that ends between two frames ends in order",
				in("the peer hangs up without a word", nil, verdict{outcome: "none"}, closes).end()),
		},
	},
	{
		id: "core_0005_invalid_oversized_length", about: "a length prefix above MAX_FRAME_BYTES is refused on the prefix alone",
		expect: reject("INVALID_FRAME", "frame length above MAX_FRAME_BYTES"), bin: octets("00800001"),
		transcript: []step{mainStep("the peer sends the prefix and waits: no body has to come, none is allocated for", tooLarge)},
		siblings: []sibling{
			scene("a length that is negative as int32", in("the peer sends the prefix and waits", octets("80000000"), reject("INVALID_FRAME", ""), tooLarge)),
			scene("the largest length there is", in("the peer sends the prefix and waits", octets("ffffffff"), reject("INVALID_FRAME", ""), tooLarge)),
		},
	},
	{
		id: "core_0006_invalid_truncated_body", about: "the body is shorter than its prefix says",
		expect: reject("INVALID_FRAME", "truncated body"), bin: announce(10, octets("01 01 01")),
	},
	{
		id: "core_0007_invalid_envelope_decode", about: "the body cannot be decoded as an envelope",
		expect: reject("INVALID_FRAME", "undecodable envelope"), bin: frame(repeat(0x80, 11)),
	},
	{
		id: "core_0008_unsupported_version", about: "a version other than 1 is refused",
		expect: reject("UNSUPPORTED_VERSION", "version 2"), bin: typical.withVersion(2).frame(),
	},
	{
		id: "core_0009_unknown_profile", about: "a profile_id that is not registered is refused",
		expect: reject("UNKNOWN_PROFILE", "unknown profile_id"), bin: typical.withProfile(9999).frame(),
	},
	{
		id: "core_0010_invalid_msg_id_short", about: "a msg_id below the minimum is refused",
		expect: reject("INVALID_ENVELOPE", "msg_id of 4 octets"), bin: typical.withID("1234").frame(),
		siblings: []sibling{
			like("7 octets are one short", typical.withID("1234567").frame(), reject("INVALID_ENVELOPE", "")),
			like("8 octets are the minimum", typical.withID("12345678").frame(), accept),
		},
	},
	{
		id: "core_0011_invalid_msg_id_long", about: "a msg_id above the maximum is refused",
		expect: reject("INVALID_ENVELOPE", "msg_id of 65 octets"), bin: typical.withID(strings.Repeat("i", 65)).frame(),
		siblings: []sibling{like("64 octets are the maximum", typical.withID(strings.Repeat("i", 64)).frame(), accept)},
	},
	{
		id: "core_0012_invalid_payload_oversize", about: "a payload above MAX_PAYLOAD_BYTES is refused",
		expect: reject("INVALID_ENVELOPE", "payload exceeds configured MAX_PAYLOAD_BYTES"), bin: typical.withPayload(strings.Repeat("p", 1025)).frame(),
		assertions: vectors.Assertions{Limits: &vectors.Limits{MaxPayloadBytes: 1024}},
		siblings:   []sibling{like("1024 octets are the limit", typical.withPayload(strings.Repeat("p", 1024)).frame(), accept)},
	},
	{
		id: "core_0013_unknown_flags_set", about: "flag bits that nobody assigned are tolerated, and visible to logs and metrics",
		expect: accept, bin: typical.withFlags(1 << 20).frame(),
		assertions: vectors.Assertions{Envelope: &vectors.Envelope{Flags: new(uint64(1 << 20))}},
		transcript: []step{mainStep("the verdict, which logs and metrics read, carries the bits", vectors.Expect{LoggedFlags: new(uint64(1 << 20))})},
	},
	{
		id: "core_0014_stale_timestamp", about: "a timestamp before the acceptance window is refused",
		expect: reject("INVALID_ENVELOPE", "stale timestamp"), bin: typical.withTime(staleTime).frame(),
		assertions: vectors.Assertions{Policy: &coreFreshness, Clock: &vectors.Clock{NowUnixMs: now}},
		siblings: []sibling{
			like("the same frame was fresh until its time plus the skew", nil, accept).clock(staleTime + skew),
			like("and no longer a millisecond later", nil, reject("INVALID_ENVELOPE", "")).clock(staleTime + skew + 1),
			like("a policy that does not require timestamps lets 0 pass", typical.withTime(0).frame(), accept),
		},
	},
	{
		id: "core_0015_future_timestamp", about: "a timestamp after the acceptance window is refused",
		expect: reject("INVALID_ENVELOPE", "timestamp in the future"), bin: typical.withTime(futureTime).frame(),
		assertions: vectors.Assertions{Policy: &coreFreshness, Clock: &vectors.Clock{NowUnixMs: now}},
		siblings: []sibling{
			like("the same frame is fresh from its time less the skew", nil, accept).clock(futureTime - skew),
			like("and not a millisecond earlier", nil, reject("INVALID_ENVELOPE", "")).clock(futureTime - skew - 1),
			like("so far ahead that nanoseconds would wrap", typical.withTime(1<<50).frame(), reject("INVALID_ENVELOPE", "")),
			like("as far ahead as there is", typical.withTime(1<<64-1).frame(), reject("INVALID_ENVELOPE", "")),
		},
	},
	{
		id: "core_0016_burst_limit_exceeded", about: "valid frames above the configured rate are refused",
		expect: reject("RATE_LIMIT_EXCEEDED", "frame rate exceeded"), bin: typical.withID("frame 129").frame(),
		assertions: vectors.Assertions{Policy: &rate, Clock: &vectors.Clock{NowUnixMs: now}},
		transcript: []step{
			in("as many as the window holds, each with a msg_id of its own", burst(128), accept, vectors.Expect{Frames: 128}),
			mainStep("one more, still inside the window").at(999),
			in("the window is over", typical.withID("frame 130").frame(), accept).at(1000),
		},
	},
	{
		id: "core_0017_unknown_profile_with_error_path", about: "an unknown profile is refused, and the peer is told where there is a way to",
		expect: reject("UNKNOWN_PROFILE", "unknown profile_id, error path present"), bin: typical.withProfile(9999).frame(),
		assertions: vectors.Assertions{Policy: &withErrorPath},
		transcript: []step{
			mainStep("no handler has this profile"),
			out("the answer names the code under the msg_id of the request", nil, errorPathFrame("UNKNOWN_PROFILE", true)),
		},
	},
	{
		id: "core_0018_unknown_profile_no_error_path", about: "an unknown profile is refused by closing the stream where there is no error path",
		expect: reject("UNKNOWN_PROFILE", "unknown profile_id, no error path"), bin: typical.withProfile(9999).frame(),
		transcript: []step{mainStep("not an octet comes back", closes)},
	},
	{
		id: "core_0019_boundary_max_frame_exact", about: "a frame of exactly MAX_FRAME_BYTES is accepted",
		expect: accept, bin: bodyOf(2078),
		assertions: vectors.Assertions{Limits: &vectors.Limits{MaxFrameBytes: 2078}},
		siblings:   []sibling{like("one octet more is refused", bodyOf(2079), reject("INVALID_FRAME", ""), vectors.Expect{Detail: "ERR_FRAME_TOO_LARGE"})},
	},
	{
		id: "core_0020_boundary_max_payload_exact", about: "a payload of exactly MAX_PAYLOAD_BYTES is accepted",
		expect: accept, bin: typical.withPayload(strings.Repeat("p", 2048)).frame(),
		assertions: vectors.Assertions{Limits: &vectors.Limits{MaxPayloadBytes: 2048}, Envelope: &vectors.Envelope{PayloadLen: new(2048)}},
		siblings:   []sibling{like("one octet more is refused", typical.withPayload(strings.Repeat("p", 2049)).frame(), reject("INVALID_ENVELOPE", ""))},
	},
	{
		id: "core_0021_missing_required_field_version", about: "an envelope without a version is refused",
		expect: reject("UNSUPPORTED_VERSION", "version 0"), bin: typical.withVersion(0).frame(),
		siblings: []sibling{like("a body that ends inside the version is no envelope", frame(octets("81")), reject("INVALID_FRAME", ""))},
	},
	{
		id: "core_0022_missing_required_field_profile_id", about: "an envelope without a profile_id is refused",
		expect: reject("UNKNOWN_PROFILE", "profile_id 0"), bin: typical.withProfile(0).frame(),
	},
	{
		id: "core_0023_missing_required_field_msg_type", about: "an envelope without a msg_type is refused",
		expect: reject("INVALID_ENVELOPE", "msg_type 0"), bin: typical.withType(0).frame(),
	},
	{
		id: "core_0024_missing_required_field_msg_id", about: "an envelope without a msg_id is refused",
		expect: reject("INVALID_ENVELOPE", "msg_id empty"), bin: typical.withID("").frame(),
	},
	{
		id: "core_0025_missing_required_field_ts_unix_ms", about: "a missing timestamp is refused where timestamps are required",
		expect: reject("INVALID_ENVELOPE", "ts_unix_ms 0 while required"), bin: typical.withTime(0).frame(),
		assertions: vectors.Assertions{Policy: &vectors.Policy{TimestampRequired: true}},
		siblings:   []sibling{like("the same frame where they are not", nil, accept).policy(vectors.Policy{})},
	},
	{
		id: "core_0026_unknown_flags_no_reinterpretation", about: "unknown flag bits do not change the meaning of any field",
		expect: accept, bin: typical.withFlags(1 << 27).frame(),
		assertions: vectors.Assertions{Envelope: &vectors.Envelope{Flags: new(uint64(1 << 27))}},
		transcript: []step{
			in("the frame without flags", typical.frame(), accept),
			mainStep("the handler is given the same but for the flags", vectors.Expect{SameAs: &vectors.SameAs{Step: 1, Except: []string{"flags"}}}),
		},
	},
	{
		id: "core_0027_duplicate_inflight_msg_id", about: "a msg_id that is in flight is refused as a duplicate",
		expect: reject("DUPLICATE_MSG_ID", "msg_id in flight"), bin: request.withPayload("again").frame(),
		transcript: []step{
			in("a request that is not answered yet", request.frame(), accept),
			mainStep("another under the same msg_id", vectors.Expect{Close: new(false)}),
			in("an answer may repeat a msg_id", request.withType(4).frame(), accept),
			in("and so may the next", request.withType(4).frame(), accept),
			app("the first request is answered", request.withType(2).withPayload("done").frame()),
			out("the duplicate has not harmed it", request.withType(2).withPayload("done").frame(), vectors.Expect{SameMsgID: new(true)}),
			in("answered, the msg_id is free again", request.withPayload("later").frame(), accept),
		},
		siblings: []sibling{
			scene("with a replay window the msg_id stays taken after the message was handled",
				in("handled at once", request.frame(), accept),
				in("the last millisecond of the window", request.frame(), reject("DUPLICATE_MSG_ID", "")).at(4999),
				in("the window is over", request.frame(), accept).at(5000),
			).policy(vectors.Policy{ReplayWindowMs: 5000}).clock(now),
		},
	},
	{
		id: "core_0028_error_mapping_invalid_frame", about: "a framing failure is named in the error response",
		expect: reject("INVALID_FRAME", "zero length, error path present"), bin: octets("00000000"),
		assertions: vectors.Assertions{Policy: &withErrorPath},
		transcript: []step{
			mainStep("the stream cannot be resynchronised", closes),
			out("the answer comes before the end", nil, errorPathFrame("INVALID_FRAME", false)),
		},
	},
	{
		id: "core_0029_error_mapping_unsupported_version", about: "a version failure is named in the error response",
		expect: reject("UNSUPPORTED_VERSION", "version 2, error path present"), bin: typical.withVersion(2).frame(),
		assertions: vectors.Assertions{Policy: &withErrorPath},
		transcript: []step{
			mainStep("nothing after the version can be trusted"),
			out("the answer names the code", nil, errorPathFrame("UNSUPPORTED_VERSION", false)),
		},
	},
	{
		id: "core_0030_error_mapping_invalid_envelope", about: "an envelope failure is named in the error response",
		expect: reject("INVALID_ENVELOPE", "msg_id empty, error path present"), bin: typical.withID("").frame(),
		assertions: vectors.Assertions{Policy: &withErrorPath},
		transcript: []step{
			mainStep("the frame is refused, the stream is in step"),
			out("the answer names the code, under a fresh msg_id", nil, errorPathFrame("INVALID_ENVELOPE", false)),
			in("the connection goes on", typical.frame(), accept),
		},
	},
	{
		id: "core_0031_optional_fields_no_semantic_override", about: "an optional extension cannot override a required field",
		expect: accept, bin: typical.withExtension(2001, "profile_id=12").frame(),
		transcript: []step{
			in("the frame without extensions", typical.frame(), accept),
			mainStep("the handler is given the same but for the extensions", vectors.Expect{SameAs: &vectors.SameAs{Step: 1, Except: []string{"extensions"}}}),
		},
	},
	{
		id: "core_0032_profile_dispatch_known_profile", about: "dispatch follows profile_id and nothing else",
		expect: accept, bin: typical.frame(),
		transcript: []step{
			mainStep("profile 1", vectors.Expect{Handler: new(uint64(1))}),
			in("the same body for profile 12", typical.withProfile(rpc).frame(), accept, dispatched(rpc)),
			in("the same body for profile 2", typical.withProfile(2).frame(), accept, dispatched(2)),
		},
	},
	{
		id: "core_0033_extensibility_backward_compatibility", about: "the compatibility policy was reviewed for versioned change",
		expect:     verdict{outcome: "process_check", code: "COMPATIBILITY_POLICY"},
		assertions: vectors.Assertions{Artifact: "docs/versioning-compatibility.md", Policy: &vectors.Policy{Label: "backward-compatibility-review"}},
		evidence:   true,
	},
}

// tooLarge: the reader's first window is all that a prefix may cost.
var tooLarge = vectors.Expect{Close: new(true), Detail: "ERR_FRAME_TOO_LARGE", AllocBelow: 1 << 20}

// request is an RPC request as far as Core can tell.
var request = typical.withProfile(rpc)

// errorPathFrame is a frame of the error path.
func errorPathFrame(code string, sameID bool) vectors.Expect {
	return vectors.Expect{ProfileID: new(uint64(errorPath)), MsgType: new(uint64(1)), SameMsgID: &sameID, Code: code, ErrorCode: "ERR_" + code}
}

func dispatched(profile uint64) vectors.Expect {
	return vectors.Expect{Handler: &profile, SameAs: &vectors.SameAs{Step: 1, Except: []string{"profile_id", "handler"}}}
}

// bodyOf is a frame whose body has n octets.
func bodyOf(n int) []byte {
	head := len(typical.withPayload("").body()) + 1 // the length of the payload takes two octets
	return typical.withPayload(strings.Repeat("p", n-head)).frame()
}

// burst is n frames with different msg_ids.
func burst(n int) []byte {
	var all []byte
	for i := range n {
		all = append(all, typical.withID("frame "+string([]byte{byte('0' + i/100), byte('0' + i/10%10), byte('0' + i%10)})).frame()...)
	}
	return all
}
