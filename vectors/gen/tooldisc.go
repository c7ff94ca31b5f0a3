package main

import (
	"strings"

	"github.com/slimwire/swp/vectors"
)

const tooldisc = 11

// A descriptor as its author wrote it.
const oddDescriptor = "{ \"description\" : \"\\u0065cho\", \"n\":9007199254740993 }\r\n\x00\xff"

func listReq(msgID string, fields ...[]byte) message { return of(tooldisc, 1, msgID, fields...) }

func pageSize(n uint64) []byte      { return number(1, n) }
func pageToken(token string) []byte { return opaque(2, token) }
func byFilter(text string) []byte   { return opaque(3, text) }

// listed is a page, of tools as fieldsOfTool has them. A page that is not the
// last has a token, whose content is the endpoint's affair.
func listed(more bool, tools ...[]byte) message {
	var fields [][]byte
	for _, t := range tools {
		fields = append(fields, nested(1, t))
	}
	if more {
		fields = append(fields, pageToken("any"))
	}
	return of(tooldisc, 2, usualID, fields...)
}

func getReq(msgID, id string, version ...string) message {
	fields := [][]byte{opaque(1, id)}
	for _, v := range version {
		fields = append(fields, opaque(2, v))
	}
	return of(tooldisc, 3, msgID, fields...)
}

func getResp(tool []byte) message { return of(tooldisc, 4, usualID, nested(1, tool)) }

// fieldsOfTool is a descriptor without its key.
func fieldsOfTool(id, name, version, ref, descriptor string) []byte {
	tool := join(opaque(1, id), opaque(2, name), opaque(3, version), opaque(4, ref))
	if descriptor != "" {
		tool = join(tool, opaque(5, descriptor))
	}
	return tool
}

// The tools of the application, in the order of their tool_ids.
var (
	countTool  = fieldsOfTool("count", "Counter", "1.0.0", "swp://schemas/tools/count/v1", "")
	echoTool   = fieldsOfTool("echo", "Echo", "1.0.0", "swp://schemas/tools/echo/v1", oddDescriptor)
	readTool   = fieldsOfTool("files/read", "Read a file", "2.1", "sha256:"+strings.Repeat("0a", 32), "")
	writeTool  = fieldsOfTool("files/write", "Write a file", "2.1", "https://example.org/schemas/write?v=1#/input", "")
	searchTool = fieldsOfTool("search", "Search FILES", "0", "urn:example:search", "")
)

// hasTools gives the application tools.
func hasTools(tools ...[]byte) step {
	return app("the application has tools", listed(false, tools...).frame())
}

// pageOf is an answer to a LIST_REQ, with more to come or not.
func pageOf(why string, more bool, tools ...[]byte) step {
	expect := vectors.Expect{SameMsgID: new(true)}
	if more {
		expect.Free = []uint64{2}
	}
	return out(why, listed(more, tools...).frame(), expect)
}

// toldNoTool is a TOOLDISC_ERR of a code.
func toldNoTool(why, code string) step {
	return out(why, of(tooldisc, 5, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// asksForTool is how the application asks a peer for a tool. The peer's answer
// follows.
func asksForTool(question message, steps ...step) []step {
	return append([]step{
		app("the application asks", question.frame()),
		out("the question goes out", question.frame(), vectors.Expect{}),
	}, steps...)
}

// badTool is a frame with a descriptor that is none.
func badTool(why string, fields ...[]byte) sibling {
	return like(why, getResp(join(fields...)).frame(), badPayload)
}

// badRef is one whose schema_ref is none.
func badRef(why, ref string) sibling {
	return badTool(why, fieldsOfTool("echo", "Echo", "1.0.0", ref, ""))
}

// goodRef is one whose schema_ref is good.
func goodRef(why, ref string) sibling {
	return like(why, getResp(fieldsOfTool("echo", "Echo", "1.0.0", ref, "")).frame(), accept, vectors.Expect{Detail: "unsolicited"})
}

var (
	toolID      = opaque(1, "echo")
	toolName    = opaque(2, "Echo")
	toolVersion = opaque(3, "1.0.0")
	schemaRef   = opaque(4, "swp://schemas/tools/echo/v1")
)

var tooldiscs = []vector{
	{
		id: "tooldisc_0001_list_paging_filter", about: "tools are listed in pages and by a filter",
		expect: accept, bin: listReq("question 1", pageSize(2), byFilter(" FILE\t")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: []step{
			hasTools(countTool, echoTool, readTool, writeTool, searchTool),
			mainStep("two at a time of those with a word in tool_id or name"),
			pageOf("the first two", true, readTool, writeTool),
			in("the next page", listReq("question 2", pageSize(2), pageToken("any"), byFilter("file")).frame(), accept).continues(),
			pageOf("has the last one", false, searchTool),
		},
		siblings: []sibling{
			scene("pages of all tools have each once, in a stable order",
				hasTools(countTool, echoTool, readTool, writeTool, searchTool),
				in("a first page", listReq("question 1", pageSize(2)).frame(), accept),
				pageOf("of two", true, countTool, echoTool),
				in("a second one, smaller", listReq("question 2", pageSize(1), pageToken("any")).frame(), accept).continues(),
				pageOf("of one", true, readTool),
				in("a third one", listReq("question 3", pageSize(2), pageToken("any")).frame(), accept).continues(),
				pageOf("is full and the last", false, writeTool, searchTool),
			),
			scene("as many as there are, if nobody says how many",
				hasTools(countTool, echoTool, readTool),
				in("no fields at all", listReq(usualID).frame(), accept),
				pageOf("all", false, countTool, echoTool, readTool),
				in("more than can be", listReq("question 2", pageSize(1<<32-1)).frame(), accept),
				pageOf("all", false, countTool, echoTool, readTool),
			),
			scene("nothing to list",
				in("nothing is there", listReq(usualID).frame(), accept),
				pageOf("an empty page", false),
				hasTools(countTool, echoTool),
				in("nothing matches", listReq("question 2", byFilter("c.*t")).frame(), accept),
				pageOf("an empty page", false),
				in("a filter of blanks is none", listReq("question 3", byFilter(" \t\n")).frame(), accept),
				pageOf("all", false, countTool, echoTool),
			),
			scene("a page_token that was not given out",
				hasTools(countTool, echoTool, readTool),
				in("a number", listReq(usualID, pageToken("2")).frame(), badPayload),
				toldNoTool("is refused", "INVALID_PROFILE_PAYLOAD"),
				in("a negative one", listReq("question 2", pageToken("-1")).frame(), badPayload),
				toldNoTool("is refused", "INVALID_PROFILE_PAYLOAD"),
				in("a large one", listReq("question 3", pageToken("18446744073709551616")).frame(), badPayload),
				toldNoTool("is refused", "INVALID_PROFILE_PAYLOAD"),
			),
			scene("a page_token is good for its filter",
				hasTools(countTool, echoTool, readTool),
				in("a page", listReq("question 1", pageSize(1)).frame(), accept),
				pageOf("of all", true, countTool),
				in("does not go on as another one", listReq("question 2", pageToken("any"), byFilter("e")).frame(), badPayload).continues(),
				toldNoTool("it is refused", "INVALID_PROFILE_PAYLOAD"),
			),
			scene("a page_token is good for its peer",
				hasTools(countTool, echoTool, readTool),
				in("a page", listReq("question 1", pageSize(1)).frame(), accept),
				pageOf("of one peer", true, countTool),
				in("another peer has its own", listReq("question 1", pageSize(2)).frame(), accept).on("b"),
				pageOf("from the start", true, countTool, echoTool).on("b"),
				in("and goes on", listReq("question 2", pageToken("any")).frame(), accept).on("b").continues(),
				pageOf("there", false, readTool).on("b"),
			),
			scene("the other way round", asksForTool(listReq(usualID, pageSize(2), byFilter("e")),
				in("a page comes", listed(true, countTool, echoTool).frame(), accept).answers(),
				hears("the application has it", listed(true, countTool, echoTool)),
			)...),
			like("a filter that is not UTF-8", listReq(usualID, byFilter("\xff")).frame(), badPayload),
			like("a filter that is very long", listReq(usualID, byFilter(strings.Repeat("a", 257))).frame(), badPayload),
			like("a page_size of another type", listReq(usualID, opaque(1, "2")).frame(), badPayload),
			like("no wrapper", listReq(usualID).withPayload("").frame(), badPayload),
		},
	},
	{
		id: "tooldisc_0002_get_success", about: "a tool is described as its author did",
		expect: accept, bin: getReq(usualID, "echo").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: []step{
			hasTools(countTool, echoTool),
			mainStep("a question for a tool"),
			answered("is answered with it, octet for octet", getResp(echoTool)),
			in("with its version", getReq("question 2", "echo", "1.0.0").frame(), accept),
			answered("it is the same", getResp(echoTool)),
		},
		siblings: []sibling{
			scene("of several versions the one that is meant",
				hasTools(
					fieldsOfTool("echo", "Echo", "1.10.0", "x:b", "ten"),
					fieldsOfTool("echo", "Echo", "1.9.0", "x:a", "nine"),
					fieldsOfTool("echo", "Echo", "1.10.0-rc.1", "x:c", "almost ten"),
				),
				in("none is named", getReq("question 1", "echo").frame(), accept),
				answered("it is the highest", getResp(fieldsOfTool("echo", "Echo", "1.10.0", "x:b", "ten"))),
				in("a lower one is named", getReq("question 2", "echo", "1.9.0").frame(), accept),
				answered("it is that", getResp(fieldsOfTool("echo", "Echo", "1.9.0", "x:a", "nine"))),
				in("an empty one is none", getReq("question 3", "echo", "").frame(), accept),
				answered("it is the highest", getResp(fieldsOfTool("echo", "Echo", "1.10.0", "x:b", "ten"))),
				in("part of one is named", getReq("question 4", "echo", "1.9").frame(), reject("NOT_FOUND", "")),
				toldNoTool("it is not there", "NOT_FOUND"),
			),
			scene("the other way round", asksForTool(getReq(usualID, "echo", "1.0.0"),
				in("the tool comes", getResp(echoTool).frame(), accept).answers(),
				hears("the application has it as it was sent", getResp(echoTool)),
			)...),
			scene("another tool than was asked for", asksForTool(getReq(usualID, "echo"),
				in("is refused", getResp(countTool).frame(), badPayload).answers(),
			)...),
			scene("another version than was asked for", asksForTool(getReq(usualID, "echo", "2"),
				in("is refused", getResp(echoTool).frame(), badPayload).answers(),
			)...),
			scene("a descriptor with fields that nobody knows", asksForTool(getReq(usualID, "echo"),
				in("is one", getResp(join(unlisted, echoTool)).frame(), accept).answers(),
				hears("the application has what is known", getResp(echoTool)),
			)...),
		},
	},
	{
		id: "tooldisc_0003_missing_tool_not_found", about: "an unknown tool is refused with `NOT_FOUND`",
		expect: reject("NOT_FOUND", "tool not found"), bin: getReq(usualID, "none").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: []step{
			hasTools(countTool, echoTool),
			mainStep("a question for a tool that there is not"),
			toldNoTool("the peer is told so", "NOT_FOUND"),
			in("in another case", getReq("question 2", "ECHO").frame(), reject("NOT_FOUND", "")),
			toldNoTool("it is another tool", "NOT_FOUND"),
			in("part of one", getReq("question 3", "ech").frame(), reject("NOT_FOUND", "")),
			toldNoTool("is none", "NOT_FOUND"),
			in("the connection goes on", getReq("question 4", "echo").frame(), accept),
			answered("as before", getResp(echoTool)),
		},
		siblings: []sibling{
			scene("the other way round", asksForTool(getReq(usualID, "none"),
				in("there is none", of(tooldisc, 5, usualID, opaque(1, "NOT_FOUND"), opaque(2, "tool not found")).frame(), reject("NOT_FOUND", "")).answers(),
				hears("the application learns that", of(tooldisc, 5, usualID, opaque(1, "NOT_FOUND"), opaque(2, "tool not found"))),
			)...),
			like("no tool_id", of(tooldisc, 3, usualID, opaque(2, "1.0.0")).frame(), badPayload),
			like("an empty tool_id", getReq(usualID, "").frame(), badPayload),
			like("an ERR without a code", of(tooldisc, 5, usualID, opaque(2, "text")).frame(), badPayload),
		},
	},
	{
		id: "tooldisc_0004_schema_ref_invalid", about: "a schema_ref that leads nowhere is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "invalid schema_ref"), bin: getResp(fieldsOfTool("echo", "Echo", "1.0.0", "schemas/tools/echo", "")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		siblings: []sibling{
			badRef("a path", "/schemas/tools/echo"),
			badRef("no scheme", "//example.org/schemas/echo"),
			badRef("a scheme and nothing else", "https:"),
			badRef("a scheme without a host", "https://"),
			badRef("a scheme that is none", "1x:y"),
			badRef("a blank in it", "https://example.org/a b"),
			badRef("a line break in it", "https://example.org/\n"),
			badRef("an escape that is none", "https://example.org/%zz"),
			badRef("a digest that is too short", "sha256:"+strings.Repeat("0a", 31)),
			badRef("a digest that is too long", "sha256:"+strings.Repeat("0a", 33)),
			badRef("a digest of half octets", "sha256:"+strings.Repeat("0a", 31)+"0"),
			badRef("a digest that is not hexadecimal", "sha256:"+strings.Repeat("0g", 32)),
			badRef("a digest of another algorithm", "sha384:"+strings.Repeat("0a", 32)),
			badRef("an algorithm that is no good", "md5:"+strings.Repeat("0a", 16)),
			goodRef("a URI", "swp://schemas/tools/echo/v1"),
			goodRef("a URI without a host", "urn:example:echo"),
			goodRef("sha256", "sha256:"+strings.Repeat("0a", 32)),
			goodRef("sha384", "sha384:"+strings.Repeat("0a", 48)),
			goodRef("sha512", "sha512:"+strings.Repeat("0A", 64)),
			scene("the answer to a question is no better", asksForTool(getReq(usualID, "echo"),
				in("it is refused", getResp(fieldsOfTool("echo", "Echo", "1.0.0", "sha256:", "")).frame(), badPayload).answers(),
			)...),
			like("nor is a page with one such tool", listed(false, countTool, fieldsOfTool("echo", "Echo", "1.0.0", "nowhere", "")).frame(), badPayload),
		},
	},
	{
		id: "tooldisc_0005_descriptor_missing_required", about: "a descriptor without a required field is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "missing version"), bin: getResp(join(toolID, toolName, schemaRef)).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		siblings: []sibling{
			badTool("no tool_id", toolName, toolVersion, schemaRef),
			badTool("no name", toolID, toolVersion, schemaRef),
			badTool("no schema_ref", toolID, toolName, toolVersion),
			badTool("an empty tool_id", opaque(1, ""), toolName, toolVersion, schemaRef),
			badTool("an empty descriptor"),
			badTool("a name that is not UTF-8", toolID, opaque(2, "\xff"), toolVersion, schemaRef),
			badTool("a version of another type", toolID, toolName, number(3, 1), schemaRef),
			like("no descriptor", of(tooldisc, 4, usualID).frame(), badPayload),
			like("a page with one such tool", listed(false, countTool, join(toolName, toolVersion, schemaRef)).frame(), badPayload),
			like("one without a name", listed(false, join(toolID, toolVersion, schemaRef)).frame(), badPayload),
			like("one without a version", listed(false, join(toolID, toolName, schemaRef)).frame(), badPayload),
			like("one without a schema_ref", listed(false, join(toolID, toolName, toolVersion)).frame(), badPayload),
			like("a page of more tools than there may be", listed(false, make([][]byte, 1025)...).frame(), badPayload),
			like("a good one that nobody asked for", getResp(join(toolID, toolName, toolVersion, schemaRef)).frame(), accept, vectors.Expect{Detail: "unsolicited"}),
			scene("the answer to a question is no better", asksForTool(listReq(usualID),
				in("it is refused", listed(false, join(toolID, toolName, schemaRef)).frame(), badPayload).answers(),
			)...),
		},
	},
	{
		id: "tooldisc_0006_unsupported_msg_type", about: "unsupported TOOLDISC `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(tooldisc, "tooldisc", "tooldisc_0006_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(tooldisc, 6, usualID).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(tooldisc).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}
