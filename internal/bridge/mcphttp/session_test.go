package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// request of a session.
func plain(id, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method)
}

func TestASessionHasASessionOfTheServers(t *testing.T) {
	var mu sync.Mutex
	var got []string
	asked, left := make(chan struct{}), make(chan struct{})
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		mu.Lock()
		got = append(got, fmt.Sprintf("%s %s %s %q%q", p.Method, p.Header.Get("Mcp-Session-Id"), p.Header.Get("Mcp-Protocol-Version"),
			p.Header.Get("Mcp-Method"), p.msg.Method()))
		mu.Unlock()
		switch {
		case p.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
			close(asked)
		case p.Method == http.MethodDelete:
			close(left)
		case p.msg.Kind() == mcpmap.Request:
			respond(w, p.msg.ID(), `{}`)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{})
	if strings.Contains(session, "server") {
		t.Errorf("session %q", session)
	}
	c.in(session, plain(`1`, "tools/list"))
	c.notify(session, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	c.in(session, plain(`2`, "tools/list"))
	same(t, "sessions", s.server.Stats().Sessions, 1)
	await(t, "GET", asked)
	s.served.Close()
	await(t, "DELETE", left)
	mu.Lock()
	defer mu.Unlock()
	const head = " the-session-of-the-server 2025-11-25 "
	slices.Sort(got)
	want := []string{
		"DELETE" + head + `""""`, "GET" + head + `""""`, "POST" + head + `"""notifications/roots/list_changed"`,
		"POST" + head + `"""tools/list"`, "POST" + head + `"""tools/list"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the server got %q, want %q", got, want)
	}
}

func TestMessagesOfASessionArriveInOrder(t *testing.T) {
	const n = 50
	var next atomic.Int32
	release := make(chan struct{})
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		switch {
		case p.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case p.msg.Is("slow"):
			<-release
			respond(w, p.msg.ID(), `{}`)
		case p.msg.Is("end"):
			respond(w, p.msg.ID(), `{}`)
		default:
			if i := next.Add(1); string(p.msg.Params()) != fmt.Sprintf(`{"i":%d}`, i) {
				t.Errorf("message %d is %s", i, p.body)
			}
			w.WriteHeader(http.StatusAccepted)
		}
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{})
	sent := make(chan struct{})
	slow := c.start(t.Context(), &mcpmap.Call{Session: session, Octets: []byte(plain(`"slow"`, "slow")), Sent: func() { close(sent) }})
	<-sent
	for i := range n { // a request that takes its time holds nothing up
		c.notify(session, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x","params":{"i":%d}}`, i+1))
	}
	c.in(session, plain(`"end"`, "end"))
	same(t, "notifications", next.Load(), n)
	close(release)
	await(t, "answer", slow)
}

func TestCancellationOfASessionIsTheClientsOwn(t *testing.T) {
	arrived, cancelled := make(chan struct{}, 1), make(chan string, 1)
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		switch {
		case p.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case p.msg.Is(mcpmap.MethodCancelled):
			w.WriteHeader(http.StatusAccepted)
			cancelled <- string(p.body)
		case p.msg.Is("ping"):
			respond(w, p.msg.ID(), `{}`)
		default:
			streaming(w)
			arrived <- struct{}{}
			<-p.Context().Done()
		}
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{})
	out := c.start(t.Context(), &mcpmap.Call{Session: session, Octets: []byte(plain(`5`, "tools/call"))})
	await(t, "request", arrived)
	own := `{"jsonrpc":"2.0", "method":"notifications/cancelled","params":{"reason":"x", "requestId":5.0}}`
	c.notify(session, own)
	same(t, "cancellation", await(t, "cancellation", cancelled), own)
	<-out
	ctx, cancel := context.WithCancel(t.Context())
	out = c.start(ctx, &mcpmap.Call{Session: session, Octets: []byte(plain(`6`, "tools/call"))})
	await(t, "request", arrived)
	cancel()
	same(t, "cancellation", await(t, "cancellation", cancelled), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`)
	<-out
	c.in(session, plain(`7`, "ping")) // the session goes on
}

func TestASessionThatTheServerForgotIsGone(t *testing.T) {
	for name, body := range map[string]string{"text": "no such session", "JSON": `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}`} {
		t.Run(name, func(t *testing.T) {
			var deleted atomic.Bool
			s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
				if p.Method == http.MethodDelete {
					deleted.Store(true)
				}
				switch {
				case p.Method != http.MethodPost:
					w.WriteHeader(http.StatusMethodNotAllowed)
				case p.msg.Kind() == mcpmap.Notification:
					w.WriteHeader(http.StatusAccepted)
				default:
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, body)
				}
			}), mcphttp.BackendOptions{})
			c := s.dial("alice")
			session := c.open(mcpmap.Events{})
			r := c.in(session, plain(`1`, "tools/list"))
			same(t, "status", r.Status, http.StatusNotFound)
			if name == "JSON" {
				same(t, "answer", string(r.Octets), body)
			} else {
				same(t, "code", problemOf(t, r.Octets).Code, -32603)
			}
			// From now on it is unknown here, too.
			r = c.in(session, plain(`2`, "tools/list"))
			same(t, "status", r.Status, http.StatusNotFound)
			same(t, "sessions", s.served.Stats().Sessions, 0)
			if deleted.Load() {
				t.Error("a session that was gone was deleted")
			}
		})
	}
}

func TestStreamsOfASessionAreTakenUpWhereTheyBroke(t *testing.T) {
	gets := make(chan string, 8)
	var calls, listens atomic.Int32
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		last := p.Header.Get("Last-Event-Id")
		switch {
		case p.Method == http.MethodGet && strings.HasPrefix(last, "call"):
			gets <- last
			send := streaming(w)
			if calls.Add(1) == 1 {
				send("id: call-2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":2}\n\n")
				return
			}
			send("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"resumed\"}\n\n")
		case p.Method == http.MethodGet:
			gets <- last
			send := streaming(w)
			if n := listens.Add(1); n < 3 {
				send("retry: 1\nid: listen-%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":\"l%d\"}\n\n", n, n)
				return
			}
			<-p.Context().Done()
		case p.Method == http.MethodPost:
			streaming(w)("id: call-1\nretry: 1\ndata:\n\n")
			panic(http.ErrAbortHandler)
		}
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	unasked := make(chan string, 8)
	session := c.open(mcpmap.Events{Notification: func(octets []byte) { unasked <- string(octets) }})
	for _, want := range []string{"", "listen-1", "listen-2"} {
		same(t, "Last-Event-ID", await(t, "GET", gets), want)
	}
	var notes []string
	r := c.call(&mcpmap.Call{Session: session, Octets: []byte(plain(`1`, "tools/call")), Events: mcpmap.Events{
		Notification: func(octets []byte) { notes = append(notes, string(octets)) },
	}})
	same(t, "answer", string(r.Octets), `{"jsonrpc":"2.0","id":1,"result":"resumed"}`)
	same(t, "Last-Event-ID", await(t, "GET", gets), "call-1")
	same(t, "Last-Event-ID", await(t, "GET", gets), "call-2")
	same(t, "notifications of the call", len(notes), 1)
	for _, want := range []string{"l1", "l2"} {
		if got := await(t, "notification", unasked); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAStreamThatCanNotBeTakenUpFailsTheCall(t *testing.T) {
	for name, status := range map[string]int{"refused": http.StatusBadRequest, "no streams": http.StatusMethodNotAllowed} {
		t.Run(name, func(t *testing.T) {
			s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
				if p.Method != http.MethodPost {
					w.WriteHeader(status)
					return
				}
				streaming(w)("id: 1\nretry: 1\ndata:\n\n")
			}), mcphttp.BackendOptions{})
			c := s.dial("alice")
			session := c.open(mcpmap.Events{})
			if p := problemOf(t, c.in(session, plain(`1`, "tools/call")).Octets); p.Code != -32603 || p.Data.Retryable {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestTheServerIsNotLateWhileTheClientIsAsked(t *testing.T) {
	answers := make(chan string, 1)
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		switch {
		case p.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case p.msg.Kind() == mcpmap.Response:
			w.WriteHeader(http.StatusAccepted)
			answers <- string(p.body)
		default:
			send := streaming(w)
			send("data: {\"jsonrpc\":\"2.0\",\"id\":\"e\",\"method\":\"elicitation/create\",\"params\":{}}\n\n")
			<-answers
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":\"thanks\"}\n\n", p.msg.ID())
		}
	}), mcphttp.BackendOptions{Timeouts: mcpmap.Timeouts{Each: 3 * time.Second}})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{Request: func(a *mcpmap.Asked) {
		time.AfterFunc(4*time.Second, func() { // longer than the server may take
			_ = a.Answer([]byte(`{"jsonrpc":"2.0","id":"e","result":{}}`))
		})
	}})
	r := c.in(session, plain(`1`, "tools/call"))
	same(t, "answer", string(r.Octets), `{"jsonrpc":"2.0","id":1,"result":"thanks"}`)
}

func TestProgressIsToldToTheCallThatItIsOf(t *testing.T) {
	arrived := make(chan struct{}, 1)
	release := make(chan struct{})
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		switch {
		case p.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case p.msg.Is("first"):
			arrived <- struct{}{}
			<-release
			respond(w, p.msg.ID(), `{}`)
		default:
			send := streaming(w)
			send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"first\",\"progress\":1}}\n\n")
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", p.msg.ID())
		}
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{})
	hear := func(into *[]string) mcpmap.Events {
		return mcpmap.Events{Notification: func(octets []byte) { *into = append(*into, string(octets)) }}
	}
	var first, second []string
	out := c.start(t.Context(), &mcpmap.Call{
		Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"first","params":{"_meta":{"progressToken":"first"}}}`), Events: hear(&first),
	})
	await(t, "request", arrived)
	c.call(&mcpmap.Call{Session: session, Octets: []byte(plain(`2`, "second")), Events: hear(&second)})
	close(release)
	await(t, "answer", out)
	if len(first) != 1 || len(second) != 0 {
		t.Errorf("the first call heard %q, the second %q", first, second)
	}
}

func TestASessionThatNobodyUsesEnds(t *testing.T) {
	left := make(chan struct{})
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		if p.Method == http.MethodDelete {
			close(left)
			return
		}
		w.WriteHeader(http.StatusMethodNotAllowed)
	}), mcphttp.BackendOptions{SessionIdle: time.Second})
	s.dial("alice").open(mcpmap.Events{})
	await(t, "DELETE", left)
	same(t, "sessions", s.server.Stats().Sessions, 0)
}

func TestASessionThatCouldNotBeOpenedIsNone(t *testing.T) {
	s := behind(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, []byte(`"i"`), `{},"error":{"code":-32602,"message":"no"}`[len(`{},`):])
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	r := c.in("", initializeRequest)
	if r.Session != "" || s.served.Stats().Sessions != 0 || s.server.Stats().Sessions != 0 {
		t.Errorf("session %q, %+v, %+v", r.Session, s.served.Stats(), s.server.Stats())
	}
}

func TestCloseEndsWhatIsInFlight(t *testing.T) {
	arrived := make(chan struct{}, 2)
	s := behind(t, stuck(t, arrived), mcphttp.BackendOptions{})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{})
	var outs []<-chan answered
	for _, call := range []*mcpmap.Call{{Octets: []byte(stateless(`1`, "tools/list", ""))}, {Session: session, Octets: []byte(plain(`2`, "x"))}} {
		outs = append(outs, c.start(t.Context(), call))
		await(t, "request", arrived)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.server.Close(ctx); err == nil {
		t.Error("Close did not say that it gave up calls")
	}
	for _, out := range outs {
		a := await(t, "answer", out)
		if a.err != nil {
			t.Fatal(a.err)
		}
		same(t, "code", problemOf(t, a.Octets).Code, -32603)
	}
	p := problemOf(t, c.in("", stateless(`3`, "tools/list", "")).Octets)
	if !p.Data.Retryable || p.Data.Code != profiles.RateLimitExceeded.String() {
		t.Errorf("after Close: %+v", p)
	}
}

func TestWhatWaitsInASessionIsBounded(t *testing.T) {
	const limit = 1024
	first, release := make(chan struct{}), make(chan struct{})
	var got atomic.Int32
	s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
		switch {
		case p.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case p.msg.Kind() == mcpmap.Request:
			respond(w, p.msg.ID(), `{}`)
		default:
			if got.Add(1) == 1 {
				close(first)
				<-release
			}
			w.WriteHeader(http.StatusAccepted)
		}
	}), mcphttp.BackendOptions{})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{})
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	c.notify(session, note)
	<-first
	for range limit + 1 {
		c.notify(session, note)
	}
	p := problemOf(t, c.in(session, plain(`1`, "tools/list")).Octets)
	if !p.Data.Retryable || p.Data.Code != profiles.RateLimitExceeded.String() {
		t.Errorf("above the limit: %+v", p)
	}
	same(t, "dropped", s.server.Stats().Dropped, 1)
	close(release)
	for began := time.Now(); time.Since(began) < time.Minute; { // what waits is sent, and there is room again
		r := c.in(session, plain(`2`, "tools/list"))
		if strings.Contains(string(r.Octets), `"result"`) {
			break
		}
	}
	c.in(session, plain(`3`, "tools/list"))
	same(t, "notifications", got.Load(), 1+limit)
}

// retire has the server of a site retire, and returns where the outcome will be.
func (s *backSite) retire(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.server.Retire(ctx) }()
	return done
}

// slowly answers at once, but for method slow and subscriptions: those it tells of on
// arrived, and answers when release is closed.
func slowly(t *testing.T) (h http.Handler, arrived, release, left chan struct{}) {
	arrived, release, left = make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
	return script(t, func(w http.ResponseWriter, p *posted) {
		switch {
		case p.Method == http.MethodDelete:
			left <- struct{}{}
		case p.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case p.msg.Kind() != mcpmap.Request:
			w.WriteHeader(http.StatusAccepted)
		case p.msg.Is("slow") || p.msg.Is(mcpmap.MethodListen):
			arrived <- struct{}{}
			select {
			case <-release:
				respond(w, p.msg.ID(), `{}`)
			case <-p.Context().Done():
			}
		default:
			respond(w, p.msg.ID(), `{}`)
		}
	}), arrived, release, left
}

func TestRetireServesUntilCallsAndSessionsHaveEnded(t *testing.T) {
	h, arrived, release, left := slowly(t)
	s := behind(t, h, mcphttp.BackendOptions{})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{})
	slow := c.start(t.Context(), &mcpmap.Call{Session: session, Octets: []byte(plain(`"slow"`, "slow"))})
	await(t, "the call", arrived)
	retired := s.retire(t.Context())
	ok := func(when, id string) {
		if r := c.in(session, plain(id, "tools/list")); !strings.Contains(string(r.Octets), `"result"`) {
			t.Errorf("%s: %s", when, r.Octets)
		}
	}
	ok("during a call", `1`)
	close(release)
	if out := await(t, "answer", slow); out.err != nil || !strings.Contains(string(out.Octets), `"result"`) {
		t.Errorf("call in flight: %+v", out)
	}
	ok("during a session", `2`)
	select {
	case err := <-retired:
		t.Fatalf("Retire returned %v with a session open", err)
	default:
	}
	s.served.Close() // ends the session
	if err := await(t, "Retire", retired); err != nil {
		t.Errorf("Retire: %v", err)
	}
	await(t, "DELETE", left)
}

func TestRetireGivesUpWhenItsContextEnds(t *testing.T) {
	h, arrived, _, _ := slowly(t)
	s := behind(t, h, mcphttp.BackendOptions{})
	c := s.dial("alice")
	session := c.open(mcpmap.Events{})
	slow := c.start(t.Context(), &mcpmap.Call{Session: session, Octets: []byte(plain(`"slow"`, "slow"))})
	await(t, "the call", arrived)
	ctx, cancel := context.WithCancel(t.Context())
	retired := s.retire(ctx)
	cancel()
	if err := await(t, "Retire", retired); !errors.Is(err, context.Canceled) {
		t.Errorf("Retire: %v, want the context's error for the call in flight", err)
	}
	if out := await(t, "answer", slow); out.err == nil && !strings.Contains(string(out.Octets), `"error"`) {
		t.Errorf("call in flight: %s", out.Octets)
	}
}

func TestRetireReturnsOnceLeaveHasEndedASubscription(t *testing.T) {
	h, arrived, _, _ := slowly(t)
	s := behind(t, h, mcphttp.BackendOptions{})
	c := s.dial("alice")
	listening := c.start(t.Context(), &mcpmap.Call{Octets: []byte(stateless(`"sub"`, mcpmap.MethodListen, ""))})
	await(t, "the subscription", arrived)
	retired := s.retire(t.Context())
	s.served.Leave("another")
	same(t, "in flight, when another has left", s.server.Stats().InFlight, 1)
	s.served.Leave("one")
	if out := await(t, "end", listening); out.err != nil || !strings.Contains(string(out.Octets), "this server was changed or removed") {
		t.Errorf("subscription: %+v", out)
	}
	if err := await(t, "Retire", retired); err != nil {
		t.Errorf("Retire: %v", err)
	}
}
