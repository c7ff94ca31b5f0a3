package main

import "github.com/slimwire/swp/vectors"

// Frames of profile 1 around a JSON-RPC message.
func mcpRequest(json string) message      { return typical.withType(1).withPayload(json) }
func mcpResponse(json string) message     { return typical.withType(2).withPayload(json) }
func mcpNotification(json string) message { return typical.withType(3).withPayload(json) }

const (
	listTools    = `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`
	noTools      = `{"jsonrpc":"2.0","id":"1","result":{"tools":[]}}`
	failedCall   = `{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"internal error"}}`
	unknownCall  = `{"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"method not found"}}`
	initialized  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	halfWay      = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":2}}`
	allTheWay    = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2,"total":2}}`
	slowCall     = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"p"}}}`
	bigID        = `12345678901234567890`
	bigRequest   = `{"jsonrpc":"2.0","id":` + bigID + `,"method":"tools/list"}`
	bigResponse  = `{"jsonrpc":"2.0","id":` + bigID + `,"result":{}}`
	wordID       = `"1e2"`
	wordRequest  = `{"jsonrpc":"2.0","id":` + wordID + `,"method":"tools/list"}`
	wordResponse = `{"jsonrpc":"2.0","id":` + wordID + `,"result":{}}`

	// oddRequest has white space, an order of keys and spellings that a decoder
	// followed by an encoder would not keep.
	oddRequest  = "{ \"params\" : {\"z\":1.0,\"a\" : 1e2, \"twice\":1,\"twice\":2},\t\"method\":\"tools\\/call\" , \"id\"  :  7,\"\\u0078\":null, \"jsonrpc\":\"2.0\" }"
	oddResponse = "{\"result\" : { \"b\":[ 1.50 , -0 ],\"a\":\"\\u00e9\" } ,\"jsonrpc\":\"2.0\",  \"id\":7 , \"unknown\":{} }"
)

// Messages of a client that names its version in each request: one of the HTTP front, or of a
// partner, where another client needs a session first.
const (
	metaVersion = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	frontList   = `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{` + metaVersion + `}}`
	frontCall   = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	frontBig    = `{"jsonrpc":"2.0","id":` + bigID + `,"method":"tools/list","params":{` + metaVersion + `}}`
	frontOdd    = "{ \"params\" : {\"z\":1.0,\"a\" : 1e2, \"name\":\"s\\u006cow\", " + metaVersion + "},\t\"method\":\"tools\\/call\" , \"id\"  :  7,\"\\u0078\":null, \"jsonrpc\":\"2.0\" }"
)

// posted is a body that a client of the front posts, and received is one that it receives.
func posted(why, json string) step {
	return in(why, []byte(json), verdict{outcome: "none"}).on(vectors.JSONConn)
}

func received(why, json string) step {
	return out(why, []byte(json), vectors.Expect{}).on(vectors.JSONConn)
}

// overHTTP is the scene of a call by a client of the HTTP front.
func overHTTP(request, response string) sibling {
	return scene("a client of the HTTP front, which posts the request",
		posted("the body", request),
		forwarded("leaves octet for octet", "a", mcpRequest(request)),
		in("the peer answers", mcpResponse(response).frame(), accept).answers(),
		received("and the answer reaches the client octet for octet", response),
	).setup(vectors.Front)
}

// byPartner is the scene of a call over the link to a partner.
func byPartner(request, response string) sibling {
	return scene("the second hop is a partner",
		in("the request enters the first hop", mcpRequest(request).frame(), accept),
		forwarded("and leaves it octet for octet over the link", "b", mcpRequest(request)),
		in("the partner answers", mcpResponse(response).frame(), accept).on("b").answers(),
		answered("the answer comes back octet for octet", mcpResponse(response)),
	).setup(vectors.Partner)
}

// failedOverHTTP is such a scene, whose answer is an error.
func failedOverHTTP(why string, answer message, code int) sibling {
	return scene("a client of the HTTP front, and "+why,
		posted("a client asks", frontList),
		forwarded("the front asks the peer", "a", mcpRequest(frontList)),
		in("the answer", answer.frame(), accept).answers(),
		failure("the client is told", code),
	).setup(vectors.Front)
}

// forwarded is a frame that leaves as it came, but for its msg_id.
func forwarded(why, conn string, m message) step {
	return out(why, m.frame(), vectors.Expect{}).on(conn)
}

// answered is a frame that goes back under the msg_id of the request.
func answered(why string, m message) step {
	return out(why, m.frame(), vectors.Expect{SameMsgID: new(true)})
}

var invalid = reject("INVALID_MCP_PAYLOAD", "")

var mcp = []vector{
	{
		id: "mcp_0001_request_roundtrip", about: "the octets of a request are preserved end to end",
		expect: accept, bin: mcpRequest(listTools).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Setup: vectors.Relay},
		transcript: []step{
			mainStep("the request enters the first hop"),
			forwarded("and leaves it octet for octet", "b", mcpRequest(listTools)),
			in("the second hop answers", mcpResponse(noTools).frame(), accept).on("b").answers(),
			answered("the answer comes back octet for octet", mcpResponse(noTools)),
		},
		siblings: []sibling{byPartner(frontList, noTools), overHTTP(frontList, noTools)},
	},
	{
		id: "mcp_0002_response_roundtrip", about: "the octets of a response are preserved end to end",
		expect: accept, bin: mcpResponse(noTools).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2)), Setup: vectors.Relay},
		transcript: []step{
			in("a request", mcpRequest(listTools).frame(), accept),
			forwarded("passes the hop", "b", mcpRequest(listTools)),
			mainStep("its response enters the hop").on("b").answers(),
			answered("and leaves it octet for octet", mcpResponse(noTools)),
		},
		siblings: []sibling{byPartner(frontList, noTools)},
	},
	{
		id: "mcp_0003_notification_no_response", about: "a notification is accepted and never answered",
		expect: accept, bin: mcpNotification(initialized).withID("notification 1").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: []step{
			mainStep("nothing comes back: the next frame that does is the answer below"),
			in("the connection is usable", mcpRequest(listTools).frame(), accept),
			app("the server answers", mcpResponse(noTools).frame()),
			answered("the answer, and no frame before or after it", mcpResponse(noTools)),
		},
	},
	{
		id: "mcp_0004_error_mapping_internal", about: "INTERNAL_ERROR becomes the JSON-RPC error -32603",
		expect: accept, bin: mcpResponse(failedCall).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2)), Setup: vectors.Gateway, Mapping: "INTERNAL_ERROR -> -32603"},
		transcript: []step{
			in("a client asks the gateway", []byte(listTools), verdict{outcome: "none"}).on(vectors.JSONConn),
			forwarded("the gateway asks its peer", "a", mcpRequest(listTools)),
			mainStep("the peer has failed").answers(),
			failure("the client is told", -32603),
		},
		siblings: []sibling{
			scene("a real endpoint behind the gateway, whose server fails",
				in("a client asks", []byte(listTools), verdict{outcome: "none"}).on(vectors.JSONConn),
				failure("the client is told", -32603),
			).setup(vectors.GatewayFailing),
			scene("a peer that reports the failure on the error path",
				in("a client asks", []byte(listTools), verdict{outcome: "none"}).on(vectors.JSONConn),
				forwarded("the gateway asks its peer", "a", mcpRequest(listTools)),
				in("the error frame", errorFrame("INTERNAL_ERROR").frame(), accept).answers(),
				failure("the client is told", -32603),
			),
			failedOverHTTP("a peer that has failed", mcpResponse(failedCall), -32603),
			failedOverHTTP("a peer that reports the failure on the error path", errorFrame("INTERNAL_ERROR"), -32603),
		},
	},
	{
		id: "mcp_0005_error_mapping_unknown_profile", about: "UNKNOWN_PROFILE becomes the JSON-RPC error -32601",
		expect: accept, bin: mcpResponse(unknownCall).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2)), Setup: vectors.Gateway, Mapping: "UNKNOWN_PROFILE -> -32601"},
		transcript: []step{
			in("a client asks the gateway", []byte(listTools), verdict{outcome: "none"}).on(vectors.JSONConn),
			forwarded("the gateway asks its peer", "a", mcpRequest(listTools)),
			mainStep("the peer does not have the method").answers(),
			failure("the client is told", -32601),
		},
		siblings: []sibling{
			scene("a real endpoint behind the gateway, which does not have profile 1",
				in("a client asks", []byte(listTools), verdict{outcome: "none"}).on(vectors.JSONConn),
				failure("the client is told", -32601),
			).setup(vectors.GatewayWithoutMCP).policy(withErrorPath),
			scene("a peer that says so on the error path",
				in("a client asks", []byte(listTools), verdict{outcome: "none"}).on(vectors.JSONConn),
				forwarded("the gateway asks its peer", "a", mcpRequest(listTools)),
				in("the error frame", errorFrame("UNKNOWN_PROFILE").frame(), accept).answers(),
				failure("the client is told", -32601),
			),
			failedOverHTTP("a peer that does not have the method", mcpResponse(unknownCall), -32601),
			failedOverHTTP("a peer that does not have the profile", errorFrame("UNKNOWN_PROFILE"), -32601),
			scene("without an error path the connection is closed, which the client is told as what it is",
				in("a client asks", []byte(listTools), verdict{outcome: "none"}).on(vectors.JSONConn),
				failure("the link is lost", -32603),
			).setup(vectors.GatewayWithoutMCP).policy(vectors.Policy{}),
		},
	},
	{
		id: "mcp_0006_response_msg_id_reuse", about: "a response reuses the msg_id of its request, and the JSON-RPC id stays as it was written",
		expect: accept, bin: mcpResponse(bigResponse).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2)), Setup: vectors.Relay},
		transcript: []step{
			in("an id above 2^53", mcpRequest(bigRequest).frame(), accept),
			forwarded("keeps its digits", "b", mcpRequest(bigRequest)),
			mainStep("the response under the msg_id of the request").on("b").answers(),
			answered("is found by it and goes on under the first one", mcpResponse(bigResponse)),
			in("an id that is a string and looks like a number", mcpRequest(wordRequest).withID("another request").frame(), accept),
			forwarded("stays a string", "b", mcpRequest(wordRequest)),
			in("answered", mcpResponse(wordResponse).frame(), accept).on("b").answers(),
			answered("in both directions", mcpResponse(wordResponse)),
		},
		siblings: []sibling{
			scene("a server behind the endpoint answers under the msg_id of the request",
				in("an id above 2^53", mcpRequest(bigRequest).frame(), accept),
				app("the server answers", mcpResponse(bigResponse).frame()),
				answered("octet for octet", mcpResponse(bigResponse)),
			).setup(vectors.Serve),
			byPartner(frontBig, bigResponse),
		},
	},
	{
		id: "mcp_0007_request_missing_id_invalid", about: "a request without an id is refused",
		expect: reject("INVALID_MCP_PAYLOAD", "request without id"), bin: mcpRequest(`{"jsonrpc":"2.0","method":"tools/list"}`).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		siblings: []sibling{
			like("null is no id", mcpRequest(`{"jsonrpc":"2.0","id":null,"method":"tools/list"}`).frame(), invalid),
			like("with an id it is accepted", mcpRequest(listTools).frame(), accept),
		},
	},
	{
		id: "mcp_0008_response_both_result_and_error_invalid", about: "a response with both result and error is refused",
		expect: reject("INVALID_MCP_PAYLOAD", "result and error"), bin: mcpResponse(`{"jsonrpc":"2.0","id":"1","result":{},"error":{"code":1,"message":"m"}}`).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		siblings: []sibling{
			like("neither is as bad as both", mcpResponse(`{"jsonrpc":"2.0","id":"1"}`).frame(), invalid),
			like("an error without an id passes", mcpResponse(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}`).frame(), accept, unsolicited),
			like("an error whose id is null passes", mcpResponse(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`).frame(), accept, unsolicited),
			like("a result without an id does not", mcpResponse(`{"jsonrpc":"2.0","result":{}}`).frame(), invalid),
		},
	},
	{
		id: "mcp_0009_notification_with_response_violation", about: "the path of notifications neither needs nor emits a response",
		expect: accept, bin: mcpNotification(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"slow"}}`).withID("notification 1").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: []step{
			in("a request, so that there is somebody to notify", mcpRequest(listTools).frame(), accept),
			app("answered", mcpResponse(noTools).frame()),
			answered("under its own msg_id", mcpResponse(noTools)),
			mainStep("a method that could be called, as a notification"),
			in("another request", mcpRequest(bigRequest).withID("another request").frame(), accept),
			app("answered", mcpResponse(bigResponse).frame()),
			answered("its answer is the only response there is", mcpResponse(bigResponse)),
		},
		siblings: []sibling{
			scene("a response to a notification of ours is flagged",
				in("a client of the gateway notifies", []byte(initialized), verdict{outcome: "none"}).on(vectors.JSONConn),
				forwarded("the notification", "a", mcpNotification(initialized)),
				in("a response under its msg_id belongs to nothing", mcpResponse(noTools).frame(), accept, unsolicited).answers(),
			).setup(vectors.Gateway),
			scene("and so is one to a notification from a client of the HTTP front",
				posted("the client notifies", initialized),
				forwarded("the notification", "a", mcpNotification(initialized)),
				in("a response under its msg_id belongs to nothing", mcpResponse(noTools).frame(), accept, unsolicited).answers(),
			).setup(vectors.Front),
		},
	},
	{
		id: "mcp_0010_invalid_utf8_payload", about: "a payload that is not UTF-8 is refused",
		expect: reject("INVALID_MCP_PAYLOAD", "payload is not valid UTF-8"), bin: mcpRequest("\xff\xfe\xfd").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		siblings: []sibling{
			like("inside a string of good JSON", mcpRequest("{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"\xc3\x28\"}").frame(), invalid),
			like("a surrogate in UTF-8", mcpRequest("{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"m\",\"params\":{\"s\":\"\xed\xa0\x80\"}}").frame(), invalid),
		},
	},
	{
		id: "mcp_0011_invalid_json_payload", about: "a payload that is not JSON is refused",
		expect: reject("INVALID_MCP_PAYLOAD", "payload is not valid JSON"), bin: mcpRequest(`{"jsonrpc":`).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		siblings: []sibling{
			like("a batch is out of scope", mcpRequest("["+listTools+"]").frame(), invalid),
			like("something after the object", mcpRequest(listTools+"{}").frame(), invalid),
		},
	},
	{
		id: "mcp_0012_unsupported_msg_type", about: "a msg_type that profile 1 does not have is refused before its payload is looked at",
		expect: reject("UNSUPPORTED_MSG_TYPE", "msg_type 99"), bin: typical.withType(99).withPayload(listTools).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings:   []sibling{like("even where the payload could not be decoded", typical.withType(99).withPayload("\xff").frame(), reject("UNSUPPORTED_MSG_TYPE", ""))},
	},
	partials("mcp_0013_stream_partial_then_terminal_success", "partial output, then one response with a result, then nothing",
		"request, notifications, one response with a result", noTools),
	partials("mcp_0014_stream_partial_then_terminal_error", "partial output, then one response with an error, then nothing",
		"request, notifications, one response with an error", failedCall),
	{
		id: "mcp_0015_payload_preservation_whitespace", about: "white space, order of keys and spelling are preserved",
		expect: accept, bin: mcpRequest(oddRequest).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Setup: vectors.Relay},
		transcript: []step{
			mainStep("a request that no encoder would write"),
			forwarded("leaves as it came", "b", mcpRequest(oddRequest)),
			in("and a response of that kind", mcpResponse(oddResponse).frame(), accept).on("b").answers(),
			answered("as well", mcpResponse(oddResponse)),
		},
		siblings: []sibling{byPartner(frontOdd, oddResponse), overHTTP(frontOdd, oddResponse)},
	},
}

// unsolicited is the remark on an answer that was good but awaited by nobody.
var unsolicited = vectors.Expect{Detail: "unsolicited"}

// failure is the JSON-RPC error that a client of the gateway gets.
func failure(why string, code int) step {
	return out(why, nil, vectors.Expect{JSONErrorCode: &code, JSONID: `"1"`}).on(vectors.JSONConn)
}

// errorFrame is a message of the error path: strings 1 and 2 in message 1.
func errorFrame(code string) message {
	text := func(number byte, s string) []byte { return join([]byte{number<<3 | 2}, field([]byte(s))) }
	body := join(text(1, "ERR_"+code), text(2, code), text(3, "as the vector says"))
	m := typical.withProfile(errorPath)
	m.payload = join([]byte{1<<3 | 2}, field(body))
	return m
}

// partials is the vector of a call with partial output, through a relay and
// from a server behind the endpoint.
func partials(id, about, scenario, last string) vector {
	return vector{
		id: id, about: about, expect: accept, bin: mcpNotification(halfWay).withID("notification 1").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3)), Setup: vectors.Relay, Scenario: scenario},
		transcript: []step{
			in("a call", mcpRequest(slowCall).frame(), accept),
			forwarded("passes the hop", "b", mcpRequest(slowCall)),
			mainStep("partial output").on("b").relates(),
			out("passes, under a msg_id of its own", mcpNotification(halfWay).frame(), vectors.Expect{SameMsgID: new(false)}),
			in("more of it", mcpNotification(allTheWay).withID("notification 2").frame(), accept).on("b").relates(),
			out("passes, after the first", mcpNotification(allTheWay).frame(), vectors.Expect{SameMsgID: new(false)}),
			in("the one response", mcpResponse(last).frame(), accept).on("b").answers(),
			answered("ends the call, after all that was partial", mcpResponse(last)),
			in("a late part", mcpNotification(allTheWay).withID("notification 3").frame(), accept).on("b").relates(),
			in("and a second response lead nowhere", mcpResponse(last).frame(), accept, unsolicited).on("b").answers(),
		},
		siblings: []sibling{
			scene("the same from a server behind the endpoint",
				in("a call", mcpRequest(slowCall).frame(), accept),
				app("partial output", mcpNotification(halfWay).frame()),
				out("under a msg_id of its own", mcpNotification(halfWay).frame(), vectors.Expect{SameMsgID: new(false)}),
				app("more of it", mcpNotification(allTheWay).frame()),
				out("after the first", mcpNotification(allTheWay).frame(), vectors.Expect{SameMsgID: new(false)}),
				app("the one response", mcpResponse(last).frame()),
				answered("ends the call", mcpResponse(last)),
			).setup(vectors.Serve),
			scene("the same, from a partner",
				in("a call", mcpRequest(frontCall).frame(), accept),
				forwarded("passes the hop", "b", mcpRequest(frontCall)),
				in("partial output", mcpNotification(halfWay).frame(), accept).on("b").relates(),
				out("passes, under a msg_id of its own", mcpNotification(halfWay).frame(), vectors.Expect{SameMsgID: new(false)}),
				in("more of it", mcpNotification(allTheWay).withID("notification 2").frame(), accept).on("b").relates(),
				out("passes, after the first", mcpNotification(allTheWay).frame(), vectors.Expect{SameMsgID: new(false)}),
				in("the one response", mcpResponse(last).frame(), accept).on("b").answers(),
				answered("ends the call", mcpResponse(last)),
				in("a late part", mcpNotification(allTheWay).withID("notification 3").frame(), accept).on("b").relates(),
				in("and a second response lead nowhere", mcpResponse(last).frame(), accept, unsolicited).on("b").answers(),
			).setup(vectors.Partner),
			scene("the same for a client of the HTTP front",
				posted("a call", frontCall),
				forwarded("leaves", "a", mcpRequest(frontCall)),
				in("partial output", mcpNotification(halfWay).frame(), accept).relates(),
				received("reaches the client as an event", halfWay),
				in("more of it", mcpNotification(allTheWay).withID("notification 2").frame(), accept).relates(),
				received("after the first", allTheWay),
				in("the one response", mcpResponse(last).frame(), accept).answers(),
				received("is the last event", last),
			).setup(vectors.Front),
		},
	}
}
