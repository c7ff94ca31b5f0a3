package mcpfront_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/internal/memory"
)

func TestGW06WhatIsNoMessageGoesNoFurther(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("", "alice")
	next(t, "initialize", s.server.calls)
	rest := `,"method":"hex","params":{` + meta + `}}`
	for _, row := range []struct{ what, body, code string }{
		{"a batch", `[{"jsonrpc":"2.0","id":1` + rest + `]`, "-32600"},
		{"an empty batch", ` []`, "-32600"},
		{"nothing", ``, "-32700"},
		{"a string", `"x"`, "-32600"},
		{"half an object", `{"jsonrpc":"2.0","id":1`, "-32700"},
		{"a byte order mark", "\ufeff" + `{"jsonrpc":"2.0","id":1` + rest, "-32700"},
		{"text after it", `{"jsonrpc":"2.0","id":1` + rest + `x`, "-32700"},
		{"two of them", `{"jsonrpc":"2.0","id":1` + rest + `{"jsonrpc":"2.0","id":2` + rest, "-32700"},
		{"invalid UTF-8", `{"jsonrpc":"2.0","id":"` + "\xff" + `"` + rest, "-32700"},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"hex","params":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "-32700"},
		{"jsonrpc twice", `{"jsonrpc":"2.0","jsonrpc":"2.0","id":1` + rest, "-32600"},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":1` + rest, "-32600"},
		{"method twice, escaped", `{"jsonrpc":"2.0","id":1,"meth\u006fd":"hex"` + rest, "-32600"},
		{"Method", `{"jsonrpc":"2.0","id":1,"Method":"hex"` + rest, "-32600"},
		{"METHOD alone", `{"jsonrpc":"2.0","id":1,"METHOD":"hex"}`, "-32600"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, "-32600"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, "-32600"},
		{"another version", `{"jsonrpc":"1.0","id":1` + rest, "-32600"},
		{"id null", `{"jsonrpc":"2.0","id":null` + rest, "-32600"},
		{"id an object", `{"jsonrpc":"2.0","id":{}` + rest, "-32600"},
	} {
		for _, r := range []*reply{
			l.do("POST", row.body),
			s.send("POST", "", row.body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: hex"),
		} {
			body := r.all()
			if r.status != 400 || !strings.Contains(body, `"error":{"code":`+row.code+`,`) || !strings.Contains(body, `"data":{"code":"ERR_INVALID_MCP_PAYLOAD","retryable":false}`) {
				t.Errorf("%s: %d %s", row.what, r.status, body)
			}
			if !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":1,`) && !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":null,`) {
				t.Errorf("%s: the answer has an id that no answer can have: %s", row.what, body)
			}
		}
	}
	want(t, "requests that were passed on", len(s.server.calls), 0)
	want(t, "notifications that were passed on", len(s.server.notified), 0)
}

func TestRequestsThatHTTPDoesNotAllow(t *testing.T) {
	s := open(t, mcpfront.Options{MaxBody: 100})
	l := s.initialize("", "alice")
	next(t, "initialize", s.server.calls)
	body := func(n int) string { return `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", n-36) + `"}` }
	want(t, "length", len(body(100)), 100)
	for _, row := range []struct {
		what, method, path, body string
		headers                  []string
		status                   int
	}{
		{"the limit", "POST", "", body(100), nil, 200},
		{"above it", "POST", "", body(101), nil, 413},
		{"other type", "POST", "", body(50), []string{"Content-Type: text/plain"}, 415},
		{"no type", "POST", "", body(50), []string{"Content-Type:"}, 415},
		{"compressed", "POST", "", body(50), []string{"Content-Encoding: gzip"}, 415},
		{"parameters of the type", "POST", "", body(50), []string{"Content-Type: application/json; charset=utf-8"}, 200},
		{"JSON alone", "POST", "", body(50), []string{"Accept: application/json"}, 406},
		{"events alone", "POST", "", body(50), []string{"Accept: text/event-stream"}, 406},
		{"anything", "POST", "", body(50), []string{"Accept: */*"}, 200},
		{"GET of a document", "GET", "", "", []string{"Accept: application/json"}, 406},
		{"PUT", "PUT", "", body(50), nil, 405},
		{"GET without session", "GET", "", "", []string{"Mcp-Session-Id:"}, 405},
		{"GET of the modern era", "GET", "", "", []string{"MCP-Protocol-Version: 2026-07-28"}, 405},
		{"DELETE without session", "DELETE", "", "", []string{"Mcp-Session-Id:"}, 405},
		{"POST without session", "POST", "", body(50), []string{"Mcp-Session-Id:"}, 400},
		{"unknown version", "POST", "", body(50), []string{"MCP-Protocol-Version: 1999-01-01"}, 400},
		{"older version", "POST", "", body(50), []string{"MCP-Protocol-Version: 2025-06-18"}, 200},
		{"no name", "POST", "/", body(50), nil, 404},
		{"half a name", "POST", "/a/", body(50), nil, 404},
		{"a long name", "POST", "/" + strings.Repeat("a", 257), body(50), nil, 404},
		{"another path", "POST", "x", body(50), nil, 404},
	} {
		r := l.do(row.method, row.body, row.headers...)
		if row.path != "" {
			r = s.send(row.method, row.path, row.body, row.headers...)
		}
		want(t, row.what, r.status, row.status)
		if text := r.all(); row.status != 200 && !strings.HasPrefix(text, `{"jsonrpc":"2.0","id":`) {
			t.Errorf("%s: %s", row.what, text)
		}
	}
	r := l.do("POST", "")
	r.close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, io.MultiReader(strings.NewReader(body(100)), strings.NewReader(" "))) // its length is not said
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"*/*"}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {l.id}, "Caller": {"alice"}}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	want(t, "above the limit, in chunks", resp.StatusCode, 413)
}

func TestSessionsAndExchangesAreBounded(t *testing.T) {
	s := open(t, mcpfront.Options{MaxSessions: 3, MaxSessionsPerCaller: 2, MaxStreams: 2})
	initialize := `{"jsonrpc":"2.0","id":"i","method":"initialize"}`
	first, second := s.initialize("", "alice"), s.initialize("", "alice")
	for _, used := range []*legacy{first, second} {
		defer used.do("GET", "").close()
	}
	r := s.send("POST", "", initialize, "Caller: alice")
	want(t, "a third one of a caller", r.status, 429)
	want(t, "error", r.all(), `{"jsonrpc":"2.0","id":"i","error":{"code":-32603,"message":"too many sessions","data":{"code":"ERR_RATE_LIMIT_EXCEEDED","retryable":true}}}`)
	defer s.initialize("", "bob").do("GET", "").close()
	want(t, "a fourth one", s.send("POST", "", initialize, "Caller: carol").status, 429)
	want(t, "DELETE", first.do("DELETE", "").status, 204)
	l := s.initialize("", "carol")

	for range 2 {
		l.call("1", "wait", "").event()
	}
	want(t, "a third exchange", l.call("3", "hex", "").status, 429)
	s.server.finish("1")
}

// Close does not wait for what began after it.
func TestARequestWhoseSessionEndsAsItComesIsRefused(t *testing.T) {
	found, goOn := make(chan struct{}), make(chan struct{})
	s := open(t, mcpfront.Options{Caller: func(r *http.Request) string {
		if r.Header.Get("Mcp-Session-Id") != "" { // which is known by then
			close(found)
			<-goOn
		}
		return ""
	}})
	l := s.initialize("", "alice")
	want(t, "call", next(t, "it", s.server.calls), "initialize")
	go func() {
		<-found
		s.front.Close(context.Background())
		close(goOn)
	}()
	r := l.call("1", "hex", "")
	want(t, "status", r.status, 404)
	want(t, "error", r.all(), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"unknown session","data":{"code":"ERR_NOT_FOUND","retryable":false}}}`)
	want(t, "calls", len(s.server.calls), 0)
}

func TestSessionsThatAreNotUsedEnd(t *testing.T) {
	s := open(t, mcpfront.Options{SessionIdle: 2 * time.Second})
	l := s.initialize("", "alice")
	stream := l.do("GET", "") // while this is open the session is in use
	want(t, "stream", stream.status, 200)
	other := s.initialize("", "bob")
	want(t, "what the server hears", next(t, "the end of it", s.server.notified), "closed")
	want(t, "sessions", s.front.Stats().Sessions, 1)
	want(t, "afterwards", other.call("1", "hex", "").status, 404)
	stream.close()
	want(t, "what the server hears", next(t, "the end of the other", s.server.notified), "closed")
}

// A task goes on without a request, and its client comes back for it.
func TestASessionWithATaskAtWorkDoesNotEnd(t *testing.T) {
	s := open(t, mcpfront.Options{SessionIdle: 2 * time.Second})
	l := s.initialize("", "alice")
	l.call("1", "say", `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working","ttl":600000}}}`).all()
	other := s.initialize("", "bob")
	want(t, "what the server hears", next(t, "the end of the later one", s.server.notified), "closed")
	want(t, "afterwards", other.call("1", "hex", "").status, 404)
	want(t, "the session with the task", l.call("2", "hex", "").status, 200)
	l.call("3", "say", `{"jsonrpc":"2.0","id":3,"result":{"taskId":"t","status":"completed","ttl":600000}}`).all()
	want(t, "what the server hears", next(t, "the end of it", s.server.notified), "closed")
}

func TestGW09SlowHeadersAndBodiesAreCutOff(t *testing.T) {
	s := open(t, mcpfront.Options{Body: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), mcpfront.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, err = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // until the other end closes
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%q, %v", answer, err)
	}
}

// A client that opens streams and reads nothing holds what its windows take, and is
// gone after Options.Write.
func TestGW09AnEndlessStreamToWhoDoesNotReadIsBounded(t *testing.T) {
	effort.Unwatched(t)
	for _, era := range []string{"modern", "legacy"} {
		s := open(t, mcpfront.Options{Write: 100 * time.Millisecond, MaxStored: 64 << 10})
		if era == "modern" {
			s.modern("flood", "").event() // and nothing more
			next(t, "the cancellation", s.server.cancelled)
			continue
		}
		l := s.initialize("", "alice")
		r := l.call("1", "flood", "")
		r.event()
		most := int64(0)
		for s.front.Stats().Streams > 0 {
			most = max(most, s.front.Stats().Stored)
			<-time.After(time.Millisecond)
		}
		if most > 3<<20 {
			t.Errorf("%d octets were kept", most)
		}
		want(t, "DELETE", l.do("DELETE", "").status, 204)
	}
}

// The same for a client that asks for one large document.
func TestGW09ADocumentToWhoDoesNotReadIsGivenUp(t *testing.T) {
	effort.Unwatched(t)
	s := open(t, mcpfront.Options{Write: 100 * time.Millisecond, MaxBody: 16 << 20})
	body := modernRequest("1", "hex", `"text":"`+strings.Repeat("x", 3<<20)+`"`) // comes back twice as long
	for _, answer := range []*reply{
		s.send("POST", "", body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: hex"),
		s.initialize("", "alice").do("POST", `{"jsonrpc":"2.0","id":1,"method":"hex","params":{"text":"`+strings.Repeat("x", 3<<20)+`"}}`),
	} {
		until(t, "the document is given up", func() bool { return s.serving.Load() == 0 })
		if n, err := io.Copy(io.Discard, answer.body); err == nil {
			t.Errorf("%d octets came after all", n)
		}
	}
}

// Requests and their answers, which nobody reads, are in the budget.
func TestRS11AnswersNobodyReadsAreInTheBudget(t *testing.T) {
	effort.Unwatched(t)
	const limit = 32 << 20
	budget := memory.New(limit)
	s := open(t, mcpfront.Options{Write: time.Second, Memory: budget})
	body := modernRequest("1", "hex", `"text":"`+strings.Repeat("x", 3<<20)+`"`) // comes back twice as long
	var clients sync.WaitGroup
	for range 12 {
		clients.Go(func() {
			s.send("POST", "", body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: hex", "Caller: greedy")
		})
	}
	most, done := 0, make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	for asking := true; asking; time.Sleep(time.Millisecond) {
		most = max(most, budget.Used())
		select {
		case <-done:
			asking = false
		default:
		}
	}
	if most < limit/4 || most > limit {
		t.Errorf("at most %d octets were in use, want a quarter of %d at least", most, limit)
	}
	until(t, "all is given up", func() bool { return s.serving.Load() == 0 && budget.Used() == 0 })
}

// A large request is answered after others have filled the budget: the answer takes its octets.
func TestRS36AnAnswerHasTheOctetsOfItsRequest(t *testing.T) {
	const size = 1 << 20
	budget := memory.New(16 << 20)
	s := open(t, mcpfront.Options{Memory: budget})
	var got *reply
	var asked sync.WaitGroup
	asked.Go(func() {
		got = s.send("POST", "", modernRequest("1", "silent", `"text":"`+strings.Repeat("x", size)+`"`), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: silent")
	})
	<-s.server.calls
	until(t, "the request is held", func() bool { return s.server.holds() == 1 })
	const piece = 64 << 10
	var others []*memory.Share
	for full := false; !full; {
		o := budget.Share(fmt.Sprint("other", len(others)))
		if full = !o.Try(piece, memory.Large); full {
			o.Close()
		} else {
			others = append(others, o)
		}
	}
	result := `"` + strings.Repeat("y", size) + `"`
	s.server.finish(result)
	asked.Wait()
	if body := got.all(); got.status != http.StatusOK || !strings.Contains(body, result) {
		t.Errorf("%d, %d octets: %.200s", got.status, len(body), body)
	}
	for _, o := range others {
		o.Give(piece, memory.Large)
		o.Close()
	}
}

func TestGW09ForeignHostOrOriginComesToNoServer(t *testing.T) {
	g, err := gate.New(gate.Options{Anonymous: "me"})
	if err != nil {
		t.Fatal(err)
	}
	connected := 0
	front := mcpfront.New(mcpfront.Options{
		Caller: gate.Caller, Identity: "spiffe://here/swpd",
		Connect: func(context.Context, string) (*mcpfront.Link, error) {
			connected++
			return nil, fmt.Errorf("not here")
		},
	})
	s := &site{t: t, front: front}
	s.url = serve(t, g.Handler(front)) + mcpfront.Path
	request := modernRequest("1", "hex", "")
	for _, headers := range [][]string{
		{"Host: evil.example"}, {"Origin: http://evil.example"}, {"Origin: null"}, {"Authorization: Bearer nobody"},
	} {
		status := s.send("POST", "", request, append(headers, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: hex")...).status
		if status != 403 && !strings.HasPrefix(headers[0], "Authorization") || status < 401 {
			t.Errorf("%v: %d", headers, status)
		}
	}
	want(t, "connections", connected, 0)
	r := s.send("POST", "", request, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: hex")
	want(t, "what fails on the way", r.all(), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"connection lost","data":{"code":"ERR_INTERNAL_ERROR","retryable":false,"endpoint":"spiffe://here/swpd"}}}`)
	want(t, "connections", connected, 1)
}

func TestRS28SessionsOfOneCallerLeavePlacesForAnother(t *testing.T) {
	fairtest.Places(t, "mcp: sessions of callers over HTTP", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
		s := open(t, mcpfront.Options{MaxSessions: 16})
		held := map[string][]*legacy{}
		take := func(who string) bool {
			r := s.send("POST", "", `{"jsonrpc":"2.0","id":"i","method":"initialize"}`, "Caller: "+who)
			r.all()
			if r.status != 200 {
				want(t, "refused", r.status, 429)
				return false
			}
			l := &legacy{site: s, id: r.header.Get("Mcp-Session-Id"), caller: who}
			l.do("GET", "") // so that it is not idle
			held[who] = append(held[who], l)
			return true
		}
		return take, func(who string) {
			n := len(held[who]) - 1
			want(t, "DELETE", held[who][n].do("DELETE", "").status, 204)
			held[who] = held[who][:n]
		}
	})
}
