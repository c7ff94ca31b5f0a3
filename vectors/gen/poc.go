package main

import "github.com/slimwire/swp/vectors"

// pocVector is an entry in the poc_ form.
type pocVector struct {
	id     string
	bin    []byte
	expect vectors.PoCExpect
}

// poc: one good frame for each of the two profiles that these vectors know, and
// the four ways to get the frame itself wrong.
var poc = []pocVector{
	{"poc_0001_valid_mcp_request", mcpRequest(listTools).frame(), good(1, len(listTools))},
	{"poc_0002_valid_swprpc_request", request.withPayload(string(echoCall)).frame(), good(rpc, len(echoCall))},
	{"poc_0003_invalid_version", mcpRequest(listTools).withVersion(2).frame(), bad("UNSUPPORTED_VERSION")},
	{"poc_0004_invalid_empty_msg_id", mcpRequest(listTools).withID("").frame(), bad("INVALID_ENVELOPE")},
	{"poc_0005_invalid_truncated_frame", cut(mcpRequest(listTools).frame(), 3), bad("INVALID_FRAME")},
	{"poc_0006_invalid_varint_overflow", frame(tooLong), bad("INVALID_FRAME")},
}

// echoCall is an RPC request for the method demo.echo: rpc_id, method and
// params are fields 1 to 3 of message 1.
var echoCall = func() []byte {
	text := func(number byte, s string) []byte { return join([]byte{number<<3 | 2}, field([]byte(s))) }
	return join([]byte{1<<3 | 2}, field(join(text(1, "r1"), text(2, "demo.echo"), text(3, `{"hello":"world"}`))))
}()

func good(profile uint64, payload int) vectors.PoCExpect {
	return vectors.PoCExpect{
		OK: true, Code: "OK", Version: new(uint64(1)), ProfileID: &profile, MsgType: new(uint64(1)), MinPayloadLen: &payload,
	}
}

func bad(code string) vectors.PoCExpect { return vectors.PoCExpect{Code: code} }

// cut takes octets off the end.
func cut(octets []byte, n int) []byte { return octets[:len(octets)-n] }

func (v *pocVector) descriptor() vectors.PoC {
	return vectors.PoC{Name: v.id, Bin: v.id + ".bin", Expect: v.expect}
}
