package mcphttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/internal/bridge/upstream/upstreamtest"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/mcpmap"
)

func TestGW01WhatPeersSendIsNeverAURLOrAHeaderOfTheirChoice(t *testing.T) {
	for name, param := range map[string]string{
		"another header":   "Authorization:Bearer x",
		"no header at all": "mcp-param-x",
		"no name":          "mcp-param-:x",
		"line end in name": "mcp-param-a\r\nAuthorization:x",
		"line end":         "mcp-param-a:x\r\nAuthorization: y",
		"a space in name":  "mcp-param-a b:x",
	} {
		var reached atomic.Int32
		s := behind(t, script(t, func(http.ResponseWriter, *posted) { reached.Add(1) }), mcphttp.BackendOptions{})
		r := s.dial("alice").call(&mcpmap.Call{Octets: []byte(stateless(`1`, "tools/list", "")), Params: []string{param}})
		if p := problemOf(t, r.Octets); p.Data.Code != "ERR_INVALID_ENVELOPE" || reached.Load() != 0 {
			t.Errorf("%s: %+v, %d requests at the server", name, p, reached.Load())
		}
	}
	for _, opts := range []mcphttp.BackendOptions{
		{Name: "a", URL: "ftp://127.0.0.1/"}, {Name: "a", URL: "http://u:p@127.0.0.1/"}, {Name: "a", URL: "/mcp"}, {Name: "a"},
		{Name: "a/b", URL: "http://127.0.0.1/"}, {URL: "http://127.0.0.1/"},
	} {
		if _, err := mcphttp.NewBackend(opts); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

func TestPR22ParametersThatContradictTheBodyReachNoServer(t *testing.T) {
	var reached atomic.Int32
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		if p.msg.Is("tools/list") {
			respond(w, p.msg.ID(), `{"tools":[{"name":"t","inputSchema":{"properties":{"region":{"x-mcp-header":"Region"},"o":{"properties":{"n":{"x-mcp-header":"N"}}}}}}]}`)
			return
		}
		reached.Add(1)
		respond(w, p.msg.ID(), `{}`)
	}), mcphttp.BackendOptions{})
	call := func(who, tool, arguments string, params ...string) bool {
		before := reached.Load()
		r := s.dial(who).call(&mcpmap.Call{Octets: []byte(stateless(`1`, "tools/call", `"name":"`+tool+`","arguments":`+arguments)), Params: params})
		if reached.Load() > before {
			return true
		}
		if p := problemOf(t, r.Octets); p.Data.Code != "ERR_INVALID_ENVELOPE" {
			t.Errorf("%s with %q: %+v", arguments, params, p)
		}
		return false
	}
	s.dial("alice").in("", stateless(`1`, "tools/list", ""))
	for _, row := range []struct {
		who, tool, arguments string
		params               []string
		passes               bool
	}{
		{"alice", "t", `{"region":"eu","o":{"n":7}}`, []string{"mcp-param-region:eu", "mcp-param-n:7"}, true},
		{"alice", "t", `{"region":"eu"}`, nil, true}, // the server decides whether it needs the header
		{"alice", "t", `{"region":"eu"}`, []string{"mcp-param-region:us"}, false},
		{"alice", "t", `{"region":"eu","x":"us"}`, []string{"mcp-param-region:us"}, false},
		{"alice", "t", `{"region":"eu"}`, []string{"mcp-param-region:eu", "mcp-param-region:us"}, false},
		{"alice", "t", `{"o":{"n":8}}`, []string{"mcp-param-n:7"}, false},
		{"alice", "t", `{}`, []string{"mcp-param-region:us"}, false},
		{"bob", "t", `{"region":"eu"}`, []string{"mcp-param-region:eu"}, true}, // who has listed no tools
		{"bob", "t", `{"region":"eu"}`, []string{"mcp-param-region:us"}, false},
		{"bob", "t", `{"a":[{"b":true}]}`, []string{"mcp-param-b:true"}, true},
		{"bob", "t", `{"a":[{"b":true}]}`, []string{"mcp-param-b:=?base64?!?="}, false},
		{"alice", "other", `{}`, []string{"mcp-param-region:us"}, false},
	} {
		if got := call(row.who, row.tool, row.arguments, row.params...); got != row.passes {
			t.Errorf("%s: %s with %q: reached the server: %v, want %v", row.who, row.arguments, row.params, got, row.passes)
		}
	}
	if told := s.told(); len(told) > 0 {
		t.Errorf("the server is said to have failed: %v", told)
	}
}

func TestGW02AServerThatIsNotThereFailsOneCallAtATime(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	s := behind(t, nil, mcphttp.BackendOptions{URL: url})
	c := s.dial("alice")
	for range 2 {
		p := problemOf(t, c.in("", stateless(`1`, "tools/list", "")).Octets)
		if p.Code != -32603 || !p.Data.Retryable || strings.Contains(p.Message, "127.0.0.1") {
			t.Errorf("%+v", p)
		}
		p = problemOf(t, c.in("", initializeRequest).Octets)
		if p.Code != -32603 || !p.Data.Retryable {
			t.Errorf("%+v", p)
		}
	}
	if n := len(s.told()); n != 4 {
		t.Errorf("%d troubles told, want 4", n)
	}
}

func TestGW04TwoPeersUseTheSameIDAtTheSameTime(t *testing.T) {
	for _, era := range []string{"stateless", "session"} {
		t.Run(era, func(t *testing.T) {
			var mu sync.Mutex
			waiting := map[string]chan struct{}{"alice": make(chan struct{}), "bob": make(chan struct{})}
			arrived := make(chan string, 2)
			s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
				if p.Method != http.MethodPost {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				who := "alice"
				if bytes.Contains(p.body, []byte("bob")) {
					who = "bob"
				}
				send := streaming(w)
				arrived <- who
				mu.Lock()
				go_ := waiting[who]
				mu.Unlock()
				<-go_
				// An answer to nothing, the answer, the answer again, and another one.
				send("data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":\"stray\"}\n\n")
				for range 2 {
					send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%q}\n\n", p.msg.ID(), who)
				}
			}), mcphttp.BackendOptions{})
			results := make(map[string]<-chan answered)
			for who, id := range map[string]string{"alice": `7`, "bob": `7.0`} {
				c := s.dial(who)
				session := ""
				if era == "session" {
					session = c.open(mcpmap.Events{})
				}
				results[who] = c.start(t.Context(), &mcpmap.Call{Session: session, Octets: []byte(stateless(id, "tools/call", `"name":"`+who+`"`))})
				await(t, "request", arrived)
			}
			for _, who := range []string{"bob", "alice"} { // not in the order of the requests
				close(waiting[who])
				id := map[string]string{"alice": `7`, "bob": `7.0`}[who]
				out := await(t, "answer", results[who])
				if out.err != nil {
					t.Fatal(out.err)
				}
				same(t, who, string(out.Octets), fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%q}`, id, who))
			}
			same(t, "dropped", s.server.Stats().Dropped, 2)
		})
	}
}

func TestGW05WhatTheServerSaysReachesOnlyWhoItIsFor(t *testing.T) {
	t.Run("stateless", func(t *testing.T) {
		s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
			send := streaming(w)
			send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"bob\",\"progress\":1}}\n\n")
			send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"mine\",\"progress\":1}}\n\n")
			send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{\"_meta\":{%q:\"bob\"}}}\n\n", mcpmap.MetaSubscriptionID)
			send("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n")
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", p.msg.ID())
		}), mcphttp.BackendOptions{})
		var notes []string
		r := s.dial("alice").call(&mcpmap.Call{
			Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":"mine",` + strings.TrimPrefix(modernMeta, `"_meta":{`) + `}}`),
			Events: mcpmap.Events{
				Notification: func(octets []byte) { notes = append(notes, string(octets)) },
				Request:      func(a *mcpmap.Asked) { t.Errorf("asked %s", a.Message.Octets()) },
			},
		})
		if len(notes) != 1 || !strings.Contains(notes[0], `"mine"`) || !strings.Contains(string(r.Octets), `"result"`) {
			t.Errorf("heard %q, then %s", notes, r.Octets)
		}
		same(t, "dropped", s.server.Stats().Dropped, 3)
	})
	t.Run("sessions", func(t *testing.T) {
		var sessions atomic.Int32
		gets, answers := make(chan string, 2), make(chan string, 2)
		s := behind(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			var m mcpmap.Message
			_ = m.Scan(body)
			id := req.Header.Get("Mcp-Session-Id")
			switch {
			case m.Is(mcpmap.MethodInitialize):
				w.Header().Set("Mcp-Session-Id", fmt.Sprintf("upstream-%d", sessions.Add(1)))
				respond(w, m.ID(), initializeResult)
			case req.Method == http.MethodGet:
				send := streaming(w)
				gets <- id
				if id == "upstream-1" {
					send("data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n\n")
				}
				<-req.Context().Done()
			case req.Method == http.MethodPost && m.Kind() == mcpmap.Response:
				answers <- id + " " + string(body)
				w.WriteHeader(http.StatusAccepted)
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		}), mcphttp.BackendOptions{})
		var mine string
		for _, who := range []string{"alice", "bob"} {
			c := s.dial(who)
			session := c.open(mcpmap.Events{Request: func(a *mcpmap.Asked) {
				if who != "alice" {
					t.Errorf("%s was asked %s", who, a.Message.Octets())
				}
				if err := a.Answer([]byte(`{"jsonrpc":"2.0", "id":"q", "result":{"roots":[]}}`)); err != nil {
					t.Error(err)
				}
			}})
			if strings.Contains(session, "upstream") {
				t.Errorf("%s sees the session of the server: %q", who, session)
			}
			await(t, "GET stream", gets)
			if who == "alice" {
				mine = session
				same(t, "answer", await(t, "answer", answers), `upstream-1 {"jsonrpc":"2.0", "id":"q", "result":{"roots":[]}}`)
				continue
			}
			// The session of one is nothing that another can use, nor is the server's.
			for _, id := range []string{mine, "upstream-1", "upstream-2"} {
				r := c.in(id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
				same(t, "status for "+id, r.Status, http.StatusNotFound)
				problemOf(t, r.Octets)
			}
		}
	})
}

func TestGW08RedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer other.Close()
	for _, to := range []string{other.URL, "/elsewhere", "http://169.254.169.254/", "http://2130706433/", "http://0177.0.0.1/", "http://[::ffff:127.0.0.1]/"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			s := behind(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path != "/mcp" {
					reached.Add(1)
				}
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			}), mcphttp.BackendOptions{})
			c := s.dial("alice")
			for _, request := range []string{stateless(`1`, "tools/list", ""), initializeRequest} {
				r := c.in("", request)
				if p := problemOf(t, r.Octets); p.Code != -32603 || r.Status != 0 || strings.Contains(p.Message, to) {
					t.Errorf("%d to %s: status %d, %+v", status, to, r.Status, p)
				}
			}
		}
	}
	same(t, "requests elsewhere", reached.Load(), 0)
}

// fails has a server answer a call badly, and returns the error that the caller gets.
func fails(t *testing.T, opts mcphttp.BackendOptions, f func(w http.ResponseWriter, p *posted)) problem {
	t.Helper()
	s := behind(t, script(t, f), opts)
	began := time.Now()
	p := problemOf(t, s.dial("alice").in("", stateless(`1`, "tools/list", "")).Octets)
	if d := time.Since(began); d >= time.Minute { // which is the timeout by default
		t.Errorf("it took %v", d)
	}
	return p
}

func TestGW09BadServersCostTheCallAndNothingElse(t *testing.T) {
	effort.Unwatched(t)
	const limit = 64 << 10
	endless := func(w http.ResponseWriter, p *posted, piece string) {
		for p.Context().Err() == nil {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}
	for name, tt := range map[string]struct {
		serve func(w http.ResponseWriter, p *posted)
		code  string
		late  bool
	}{
		"no answer":        {func(_ http.ResponseWriter, p *posted) { <-p.Context().Done() }, "ERR_INTERNAL_ERROR", true},
		"a silent stream":  {func(w http.ResponseWriter, p *posted) { streaming(w); <-p.Context().Done() }, "ERR_INTERNAL_ERROR", true},
		"an endless body":  {func(w http.ResponseWriter, p *posted) { endless(w, p, "        ") }, "ERR_INVALID_MCP_PAYLOAD", false},
		"an endless event": {func(w http.ResponseWriter, p *posted) { streaming(w); endless(w, p, "data: xxxxxxxx\n") }, "ERR_INVALID_MCP_PAYLOAD", false},
		"comments without end": {func(w http.ResponseWriter, p *posted) {
			send := streaming(w)
			for p.Context().Err() == nil {
				send(": ping\n")
				select {
				case <-p.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		}, "ERR_INTERNAL_ERROR", true},
		"a body of 1 GiB": {func(w http.ResponseWriter, _ *posted) { w.Header().Set("Content-Length", "1073741824") }, "ERR_INVALID_MCP_PAYLOAD", false},
		"a gzip bomb": {func(w http.ResponseWriter, _ *posted) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_ = upstreamtest.Bomb(w, 16<<20)
		}, "ERR_INVALID_MCP_PAYLOAD", false},
		"a sudden close":     {func(http.ResponseWriter, *posted) { panic(http.ErrAbortHandler) }, "ERR_INTERNAL_ERROR", false},
		"a stream that ends": {func(w http.ResponseWriter, _ *posted) { streaming(w)("id: 1\ndata:\n\n") }, "ERR_INTERNAL_ERROR", false},
		"an empty body":      {func(w http.ResponseWriter, _ *posted) { w.WriteHeader(http.StatusAccepted) }, "ERR_INVALID_MCP_PAYLOAD", false},
		"no JSON":            {func(w http.ResponseWriter, _ *posted) { _, _ = io.WriteString(w, "<html>") }, "ERR_INVALID_MCP_PAYLOAD", false},
		"no UTF-8":           {func(w http.ResponseWriter, p *posted) { respond(w, p.msg.ID(), "\"\xff\"") }, "ERR_INVALID_MCP_PAYLOAD", false},
		"a batch": {func(w http.ResponseWriter, p *posted) {
			_, _ = fmt.Fprintf(w, `[{"jsonrpc":"2.0","id":%s,"result":{}}]`, p.msg.ID())
		}, "ERR_INVALID_MCP_PAYLOAD", false},
		"another id":       {func(w http.ResponseWriter, _ *posted) { respond(w, []byte(`2`), `{}`) }, "ERR_INVALID_MCP_PAYLOAD", false},
		"result and error": {func(w http.ResponseWriter, p *posted) { respond(w, p.msg.ID(), `{},"error":{}`) }, "ERR_INVALID_MCP_PAYLOAD", false},
		"the same as event": {func(w http.ResponseWriter, _ *posted) {
			streaming(w)("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{}}\n\n")
		}, "ERR_INVALID_MCP_PAYLOAD", false},
	} {
		t.Run(name, func(t *testing.T) {
			opts := mcphttp.BackendOptions{MaxMessage: limit}
			if tt.late {
				opts.Timeouts.Each = time.Second
			}
			if p := fails(t, opts, tt.serve); p.Code != -32603 || p.Data.Code != tt.code || p.Data.Retryable {
				t.Errorf("%+v, want %s", p, tt.code)
			}
		})
	}
}

func TestGW09HeadersOfOneOctetASecondEndTheCall(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer func() { _ = conn.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				for _, c := range []byte("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1000)) {
					if _, err := conn.Write([]byte{c}); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond) // the pace is what is tested
				}
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); conns.Wait() })
	s := behind(t, nil, mcphttp.BackendOptions{URL: "http://" + ln.Addr().String(), Timeouts: mcpmap.Timeouts{Each: 200 * time.Millisecond}})
	c := s.dial("alice")
	for _, request := range []string{stateless(`1`, "tools/list", ""), initializeRequest} {
		if p := problemOf(t, c.in("", request).Octets); p.Code != -32603 || !strings.Contains(p.Message, "too long") {
			t.Errorf("%+v", p)
		}
	}
}

func TestGW09CallsAtOnceAreBounded(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 2)
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		arrived <- struct{}{}
		<-release
		respond(w, p.msg.ID(), `{}`)
	}), mcphttp.BackendOptions{MaxCalls: 2})
	c := s.dial("alice")
	first := c.start(t.Context(), &mcpmap.Call{Octets: []byte(stateless(`1`, "tools/list", ""))})
	second := c.start(t.Context(), &mcpmap.Call{Octets: []byte(stateless(`2`, "tools/list", ""))})
	await(t, "request", arrived)
	await(t, "request", arrived)
	if p := problemOf(t, c.in("", stateless(`3`, "tools/list", "")).Octets); !p.Data.Retryable || p.Data.Code != "ERR_RATE_LIMIT_EXCEEDED" {
		t.Errorf("above the limit: %+v", p)
	}
	close(release)
	for _, c := range []<-chan answered{first, second} {
		if out := await(t, "answer", c); out.err != nil {
			t.Error(out.err)
		}
	}
}

func TestGW09CredentialsStayWhereTheyBelong(t *testing.T) {
	const secret = "s3cr3t-c4n4ry"
	var seen atomic.Pointer[http.Header]
	var broken atomic.Bool
	s := behind(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := req.Header.Clone()
		seen.Store(&h)
		w.Header().Set("Www-Authenticate", "Bearer "+secret)
		http.Error(w, "no: "+req.Header.Get("Authorization"), http.StatusUnauthorized)
	}), mcphttp.BackendOptions{Headers: func() (http.Header, error) {
		if broken.Load() {
			return http.Header{"Authorization": {secret + "\r\nX: y"}}, nil
		}
		return http.Header{"authorization": {"Bearer " + secret}, "X-Tenant": {"t"}}, nil
	}})
	c := s.dial("alice")
	requests := []string{stateless(`1`, "tools/list", ""), initializeRequest}
	for _, request := range requests {
		r := c.in("", request)
		if h := *seen.Load(); h.Get("Authorization") != "Bearer "+secret || h.Get("X-Tenant") != "t" {
			t.Errorf("the server got %v", h)
		}
		if p := problemOf(t, r.Octets); bytes.Contains(r.Octets, []byte(secret)) || r.Status != 0 || p.Code != -32603 {
			t.Errorf("the peer got status %d, %s", r.Status, r.Octets)
		}
	}
	broken.Store(true)
	seen.Store(nil)
	for _, request := range requests {
		r := c.in("", request)
		if p := problemOf(t, r.Octets); p.Code != -32603 || seen.Load() != nil || bytes.Contains(r.Octets, []byte(secret)) {
			t.Errorf("with headers of no use: %s", r.Octets)
		}
	}
	if told := errors.Join(s.told()...); strings.Contains(told.Error(), secret) || len(s.told()) != 4 {
		t.Errorf("told: %v", told)
	}
	for _, h := range []http.Header{{"Host": {"x"}}, {"Mcp-Session-Id": {"x"}}, {"Content-Length": {"1"}}, {"Accept": {"x"}}, {"a b": {"x"}}, {"X": {"\n"}}} {
		if mcphttp.CheckHeaders(h) == nil {
			t.Errorf("%v was accepted", h)
		}
	}
}

func TestGW09CancelClosesTheRequestAtTheServer(t *testing.T) {
	for name, serve := range map[string]func(w http.ResponseWriter){
		"before the head": func(http.ResponseWriter) {}, "in a stream": func(w http.ResponseWriter) { streaming(w) },
	} {
		t.Run(name, func(t *testing.T) {
			arrived, closed := make(chan struct{}, 1), make(chan struct{}, 1)
			s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
				if p.msg.Kind() != mcpmap.Request {
					t.Errorf("the server was told %s", p.body) // closing is what tells it
				}
				serve(w)
				arrived <- struct{}{}
				<-p.Context().Done()
				closed <- struct{}{}
			}), mcphttp.BackendOptions{})
			c := s.dial("alice")
			call := func() (context.CancelFunc, <-chan answered) {
				ctx, cancel := context.WithCancel(t.Context())
				out := c.start(ctx, &mcpmap.Call{Octets: []byte(stateless(`"x"`, "tools/list", ""))})
				await(t, "request", arrived)
				return cancel, out
			}
			cancel, out := call()
			cancel() // by its own context
			await(t, "end at the server", closed)
			<-out
			cancel, out = call()
			c.notify("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
			await(t, "end at the server", closed)
			<-out
			cancel()
			cancel, out = call()
			c.hangUp()
			await(t, "end at the server", closed)
			<-out
			cancel()
		})
	}
}
