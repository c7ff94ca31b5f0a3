package main

import (
	"slices"

	"github.com/slimwire/swp/vectors"
)

// Methods of the endpoint in the rpc vectors. Both wait for the application: held without
// a place in the pool of the session, detached with one.
const (
	rpc = 12

	held     = "vector.held"
	detached = "vector.detached"
)

// An rpc_id of 16 octets, the form that the endpoint chooses for its own calls.
const (
	rpc1 = "rpc-000000000001"
	rpc2 = "rpc-000000000002"
	rpc3 = "rpc-000000000003"
)

func rpcReq(msgID, id, method string, more ...[]byte) message {
	return of(rpc, 1, msgID, opaque(1, id), opaque(2, method), join(more...))
}

func params(s string) []byte { return opaque(3, s) }

var key1 = opaque(4, "key 1") // idempotency_key

func rpcResp(id, result string) message {
	return of(rpc, 2, usualID, opaque(1, id), opaque(2, result))
}

// rpcErr writes retryable also where it is false: it has to be explicit.
func rpcErr(id, code string, retryable uint64, text string) message {
	return of(rpc, 3, usualID, opaque(1, id), opaque(2, code), number(3, retryable), opaque(4, text))
}

func rpcItem(id string, seq uint64, item string, more ...[]byte) message {
	return of(rpc, 4, usualID, opaque(1, id), number(2, seq), opaque(3, item), join(more...))
}

func rpcCancel(msgID, id string) message {
	return of(rpc, 5, msgID, opaque(1, id), opaque(2, "enough"))
}

var (
	badPayload = reject("INVALID_PROFILE_PAYLOAD", "")
	badType    = reject("UNSUPPORTED_MSG_TYPE", "")

	// textIsFree is the error_message of an RPC_ERR, for people: it must be there.
	textIsFree = vectors.Expect{SameMsgID: new(true), Free: []uint64{4}}
)

// opens is how a call of the endpoint's own side begins. The peer's answers
// follow.
func opens(steps ...step) []step {
	return append([]step{
		app("the application calls", rpcReq(usualID, rpc1, "peer.count", params(`{"count":3}`)).frame()),
		out("the call goes out", rpcReq(usualID, rpc1, "peer.count", params(`{"count":3}`)).frame(), vectors.Expect{}),
	}, steps...)
}

// asked is what the application must be told by a call that reaches it: method
// and params, and no rpc_id.
func asked(method, given string) step {
	fields := [][]byte{opaque(2, method)}
	if given != "" {
		fields = append(fields, params(given))
	}
	return learns("reaches the application", of(rpc, 1, usualID, fields...).frame())
}

// stopped is what the application is told of a call that was cancelled.
var stopped = of(rpc, 5, usualID).frame()

// hears is what the application must be told by its call.
func hears(why string, m message) step { return learns(why, m.frame()) }

// item is a stream item as an application is told of it: its octets, and no
// number.
func item(octets string) message { return of(rpc, 4, usualID, opaque(1, rpc1), opaque(3, octets)) }

var rpcs = []vector{
	{
		id: "rpc_0001_req_resp_success", about: "valid request receives valid terminal response",
		expect: accept, bin: rpcReq(usualID, rpc1, held, params(`{"n":1}`)).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: []step{
			mainStep("a request, for which the application takes its time"),
			asked(held, `{"n":1}`),
			app("the application answers", rpcResp(rpc1, `{"n":2}`).frame()),
			answered("with the rpc_id and under the msg_id of the request", rpcResp(rpc1, `{"n":2}`)),
		},
		siblings: []sibling{
			scene("two calls at once, answered in the other order, each under its own ids",
				in("a first request", rpcReq("request 1", rpc1, held, params("a")).frame(), accept),
				asked(held, "a"),
				in("a second one", rpcReq("request 2", rpc2, detached, params("b")).frame(), accept),
				asked(detached, "b"),
				app("the second is answered", rpcResp(rpc2, "B").frame()),
				answered("under its own ids", rpcResp(rpc2, "B")),
				app("the first is answered", rpcResp(rpc1, "A").frame()),
				out("under its own ids", rpcResp(rpc1, "A").frame(), vectors.Expect{SameMsgID: new(false)}),
			),
			scene("a built-in method: no params, an empty result, fields that nobody knows",
				in("a request", rpcReq(usualID, rpc1, "swp.echo", unlisted).frame(), accept),
				answered("answered at once", of(rpc, 2, usualID, opaque(1, rpc1))),
			),
			like("no rpc_id", of(rpc, 1, usualID, opaque(2, held)).frame(), badPayload),
			like("no method", of(rpc, 1, usualID, opaque(1, rpc1)).frame(), badPayload),
			like("the body of another message", typical.withProfile(rpc).withPayload(string(rpcResp(rpc1, "r").payload)).frame(), badPayload),
			like("no wrapper", typical.withProfile(rpc).withPayload("").frame(), badPayload),
		},
	},
	{
		id: "rpc_0002_error_retryability", about: "a terminal error says whether the call may be repeated",
		expect: accept, bin: rpcErr(rpc1, "unavailable", yes, "try again later").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: opens(
			mainStep("the peer has failed, and another try may help").answers(),
			hears("the application learns that", rpcErr(rpc1, "unavailable", yes, "try again later")),
		),
		siblings: []sibling{
			scene("the other value", opens(
				in("the peer has failed for good", rpcErr(rpc1, "internal", 0, "forced failure").frame(), accept).answers(),
				hears("the application learns that", rpcErr(rpc1, "internal", 0, "forced failure")),
			)...),
			scene("an endpoint says both explicitly",
				in("a request", rpcReq("request 1", rpc1, held).frame(), accept),
				asked(held, ""),
				app("fails for good", rpcErr(rpc1, "internal", 0, "forced failure").frame()),
				answered("false is written, not left out", rpcErr(rpc1, "internal", 0, "forced failure")),
				in("a request", rpcReq("request 2", rpc2, detached).frame(), accept),
				asked(detached, ""),
				app("fails for now", rpcErr(rpc2, "unavailable", yes, "try again later").frame()),
				answered("true", rpcErr(rpc2, "unavailable", yes, "try again later")),
			),
			scene("an endpoint's own error: a method that it does not have",
				in("a request", rpcReq(usualID, rpc1, "no.such.method").frame(), accept),
				out("is answered", rpcErr(rpc1, "unknown_method", 0, "any").frame(), textIsFree),
			),
			scene("an error that says nothing to programs", opens(
				in("no error_code", of(rpc, 3, usualID, opaque(1, rpc1), number(3, yes), opaque(4, "text")).frame(), badPayload).answers(),
			)...),
			scene("an error that says nothing to people", opens(
				in("no error_message", of(rpc, 3, usualID, opaque(1, rpc1), opaque(2, "internal"), number(3, yes)).frame(), badPayload).answers(),
			)...),
		},
	},
	{
		id: "rpc_0003_stream_ordering", about: "items of a stream increase strictly",
		expect: accept, bin: rpcItem(rpc1, 2, "2").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		transcript: opens(
			in("the first item", rpcItem(rpc1, 1, "1").frame(), accept).answers(),
			hears("is passed on", item("1")),
			mainStep("the next one").answers(),
			hears("is passed on after it", item("2")),
			in("numbers may be left out", rpcItem(rpc1, 7, "3").frame(), accept).answers(),
			hears("is passed on after it", item("3")),
			in("the result", rpcResp(rpc1, "done").frame(), accept).answers(),
			hears("after all items", rpcResp(rpc1, "done")),
		),
		siblings: []sibling{
			disorder("an equal number is refused", 2),
			disorder("a smaller number is refused", 1),
			scene("what an endpoint sends counts from 1 by 1",
				in("a request", rpcReq(usualID, rpc1, held).frame(), accept),
				asked(held, ""),
				app("an item", rpcItem(rpc1, 1, "one").frame()),
				answered("the first", rpcItem(rpc1, 1, "one")),
				app("an item", rpcItem(rpc1, 2, "two").frame()),
				answered("the second", rpcItem(rpc1, 2, "two")),
				app("the result", rpcResp(rpc1, "done").frame()),
				answered("ends the stream", rpcResp(rpc1, "done")),
			),
		},
	},
	{
		id: "rpc_0004_terminal_closure", about: "nothing follows the terminal answer",
		expect: accept, bin: rpcItem(rpc1, 1, "1").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		transcript: opens(
			mainStep("an item before the terminal answer is good").answers(),
			hears("is passed on", item("1")),
			in("the terminal answer", rpcResp(rpc1, "done").frame(), accept).answers(),
			hears("ends the call", rpcResp(rpc1, "done")),
			in("an item afterwards", rpcItem(rpc1, 2, "2").frame(), badPayload).answers(),
			in("a second result", rpcResp(rpc1, "again").frame(), badPayload).answers(),
			in("an error", rpcErr(rpc1, "internal", 0, "too late").frame(), badPayload).answers(),
		),
		siblings: []sibling{
			scene("an error is as terminal", opens(
				in("an item", rpcItem(rpc1, 1, "1").frame(), accept).answers(),
				hears("is passed on", item("1")),
				in("the terminal answer", rpcErr(rpc1, "internal", 0, "forced failure").frame(), accept).answers(),
				hears("ends the call", rpcErr(rpc1, "internal", 0, "forced failure")),
				in("a result afterwards", rpcResp(rpc1, "after all").frame(), badPayload).answers(),
			)...),
			scene("is_terminal ends the items, not the call", opens(
				in("the last item", rpcItem(rpc1, 1, "1", number(4, yes)).frame(), accept).answers(),
				hears("is passed on", item("1")),
				in("the terminal answer", rpcResp(rpc1, "done").frame(), accept).answers(),
				hears("ends the call", rpcResp(rpc1, "done")),
			)...),
			scene("no item follows the one that says so", opens(
				in("the last item", rpcItem(rpc1, 1, "1", number(4, yes)).frame(), accept).answers(),
				hears("is passed on", item("1")),
				in("one more", rpcItem(rpc1, 2, "2").frame(), badPayload).answers(),
				out("the call is given up", of(rpc, 5, usualID, opaque(1, rpc1)).frame(), vectors.Expect{}),
			)...),
			misplaced("an item of another rpc_id", rpcItem(rpc2, 1, "1")),
			misplaced("a result of another rpc_id", rpcResp(rpc2, "done")),
			misplaced("an error of another rpc_id", rpcErr(rpc2, "internal", 0, "forced failure")),
			scene("answers to what nobody asked",
				in("a result", rpcResp(rpc2, "surprise").frame(), badPayload),
				in("an error", rpcErr(rpc2, "internal", 0, "surprise").frame(), badPayload),
				in("an item", rpcItem(rpc2, 1, "surprise").frame(), badPayload),
			),
			scene("an endpoint says nothing after its own terminal answer",
				in("a request", rpcReq("request 1", rpc1, held).frame(), accept),
				asked(held, ""),
				app("is answered", rpcResp(rpc1, "done").frame()),
				answered("once", rpcResp(rpc1, "done")),
				in("cancelled too late", rpcCancel("cancel 1", rpc1).frame(), accept),
				in("the next request", rpcReq("request 2", rpc2, held).frame(), accept),
				asked(held, ""),
				app("is answered", rpcResp(rpc2, "done").frame()),
				answered("with nothing before it", rpcResp(rpc2, "done")),
			),
		},
	},
	{
		id: "rpc_0005_idempotency_replay", about: "a repeated idempotency_key gets the first outcome again",
		expect: accept, bin: rpcReq("request 2", rpc2, held, params("p"), key1).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Clock: &vectors.Clock{NowUnixMs: now}},
		transcript: []step{
			in("a request with a key", rpcReq("request 1", rpc1, held, params("p"), key1).frame(), accept),
			asked(held, "p"),
			app("runs", rpcResp(rpc1, "the outcome").frame()),
			answered("and is answered", rpcResp(rpc1, "the outcome")),
			mainStep("the same key and inputs under another rpc_id: the application is not asked").at(1000),
			answered("the same outcome, for the rpc_id that asks", rpcResp(rpc2, "the outcome")),
			in("the same key with other params", rpcReq("request 3", rpc1, held, params("q"), key1).frame(), accept),
			out("a terminal error, not to be retried", rpcErr(rpc1, "invalid_request", 0, "any").frame(), textIsFree),
			in("as often as it is tried", rpcReq("request 4", rpc1, held, params("q"), key1).frame(), accept),
			out("the same error", rpcErr(rpc1, "invalid_request", 0, "any").frame(), textIsFree),
			in("the first outcome is still there", rpcReq("request 5", rpc1, held, params("p"), key1).frame(), accept).at(day - 1),
			answered("until the window of a day is over", rpcResp(rpc1, "the outcome")),
			in("after it", rpcReq("request 6", rpc1, held, key1, params("p")).frame(), accept).at(day + 60_000),
			asked(held, "p"),
			app("the method runs afresh", rpcResp(rpc1, "another outcome").frame()),
			answered("and has another outcome", rpcResp(rpc1, "another outcome")),
		},
		siblings: []sibling{
			scene("a failure is an outcome, too",
				in("a request with a key", rpcReq("request 1", rpc1, detached, key1).frame(), accept),
				asked(detached, ""),
				app("fails", rpcErr(rpc1, "internal", 0, "forced failure").frame()),
				answered("is answered", rpcErr(rpc1, "internal", 0, "forced failure")),
				in("the same again", rpcReq("request 2", rpc2, detached, key1).frame(), accept),
				answered("fails the same way, without running", rpcErr(rpc2, "internal", 0, "forced failure")),
			),
			scene("a duplicate that comes during the run waits for its outcome",
				in("a request with a key", rpcReq("request 1", rpc1, held, key1).frame(), accept),
				asked(held, ""),
				in("the same at once", rpcReq("request 2", rpc2, held, key1).frame(), accept),
				in("something else meanwhile", rpcReq("request 3", rpc3, detached, opaque(4, "key 2")).frame(), accept),
				asked(detached, ""),
				app("is not held up", rpcResp(rpc3, "something else").frame()),
				answered("and answered first", rpcResp(rpc3, "something else")),
				app("runs once", rpcResp(rpc1, "the outcome").frame()),
				out("the first is answered", rpcResp(rpc1, "the outcome").frame(), vectors.Expect{SameMsgID: new(false)}),
				out("and the second", rpcResp(rpc2, "the outcome").frame(), vectors.Expect{SameMsgID: new(false)}),
			),
			scene("keys belong to an identity",
				in("a request with a key", rpcReq("request 1", rpc1, held, params("p"), key1).frame(), accept),
				asked(held, "p"),
				app("runs", rpcResp(rpc1, "the outcome").frame()),
				answered("is answered", rpcResp(rpc1, "the outcome")),
				in("another peer", rpcReq("request 1", rpc1, held, params("p"), key1).frame(), accept).on("b"),
				asked(held, "p"),
				app("runs", rpcResp(rpc1, "of another peer").frame()).on("b"),
				answered("by itself", rpcResp(rpc1, "of another peer")).on("b"),
			),
		},
	},
	{
		id: "rpc_0006_cancel_semantics", about: "a cancelled call ends as cancelled",
		expect: accept, bin: of(rpc, 5, "cancel 1", opaque(1, rpc1)).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(5))},
		transcript: cancelling(held, mainStep("the caller gives up")),
		siblings: []sibling{
			scene("a method that runs in the pool", cancelling(detached,
				in("the caller gives up", rpcCancel("cancel 1", rpc1).frame(), accept),
				in("and once more", rpcCancel("cancel 2", rpc1).frame(), accept),
			)...),
			scene("a method that fails too late",
				in("a request", rpcReq("request 1", rpc1, held).frame(), accept),
				asked(held, ""),
				in("is cancelled", rpcCancel("cancel 1", rpc1).frame(), accept),
				out("one terminal error", rpcErr(rpc1, "cancelled", 0, "any").frame(), vectors.Expect{SameMsgID: new(false), Free: []uint64{4}}),
				learns("the application is stopped", stopped),
				app("another one leads nowhere", rpcErr(rpc1, "internal", 0, "too late").frame()),
			),
			scene("what is unknown, or of another peer, is not cancelled, and nobody is told",
				in("a request", rpcReq("request 1", rpc1, held).frame(), accept),
				asked(held, ""),
				in("another peer cancels it", rpcCancel("cancel 1", rpc1).frame(), accept).on("b"),
				in("a call that is none is cancelled", rpcCancel("cancel 2", rpc2).frame(), accept),
				app("the call goes on", rpcResp(rpc1, "done").frame()),
				out("to its own end", rpcResp(rpc1, "done").frame(), vectors.Expect{}),
			),
			like("no rpc_id", of(rpc, 5, usualID, opaque(2, "enough")).frame(), badPayload),
		},
	},
	{
		id: "rpc_0007_unsupported_msg_type", about: "unsupported RPC `msg_type` is rejected",
		// The octets of the kit.
		expect:     reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"),
		bin:        withoutType(rpc, "rpc", "rpc_0007_unsupported_msg_type").withTime(1771513334687).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(rpc, 6, usualID, opaque(1, rpc1)).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(rpc).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}

// disorder is a stream whose third item has a number that does not increase.
func disorder(why string, seq uint64) sibling {
	return scene(why, opens(
		in("the first item", rpcItem(rpc1, 1, "1").frame(), accept).answers(),
		hears("is passed on", item("1")),
		in("the second", rpcItem(rpc1, 2, "2").frame(), accept).answers(),
		hears("is passed on", item("2")),
		in("one that does not come after it", rpcItem(rpc1, seq, "x").frame(), badPayload).answers(),
		out("the call is given up", of(rpc, 5, usualID, opaque(1, rpc1)).frame(), vectors.Expect{}),
	)...)
}

// misplaced is an answer to a call that is not the one it names.
func misplaced(why string, answer message) sibling {
	return scene(why, opens(
		in("under the msg_id of the call", answer.frame(), badPayload).answers(),
		out("the call is given up", of(rpc, 5, usualID, opaque(1, rpc1)).frame(), vectors.Expect{}),
	)...)
}

// cancelling is a call that is cancelled while the application works on it.
func cancelling(method string, cancel step, later ...step) []step {
	return slices.Concat([]step{
		in("a request that takes long", rpcReq("request 1", rpc1, method).frame(), accept),
		asked(method, ""),
		cancel,
		out("one terminal error", rpcErr(rpc1, "cancelled", 0, "any").frame(), vectors.Expect{SameMsgID: new(false), Free: []uint64{4}}),
		learns("the application is stopped", stopped),
	}, later, []step{
		app("a result that comes too late leads nowhere", rpcResp(rpc1, "too late").frame()),
		in("the rpc_id is free", rpcReq("request 2", rpc1, held).frame(), accept),
		asked(held, ""),
		app("for another call", rpcResp(rpc1, "done").frame()),
		answered("whose answer is the next that is sent", rpcResp(rpc1, "done")),
	})
}
