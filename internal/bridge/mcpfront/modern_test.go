package mcpfront_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/internal/bridge/mcptest"
	"github.com/slimwire/swp/internal/effort"
)

func TestGW07OctetsArriveAsTheyWereSentModern(t *testing.T) {
	effort.Unwatched(t)
	s := open(t, mcpfront.Options{})
	for name, form := range mcptest.Requests {
		sent := fmt.Sprintf(form, meta)
		r := s.send("POST", "", sent, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: hex")
		want(t, name+": status", r.status, 200)
		want(t, "request with "+name, unhex(t, r.all()), sent)
	}
	for name, response := range mcptest.Responses {
		octets := response.Octets
		r := s.modern("say", `"text":`+quote(octets))
		want(t, name+": type", r.header.Get("Content-Type"), "application/json")
		want(t, "response with "+name, r.all(), octets)
		r = s.modern("say", `"status":200,"text":`+quote(octets), "Accept: text/event-stream, application/json")
		want(t, name+": type", r.header.Get("Content-Type"), "text/event-stream")
		_, data := r.event()
		want(t, "event with "+name, data, mcptest.OneLine(octets))
		r.ended()
	}
}

func TestModernNotificationsMakeTheResponseEvents(t *testing.T) {
	s := open(t, mcpfront.Options{})
	note := `{"jsonrpc":"2.0", "method":"notifications/progress","params":{"n":1.0}}`
	r := s.modern("progress", `"text":`+quote(note))
	want(t, "type", r.header.Get("Content-Type"), "text/event-stream")
	want(t, "buffering", r.header.Get("X-Accel-Buffering"), "no")
	id, data := r.event()
	want(t, "first", data, note)
	want(t, "id", id, "") // nothing is taken up again in this era
	_, data = r.event()
	want(t, "last", data, `{"jsonrpc":"2.0","id":1,"result":"done"}`)
	r.ended()
}

func TestClosingAModernResponseCancels(t *testing.T) {
	s := open(t, mcpfront.Options{})
	r := s.send("POST", "", modernRequest("1.0", "wait", ""), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: wait")
	r.event()
	r.close()
	want(t, "cancellation", next(t, "the cancellation", s.server.cancelled),
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}`)
}

func TestSubscriptionsAreKeptAliveByComments(t *testing.T) {
	s := open(t, mcpfront.Options{KeepAlive: time.Millisecond})
	r := s.modern("subscriptions/listen", "")
	r.event()
	for range 3 {
		line, err := r.body.ReadString('\n')
		if err != nil || line != ":\n" && line != "\n" {
			t.Fatalf("%q, %v; want a comment", line, err)
		}
	}
	s.server.finish(`{}`)
	_, data := r.event()
	want(t, "end", data, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	r.ended()
}

func TestDrainEndsSubscriptionsAndLeavesCalls(t *testing.T) {
	s := open(t, mcpfront.Options{})
	sub, call := s.modern("subscriptions/listen", ""), s.modern("wait", "")
	sub.event()
	call.event()
	s.front.Drain()
	sub.ended()
	next(t, "the end of the subscription at the server", s.server.cancelled)
	s.server.finish(`1`)
	_, data := call.event()
	want(t, "answer", data, `{"jsonrpc":"2.0","id":1,"result":1}`)
}

func TestStatusOfAModernAnswer(t *testing.T) {
	s := open(t, mcpfront.Options{})
	for code, status := range map[string]int{
		"-32601": 404, "-32600": 400, "-32602": 400, "-32020": 400, "-32021": 400, "-32022": 400,
		"-32603": 200, "-32000": 200, "-32019": 200, "-32023": 200, "7": 200, "-32601.0": 200, "1e999": 200,
	} {
		octets := `{"jsonrpc":"2.0","id":1,"error":{"code":` + code + `,"message":""}}`
		r := s.modern("say", `"text":`+quote(octets))
		want(t, code, r.status, status)
		want(t, code, r.all(), octets)
	}
	r := s.modern("say", `"status":418,"text":`+quote(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}`))
	want(t, "status of the server (extension 20)", r.status, 418)
}

func TestHeadersMustAgreeWithTheBody(t *testing.T) {
	s := open(t, mcpfront.Options{})
	version, method := "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: hex"
	call := modernRequest("1", "tools/call", `"name":"ä"`)
	read := modernRequest("1", "resources/read", `"name":"no","uri":"file:///x"`)
	for _, row := range []struct {
		what, body string
		headers    []string
		code       string
	}{
		{"all", modernRequest("1", "hex", ""), []string{version, method}, ""},
		{"no version", modernRequest("1", "hex", ""), []string{method}, "-32020"},
		{"another version", modernRequest("1", "hex", ""), []string{"MCP-Protocol-Version: 2027-01-01", method}, "-32020"},
		{"a legacy version", modernRequest("1", "hex", ""), []string{"MCP-Protocol-Version: 2025-11-25", method}, "-32020"},
		{"no version in the body", `{"jsonrpc":"2.0","id":1,"method":"hex"}`, []string{version, method}, "-32602"},
		{"none in server/discover", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, []string{version, "Mcp-Method: server/discover"}, "-32602"},
		{"no method", modernRequest("1", "hex", ""), []string{version}, "-32020"},
		{"method in other case", modernRequest("1", "hex", ""), []string{version, "Mcp-Method: Hex"}, "-32020"},
		{"name", modernRequest("1", "tools/call", `"name":"a"`), []string{version, "Mcp-Method: tools/call", "Mcp-Name: a"}, ""},
		{"no name", modernRequest("1", "tools/call", `"name":"a"`), []string{version, "Mcp-Method: tools/call"}, "-32020"},
		{"another name", modernRequest("1", "tools/call", `"name":"a"`), []string{version, "Mcp-Method: tools/call", "Mcp-Name: b"}, "-32020"},
		{"name as it is", call, []string{version, "Mcp-Method: tools/call", "Mcp-Name: ä"}, ""},
		{"name in Base64", call, []string{version, "Mcp-Method: tools/call", "Mcp-Name: =?base64?w6Q=?="}, ""},
		{"bad Base64", call, []string{version, "Mcp-Method: tools/call", "Mcp-Name: =?base64?w6Q?="}, "-32020"},
		{"URI", read, []string{version, "Mcp-Method: resources/read", "Mcp-Name: file:///x"}, ""},
		{"not the URI", read, []string{version, "Mcp-Method: resources/read", "Mcp-Name: no"}, "-32020"},
		{"prompt", modernRequest("1", "prompts/get", `"name":"p"`), []string{version, "Mcp-Method: prompts/get", "Mcp-Name: q"}, "-32020"},
		{"task without a name", modernRequest("1", "tasks/get", `"taskId":"t"`), []string{version, "Mcp-Method: tasks/get"}, "-32020"},
		{"not the task", modernRequest("1", "tasks/update", `"taskId":"t"`), []string{version, "Mcp-Method: tasks/update", "Mcp-Name: u"}, "-32020"},
		{"a task of nobody", modernRequest("1", "tasks/cancel", `"taskId":"t"`), []string{version, "Mcp-Method: tasks/cancel", "Mcp-Name: t"}, "-32602"},
	} {
		r := s.send("POST", "", row.body, row.headers...)
		body := r.all()
		switch {
		case row.code == "":
			want(t, row.what+": "+body, r.status, 200)
			next(t, row.what, s.server.calls)
		case r.status != 400 || !strings.Contains(body, `{"jsonrpc":"2.0","id":1,"error":{"code":`+row.code+`,`):
			t.Errorf("%s: %d %s", row.what, r.status, body)
		}
	}
	want(t, "requests of these that the server got", len(s.server.calls), 0)
}

func TestParametersGoBesideTheRequest(t *testing.T) {
	s := open(t, mcpfront.Options{})
	r := s.modern("params", "", "Mcp-Param-Region: eu west", "Mcp-Param-a: =?base64?w6Q=?=")
	want(t, "parameters", r.all(), `{"jsonrpc":"2.0","id":1,"result":"[\"mcp-param-a:=?base64?w6Q=?=\" \"mcp-param-region:eu west\"]"}`)
	// A parameter takes 15 octets beside its value.
	r = s.modern("params", "", "Mcp-Param-X: "+strings.Repeat("x", 3<<10-15))
	want(t, "status at the limit", r.status, 200)
	r = s.modern("params", "", "Mcp-Param-X: "+strings.Repeat("x", 3<<10-14))
	want(t, "status above the limit", r.status, http.StatusRequestHeaderFieldsTooLarge)
}

func TestParametersMustAgreeWithTheArguments(t *testing.T) {
	s := open(t, mcpfront.Options{})
	list := `{"tools":[{"name":"t","inputSchema":{"properties":{` +
		`"s":{"x-mcp-header":"S"},"n":{"x-mcp-header":"N"},"o":{"properties":{"b":{"x-mcp-header":"B"}}}}}}]}`
	call := func(arguments string, headers ...string) int {
		return s.modern("tools/call", `"name":"t","arguments":`+arguments, append(headers, "Mcp-Name: t")...).status
	}
	want(t, "before the tool is known", call(`{"s":"x"}`), 200)
	want(t, "the same, with the value of an argument", call(`{"s":"x"}`, "Mcp-Param-S: x"), 200)
	want(t, "the same, with another value", call(`{"s":"x"}`, "Mcp-Param-S: y"), 400)
	s.modern("tools/list", `"text":`+quote(list)).all()
	s.send("POST", "", modernRequest("1", "tools/list", `"text":`+quote(`{"tools":[{"name":"t"}]}`)), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list", "Caller: bob").all()
	for _, row := range []struct {
		arguments string
		headers   []string
		status    int
	}{
		{`{}`, nil, 200},
		{`{"s":null}`, nil, 200},
		{`{"s":"x","n":1,"o":{"b":true}}`, []string{"Mcp-Param-S: x", "Mcp-Param-N: 1", "Mcp-Param-B: true"}, 200},
		{`{"s":"ä"}`, []string{"Mcp-Param-S: =?base64?w6Q=?="}, 200},
		{`{"s":"x"}`, nil, 400},
		{`{"s":"x"}`, []string{"Mcp-Param-S: y"}, 400},
		{`{}`, []string{"Mcp-Param-S: x"}, 400},
		{`{"s":"ä"}`, []string{"Mcp-Param-S: =?base64?w6Q?="}, 400},
		{`{"n":1.5}`, []string{"Mcp-Param-N: 1.5"}, 400},
		{`{"n":9007199254740993}`, []string{"Mcp-Param-N: 9007199254740993"}, 400},
		{`{"o":{"b":false}}`, []string{"Mcp-Param-B: true"}, 400},
		{`{"o":7,"s":{}}`, []string{"Mcp-Param-S: {}"}, 400},
	} {
		want(t, fmt.Sprint(row.arguments, row.headers), call(row.arguments, row.headers...), row.status)
	}
	s.modern("tools/list", `"text":`+quote(`{"tools":[{"name":"t"}]}`)).all()
	want(t, "when the tool has changed", call(`{"s":"x"}`), 200)
}

func TestWhatIsRememberedOfToolsIsBoundedInOctetsForEachCaller(t *testing.T) {
	s := open(t, mcpfront.Options{})
	list := func(caller string, names ...string) {
		t.Helper()
		var tools []string
		for _, name := range names {
			tools = append(tools, `{"name":`+quote(name)+`,"inputSchema":{"properties":{"s":{"x-mcp-header":"S"}}}}`)
		}
		body := modernRequest("1", "tools/list", `"text":`+quote(`{"tools":[`+strings.Join(tools, ",")+`]}`))
		s.send("POST", "", body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list", "Caller: "+caller).all()
	}
	known := func(caller, name string) bool {
		t.Helper()
		r := s.send("POST", "", modernRequest("1", "tools/call", `"name":`+quote(name)+`,"arguments":{"s":"x"}`),
			"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+name, "Caller: "+caller)
		return r.status == 400
	}
	list("alice", "a")
	list("bob", "a")
	want(t, "a tool that was learned is known", known("alice", "a"), true)
	// Each of these takes a quarter of what is remembered, and somewhat.
	long := func(c string) string { return strings.Repeat(c, 64<<10) }
	list("alice", long("b"), long("c"), long("d"))
	want(t, "within the bound, the first", known("alice", "a"), true)
	list("alice", long("e"))
	want(t, "above the bound, the first", known("alice", "a"), false)
	list("alice", "a")
	list("alice", strings.Repeat("f", 1<<20))
	want(t, "after one that is too long by itself, another", known("alice", "a"), true)
	want(t, "that of another caller", known("bob", "a"), true)
}

func TestGW04EachCallerGetsItsOwnAnswer(t *testing.T) {
	s := open(t, mcpfront.Options{})
	const n = 8
	replies := make([]*reply, n)
	for i := range replies {
		replies[i] = s.send("POST", "", modernRequest("1", "wait", fmt.Sprintf(`"n":%d`, i)), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: wait", fmt.Sprintf("Caller: c%d", i))
		replies[i].event()
	}
	s.server.mu.Lock()
	held := s.server.held
	s.server.held = nil
	s.server.mu.Unlock()
	want(t, "requests", len(held), n)
	for _, x := range slices.Backward(held) {
		var params struct {
			N int `json:"n"`
		}
		if err := json.Unmarshal(x.Message.Params(), &params); err != nil {
			t.Fatal(err)
		}
		x.Finish(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":%d}`, params.N))
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":"again"}`))
	}
	for i, r := range replies {
		_, data := r.event()
		want(t, "answer", data, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%d}`, i))
		r.ended()
	}
}
