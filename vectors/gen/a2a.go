package main

import "github.com/slimwire/swp/vectors"

const (
	a2a = 2

	task1 = "task-00000000001"
	task2 = "task-00000000002"

	// Kinds that the endpoint carries out in the a2a vectors: one that the
	// application works on, and one that takes a JSON object only.
	summarise = "vector.summarise"
	strict    = "vector.strict"
)

func handshake(msgID, agent string, capabilities ...string) message {
	fields := [][]byte{opaque(1, agent)}
	for _, c := range capabilities {
		fields = append(fields, opaque(2, c))
	}
	return of(a2a, 1, msgID, fields...)
}

func task(msgID, id, kind, input string) message {
	return of(a2a, 2, msgID, opaque(1, id), opaque(2, kind), opaque(3, input))
}

func event(msgID, id, text string) message { return of(a2a, 3, msgID, opaque(1, id), opaque(2, text)) }

func success(msgID, id, output string) message {
	return of(a2a, 4, msgID, opaque(1, id), number(2, yes), opaque(3, output))
}

// failed is a Result with ok left out, which is how false is written.
func failed(msgID, id, reason string) message { //nolint:unparam // as the other messages
	return of(a2a, 4, msgID, opaque(1, id), opaque(4, reason))
}

// sends is a frame that comes out for one task among others.
func sends(why string, m message) step { return out(why, m.frame(), vectors.Expect{}) }

// failing is a Result of the first task whose reason is for people.
func failing(why string) step {
	return out(why, failed(usualID, task1, "any").frame(), vectors.Expect{Free: []uint64{4}})
}

// delegates is how a task of the endpoint's own side begins.
func delegates(steps ...step) []step {
	return append([]step{
		app("the application has work for the peer", task(usualID, task1, "peer.summarise", "input").frame()),
		sends("the task goes out", task(usualID, task1, "peer.summarise", "input")),
	}, steps...)
}

// ends is a task of the endpoint's own side that came to its end.
func ends(steps ...step) []step {
	return delegates(append([]step{
		in("the peer is done", success("result 1", task1, "output").frame(), accept),
		learns("the application learns that", success(usualID, task1, "output").frame()),
	}, steps...)...)
}

var a2as = []vector{
	{
		id: "a2a_0001_handshake_success", about: "a handshake is accepted and makes capabilities known",
		expect: accept, bin: handshake(usualID, "peer-agent", "peer.summarise", "peer.translate").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: []step{
			mainStep("an agent says who it is and what it can do"),
			learns("the application can read both", handshake(usualID, "peer-agent", "peer.summarise", "peer.translate").frame()),
			in("a repeat", handshake("handshake 2", "peer-agent", "peer.translate").frame(), accept),
			learns("replaces what it can do", handshake(usualID, "peer-agent", "peer.translate").frame()),
		},
		siblings: []sibling{
			like("an agent that can do nothing", handshake(usualID, "peer-agent").frame(), accept),
			like("no agent_id", of(a2a, 1, usualID, opaque(2, "peer.summarise")).frame(), badPayload),
			like("a blank agent_id", handshake(usualID, " \t ", "peer.summarise").frame(), badPayload),
			scene("an agent_id belongs to whoever has it",
				in("an agent", handshake("handshake 1", "peer-agent").frame(), accept),
				learns("is known", handshake(usualID, "peer-agent").frame()),
				in("another identity claims to be it", handshake("handshake 2", "peer-agent").frame(), reject("SECURITY_POLICY", "")).on("b"),
			),
		},
	},
	{
		id: "a2a_0002_task_event_result_success", about: "a task goes one way, its events and its result the other",
		expect: accept, bin: event("the event 1", task1, "half way").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: delegates(
			mainStep("the peer reports progress"),
			learns("the application learns of it", event(usualID, task1, "half way").frame()),
			in("octets instead of text", of(a2a, 3, "the event 2", opaque(1, task1), opaque(3, "\xff\x00")).frame(), accept),
			learns("are progress, too", of(a2a, 3, usualID, opaque(1, task1), opaque(3, "\xff\x00")).frame()),
			in("the result", success("result 1", task1, "output").frame(), accept),
			learns("completes the task", success(usualID, task1, "output").frame()),
		),
		siblings: []sibling{
			scene("the endpoint carries out a task",
				in("a task", task("the task 1", task1, summarise, "input").frame(), accept),
				learns("reaches the application", task("the task 1", task1, summarise, "input").frame()),
				app("progress", event(usualID, task1, "half way").frame()),
				sends("is reported", event(usualID, task1, "half way")),
				app("more of it", event(usualID, task1, "almost").frame()),
				sends("is reported after it", event(usualID, task1, "almost")),
				app("the result", success(usualID, task1, "output").frame()),
				sends("completes the task", success(usualID, task1, "output")),
			),
			scene("an event of nothing", delegates(
				in("neither message nor event_payload", of(a2a, 3, "the event 1", opaque(1, task1)).frame(), badPayload),
				in("no task_id", of(a2a, 3, "the event 2", opaque(2, "half way")).frame(), badPayload),
			)...),
			like("a task without task_id", of(a2a, 2, usualID, opaque(2, summarise)).frame(), badPayload),
			like("a task without kind", of(a2a, 2, usualID, opaque(1, task1)).frame(), badPayload),
			like("a task of a blank kind", task(usualID, task1, " ", "input").frame(), badPayload),
		},
	},
	{
		id: "a2a_0003_task_result_failure", about: "a task ends with a failure and its reason",
		expect: accept, bin: failed("result 1", task1, "no text to summarise").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		transcript: delegates(
			mainStep("the peer has failed"),
			learns("the application learns why", failed(usualID, task1, "no text to summarise").frame()),
		),
		siblings: []sibling{
			scene("the endpoint fails",
				in("a task", task("the task 1", task1, summarise, "input").frame(), accept),
				learns("reaches the application", task("the task 1", task1, summarise, "input").frame()),
				app("cannot be done", failed(usualID, task1, "no text to summarise").frame()),
				sends("which ends it", failed(usualID, task1, "no text to summarise")),
			),
			scene("a failure without a reason", delegates(
				in("is refused", of(a2a, 4, "result 1", opaque(1, task1)).frame(), badPayload),
				in("and has ended nothing", success("result 2", task1, "output").frame(), accept),
				learns("as the application sees", success(usualID, task1, "output").frame()),
			)...),
		},
	},
	{
		id: "a2a_0004_event_after_terminal_result", about: "an event after the result of the same sender is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "event after result"), bin: event("the event 1", task1, "one more thing").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: ends(mainStep("an event afterwards")),
		siblings: []sibling{
			scene("an event that crosses the result of the other end is accepted, and dropped", delegates(
				app("the application gives up", failed(usualID, task1, "enough").frame()),
				sends("and says so", failed(usualID, task1, "enough")),
				in("an event that was on its way", event("the event 1", task1, "half way").frame(), accept),
				in("and another one", event("the event 2", task1, "almost").frame(), accept),
			)...),
			scene("an initiator says nothing after its own result either",
				in("a task", task("the task 1", task1, summarise, "input").frame(), accept),
				learns("reaches the application", task("the task 1", task1, summarise, "input").frame()),
				in("a remark", event("the event 1", task1, "take your time").frame(), accept),
				in("its initiator gives up", failed("result 1", task1, "enough").frame(), accept),
				learns("the application is stopped", of(a2a, 4, usualID, opaque(1, task1)).frame()),
				in("another remark", event("the event 2", task1, "one more thing").frame(), badPayload),
				in("the same result", failed("result 2", task1, "enough").frame(), accept),
				in("another one", failed("result 3", task1, "too late").frame(), badPayload),
			),
		},
	},
	{
		id: "a2a_0005_duplicate_terminal_result", about: "an equal result has no effect",
		expect: accept, bin: success("result 2", task1, "output").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		transcript: ends(mainStep("the same result again: nothing is told")),
		siblings: []sibling{
			scene("a failure as well", delegates(
				in("the peer has failed", failed("result 1", task1, "reason").frame(), accept),
				learns("the application learns that", failed(usualID, task1, "reason").frame()),
				in("the same again", failed("result 2", task1, "reason").frame(), accept),
			)...),
		},
	},
	{
		id: "a2a_0006_event_before_task_invalid", about: "an event of an unknown task is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "unknown task_id"), bin: event(usualID, task1, "half way").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		siblings: []sibling{
			scene("also where there are others", delegates(
				in("an event of another task", event("the event 1", task2, "half way").frame(), badPayload),
				in("one of this task", event("the event 2", task1, "half way").frame(), accept),
				learns("is passed on", event(usualID, task1, "half way").frame()),
			)...),
		},
	},
	{
		id: "a2a_0007_result_before_task_invalid", about: "a result of an unknown task is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "unknown task_id"), bin: success(usualID, task1, "output").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		siblings: []sibling{
			like("a failure as well", failed(usualID, task1, "reason").frame(), badPayload),
			scene("a task of somebody else is as unknown", delegates(
				in("a result from another peer", success("result 1", task1, "mine").frame(), badPayload).on("b"),
				in("the result", success("result 1", task1, "output").frame(), accept),
				learns("of the peer that was asked", success(usualID, task1, "output").frame()),
			)...),
		},
	},
	{
		id: "a2a_0008_duplicate_task_same_payload_idempotent", about: "an equal task is not carried out again",
		expect: accept, bin: task("the task 2", task1, summarise, "input").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{
			in("a task", task("the task 1", task1, summarise, "input").frame(), accept),
			learns("reaches the application", task("the task 1", task1, summarise, "input").frame()),
			app("progress", event(usualID, task1, "half way").frame()),
			sends("is reported", event(usualID, task1, "half way")),
			mainStep("the same again: the application is not asked twice"),
			app("more progress of the one", event(usualID, task1, "almost").frame()),
			sends("is reported once, and nothing before it again", event(usualID, task1, "almost")),
			app("its result", success(usualID, task1, "output").frame()),
			sends("is sent once", success(usualID, task1, "output")),
			in("the same after the end", task("the task 3", task1, summarise, "input").frame(), accept),
			sends("gets the result that there is", success(usualID, task1, "output")),
		},
	},
	{
		id: "a2a_0009_duplicate_task_conflicting_payload_rejected", about: "another task under the same task_id is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "conflicting task"), bin: task("the task 2", task1, summarise, "other input").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{
			in("a task", task("the task 1", task1, summarise, "input").frame(), accept),
			learns("reaches the application", task("the task 1", task1, summarise, "input").frame()),
			mainStep("other input"),
			in("another kind", task("the task 3", task1, strict, "input").frame(), badPayload),
			app("the first is carried out", success(usualID, task1, "output").frame()),
			sends("and only that", success(usualID, task1, "output")),
			in("other input after the end", task("the task 4", task1, summarise, "other input").frame(), badPayload),
			in("an id of its own", task("the task 5", task2, summarise, "other input").frame(), accept),
			learns("reaches the application", task("the task 5", task2, summarise, "other input").frame()),
			app("is carried out", success(usualID, task2, "other output").frame()),
			sends("as well", success(usualID, task2, "other output")),
		},
		siblings: []sibling{
			scene("a task_id is that of its peer",
				in("a task", task("the task 1", task1, summarise, "input").frame(), accept),
				learns("reaches the application", task("the task 1", task1, summarise, "input").frame()),
				in("another peer, the same task_id, other input", task("the task 1", task1, summarise, "other input").frame(), accept).on("b"),
				learns("reaches the application", task("the task 1", task1, summarise, "other input").frame()),
				app("one is done", success(usualID, task1, "output").frame()),
				sends("by itself", success(usualID, task1, "output")),
				app("the other as well", success(usualID, task1, "other output").frame()).on("b"),
				sends("for its own peer", success(usualID, task1, "other output")).on("b"),
			),
		},
	},
	{
		id: "a2a_0010_post_terminal_event_rejected", about: "events after the end are refused each time, and change nothing",
		expect: reject("INVALID_PROFILE_PAYLOAD", "event after result"), bin: event("the event 2", task1, "one more thing").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: ends(
			in("an event afterwards", event("the event 1", task1, "one more thing").frame(), badPayload, vectors.Expect{Close: new(false)}),
			mainStep("the same again", vectors.Expect{Close: new(false)}),
			in("the result that there was is still the one", success("result 2", task1, "output").frame(), accept),
			app("another task", task(usualID, task2, "peer.summarise", "input").frame()),
			sends("goes out on the same connection", task(usualID, task2, "peer.summarise", "input")),
			in("progress", event("the event 3", task2, "half way").frame(), accept),
			learns("is passed on", event(usualID, task2, "half way").frame()),
			in("the end", success("result 3", task2, "output").frame(), accept),
			learns("as well", success(usualID, task2, "output").frame()),
		),
	},
	{
		id: "a2a_0011_post_terminal_result_rejected", about: "another result after the end is refused, the first one counts",
		expect: reject("INVALID_PROFILE_PAYLOAD", "conflicting result"), bin: failed("result 2", task1, "after all not").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		transcript: ends(
			mainStep("after all it has failed"),
			in("another output", success("result 3", task1, "other output").frame(), badPayload),
			in("the first one is still the result", success("result 4", task1, "output").frame(), accept),
		),
		siblings: []sibling{
			scene("results of both ends that cross are accepted", delegates(
				app("the application gives up", failed(usualID, task1, "enough").frame()),
				sends("and says so", failed(usualID, task1, "enough")),
				in("the peer was done", success("result 1", task1, "output").frame(), accept),
				in("it cannot say otherwise later", failed("result 2", task1, "after all not").frame(), badPayload),
				in("nor go on", event("the event 1", task1, "one more thing").frame(), badPayload),
			)...),
			scene("an initiator that gives up ends the task",
				in("a task", task("the task 1", task1, summarise, "input").frame(), accept),
				learns("reaches the application", task("the task 1", task1, summarise, "input").frame()),
				app("progress", event(usualID, task1, "half way").frame()),
				sends("is reported", event(usualID, task1, "half way")),
				in("its initiator gives up", failed("result 1", task1, "enough").frame(), accept),
				learns("the application is stopped", of(a2a, 4, usualID, opaque(1, task1)).frame()),
				app("what the application still says leads nowhere", success(usualID, task1, "output").frame()),
				in("the same task again", task("the task 3", task1, summarise, "input").frame(), accept),
				sends("is over, as its initiator has ended it", failed(usualID, task1, "enough")),
				in("the next task", task("the task 2", task2, summarise, "input").frame(), accept),
				learns("reaches the application", task("the task 2", task2, summarise, "input").frame()),
				app("is carried out", success(usualID, task2, "output").frame()),
				sends("and its result is the next that is sent", success(usualID, task2, "output")),
			),
		},
	},
	{
		id: "a2a_0012_task_malformed_input_failure", about: "malformed input ends the task with a failure",
		expect: accept, bin: task("the task 1", task1, strict, `{"text":`).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{
			mainStep("input that is not what the kind takes"),
			failing("is a failure of the task"),
			in("the task is over: the same again", task("the task 2", task1, strict, `{"text":`).frame(), accept),
			failing("gets the same result"),
			in("other input", task("the task 3", task1, strict, `{"text":"t"}`).frame(), badPayload),
			in("good input under an id of its own", task("the task 4", task2, strict, `{"text":"t"}`).frame(), accept),
			learns("reaches the application", task("the task 4", task2, strict, `{"text":"t"}`).frame()),
			app("reaches the application", success(usualID, task2, "output").frame()),
			sends("and is carried out", success(usualID, task2, "output")),
		},
	},
	{
		id: "a2a_0013_unsupported_capability_failure", about: "a kind that nobody carries out ends the task with a failure",
		expect: accept, bin: task("the task 1", task1, "vector.unheard-of", "input").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{
			mainStep("a kind that there is not"),
			failing("is a failure of the task"),
			in("the task is over: the same again", task("the task 2", task1, "vector.unheard-of", "input").frame(), accept),
			failing("gets the same result"),
			in("a kind that there is", task("the task 3", task1, summarise, "input").frame(), badPayload),
			in("under an id of its own", task("the task 4", task2, summarise, "input").frame(), accept),
			learns("reaches the application", task("the task 4", task2, summarise, "input").frame()),
			app("is carried out", success(usualID, task2, "output").frame()),
			sends("by the application", success(usualID, task2, "output")),
		},
	},
	{
		id: "a2a_0014_unsupported_msg_type", about: "unsupported A2A `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(a2a, "a2a", "a2a_0014_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(a2a, 5, usualID, opaque(1, task1)).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(a2a).withType(99).withPayload("\xff").frame(), badType),
		},
	},
	{
		id: "a2a_0015_multi_task_interleaving_valid", about: "tasks may interleave, each keeps its own order",
		expect: accept, bin: task("the task 2", task2, summarise, "input 2").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: []step{
			in("a task", task("the task 1", task1, summarise, "input 1").frame(), accept),
			learns("reaches the application", task("the task 1", task1, summarise, "input 1").frame()),
			mainStep("another one before the first is done"),
			learns("reaches the application", task(usualID, task2, summarise, "input 2").frame()),
			app("progress", event(usualID, task2, "2: half way").frame()),
			sends("of the second", event(usualID, task2, "2: half way")),
			app("progress", event(usualID, task1, "1: half way").frame()),
			sends("of the first", event(usualID, task1, "1: half way")),
			app("more", event(usualID, task2, "2: almost").frame()),
			sends("of the second", event(usualID, task2, "2: almost")),
			app("the end", success(usualID, task2, "output 2").frame()),
			sends("of the second", success(usualID, task2, "output 2")),
			app("more", event(usualID, task1, "1: almost").frame()),
			sends("of the first", event(usualID, task1, "1: almost")),
			app("the end", success(usualID, task1, "output 1").frame()),
			sends("of the first", success(usualID, task1, "output 1")),
		},
		siblings: []sibling{
			scene("tasks of the endpoint's own side", delegates(
				app("more work", task(usualID, task2, "peer.summarise", "input 2").frame()),
				sends("goes out", task(usualID, task2, "peer.summarise", "input 2")),
				in("progress of the second", event("the event 1", task2, "2: half way").frame(), accept),
				learns("is passed on", event(usualID, task2, "2: half way").frame()),
				in("progress of the first", event("the event 2", task1, "1: half way").frame(), accept),
				learns("is passed on", event(usualID, task1, "1: half way").frame()),
				in("the end of the second", success("result 1", task2, "output 2").frame(), accept),
				learns("is passed on", success(usualID, task2, "output 2").frame()),
				in("the first goes on", event("the event 3", task1, "1: almost").frame(), accept),
				learns("is passed on", event(usualID, task1, "1: almost").frame()),
				in("to its end", success("result 2", task1, "output 1").frame(), accept),
				learns("is passed on", success(usualID, task1, "output 1").frame()),
			)...),
		},
	},
}
