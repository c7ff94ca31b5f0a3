package main

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/slimwire/swp/vectors"
)

const (
	policyhint = 16

	// Of methodDone it is declared that it acts in eu-west-1, uses no external
	// network and costs 0.02 EUR; of methodBare nothing is.
	methodDone = "vector.done"
	methodBare = "vector.bare"

	hintSetID = "hint set 1"
)

// hint is a constraint, written "MUST region=eu scope_ref"; without a scope_ref
// the field is left out.
func hint(text string) []byte {
	mode, rest, _ := strings.Cut(text, " ")
	pair, scope, scoped := strings.Cut(rest, " ")
	key, value, _ := strings.Cut(pair, "=")
	c := join(opaque(1, key), opaque(2, value), opaque(3, mode))
	if scoped {
		c = join(c, opaque(4, scope))
	}
	return nested(1, c)
}

func hintSet(texts ...string) message {
	var all [][]byte
	for _, text := range texts {
		all = append(all, hint(text))
	}
	return of(policyhint, 1, hintSetID, all...)
}

// acked is the ACK of a SET: its ack_id is the msg_id in hexadecimal.
func acked() step {
	return answered("is acknowledged", of(policyhint, 2, usualID, opaque(1, hex.EncodeToString([]byte(hintSetID)))))
}

// violation is a POLICY_VIOLATION.
func violation(key, scope, reason string) message {
	return of(policyhint, 3, usualID, opaque(1, key), opaque(2, scope), opaque(3, reason))
}

// violates is a VIOLATION in answer to a SET.
func violates(key, scope, reason string) step {
	return answered("is a violation", violation(key, scope, reason))
}

// notHint is a POLICY_ERR of a code.
func notHint(code string) step {
	return out("is refused", of(policyhint, 4, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// sets is a SET that is acknowledged.
func sets(texts ...string) []step {
	return []step{in("hints", hintSet(texts...).frame(), accept), acked()}
}

// runs calls a method, which is let through.
func runs(method string) []step {
	return []step{
		in("a method is called", rpcReq("request 1", rpc1, method).frame(), accept),
		answered("and runs", rpcResp(rpc1, "done")),
	}
}

// stoppedByHint is how a call ends that a hint forbids.
var stoppedByHint = reject("SECURITY_POLICY", "")

// isStopped calls a method, which a hint keeps from running.
func isStopped(method, key, scope, reason string) []step {
	return []step{
		in("a method is called", rpcReq("request 1", rpc1, method).frame(), stoppedByHint),
		out("the peer is told which hint stops it", violation(key, scope, reason).frame(), vectors.Expect{SameMsgID: new(false)}),
		out("and it does not run", rpcErr(rpc1, "unauthorized", 0, "any").frame(), textIsFree),
	}
}

// badHints is a SET that is refused as a whole: the good constraint before it is
// not in force.
func badHints(why, code, text string) sibling {
	return scene(why, steps(
		one(in("a good constraint and a bad one", hintSet("MUST region=us", text).frame(), badPayload), notHint(code)), runs(methodDone),
	)...)
}

// goesOn is a call on "a" that goes on to "b", hints ahead of it. Where one is a
// MUST they are waited for.
func goesOn(wait bool, texts ...string) []step {
	list := []step{
		in("a call", rpcReq("request 1", rpc1, held, params("p")).frame(), accept),
		out("its hints go ahead of it", hintSet(texts...).frame(), vectors.Expect{}).on("b"),
	}
	if wait {
		list = append(list, in("they are taken there",
			of(policyhint, 2, usualID, opaque(1, "any")).frame(), accept).on("b").answers())
	}
	return append(list,
		out("the call goes on", rpcReq("request 1", rpc1, held, params("p")).frame(), vectors.Expect{}).on("b"),
		in("and is answered", rpcResp(rpc1, "done").frame(), accept).on("b").answers(),
		answered("in both directions", rpcResp(rpc1, "done")),
	)
}

// ofRPC1 is the scope of the first call.
var ofRPC1 = "rpc:" + hex.EncodeToString([]byte(rpc1))

// manyHints are n constraints.
func manyHints(n int) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprintf("MAY key%d=v", i))
	}
	return texts
}

var policyhints = []vector{
	{
		id: "policyhint_0001_propagation", about: "hints reach the next hop with what they are for",
		expect: accept, bin: hintSet("MUST region=eu "+ofRPC1, "SHOULD cost_limit=1 target:"+held, "MAY note=red").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Setup: vectors.Relay},
		transcript: steps(
			one(mainStep("a hint for a call, one for a target, one for the connection"), acked()),
			goesOn(true, "MUST region=eu "+ofRPC1, "SHOULD cost_limit=1 target:"+held, "MAY note=red "+ofRPC1),
		),
		siblings: []sibling{
			scene("what is for others stays", steps(
				sets("SHOULD region=eu", "MUST region=us rpc:00", "MUST region=us task:00", "SHOULD note=red target:other"),
				goesOn(false, "SHOULD region=eu "+ofRPC1),
			)...).setup(vectors.Relay),
			scene("what would be broken here does not go on", steps(
				sets("MUST region=us"),
				one(in("a call", rpcReq("request 1", rpc1, held).frame(), stoppedByHint),
					out("the peer is told", violation("region", "connection", "UNSATISFIED").frame(), vectors.Expect{SameMsgID: new(false)}),
					out("and nothing goes on", rpcErr(rpc1, "unauthorized", 0, "any").frame(), textIsFree)),
			)...).setup(vectors.Relay),
			scene("another connection has none of it", steps(sets("MUST region=us"), one(
				in("a method is called there", rpcReq("request 1", rpc1, methodBare).frame(), accept).on("b"),
				answered("and runs", rpcResp(rpc1, "done")).on("b"),
			))...).setup(vectors.Serve),
			badHints("a scope that there is not", "INVALID_SCOPE", "MUST region=us everywhere").setup(vectors.Serve),
			badHints("a scope that names nothing", "INVALID_SCOPE", "MUST region=us task:").setup(vectors.Serve),
			badHints("a scope that is no hexadecimal", "INVALID_SCOPE", "MUST region=us rpc:xyz").setup(vectors.Serve),
		},
	},
	{
		id: "policyhint_0002_unknown_keys", about: "an unknown key is a violation with MUST, and passed on otherwise",
		expect: accept, bin: hintSet("MUST colour=red").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: []step{mainStep("an unknown key with MUST"), violates("colour", "connection", "UNKNOWN_KEY")},
		siblings: []sibling{
			scene("with SHOULD", sets("SHOULD colour=red")...),
			scene("with MAY", sets("MAY colour=red")...),
			scene("keys are compared exactly",
				in("a key in upper case", hintSet("MUST REGION=eu target:x").frame(), accept), violates("REGION", "target:x", "UNKNOWN_KEY")),
			scene("nothing of the set is in force", steps(
				one(in("one that is known before one that is not", hintSet("MUST region=us", "MUST colour=red").frame(), accept),
					violates("colour", "connection", "UNKNOWN_KEY")), runs(methodDone),
			)...),
			scene("an empty set", sets()...),
		},
	},
	{
		id: "policyhint_0003_conflicts", about: "of two values with MUST for one key and scope the first stays",
		expect: accept, bin: hintSet("MUST region=us").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: steps(
			sets("MUST region=eu"),
			one(mainStep("another value"), violates("region", "connection", "CONFLICT")),
			runs(methodDone),
		),
		siblings: []sibling{
			scene("the same value is none", steps(sets("MUST region=eu"), sets("MUST region=eu"))...),
			scene("another scope is none", steps(sets("MUST region=eu"), sets("MUST region=us target:other"), runs(methodDone))...),
			scene("within one set, of which nothing is in force", steps(
				one(in("two values", hintSet("MUST region=eu", "MUST region=us").frame(), accept), violates("region", "connection", "CONFLICT")), runs(methodBare),
			)...),
			scene("what is together with a conflict is not in force", steps(sets("MUST region=eu"), one(
				in("a good one before it", hintSet("MUST cost_limit=0.01", "MUST region=us").frame(), accept),
				violates("region", "connection", "CONFLICT"),
			), runs(methodDone))...),
			scene("256 constraints", steps(sets(manyHints(256)...))...),
			like("257 are too many", hintSet(manyHints(257)...).frame(), badPayload),
		},
	},
	{
		id: "policyhint_0004_violation_payload", about: "a violation says key, scope and reason",
		expect: accept, bin: violation("region", "connection", "UNSATISFIED").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		siblings: []sibling{
			like("no key", of(policyhint, 3, usualID, opaque(2, "connection"), opaque(3, "CONFLICT")).frame(), badPayload),
			like("no scope", of(policyhint, 3, usualID, opaque(1, "region"), opaque(3, "CONFLICT")).frame(), badPayload),
			like("no reason", of(policyhint, 3, usualID, opaque(1, "region"), opaque(2, "connection")).frame(), badPayload),
			like("an empty key", violation("", "connection", "CONFLICT").frame(), badPayload),
			like("an empty scope", violation("region", "", "CONFLICT").frame(), badPayload),
			like("an empty reason", violation("region", "connection", "").frame(), badPayload),
			scene("of what is stopped the scope is said that was given", steps(sets("MUST region=us "+ofRPC1), isStopped(methodDone, "region", ofRPC1, "UNSATISFIED"))...),
			scene("and the connection where none was", steps(sets("MUST no_pii=true"), isStopped(methodDone, "no_pii", "connection", "UNDECLARED"))...),
			scene("what keeps to it runs", steps(sets("MUST no_external_network=true", "MUST region=eu"), runs(methodDone))...),
			scene("what has declared nothing does not", steps(
				sets("MUST no_external_network=true"), isStopped(methodBare, "no_external_network", "connection", "UNDECLARED"),
			)...),
		},
	},
	{
		id: "policyhint_0005_mode_semantics", about: "a weaker mode never takes the place of a stronger one",
		expect: accept, bin: hintSet("SHOULD region=us").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: steps(
			sets("MUST region=eu"),
			one(mainStep("another value, with less weight"), acked()),
			runs(methodDone), isStopped(methodBare, "region", "connection", "UNDECLARED"),
		),
		siblings: []sibling{
			scene("MAY after MUST", steps(sets("MUST region=us"), sets("MAY region=eu"), isStopped(methodDone, "region", "connection", "UNSATISFIED"))...),
			scene("MUST after SHOULD", steps(sets("SHOULD region=eu"), sets("MUST region=us"), isStopped(methodDone, "region", "connection", "UNSATISFIED"))...),
			scene("SHOULD and MAY stop nothing", steps(sets("SHOULD region=us", "MAY no_pii=true"), runs(methodDone), runs(methodBare))...),
			scene("modes go on as they are, and the strongest of a key alone", steps(
				sets("SHOULD region=eu", "MAY note=red"), sets("MAY region=us"), goesOn(false, "SHOULD region=eu "+ofRPC1, "MAY note=red "+ofRPC1),
			)...).setup(vectors.Relay),
			scene("in any case", steps(sets("must region=us"), isStopped(methodDone, "region", "connection", "UNSATISFIED"))...),
			scene("blanks around it do not count", steps(
				one(in("a mode between blanks", of(policyhint, 1, hintSetID, nested(1, opaque(1, "region"), opaque(2, "us"), opaque(3, " MUST\t"))).frame(), accept), acked()),
				isStopped(methodDone, "region", "connection", "UNSATISFIED"),
			)...),
			badHints("a mode that there is not", "INVALID_PROFILE_PAYLOAD", "PERHAPS no_pii=true"),
			badHints("a value that is none of its key", "INVALID_PROFILE_PAYLOAD", "MUST no_pii=perhaps"),
			like("no mode", of(policyhint, 1, usualID, nested(1, opaque(1, "region"), opaque(2, "eu"))).frame(), badPayload),
			like("a blank mode", of(policyhint, 1, usualID, nested(1, opaque(1, "region"), opaque(2, "eu"), opaque(3, "  "))).frame(), badPayload),
			like("no key", of(policyhint, 1, usualID, nested(1, opaque(2, "eu"), opaque(3, "MAY"))).frame(), badPayload),
			like("a blank key", of(policyhint, 1, usualID, nested(1, opaque(1, " "), opaque(2, "eu"), opaque(3, "MAY"))).frame(), badPayload),
			like("no value", of(policyhint, 1, usualID, nested(1, opaque(1, "region"), opaque(3, "MAY"))).frame(), badPayload),
		},
	},
	{
		id: "policyhint_0006_unsupported_msg_type", about: "unsupported POLICYHINT `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(policyhint, "policyhint", "policyhint_0006_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(policyhint, 5, usualID).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(policyhint).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}
