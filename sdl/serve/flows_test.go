package serve_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

func TestTaskIsAcceptedAsState(t *testing.T) {
	out := ask(t, newServer(t, serve.Options{}), request(t, sdl.CTTask, taskPayload))
	equal(t, "payload", payload(t, out, sdl.CTState), `{
		"base":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"patch":[{"op":"add","path":"/status","value":"accepted"},{"op":"add","path":"/goal","value":"tidy up"}]}`)
	if got := text(out.Response.Get("type")); got != sdl.TypeRes {
		t.Errorf("type %q, want %q", got, sdl.TypeRes)
	}
	if got := text(out.Response.Get("from").Get("agent_id")); got != executor {
		t.Errorf("answer from %q, want %q", got, executor)
	}
	if got := text(out.Response.Get("to").Get("agent_id")); got != planner {
		t.Errorf("answer to %q, want %q", got, planner)
	}
}

func TestAnswerDerivesTheTrace(t *testing.T) {
	s := newServer(t, serve.Options{})
	trace := ask(t, s, request(t, sdl.CTTask, taskPayload)).Response.Get("trace")
	if span := text(trace.Get("span_id")); span == "" || span == "span" {
		t.Errorf("span_id %q, want a new one", span)
	}
	equal(t, "trace", trace.Without("span_id"), `{"root_id":"root","parent_span_id":"span","hops":3}`)

	out := ask(t, s, request(t, sdl.CTTask, taskPayload).Without("trace"))
	if out.Response.Has("trace") {
		t.Error("the answer has a trace, which the request had not")
	}
}

func TestAnswerAtMaxHopsIsValid(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload)
	v = v.With("trace", v.Get("trace").With("hops", canonical.Int(8)))
	out := ask(t, newServer(t, serve.Options{}), v)
	payload(t, out, sdl.CTState)
	equal(t, "hops", out.Response.Get("trace").Get("hops"), "8")
	v = v.With("trace", v.Get("trace").With("hops", canonical.Int(9)))
	refused(t, ask(t, newServer(t, serve.Options{}), v), sdl.BadRequest, false)
}

type tasks func(*serve.Request) error

func (f tasks) Accept(_ context.Context, r *serve.Request) error { return f(r) }

func TestTasksTakeTheTaskIn(t *testing.T) {
	var goal string
	s := newServer(t, serve.Options{Tasks: tasks(func(r *serve.Request) error {
		goal = text(r.Payload.Get("goal"))
		return nil
	})})
	payload(t, ask(t, s, request(t, sdl.CTTask, taskPayload)), sdl.CTState)
	if goal != "tidy up" {
		t.Errorf("goal %q, want that of the request", goal)
	}
	s = newServer(t, serve.Options{Tasks: tasks(func(*serve.Request) error { return errors.New("disk full: /var/lib") })})
	out := ask(t, s, request(t, sdl.CTTask, taskPayload))
	refused(t, out, sdl.Internal, true)
}

// call calls a tool.
func call(t *testing.T, s *serve.Server, tool, args string) canonical.Value {
	t.Helper()
	out := ask(t, s, request(t, sdl.CTToolCall, `{"tool":"`+tool+`","call_id":"c1","args":`+args+`,"expect":{}}`))
	p := payload(t, out, sdl.CTToolResult)
	if p.Get("logs").Len() != 1 || text(p.Get("logs").At(0)) == "" {
		t.Errorf("logs %s, want one line", p.Get("logs").AppendJSON(nil))
	}
	return p.Without("logs")
}

var bothTools = serve.ToolSet{"sys.ping": serve.Ping, "math.add": serve.Sum}

func open(tools serve.ToolCaller) serve.Options {
	return serve.Options{Tools: tools, Compat: serve.Compat{NoToolPolicyAllows: true}}
}

func TestBuiltInTools(t *testing.T) {
	s := newServer(t, open(bothTools))
	equal(t, "ping", call(t, s, "sys.ping", `{"x":[1,1.0]}`), `{"call_id":"c1","ok":true,
		"result":{"pong":true,"ts_utc":"2026-05-04T03:02:01Z","echo":{"x":[1,1.0]}},
		"metrics":{"latency_ms":0,"tool":"sys.ping","agent_id":"`+planner+`"}}`)
	for _, test := range []struct{ args, result string }{
		{`{"values":[1,2.5,3]}`, `{"sum":6.5}`},
		{`{"values":[2,3]}`, `{"sum":5.0}`},
		{`{"values":[-0.0]}`, `{"sum":0.0}`},
		{`{"values":[]}`, `{}`},
		{`{"values":[1,"1"]}`, `{}`},
		{`{"values":[true]}`, `{}`},
		{`{"values":[1e308,1e308]}`, `{}`},
		{`{"values":7}`, `{}`},
		{`{}`, `{}`},
	} {
		p := call(t, s, "math.add", test.args)
		equal(t, "math.add of "+test.args, p.Get("result"), test.result)
		if ok, _ := p.Get("ok").Bool(); ok != (test.result != `{}`) {
			t.Errorf("math.add of %s: ok %v", test.args, ok)
		}
	}
}

func TestBuiltInToolsAreThereOnlyWhereConfigured(t *testing.T) {
	for _, tool := range []string{"sys.ping", "math.add"} {
		p := call(t, newServer(t, open(nil)), tool, `{"values":[1]}`)
		equal(t, tool, p, `{"call_id":"c1","ok":false,"result":{},"metrics":{"latency_ms":0,"tool":"`+tool+`","agent_id":"`+planner+`"}}`)
	}
}

func TestToolMayReportItsOwnFailure(t *testing.T) {
	s := newServer(t, open(serve.ToolSet{"files/read": func(_ context.Context, c *serve.ToolCall) (serve.ToolResult, error) {
		return serve.ToolResult{Value: canonical.String("no such file: " + text(c.Args.Get("path"))), Failed: true}, nil
	}}))
	p := call(t, s, "files/read", `{"path":"a"}`)
	equal(t, "result", p.Get("result"), `"no such file: a"`)
	equal(t, "ok", p.Get("ok"), `false`)
}

func TestCallWithoutNameIsAToolResult(t *testing.T) {
	equal(t, "blank name", call(t, newServer(t, open(bothTools)), "  ", `{}`).Get("ok"), `false`)
}

func TestNegotiationSaysWhatTheServerCanDo(t *testing.T) {
	s := newServer(t, open(bothTools))
	out := ask(t, s, request(t, sdl.CTNegotiation, `{"need":{"ct":["task.v2"]},"have":{},"ask":[],"supported_ct":[]}`))
	p := payload(t, out, sdl.CTNegotiation)
	equal(t, "available_tools", p.Get("available_tools"), `["math.add","sys.ping"]`)
	equal(t, "cap.tools", out.Response.Get("cap").Get("tools"), `["math.add","sys.ping"]`)
	equal(t, "have", p.Get("have"), `{"a2a_sdl":{"v":1}}`)
	equal(t, "supported_ct", p.Get("supported_ct"), `["negotiation.v1","task.v1","toolcall.v1"]`)
	equal(t, "session_binding", p.Get("session_binding"), `{"alg":"ed25519","content_type":"session.v1","supported":false}`)
	equal(t, "protocol", p.Get("versioning").Get("protocol"), `{"current":1,"supported":[1],"requires_same_major":true}`)
}

// Lists have what the sender may use: content types with a handler here that it is let use, and
// tools of the policy whose scopes it was granted.
func TestNegotiationListsWhatTheSenderMayUse(t *testing.T) {
	const negotiation = `{"need":{},"have":{},"ask":[],"supported_ct":[]}`
	o := guarded(t)
	tools := serve.ToolSet{"sys.ping": serve.Ping, "math.add": serve.Sum, "files/read": serve.Ping, "files/write": serve.Ping, "files/erase": serve.Ping}
	o.Tools = hidden{tools}
	o.ToolPolicy = &trust.ToolPolicy{
		Tools:   []string{"sys.ping", "files/read", "files/write", "files/erase", "files/gone"},
		Scopes:  map[string]string{"files/write": "write", "files/erase": "erase"},
		Granted: map[string][]string{planner: {"write"}},
	}
	o.Offers = func(r *serve.Request, ct, tool string) bool {
		return r.Agent() == planner && ct != sdl.CTTask && tool != "sys.ping"
	}
	out := ask(t, newServer(t, o), sign(t, request(t, sdl.CTNegotiation, negotiation), ""))
	p := payload(t, out, sdl.CTNegotiation)
	equal(t, "available_tools", p.Get("available_tools"), `["files/read","files/write"]`)
	equal(t, "cap.tools", out.Response.Get("cap").Get("tools"), `["files/read","files/write"]`)
	equal(t, "supported_ct", p.Get("supported_ct"), `["negotiation.v1","session.v1","toolcall.v1","trustsync.v1"]`)

	o.Compat.AllContentTypes = true
	p = payload(t, ask(t, newServer(t, o), sign(t, request(t, sdl.CTNegotiation, negotiation), "")), sdl.CTNegotiation)
	equal(t, "supported_ct", p.Get("supported_ct"), `["artifact.v1","error.v1","negotiation.v1","session.v1","state.v1","task.v1","toolcall.v1","toolresult.v1","trustsync.v1"]`)

	p = payload(t, ask(t, newServer(t, serve.Options{Tools: bothTools}), request(t, sdl.CTNegotiation, negotiation)), sdl.CTNegotiation)
	equal(t, "available_tools without a policy", p.Get("available_tools"), `[]`)
}

// hidden are tools of which some are not listed.
type hidden struct{ serve.ToolSet }

func (hidden) Tools() []string { return []string{"sys.ping", "math.add"} }

func TestCustomHandlerIsUsed(t *testing.T) {
	s := newServer(t, serve.Options{Handlers: map[string]serve.Handler{
		sdl.CTArtifact: serve.Handler(func(_ context.Context, r *serve.Request) (serve.Result, error) {
			return serve.Result{CT: sdl.CTArtifact, Payload: r.Payload}, nil
		}),
		sdl.CTTask: serve.Handler(func(context.Context, *serve.Request) (serve.Result, error) {
			return serve.Result{}, sdl.Refuse(sdl.BadRequest, "not today")
		}),
	}})
	equal(t, "artifact", payload(t, ask(t, s, request(t, sdl.CTArtifact, `{"items":[{"n":1}],"refs":[]}`)), sdl.CTArtifact), `{"items":[{"n":1}],"refs":[]}`)
	out := ask(t, s, request(t, sdl.CTTask, taskPayload))
	refused(t, out, sdl.BadRequest, false)
	if out.Err != nil {
		t.Errorf("refused before the handler: %v", out.Err)
	}
}

func TestContentTypeWithoutHandlerNamesThoseWithOne(t *testing.T) {
	p := refused(t, ask(t, newServer(t, serve.Options{}), request(t, sdl.CTArtifact, `{"items":[],"refs":[]}`)), sdl.UnsupportedCT, true)
	list := `["negotiation.v1","session.v1","task.v1","toolcall.v1","trustsync.v1"]`
	equal(t, "details", p.Get("details"), `{"supported_ct":`+list+`,"implemented":`+list+`}`)
}

func TestHandlerForNoContentTypeIsRefused(t *testing.T) {
	_, err := serve.New(serve.Options{Handlers: map[string]serve.Handler{"task.v2": serve.Handler(nil)}})
	if err == nil || !strings.Contains(err.Error(), `"task.v2"`) {
		t.Errorf("New: %v, want an error that names task.v2", err)
	}
}

func TestToolOutsideThePolicyIsDeniedAndNotCalled(t *testing.T) {
	called := 0
	tool := func(context.Context, *serve.ToolCall) (serve.ToolResult, error) {
		called++
		return serve.ToolResult{Value: canonical.Object()}, nil
	}
	s := newServer(t, serve.Options{
		Tools:      serve.ToolSet{"may": tool, "must-not": tool},
		ToolPolicy: &trust.ToolPolicy{Tools: []string{"may"}, MaxArgsBytes: 7},
	})
	for _, test := range []struct{ tool, args, ok, line string }{
		{"may", `{"a":1}`, `true`, "executed"},
		{"may", `{"a":10}`, `false`, "larger than the tool policy allows"}, // 8 octets
		{"must-not", `{}`, `false`, "denied"},
		{"absent", `{}`, `false`, "not registered"},
	} {
		out := ask(t, s, request(t, sdl.CTToolCall, `{"tool":"`+test.tool+`","call_id":"c1","args":`+test.args+`,"expect":{}}`))
		p := payload(t, out, sdl.CTToolResult)
		equal(t, test.tool, p.Get("ok"), test.ok)
		if line := text(p.Get("logs").At(0)); !strings.Contains(line, test.line) {
			t.Errorf("%s %s: log %q, want %q", test.tool, test.args, line, test.line)
		}
	}
	if called != 1 {
		t.Errorf("tools were called %d times, want 1", called)
	}
}
