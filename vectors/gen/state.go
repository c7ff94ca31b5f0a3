package main

import (
	"crypto/sha256"
	"fmt"

	"github.com/slimwire/swp/vectors"
)

const state = 17

// oddBlob is a blob that no text is, and oddDelta a delta that looks like a
// message of encoding P1 and is none.
const (
	oddBlob  = "\x00\xffblob\r\n\x0a\x80"
	oddDelta = "\x0a\x02\x1a\x00\xff\xff\xff\xff\x7f not a message \x00"
)

// stateOf is the state_id of a blob.
func stateOf(blob string) string {
	sum := sha256.Sum256([]byte(blob))
	return string(sum[:])
}

// parents are the parent_ids of the states of some blobs.
func parents(blobs ...string) []byte {
	var all []byte
	for _, blob := range blobs {
		all = join(all, opaque(3, stateOf(blob)))
	}
	return all
}

func metadata(octets string) []byte { return opaque(4, octets) }

// statePut is a state under the id that belongs to it.
func statePut(msgID, blob string, more ...[]byte) message {
	return of(state, 1, msgID, opaque(1, stateOf(blob)), opaque(2, blob), join(more...))
}

func stateGet(blob string) message { return of(state, 2, "state get 1", opaque(1, stateOf(blob))) }

func stateDelta(msgID, blob, delta string, more ...[]byte) message {
	return of(state, 3, msgID, opaque(1, stateOf(blob)), opaque(2, delta), join(more...))
}

// stateErr is a STATE_ERR of a code.
func stateErr(why, code string) step {
	return out(why, of(state, 4, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// isThere asks for a state and wants it.
func isThere(blob string, more ...[]byte) []step {
	return []step{
		in("it is asked for", stateGet(blob).frame(), accept),
		answered("and is as it was put", statePut(usualID, blob, more...)),
	}
}

// isNotThere asks for a state and wants none.
func isNotThere(blob string) []step {
	return []step{
		in("it is asked for", stateGet(blob).frame(), reject("NOT_FOUND", "")),
		stateErr("and is not there", "NOT_FOUND"),
	}
}

// steps joins lists of steps.
func steps(lists ...[]step) []step {
	var all []step
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// one is a list of one step, or of more.
func one(list ...step) []step { return list }

// put is a state that is put and accepted.
func put(blob string, more ...[]byte) step {
	return in("a state", statePut("state put 1", blob, more...).frame(), accept)
}

// notPut is a PUT that is refused, of which the sender is told, and which leaves
// nothing.
func notPut(why, blob, code string, octets []byte) sibling {
	return scene(why, steps(
		one(put("root"), in("the state", octets, badPayload), stateErr("is refused", code)), isNotThere(blob),
	)...)
}

// many are blobs with a number.
func many(n int) (blobs []string, frames []byte) {
	for i := range n {
		blobs = append(blobs, fmt.Sprint("parent ", i))
		frames = join(frames, statePut(fmt.Sprintf("state put %03d", i), blobs[i]).frame())
	}
	return blobs, frames
}

var (
	sixtyFour, sixtyFourPuts = many(64)
	sixtyFive, _             = many(65)
)

// readDeltas asks for the deltas of the root, by the method that goes with the
// profile.
func readDeltas(payloads ...[]byte) []step {
	list := one(in("its deltas are asked for", rpcReq("request 1", rpc1, "swp.state.deltas", params(stateOf("root"))).frame(), accept))
	for i, payload := range payloads {
		list = append(list, answered("one comes", rpcItem(rpc1, uint64(i+1), string(payload))))
	}
	return append(list, answered("and that was all", of(rpc, 2, usualID, opaque(1, rpc1))))
}

var (
	wholeState = join(parents("root"), metadata("\x00meta\xff"))
	dagBlobs   = []string{"left", "right"}
)

var states = []vector{
	{
		id: "state_0001_put_get_success", about: "a state comes back with its blob, parents and metadata",
		expect: accept, bin: stateGet(oddBlob).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{
			put("root"),
			in("a state made from it", statePut("state put 2", oddBlob, wholeState).frame(), accept),
			mainStep("it is asked for"),
			answered("and is as it was put", statePut(usualID, oddBlob, wholeState)),
		},
		siblings: []sibling{
			scene("asked for right behind it", steps(
				one(in("a state, and the question for it", join(statePut("state put 1", "root").frame(), stateGet("root").frame()), accept, vectors.Expect{Frames: 2}),
					sends("which is answered", statePut(usualID, "root"))),
			)...),
			scene("what there is not", isNotThere("nowhere")...),
			scene("an id that none can have",
				in("is asked for", of(state, 2, usualID, opaque(1, "\xaa\xbb")).frame(), reject("NOT_FOUND", "")),
				stateErr("and is not there", "NOT_FOUND"),
			),
			like("no id at all", of(state, 2, usualID).frame(), badPayload),
			like("an empty one", of(state, 2, usualID, opaque(1, "")).frame(), badPayload),
			scene("the same state again", steps(one(put("root", metadata("m")), put("root", metadata("m"))), isThere("root", metadata("m")))...),
			scene("the same blob with other metadata is refused, and changes nothing", steps(
				one(put("root", metadata("m")), in("other metadata", statePut("state put 2", "root", metadata("n")).frame(), badPayload), stateErr("is a conflict", "CONFLICT")),
				isThere("root", metadata("m")),
			)...),
			scene("the same blob with other parents is refused, and changes nothing", steps(
				one(put("root"), put("child"), in("other parents", statePut("state put 2", "child", parents("root")).frame(), badPayload), stateErr("are a conflict", "CONFLICT")),
				isThere("child"),
			)...),
			scene("of another identity it is another state", steps(
				one(put("root", metadata("m")), put("root", metadata("n")).on("b")), isThere("root", metadata("m")),
			)...),
			scene("fields that nobody knows are not kept", steps(
				one(in("a state with some", statePut("state put 1", "root", unlisted).frame(), accept)), isThere("root"),
			)...),
		},
	},
	{
		id: "state_0002_hash_mismatch", about: "a state_id that is not the digest of its blob is refused",
		expect:     reject("INVALID_PROFILE_PAYLOAD", "hash mismatch"),
		bin:        of(state, 1, "state put 1", opaque(1, stateOf("another")), opaque(2, "blob")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		siblings: []sibling{
			notPut("that of another blob", "another", "HASH_MISMATCH", of(state, 1, "state put 2", opaque(1, stateOf("another")), opaque(2, "blob")).frame()),
			notPut("an octet more", "blob", "HASH_MISMATCH", of(state, 1, "state put 2", opaque(1, stateOf("blob")+"\x00"), opaque(2, "blob")).frame()),
			notPut("an octet less", "blob", "HASH_MISMATCH", of(state, 1, "state put 2", opaque(1, stateOf("blob")[:31]), opaque(2, "blob")).frame()),
			like("no id", of(state, 1, usualID, opaque(2, "blob")).frame(), badPayload),
			like("no blob", of(state, 1, usualID, opaque(1, stateOf(""))).frame(), badPayload),
			like("an empty blob, which has a digest, too", of(state, 1, usualID, opaque(1, stateOf("")), opaque(2, "")).frame(), badPayload),
			like("the right one", statePut(usualID, "blob").frame(), accept),
		},
	},
	{
		id: "state_0003_parent_missing", about: "a state whose parent is not stored is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "missing parent"), bin: statePut("state put 1", "child", parents("nowhere")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: steps(
			one(mainStep("a state made from one that is not there"), stateErr("is refused", "PARENT_MISSING")), isNotThere("child"),
		),
		siblings: []sibling{
			notPut("one of two is missing", "child", "PARENT_MISSING", statePut("state put 2", "child", parents("root", "nowhere")).frame()),
			notPut("its own parent", "child", "INVALID_PROFILE_PAYLOAD", statePut("state put 2", "child", parents("root", "child")).frame()),
			notPut("a parent twice", "child", "INVALID_PROFILE_PAYLOAD", statePut("state put 2", "child", parents("root", "root")).frame()),
			notPut("a parent that is no digest", "child", "INVALID_PROFILE_PAYLOAD", statePut("state put 2", "child", opaque(3, "root")).frame()),
			notPut("an empty parent", "child", "INVALID_PROFILE_PAYLOAD", statePut("state put 2", "child", opaque(3, "")).frame()),
			scene("the parent comes after its child", steps(
				one(in("a child", statePut("state put 1", "child", parents("parent")).frame(), badPayload), stateErr("is refused", "PARENT_MISSING"), put("parent")),
				isNotThere("child"), isThere("parent"),
			)...),
			scene("64 parents", steps(
				one(in("64 states", sixtyFourPuts, accept, vectors.Expect{Frames: 64}), put("child", parents(sixtyFour...))),
				isThere("child", parents(sixtyFour...)),
			)...),
			like("65 are too many, whether or not they are there", statePut(usualID, "child", parents(sixtyFive...)).frame(), badPayload),
		},
	},
	{
		id: "state_0004_dag_valid", about: "states with stored parents are accepted, whatever the shape",
		expect: accept, bin: statePut("state put 4", "join", parents(dagBlobs...)).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: steps(
			one(put("root"), put("left", parents("root")), put("right", parents("root")), mainStep("the two come together")),
			isThere("join", parents(dagBlobs...)), isThere("left", parents("root")), isThere("root"),
		),
		siblings: []sibling{
			scene("all at once, parents before their children", steps(
				one(in("a diamond", join(
					statePut("state put 1", "root").frame(), statePut("state put 2", "left", parents("root")).frame(),
					statePut("state put 3", "right", parents("root")).frame(), statePut("state put 4", "join", parents(dagBlobs...)).frame(),
				), accept, vectors.Expect{Frames: 4})),
				isThere("join", parents(dagBlobs...)), isThere("right", parents("root")),
			)...),
			scene("the order of parents is kept", steps(
				one(put("left"), put("right"), put("join", parents("right", "left"))), isThere("join", parents("right", "left")),
			)...),
			scene("a parent that somebody else has put, where the rules let it be seen", steps(
				one(put("root").on("b"), put("child", parents("root"))), isThere("child", parents("root")),
			)...),
		},
	},
	{
		id: "state_0005_delta_opaque", about: "a delta is kept octet for octet",
		expect: accept, bin: stateDelta("the delta 1", "root", oddDelta, parents("root")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: steps(
			one(put("root"), mainStep("a delta of octets that mean nothing here")),
			readDeltas(wrapped(3, opaque(1, stateOf("root")), opaque(2, oddDelta), parents("root"))),
			isThere("root"),
		),
		siblings: []sibling{
			scene("several, in their order, right behind their state", steps(
				one(in("a state and its deltas", join(
					statePut("state put 1", "root").frame(), stateDelta("the delta 1", "root", "2").frame(), stateDelta("the delta 2", "root", "1").frame(),
				), accept, vectors.Expect{Frames: 3})),
				readDeltas(wrapped(3, opaque(1, stateOf("root")), opaque(2, "2")), wrapped(3, opaque(1, stateOf("root")), opaque(2, "1"))),
			)...),
			scene("sent again it is kept once", steps(
				one(put("root"), in("a delta", stateDelta("the delta 1", "root", "d").frame(), accept), in("the same", stateDelta("the delta 2", "root", "d").frame(), accept)),
				readDeltas(wrapped(3, opaque(1, stateOf("root")), opaque(2, "d"))),
			)...),
			scene("of a state that there is not",
				in("a delta", stateDelta("the delta 1", "nowhere", "d").frame(), reject("NOT_FOUND", "")),
				stateErr("is for nothing", "NOT_FOUND"),
			),
			scene("made from a state that there is not", steps(
				one(put("root"), in("a delta", stateDelta("the delta 1", "root", "d", parents("nowhere")).frame(), badPayload), stateErr("is refused", "PARENT_MISSING")),
				readDeltas(),
			)...),
			like("no state_id", of(state, 3, usualID, opaque(2, "d")).frame(), badPayload),
			like("no delta", of(state, 3, usualID, opaque(1, stateOf("root"))).frame(), badPayload),
			like("an empty delta", of(state, 3, usualID, opaque(1, stateOf("root")), opaque(2, "")).frame(), badPayload),
		},
	},
	{
		id: "state_0006_unsupported_msg_type", about: "unsupported STATE `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(state, "state", "state_0006_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(state, 5, usualID).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(state).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}
