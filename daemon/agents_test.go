package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
)

// scripted is an agent of A2A 1.0 that answers as a test says, and remembers what it
// was asked.
type scripted struct {
	url string

	mu      sync.Mutex
	headers []http.Header
	bodies  []string
}

// asked returns how often the agent was asked.
func (s *scripted) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// last returns what the agent was asked last.
func (s *scripted) last() (body string, header http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[len(s.bodies)-1], s.headers[len(s.headers)-1]
}

const scriptedCard = "{ \"name\" : \"script\\u0065d\", \"version\":\"7\", \"n\":9007199254740993 }\n"

// newScripted serves JSON-RPC: answer returns the result of a method, or with an
// error object the failure.
func newScripted(t *testing.T, answer func(method string) (result, failure string)) *scripted {
	s := new(scripted)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, scriptedCard) })
	mux.HandleFunc("/a2a", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.bodies, s.headers = append(s.bodies, string(body)), append(s.headers, r.Header.Clone())
		s.mu.Unlock()
		var request struct{ ID, Method string }
		if err := json.Unmarshal(body, &request); err != nil {
			t.Error(err)
		}
		result, failure := answer(request.Method)
		w.Header().Set("Content-Type", "application/json")
		if failure != "" {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"error":%s}`, request.ID, failure)
			return
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"result":%s}`, request.ID, result)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL + "/a2a"
	return s
}

func agentYAML(url, more string) string {
	return fmt.Sprintf("a2a: {agents: {billing: {url: %q, binding: jsonrpc%s}}}\n", url, more)
}

func TestAgentsAtAURLAreAskedOctetForOctet(t *testing.T) {
	t.Parallel()
	const result = `{ "message":{"messageId":"m","n":9007199254740993, "n":1.0}}`
	agent := newScripted(t, func(string) (string, string) { return result, "" })
	r := start(t, agentYAML(agent.url, ", headers: {Authorization: Bearer canary-of-ours}"))
	const input = `{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}],"messageId":"1", "x":1e400}}`
	for _, address := range r.addrs {
		s := r.mustDial(address)
		events, got := s.hand(t, &a2a.Task{
			Kind: "a2a/1.0/SendMessage", Input: []byte(input), Params: []string{"a2a-version=1.0", "authorization=Bearer theirs", "x-forwarded-for=1"},
		}, a2a.SendOptions{Agent: "billing"})
		if len(events) > 0 || !got.OK || string(got.Output) != result {
			t.Fatalf("%s: %q, %+v", address, events, got)
		}
		body, h := agent.last()
		if !strings.HasSuffix(body, `,"method":"SendMessage","params":`+input+`}`) {
			t.Errorf("asked with %s", body)
		}
		if h.Get("A2A-Version") != "1.0" || h.Get("Authorization") != "Bearer canary-of-ours" || h.Get("X-Forwarded-For") != "" {
			t.Errorf("headers %v", h)
		}
		if _, got := s.hand(t, &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(input)}, a2a.SendOptions{Agent: "nobody"}); got.OK {
			t.Errorf("an agent that is not there answers %s", got.Output)
		}
		card, err := agdisc.Ask(t.Context(), s.Session, "billing", "")
		if err != nil || string(card.Payload) != scriptedCard || card.Revision != "7" {
			t.Errorf("card %+v, error %v", card, err)
		}
	}
	r.end()
	if log := r.log.String(); strings.Contains(log, "canary") {
		t.Errorf("the log says\n%s", log)
	}
}

func TestAnAgentIsForOneIdentityOnly(t *testing.T) {
	agent := newScripted(t, func(string) (string, string) { return `{"message":{}}`, "" })
	task := &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(`{}`)}
	for name, ok := range map[string]bool{"billing/a2a/1.0/*": true, "a2a/1.0/*": false, "sales/a2a/1.0/*": false} {
		before := agent.asked()
		r := start(t, agentYAML(agent.url, "")+fmt.Sprintf("access: {rules: [{identity: spiffe://localhost/swp-client, profile: a2a, operation: task, name: %q}]}\n", name))
		s := r.mustDial(r.addrs[0])
		_, got := s.hand(t, task, a2a.SendOptions{Agent: "billing"})
		if got.OK != ok || !ok && got.Reason != a2a.ReasonDenied || agent.asked() != before+map[bool]int{true: 1}[ok] {
			t.Errorf("%s: %+v", name, got)
		}
		r.end()
	}
}

func TestTheStreamOfAnAgentOutlivesARestart(t *testing.T) {
	const began, snapshot, ended = `{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`, `{"task":{"id":"t", "n":1.0}}`,
		`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`
	methods := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // for the card, to see whether the agent is there
			http.NotFound(w, r)
			return
		}
		var request struct{ ID, Method string }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		methods <- request.Method
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(event string) {
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%q,\"result\":%s}\n\n", request.ID, event)
			_ = http.NewResponseController(w).Flush()
		}
		if request.Method == "SendStreamingMessage" {
			say(began)
			<-r.Context().Done()
			return
		}
		say(snapshot)
		say(ended)
	}))
	t.Cleanup(server.Close)
	yaml := agentYAML(server.URL, "")
	r := start(t, yaml)
	s := r.mustDial(r.addrs[0])
	task := &a2a.Task{ID: []byte("delivery"), Kind: "a2a/1.0/SendStreamingMessage", Input: []byte(`{}`)}
	d, err := s.tasks.Send(t.Context(), s.Session, task, a2a.SendOptions{Agent: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := d.Recv(t.Context()); err != nil || string(e.Payload) != began {
		t.Fatalf("%+v, %v", e, err)
	}
	r.end() // which does not wait for the stream
	d.Close()

	r = startIn(t, r.dir, yaml)
	s = r.mustDial(r.addrs[0])
	events, got := s.hand(t, task, a2a.SendOptions{Agent: "billing", Resume: true, After: 1})
	if strings.Join(events, "|") != snapshot+"|"+ended || !got.OK {
		t.Errorf("%q, %+v", events, got)
	}
	if first, second := <-methods, <-methods; first != "SendStreamingMessage" || second != "SubscribeToTask" {
		t.Errorf("asked for %s, then %s", first, second)
	}
	if n := len(methods); n > 0 {
		t.Errorf("asked %d times more", n)
	}
}

func TestAnAgentBehindAPartnerIsAskedOctetForOctet(t *testing.T) {
	const result, input = `{ "message":{"n":9007199254740993, "n":1.0}}`, `{"message":{"x":1e400, "parts":[ ]}}`
	agent := newScripted(t, func(string) (string, string) { return result, "" })
	b, a := open(t, "b", agentYAML(agent.url, "")), open(t, "a", "")
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	_, got := s.hand(t, &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(input), Params: []string{"a2a-version=1.0"}}, a2a.SendOptions{Agent: "b/billing"})
	if !got.OK || string(got.Output) != result {
		t.Fatalf("%+v", got)
	}
	if body, _ := agent.last(); !strings.HasSuffix(body, `"params":`+input+`}`) {
		t.Errorf("asked with %s", body)
	}
}
