package mcphttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/profiletest"
)

// backSite is a Backend behind a Mapping.
type backSite struct {
	t      *testing.T
	server *mcphttp.Backend
	served *mcpmap.Mapping

	answers atomic.Int64 // proper responses

	mu       sync.Mutex
	troubles []error
}

// behind starts a site for the server of a handler; at the end of the test everything
// must be gone.
func behind(t *testing.T, h http.Handler, opts mcphttp.BackendOptions) *backSite {
	t.Helper()
	if opts.URL == "" {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		opts.URL = server.URL + "/mcp"
	}
	s := &backSite{t: t}
	opts.Name = "one"
	opts.Trouble = func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.troubles = append(s.troubles, err)
	}
	opts.Answered = func() { s.answers.Add(1) }
	var err error
	if s.server, err = mcphttp.NewBackend(opts); err != nil {
		t.Fatal(err)
	}
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": s.server}, "")
	if err != nil {
		t.Fatal(err)
	}
	s.served = mcpmap.New(mcpmap.Options{Backend: table})
	t.Cleanup(func() {
		s.served.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.server.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if st := s.server.Stats(); st.InFlight != 0 || st.Sessions != 0 {
			t.Errorf("after Close: %+v", st)
		}
		if t.Failed() {
			t.Logf("troubles: %v", s.told())
		}
	})
	return s
}

func (s *backSite) told() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.troubles...)
}

// backCaller is one peer of a site.
type backCaller struct {
	t      *testing.T
	client *mcpmap.Client
	hangUp func()
}

// dial connects a caller of its own identity.
func (s *backSite) dial(identity string) *backCaller {
	s.t.Helper()
	calling := mcpmap.New(mcpmap.Options{})
	near, far := profiletest.Pair(identity, registryOf(s.t, calling), "server", registryOf(s.t, s.served), profiletest.SessionOptions{})
	s.t.Cleanup(func() { near.Close(); near.Wait(); far.Wait() })
	return &backCaller{t: s.t, client: calling.Client(near), hangUp: near.Close}
}

func registryOf(t *testing.T, m *mcpmap.Mapping) *profiles.Registry {
	t.Helper()
	r, err := profiles.NewRegistry(m.Profile())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type answered struct {
	*mcpmap.Result
	err error
}

// start makes a call, and returns where its outcome will be.
func (c *backCaller) start(ctx context.Context, call *mcpmap.Call) <-chan answered {
	done := make(chan answered, 1)
	go func() {
		r, err := c.client.Do(ctx, call)
		done <- answered{r, err}
	}()
	return done
}

// in calls in a session, or in none.
func (c *backCaller) in(session, octets string) *mcpmap.Result {
	c.t.Helper()
	return c.call(&mcpmap.Call{Session: session, Octets: []byte(octets)})
}

func (c *backCaller) call(call *mcpmap.Call) *mcpmap.Result {
	c.t.Helper()
	out := <-c.start(c.t.Context(), call)
	if out.err != nil {
		c.t.Fatalf("%.200s: %v", call.Octets, out.err)
	}
	return out.Result
}

// open initializes a session.
func (c *backCaller) open(events mcpmap.Events) string {
	c.t.Helper()
	r := c.call(&mcpmap.Call{Octets: []byte(initializeRequest), Events: events})
	if r.Session == "" {
		c.t.Fatalf("initialize: no session; answer %s", r.Octets)
	}
	c.notify(r.Session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return r.Session
}

func (c *backCaller) notify(session, octets string) {
	c.t.Helper()
	if err := c.client.Notify(c.t.Context(), "", session, []byte(octets)); err != nil {
		c.t.Fatal(err)
	}
}

const (
	initializeRequest = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"sampling":{},"roots":{},"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`
	initializeResult = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`

	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` +
		`{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

	discovered = `{"supportedVersions":["2026-07-28"],"capabilities":{}}`
)

// stateless is a request of the stateless era with members of params.
func stateless(id, method, params string) string {
	if params != "" {
		params = "," + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, id, method, modernMeta, params)
}

// posted is a request as a scripted server sees it.
type posted struct {
	*http.Request
	body []byte
	msg  mcpmap.Message
}

// stuck is a server that answers probes and initialize, and no other request. It tells of each
// that has arrived.
func stuck(t testing.TB, arrived chan<- struct{}) http.Handler {
	return script(t, func(w http.ResponseWriter, p *posted) {
		if p.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		arrived <- struct{}{}
		<-p.Context().Done()
	})
}

// script is a server that answers probes and initialize, and leaves the rest to f.
// In the era with sessions it has sessions.
func script(t testing.TB, f func(w http.ResponseWriter, p *posted)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the caller is gone
		}
		p := &posted{Request: req, body: body}
		if req.Method == http.MethodPost {
			if err := p.msg.Scan(body); err != nil {
				t.Errorf("request %.200q: %v", body, err)
			}
			switch {
			case string(p.msg.ID()) == `"swp-probe-discover"`:
				respond(w, p.msg.ID(), discovered)
				return
			case p.msg.Is(mcpmap.MethodInitialize):
				w.Header().Set("Mcp-Session-Id", "the-session-of-the-server")
				respond(w, p.msg.ID(), initializeResult)
				return
			case p.msg.Kind() != mcpmap.Request && p.msg.Is("notifications/initialized"):
				w.WriteHeader(http.StatusAccepted)
				return
			}
		}
		f(w, p)
	})
}

func respond(w http.ResponseWriter, id []byte, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// streaming starts a stream of events and returns what writes one.
func streaming(w http.ResponseWriter) (send func(format string, args ...any)) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, format, args...)
		_ = flush.Flush()
	}
}

// problem is an error answer.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Code      string `json:"code"`
		Retryable bool   `json:"retryable"`
	} `json:"data"`
}

func problemOf(t *testing.T, octets []byte) problem {
	t.Helper()
	var r struct {
		Error *problem `json:"error"`
	}
	if err := json.Unmarshal(octets, &r); err != nil || r.Error == nil {
		t.Fatalf("answer %.300s is no error (%v)", octets, err)
	}
	return *r.Error
}

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("no %s", what)
	}
	panic(errors.New("unreachable"))
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %.300v, want %.300v", what, got, want)
	}
}
