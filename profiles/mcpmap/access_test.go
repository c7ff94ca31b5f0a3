package mcpmap_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// rules allow what is listed, written "identity operation name", and note what
// they were asked.
type rules struct {
	allow []string

	mu    sync.Mutex
	asked []string
}

func (r *rules) Allowed(identity, profile, operation, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := identity + " " + operation + " " + name
	r.asked = append(r.asked, asked)
	return profile == "mcp" && slices.Contains(r.allow, asked)
}

func (r *rules) Reaches(identity, _, name string) bool {
	return slices.ContainsFunc(r.allow, func(s string) bool {
		f := strings.Fields(s)
		return f[0] == identity && (f[2] == name || strings.HasPrefix(f[2], name+"/"))
	})
}

// questions returns what was asked since it was called last.
func (r *rules) questions() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(r.asked, ", ")
	r.asked = nil
	return text
}

// guarded runs a test against the servers "one" and "two" behind access rules.
func guarded(t *testing.T, f func(t *testing.T, l *link, r *rules), allow ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv, other := newServer(), newServer()
		table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv, "two": other}, "one")
		if err != nil {
			t.Fatal(err)
		}
		r := &rules{allow: allow}
		served := mcpmap.New(mcpmap.Options{Backend: table, Access: r})
		l := dial(t, served, "alice")
		l.server = srv
		f(t, l, r)
		synctest.Wait()
		want(t, "exchanges left over", len(srv.modern)+len(srv.opened)+len(other.modern)+len(other.opened), 0)
		l.near.Close()
		served.Close()
	})
}

// refused calls and wants the answer to a denied request.
func (l *link) refused(call *mcpmap.Call) {
	l.t.Helper()
	out := <-l.do(call)
	if out.err != nil {
		l.t.Fatal(out.err)
	}
	const head, data = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,`, `"data":{"code":"ERR_SECURITY_POLICY","retryable":false}`
	if got := string(out.Octets); !strings.HasPrefix(got, head) || !strings.Contains(got, data) {
		l.t.Errorf("answered %s, want %s…%s", got, head, data)
	}
}

// raw sends a request that a Client would not, and returns the answer.
func (l *link) raw(target string, octets []byte) string {
	l.t.Helper()
	call, err := l.near.Call(l.t.Context(), e1.Envelope{
		ProfileID: 1, MsgType: 1, Payload: octets, Extensions: e1.AppendExtension(nil, mcpmap.ExtTarget, []byte(target)),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	defer call.Close()
	answer, err := call.Recv(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return string(answer.Payload)
}

func call(target, params string) *mcpmap.Call {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	return &mcpmap.Call{Target: target, Octets: []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + params + meta + `}}`)}
}

func TestDeniedRequestNeverReachesTheServer(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, r *rules) {
		for _, tt := range []struct {
			call  *mcpmap.Call
			asked string
		}{
			{&mcpmap.Call{Target: "one", Octets: modern("7", "resources/list")}, "alice resources/list one"},
			{&mcpmap.Call{Target: "two", Octets: modern("7", "tools/list")}, "alice tools/list two"},
			{&mcpmap.Call{Target: "none", Octets: modern("7", "tools/list")}, "alice tools/list none"},
			{&mcpmap.Call{Octets: legacy("7", "initialize")}, "alice initialize one"},
			{&mcpmap.Call{Octets: legacy("7", "tools/list ")}, "alice tools/list  one"},
			{call("one", `"name":"write",`), "alice tools/call one/write"},
			{call("one", `"name":"re*d",`), "alice tools/call one/re*d"},
			{call("one", `"name":"read\u0000",`), "alice tools/call one/read\x00"},
			{call("one", `"name":"../two/read",`), "alice tools/call one/../two/read"},
			{call("one", ``), "alice tools/call one/"},
		} {
			l.refused(tt.call)
			want(t, "question", r.questions(), tt.asked)
		}
		for _, v := range l.far.Verdicts() {
			want(t, "verdict", v.Code, profiles.SecurityPolicy)
			want(t, "detail", v.Err.Detail, "access")
			want(t, "an answer of the domain", v.Err.Domain, false)
		}
	}, "alice tools/list one", "alice tools/call one/read")
}

func TestAllowedRequestIsServed(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, r *rules) {
		for _, c := range []*mcpmap.Call{
			{Octets: modern("7", "tools/list")},
			{Target: "one", Octets: modern("7", `tools/list`)},
			call("one", `"name":"read",`),
			call("", `"x":1,"\u006eame":"\u0072ead",`),
		} {
			done := l.do(c)
			(<-l.server.modern).Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`))
			if out := <-done; out.err != nil {
				t.Error(out.err)
			}
		}
		want(t, "questions", r.questions(), "alice tools/list one, alice tools/list one, alice tools/call one/read, alice tools/call one/read")
	}, "alice tools/list one", "alice tools/call one/read")
}

// Two parsers would call two tools: the rules decide about neither.
func TestAmbiguousNameOfAToolIsMalformed(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, r *rules) {
		for _, params := range []string{
			`"name":"write","name":"read",`, `"name":"read","\u006eame":"write",`, `"name":"read","Name":"write",`,
			`"NAME":"read",`, `"name":["read"],`, `"name":null,`, `"name":"re\ud800",`,
		} {
			if answer := l.raw("one", call("one", params).Octets); !strings.Contains(answer, "ERR_INVALID_MCP_PAYLOAD") {
				t.Errorf("%s: answered %s", params, answer)
			}
		}
		want(t, "questions", r.questions(), "")
	}, "alice tools/call one/read")
}

func TestSessionIsAskedForEachMessage(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, r *rules) {
		id, conv := l.initialize(mcpmap.Events{})
		want(t, "question", r.questions(), "alice initialize one")
		l.refused(&mcpmap.Call{Target: "one", Session: id, Octets: legacy("7", "resources/list")})
		l.refused(&mcpmap.Call{Session: id, Octets: legacy("7", "resources/list")})
		l.refused(&mcpmap.Call{Target: "one", Octets: legacy("7", "resources/list")})
		want(t, "questions", r.questions(), "alice resources/list one, alice resources/list one, alice resources/list one")

		l.notify(id, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		l.notify(id, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"write"}}`)
		l.notify(id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		want(t, "notification", <-conv.notes, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		synctest.Wait()
		want(t, "questions", r.questions(),
			"alice notifications/roots/list_changed one, alice tools/call one/write, alice notifications/initialized one")
		want(t, "messages at the server", len(conv.notes)+len(conv.requests), 0)

		// Who may ask may take it back.
		done := l.do(&mcpmap.Call{Target: "one", Session: id, Octets: legacy("8", "tools/list")})
		x := <-conv.requests
		gone := make(chan struct{})
		x.OnCancel(func([]byte) { close(gone) })
		l.notify(id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`)
		<-gone
		<-done
		want(t, "questions", r.questions(), "alice tools/list one")
	}, "alice initialize one", "alice notifications/initialized one", "alice tools/list one")
}

func TestOnlyReachableServersAreNamed(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, _ *rules) {
		if got := l.served.Targets(&profiles.Peer{Identity: "alice"}); !slices.Equal(got, []string{"two"}) {
			t.Errorf("alice is told of %q, want two", got)
		}
		if got := l.served.Targets(&profiles.Peer{Identity: "mallory"}); got == nil || len(got) != 0 {
			t.Errorf("mallory is told of %#v, want an empty list", got)
		}
		if text := l.raw("gamma", modern("7", "tools/list")); !strings.Contains(text, "unknown target; choose one of: two") || strings.Contains(text, "one, ") {
			t.Errorf("answered %s", text)
		}
	}, "alice tools/call two/read", "alice tools/list gamma")
}
