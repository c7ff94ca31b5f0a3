package main

import (
	"strings"

	"github.com/slimwire/swp/vectors"
)

const (
	obs = 18

	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
	trace    = "00-" + traceID + "-" + parentID + "-01"

	// oddState is a list with entries of unknown vendors, with blanks and tabs, an empty
	// member, and an unusual order.
	oddState = "zz=t61rcWkgMzE , congo=t61rcWkgMzE,\t rojo=00f067aa0ba902b7 ,,a@vendor=v:1;p=2"
)

func traceparent(s string) []byte { return opaque(1, s) }
func tracestate(s string) []byte  { return opaque(2, s) }

// The ids that a trace context is bound to.
func forMsg(id string) []byte { return opaque(3, id) }

var (
	forTask = opaque(4, task1)
	forRPC  = opaque(5, rpc1)
)

func obsSet(fields ...[]byte) message { return of(obs, 1, "obs set 1", fields...) }
func obsGet(fields ...[]byte) message { return of(obs, 2, "obs get 1", fields...) }
func obsDoc(fields ...[]byte) message { return of(obs, 3, usualID, fields...) }

// context asks for the context of the connection, and wants fields.
func context(fields ...[]byte) []step {
	return []step{
		in("the context is asked for", obsGet().frame(), accept),
		answered("and is", obsDoc(fields...)),
	}
}

// Contexts beside the first.
const (
	otherTrace = "00-" + traceID + "-b7ad6b7169203331-01"
	taskTrace  = "00-" + traceID + "-00f067aa0ba902b9-01"
	lastTrace  = "00-" + traceID + "-00f067aa0ba902b8-00"
)

// emission is the event that a call of vector.emit leads to.
func emission(id, msgID, rpcID, body string) []byte {
	return join(opaque(1, id), opaque(2, "vector.emitted"), severity, number(4, now), opaque(5, msgID), opaque(7, rpcID), opaque(8, body))
}

// malformed is a SET with a traceparent that is none.
func malformed(why, s string) sibling { return like(why, obsSet(traceparent(s)).frame(), badPayload) }

// wellFormed is one that is.
func wellFormed(why, s string) sibling {
	return scene(why, append([]step{in("a context", obsSet(traceparent(s)).frame(), accept)}, context(traceparent(s))...)...)
}

var obss = []vector{
	{
		id: "obs_0001_traceparent_validity", about: "an invalid traceparent is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "invalid traceparent"), bin: obsSet(traceparent("00-" + traceID + "-" + parentID)).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		siblings: []sibling{
			malformed("four parts of anything", "a-b-c-d"),
			malformed("version ff", "ff"+trace[2:]),
			malformed("a version that is no number", "0x"+trace[2:]),
			malformed("a version in upper case", "0A"+trace[2:]),
			malformed("a trace-id of zeros", "00-"+strings.Repeat("0", 32)+"-"+parentID+"-01"),
			malformed("a trace-id in upper case", "00-"+strings.ToUpper(traceID)+"-"+parentID+"-01"),
			malformed("a trace-id that is too short", "00-"+traceID[1:]+"-"+parentID+"-01"),
			malformed("a parent-id of zeros", "00-"+traceID+"-"+strings.Repeat("0", 16)+"-01"),
			malformed("a parent-id in upper case", "00-"+traceID+"-"+strings.ToUpper(parentID)+"-01"),
			malformed("a parent-id that is too long", "00-"+traceID+"-"+parentID+"0-1"),
			malformed("flags in upper case", trace[:53]+"0A"),
			malformed("flags that are no number", trace[:53]+"0g"),
			malformed("another separator", strings.ReplaceAll(trace, "-", "_")),
			malformed("a blank before it", " "+trace),
			malformed("a blank after it", trace+" "),
			malformed("version 00 with more", trace+"-more"),
			malformed("a later version with more that is not set apart", "01"+trace[2:]+"more"),
			like("a tracestate of nothing", obsSet(tracestate("a=b")).frame(), badPayload),
			like("no UTF-8", obsSet(traceparent(trace[:54]+"\xff")).frame(), badPayload),
			wellFormed("a good one", trace),
			wellFormed("flags that nobody assigned", trace[:53]+"fe"),
			wellFormed("a later version", "cc"+trace[2:]),
			wellFormed("a later version with more", "cc"+trace[2:]+"-what-the-future-brings"),
			scene("what is refused changes nothing", append([]step{
				in("a good one", obsSet(traceparent(trace), tracestate("a=b")).frame(), accept),
				in("a bad one", obsSet(traceparent(trace[1:])).frame(), badPayload),
				out("of which the peer is told", of(obs, 4, usualID, opaque(1, "INVALID_TRACEPARENT"), opaque(2, "any")).frame(),
					vectors.Expect{SameMsgID: new(true), Free: []uint64{2}}),
			}, context(traceparent(trace), tracestate("a=b"))...)...),
		},
	},
	{
		id: "obs_0002_propagation", about: "the context is the same on the next hop",
		expect: accept, bin: obsSet(traceparent(trace), tracestate(oddState), forRPC).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Setup: vectors.Relay},
		transcript: []step{
			mainStep("a context for a call"),
			in("the call", rpcReq("request 1", rpc1, held, params("p")).frame(), accept),
			out("goes on, its context before it", obsSet(traceparent(trace), tracestate(oddState), forRPC).frame(), vectors.Expect{}).on("b"),
			out("under its own id", rpcReq("request 1", rpc1, held, params("p")).frame(), vectors.Expect{}).on("b"),
			in("and is answered", rpcResp(rpc1, "done").frame(), accept).on("b").answers(),
			answered("in both directions", rpcResp(rpc1, "done")),
		},
	},
	{
		id: "obs_0003_tracestate_preservation", about: "a tracestate that nobody here knows stays as it is",
		expect: accept, bin: obsSet(traceparent(trace), tracestate(oddState)).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: append([]step{
			mainStep("entries of strangers, blanks, and an order of their own"),
		}, context(traceparent(trace), tracestate(oddState))...),
		siblings: []sibling{
			scene("nothing has been set", context()...),
			scene("the last one counts, and it alone", append([]step{
				in("a context with a tracestate", obsSet(traceparent(trace), tracestate(oddState)).frame(), accept),
				in("one without", obsSet(traceparent("00-"+traceID+"-"+parentID+"-00")).frame(), accept),
			}, context(traceparent("00-"+traceID+"-"+parentID+"-00"))...)...),
			scene("a connection does not see the context of another", append([]step{
				in("a context", obsSet(traceparent(trace), tracestate(oddState)).frame(), accept).on("b"),
			}, context()...)...),
			scene("fields that nobody knows, and include_current, change nothing",
				in("a context", obsSet(traceparent(trace), unlisted, tracestate(oddState)).frame(), accept),
				in("is asked for", obsGet(number(1, yes), unlisted).frame(), accept),
				answered("and is", obsDoc(traceparent(trace), tracestate(oddState))),
			),
		},
	},
	{
		id: "obs_0004_correlation_linkage", about: "a trace is linked to messages, tasks and calls",
		expect: accept, bin: obsSet(traceparent(trace), tracestate(oddState), forMsg(usualID), forTask, forRPC).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: append([]step{
			mainStep("a context for three ids"),
		}, context(traceparent(trace), tracestate(oddState), forMsg(usualID), forTask, forRPC)...),
		siblings: []sibling{
			scene("what an exchange emits carries its ids, and knows its trace", append(subscribed(""),
				in("a context for a call", obsSet(traceparent(trace), tracestate(oddState), forRPC).frame(), accept),
				in("one for a message", obsSet(traceparent(otherTrace), forMsg("request 2")).frame(), accept),
				in("one for all else", obsSet(traceparent(lastTrace)).frame(), accept),
				in("the call", rpcReq("request 1", rpc1, "vector.emit").frame(), accept),
				delivered("its event", emission("emitted-1", "request 1", rpc1, trace+" "+oddState)),
				answered("its answer", of(rpc, 2, usualID, opaque(1, rpc1))),
				in("the message", rpcReq("request 2", rpc2, "vector.emit").frame(), accept),
				delivered("its event", emission("emitted-2", "request 2", rpc2, otherTrace+" ")),
				answered("its answer", of(rpc, 2, usualID, opaque(1, rpc2))),
				in("all else", rpcReq("request 3", rpc2, "vector.emit").frame(), accept),
				delivered("its event", emission("emitted-3", "request 3", rpc2, lastTrace+" ")),
				answered("its answer", of(rpc, 2, usualID, opaque(1, rpc2))),
				in("a context for a task", obsSet(traceparent(taskTrace), forTask).frame(), accept),
				in("the task", task("the task 1", task1, "vector.emit", "").frame(), accept),
				delivered("its event", join(
					opaque(1, "emitted-4"), opaque(2, "vector.emitted"), severity, number(4, now), opaque(6, task1), opaque(8, taskTrace+" "),
				)),
				sends("its result", of(a2a, 4, usualID, opaque(1, task1), number(2, yes))),
			)...).clock(now),
			scene("ids without a trace", append([]step{
				in("correlation alone", obsSet(forTask).frame(), accept),
			}, context(forTask)...)...),
		},
	},
	{
		id: "obs_0005_unsupported_msg_type", about: "unsupported OBS `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(obs, "obs", "obs_0005_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(obs, 5, usualID).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(obs).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}
