package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

const version = "A2A-Version: 1.0"

// oddInput is a request as no encoder would write it.
const oddInput = "{ \"n\":9007199254740993, \"x\":1e400,\"x\":\"\\u0041\" }"

// echoes is an agent that answers with what it was asked, twice in a stream.
func echoes(_ context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	o, _ := a2abinding.OfKind(t.Kind)
	if !o.Streams {
		return t.Input, nil
	}
	for range 2 {
		if err := event("", t.Input); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func TestA2AOverHTTPReachesAgentsOctetForOctet(t *testing.T) {
	b, a := open(t, "b", ""), open(t, "a", httpYAML)
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	a.agent("near", echoes, a2abinding.Kinds()...)
	b.agent("far", echoes, a2abinding.Kinds()...)
	for _, agent := range []string{"near", "b/far"} {
		url := a.front() + "/a2a/" + agent
		status, _, got := post(t, url, "{\"method\":\"SendMessage\",\"params\":"+oddInput+" ,\"id\":1.50,\"jsonrpc\":\"2.0\"}", version)
		if want := `{"jsonrpc":"2.0","id":1.50,"result":` + oddInput + `}`; status != 200 || got != want {
			t.Errorf("%s: %d %s", agent, status, got)
		}
		status, _, got = post(t, url, `{"method":"SendStreamingMessage","params":`+oddInput+`,"id":"\u0061","jsonrpc":"2.0"}`, version)
		event := `data: {"jsonrpc":"2.0","id":"\u0061","result":` + oddInput + "}\n\n"
		if status != 200 || got != event+event {
			t.Errorf("%s: %d %s", agent, status, got)
		}
		status, _, got = post(t, url+"/message:send", oddInput, version)
		if status != 200 || got != oddInput {
			t.Errorf("%s: %d %s", agent, status, got)
		}
	}
	if status, _, got := post(t, a.front()+"/a2a/b/nobody/message:send", `{}`, version); status != 502 || !strings.Contains(got, "NO_ROUTE") {
		t.Errorf("nobody: %d %s", status, got)
	}
}

func TestA2ACallersHaveTheirOwnRules(t *testing.T) {
	a := open(t, "a", httpYAML+"access: {rules: [{identity: 'spiffe://a.example/**'}, {identity: 'http:alice', profile: a2a, name: 'a2a/1.0/*'}], agents: [{identity: '**', agent_ids: '**'}]}\n")
	a.agent("near", echoes, a2abinding.Kinds()...)
	url := a.front() + "/a2a/near/message:send"
	for _, row := range []struct {
		authorization string
		status        int
	}{{"Bearer secret-a", 200}, {"Bearer wrong", 401}, {"", 403}} {
		header := []string{version}
		if row.authorization != "" {
			header = append(header, "Authorization: "+row.authorization)
		}
		status, _, got := post(t, url, `{}`, header...)
		if status != row.status || status == 403 && !strings.Contains(got, "DENIED") {
			t.Errorf("%q: %d %s", row.authorization, status, got)
		}
	}
	a.rewrite("access: {", "access: {deny: ['http:alice'], ")
	a.reloaded()
	if status, _, got := post(t, url, `{}`, version, "Authorization: Bearer secret-a"); status != 403 || !strings.Contains(got, "DENIED") {
		t.Errorf("denied: %d %s", status, got)
	}
	for _, header := range []string{"Host: evil.example", "Origin: https://evil.example"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", header, resp.StatusCode)
		}
	}
}

// streamed opens a stream and returns its events as they come.
func streamed(t *testing.T, url, body string) *bufio.Scanner {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return bufio.NewScanner(resp.Body)
}

// data returns the next line of data of a stream, empty at its end.
func data(s *bufio.Scanner) string {
	for s.Scan() {
		if text, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			return text
		}
	}
	return ""
}

func TestAnA2AStreamGoesOnWhenTheLinkIsCut(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", ""), open(t, "a", httpYAML)
	link, address := newTunnel(t, b.addrs[0])
	a.trusting("b", b, address)
	b.trusting("a", a)
	a.connected("b")
	steps := make(chan int)
	runs := make(chan struct{}, 10)
	b.agent("far", func(_ context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		runs <- struct{}{}
		for n := range steps {
			if err := event("", fmt.Appendf(nil, `{"n": %d}`, n)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}, a2abinding.Kinds()...)
	go func() { steps <- 1 }()
	s := streamed(t, a.front()+"/a2a/b/far/message:stream", `{}`)
	if got := data(s); got != `{"n": 1}` {
		t.Errorf("%q", got)
	}
	link.cut()
	go func() {
		steps <- 2
		steps <- 3
		close(steps)
	}()
	for _, want := range []string{`{"n": 2}`, `{"n": 3}`, ``} {
		if got := data(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if len(runs) != 1 {
		t.Errorf("the agent was given the task %d times", len(runs))
	}
}

func TestAStopEndsStreamsWithAnError(t *testing.T) {
	a := open(t, "a", httpYAML)
	a.agent("near", func(ctx context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		if err := event("", []byte(`{}`)); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}, a2abinding.Kinds()...)
	s := streamed(t, a.front()+"/a2a/near/message:stream", `{}`)
	if got := data(s); got != `{}` {
		t.Errorf("%q", got)
	}
	a.stop()
	if got := data(s); !strings.Contains(got, "LINK_LOST") || !strings.Contains(got, "subscribe to the task") {
		t.Errorf("%q", got)
	}
	if err := a.end(); err != nil {
		t.Error(err)
	}
}

func TestCardsOfAgentsHereAndOfPartners(t *testing.T) {
	const card = "{ \"name\" : \"f\\u0061r\",\"signatures\":[{}],\"supportedInterfaces\":[] }\n"
	b := open(t, "b", "")
	file := filepath.Join(b.dir, "card.json")
	if err := os.WriteFile(file, []byte(card), 0o600); err != nil {
		t.Fatal(err)
	}
	b = open(t, "b", fmt.Sprintf("agdisc: {cards: {far: {file: %q}}}\n", file))
	a := open(t, "a", strings.Replace(httpYAML, "http: {", "http: {a2a: {default: b/far}, ", 1)+fmt.Sprintf("agdisc: {cards: {near: {file: %q}}}\n", file))
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	for path, agent := range map[string]string{"/.well-known/agent-card.json": "b/far", "/a2a/near/.well-known/agent-card.json": "near", "/a2a/b/far/.well-known/agent-card.json": "b/far"} {
		status, header, got := fetch(t, a.front()+path)
		var says struct {
			SupportedInterfaces []struct{ URL string }
			Signatures          any
		}
		if err := json.Unmarshal([]byte(got), &says); err != nil || status != 200 || header.Get("ETag") == "" || says.Signatures != nil ||
			len(says.SupportedInterfaces) != 2 || says.SupportedInterfaces[0].URL != a.front()+"/a2a/"+agent {
			t.Errorf("%s: %d %s, %v", path, status, got, err)
		}
	}
	for _, agent := range []string{"near", "b/far"} {
		if status, _, got := fetch(t, a.front()+"/a2a/"+agent+"/agent-card.original.json"); status != 200 || got != card {
			t.Errorf("%s: %d %q", agent, status, got)
		}
	}
	for _, agent := range []string{"nobody", "b/nobody", "c/far"} {
		if status, _, got := fetch(t, a.front()+"/a2a/"+agent+"/agent-card.original.json"); status != 404 {
			t.Errorf("%s: %d %q", agent, status, got)
		}
	}
}

func fetch(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	return asked(t, http.MethodGet, url, "")
}
