package mcphttp_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/profiles/mcpmap"
)

func TestHeadersMirrorTheBody(t *testing.T) {
	got := make(chan http.Header, 1)
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		h := make(http.Header)
		for name, values := range p.Header {
			if strings.HasPrefix(name, "Mcp-") || name == "Accept" || name == "Content-Type" {
				h[name] = values
			}
		}
		got <- h
		respond(w, p.msg.ID(), `{}`)
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	encoded := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	for _, tt := range []struct {
		method, params, name string
	}{
		{"tools/list", ``, ""},
		{"tools/call", `"name":"t"`, "t"},
		{"tools/call", `"name":"\u0074\/x"`, "t/x"},
		{"tools/call", `"name":"Zo\u00eb"`, "Zoë"},
		{"tools/call", `"name":" t"`, encoded(" t")},
		{"tools/call", `"name":"a\r\nb"`, encoded("a\r\nb")},
		{"tools/call", `"name":"=?base64?eA==?="`, encoded("=?base64?eA==?=")},
		{"prompts/get", `"Name":"no","name":"p"`, "p"},
		{"resources/read", `"name":"no","uri":"file:///x"`, "file:///x"},
		{"resources/list", `"uri":"file:///x"`, ""},
	} {
		c.in("", stateless(`1`, tt.method, tt.params))
		want := http.Header{
			"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {tt.method},
		}
		if tt.name != "" {
			want["Mcp-Name"] = []string{tt.name}
		}
		if diff := cmp.Diff(want, await(t, "request", got)); diff != "" {
			t.Errorf("%s with %s: %s", tt.method, tt.params, diff)
		}
	}
	c.call(&mcpmap.Call{Octets: []byte(stateless(`1`, "tools/list", "")), Params: []string{"mcp-param-region:eu west", "Mcp-Param-TenantId: =?base64?eA==?="}})
	h := await(t, "request", got)
	if h.Get("Mcp-Param-Region") != "eu west" || h.Get("Mcp-Param-Tenantid") != "=?base64?eA==?=" {
		t.Errorf("parameters %v", h)
	}
	long := stateless(`1`, "resources/read", `"uri":"`+strings.Repeat("x", 8<<10+1)+`"`)
	same(t, "code", problemOf(t, c.in("", long).Octets).Data.Code, "ERR_INVALID_MCP_PAYLOAD")
}

func TestInitializeOfTheStatelessEraIsForTheServerToRefuse(t *testing.T) {
	const refusal = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`
	s := behind(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		same(t, "version", req.Header.Get("Mcp-Protocol-Version"), "2026-07-28")
		same(t, "method", req.Header.Get("Mcp-Method"), "initialize")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, refusal)
	}), mcphttp.BackendOptions{})
	r := s.dial("alice").in("", stateless(`1`, "initialize", ""))
	same(t, "status", r.Status, http.StatusNotFound)
	same(t, "answer", string(r.Octets), refusal)
	same(t, "session", r.Session, "")
}

func TestErrorsOfTheServerPassVerbatim(t *testing.T) {
	for status, body := range map[int]string{
		http.StatusOK:         ` {"jsonrpc":"2.0","id":1,"error":{"code":-32602, "message":"bad"}}` + "\n",
		http.StatusNotFound:   `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}`,
		http.StatusBadRequest: `{"jsonrpc":"2.0","error":{"code":-32020,"message":"headers","data":[1.0]},"id":null}`,
		http.StatusTeapot:     `{"jsonrpc":"2.0","id":1.0,"result":{}}`,

		// These are about us, or about a place elsewhere: a client that was told them
		// would look for credentials, or leave.
		http.StatusUnauthorized:      `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"token"}}`,
		http.StatusForbidden:         `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"scope"}}`,
		http.StatusProxyAuthRequired: `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"proxy"}}`,
		http.StatusFound:             `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"there"}}`,
	} {
		s := behind(t, script(t, func(w http.ResponseWriter, _ *posted) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}), mcphttp.BackendOptions{})
		r := s.dial("alice").in("", stateless(`1`, "tools/list", ""))
		same(t, "answer", string(r.Octets), body)
		switch status {
		case http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusFound:
			status = 0
		}
		same(t, "status", r.Status, status)
	}
}

func TestErrorsThatAreNoJSONBecomeJSON(t *testing.T) {
	for status, want := range map[int]struct {
		told      int
		retryable bool
	}{
		http.StatusBadRequest:          {http.StatusBadRequest, false},
		http.StatusNotFound:            {http.StatusNotFound, false},
		http.StatusTooManyRequests:     {http.StatusTooManyRequests, true},
		http.StatusInternalServerError: {http.StatusInternalServerError, false},
		http.StatusServiceUnavailable:  {http.StatusServiceUnavailable, true},
		http.StatusUnauthorized:        {0, false}, // these are about us
		http.StatusForbidden:           {0, false},
		http.StatusNotModified:         {0, false},
	} {
		s := behind(t, script(t, func(w http.ResponseWriter, _ *posted) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			if status != http.StatusNotModified {
				_, _ = io.WriteString(w, "<h1>internal-host-7</h1>")
			}
		}), mcphttp.BackendOptions{})
		r := s.dial("alice").in("", stateless(`"é"`, "tools/list", ""))
		p := problemOf(t, r.Octets)
		if p.Code != -32603 || p.Data.Code != "ERR_INTERNAL_ERROR" || p.Data.Retryable != want.retryable || r.Status != want.told ||
			!strings.Contains(string(r.Octets), `"id":"é"`) || strings.Contains(string(r.Octets), "internal-host") {
			t.Errorf("%d: status %d, %s", status, r.Status, r.Octets)
		}
	}
}

func TestSubscriptionsStayOpen(t *testing.T) {
	more, closed := make(chan string), make(chan struct{})
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		defer close(closed)
		send := streaming(w)
		for {
			select {
			case what := <-more:
				send(": alive\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":%q,\"params\":{\"_meta\":{%q:%s}}}\n\n", what, mcpmap.MetaSubscriptionID, p.msg.ID())
			case <-p.Context().Done():
				return
			}
		}
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	notes := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	out := c.start(ctx, &mcpmap.Call{
		Octets: []byte(stateless(`"sub"`, "subscriptions/listen", "")),
		Events: mcpmap.Events{Notification: func(octets []byte) { notes <- string(octets) }},
	})
	for _, what := range []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed", "notifications/tools/list_changed"} {
		more <- what
		if got := await(t, "notification", notes); !strings.Contains(got, what) {
			t.Errorf("%s, want %s", got, what)
		}
	}
	cancel()
	await(t, "end at the server", closed)
	await(t, "answer", out)
}

// A server that sends JSON lines in place of a stream has answered with its first object.
func TestASubscriptionThatIsAnsweredWithoutAStreamEndsAtItsFirstObject(t *testing.T) {
	for name, tt := range map[string]struct{ first, want string }{
		"a notification": {`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`, "gave an answer that is no JSON-RPC response"},
		"prose":          {`hello`, "gave an answer that is no JSON-RPC response"},
		"an error":       {`{"jsonrpc":"2.0","id":"sub","error":{"code":-32601,"message":"no such method"}}`, `"message":"no such method"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{})
			s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
				defer close(closed)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tt.first+"\n")
				_ = http.NewResponseController(w).Flush()
				<-p.Context().Done()
			}), mcphttp.BackendOptions{})
			out := await(t, "answer", s.dial("alice").start(t.Context(), &mcpmap.Call{Octets: []byte(stateless(`"sub"`, "subscriptions/listen", ""))}))
			if out.err != nil || !strings.Contains(string(out.Octets), tt.want) {
				t.Errorf("answer: %+v", out)
			}
			await(t, "end at the server", closed)
		})
	}
}

// A call that is answered by lines of JSON ends at the first one that shows it, not at the timeout.
func TestACallThatIsAnsweredByLinesOfJSONEndsAtTheFirst(t *testing.T) {
	const note, answer = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"a \\ and } in \" it"}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
	long := strings.Repeat("a long text, ", 100<<10/13)
	for name, tt := range map[string]struct {
		lines string
		ends  bool // the server
		want  string
	}{
		"a notification":             {note + "\n", false, "gave an answer that is no JSON-RPC response"},
		"a long notification":        {strings.Replace(note, "it", long, 1) + "\n", false, "gave an answer that is no JSON-RPC response"},
		"prose":                      {"hello", false, "gave an answer that is no JSON-RPC response"},
		"a long answer, and more":    {strings.Replace(answer, "[]", `["`+long+`"]`, 1) + note, false, "gave an answer that is no JSON-RPC response"},
		"a long answer":              {strings.Replace(answer, "[]", `["`+long+`"]`, 1), true, `"content":["a long text`},
		"an answer, and more":        {answer + "\n" + note + "\n", false, "gave an answer that is no JSON-RPC response"},
		"an answer of several lines": {"\n " + strings.ReplaceAll(answer, ",", ",\n") + " \r\n", true, `"content":[]`},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{})
			s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
				defer close(closed)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tt.lines)
				_ = http.NewResponseController(w).Flush()
				if !tt.ends {
					<-p.Context().Done()
				}
			}), mcphttp.BackendOptions{})
			out := await(t, "answer", s.dial("alice").start(t.Context(), &mcpmap.Call{Octets: []byte(stateless("1", "tools/call", `"name":"x"`))}))
			if out.err != nil || !strings.Contains(string(out.Octets), tt.want) {
				t.Errorf("answer: %+v", out)
			}
			await(t, "end at the server", closed)
		})
	}
}

func TestTheEraIsLearnedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		discover, initialize func(w http.ResponseWriter, id []byte)
		code                 int // of the answer to a stateless request
		again                bool
	}{
		"modern": {func(w http.ResponseWriter, id []byte) { respond(w, id, discovered) }, nil, 0, false},
		"modern, by events": {func(w http.ResponseWriter, id []byte) {
			streaming(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, discovered)
		}, nil, 0, false},
		"legacy, does not know":      {func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusBadRequest) }, legacy, -32022, false},
		"legacy, says 404":           {func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNotFound) }, legacy, -32022, false},
		"legacy, says so":            {func(w http.ResponseWriter, id []byte) { respond(w, id, `{"supportedVersions":["2025-06-18"]}`) }, legacy, -32022, false},
		"legacy, answers with prose": {func(w http.ResponseWriter, _ []byte) { _, _ = io.WriteString(w, "hello") }, legacy, -32022, false},
		"none of these":              {func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusBadGateway) }, func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusBadGateway) }, -32603, true},
	} {
		t.Run(name, func(t *testing.T) {
			var discovers, initializes, deletes atomic.Int32
			s := behind(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				var m mcpmap.Message
				_ = m.Scan(body)
				switch {
				case req.Method == http.MethodDelete:
					same(t, "session", req.Header.Get("Mcp-Session-Id"), "probe")
					deletes.Add(1)
				case m.Is(mcpmap.MethodInitialize):
					initializes.Add(1)
					tt.initialize(w, m.ID())
				case string(m.ID()) == `"swp-probe-discover"`:
					same(t, "version", req.Header.Get("Mcp-Protocol-Version"), "2026-07-28")
					discovers.Add(1)
					tt.discover(w, m.ID())
				default:
					respond(w, m.ID(), `{}`)
				}
			}), mcphttp.BackendOptions{})
			c := s.dial("alice")
			for i := range 3 {
				r := c.in("", stateless(fmt.Sprint(i), "tools/list", ""))
				if tt.code == 0 {
					same(t, "answer", string(r.Octets), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i))
				} else {
					same(t, "code", problemOf(t, r.Octets).Code, tt.code)
				}
				if tt.code == -32022 && !strings.Contains(string(r.Octets), `"supported":["2025-06-18"],"requested":"2026-07-28"`) {
					t.Errorf("%s", r.Octets)
				}
			}
			times := int32(1)
			if tt.again {
				times = 3
			}
			same(t, "times asked", discovers.Load(), times)
			if tt.code == -32022 {
				same(t, "times initialized", initializes.Load(), 1)
				same(t, "sessions of probes deleted", deletes.Load(), 1)
			}
		})
	}
}

func legacy(w http.ResponseWriter, id []byte) {
	w.Header().Set("Mcp-Session-Id", "probe")
	respond(w, id, `{"protocolVersion":"2025-06-18","capabilities":{}}`)
}
