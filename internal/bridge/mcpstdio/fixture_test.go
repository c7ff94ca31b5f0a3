package mcpstdio_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// kinds are how callers reach a site: directly, or through two endpoints over a
// transport.
var kinds = append([]string{"direct"}, transporttest.Kinds()...)

// overAll runs a test over every kind of connection.
func overAll(t *testing.T, f func(t *testing.T, kind string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { f(t, kind) })
	}
}

// site is a Server with a scripted child behind a Mapping.
type site struct {
	t      *testing.T
	server *mcpstdio.Server
	served *mcpmap.Mapping

	answers atomic.Int64 // responses of children

	mu     sync.Mutex
	events []mcpstdio.Event
}

// serve starts a site; at the end of the test everything must be gone.
func serve(t *testing.T, mode string, cfg mcpstdio.Config) *site {
	t.Helper()
	s := &site{t: t}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Name, cfg.Command = "one", self
	cfg.Env = append(cfg.Env, "SCRIPT="+mode)
	if cfg.Path == "" {
		cfg.Path = os.Getenv("PATH")
	}
	cfg.Observe = func(e mcpstdio.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}
	cfg.Answered = func() { s.answers.Add(1) }
	if s.server, err = mcpstdio.New(cfg); err != nil {
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
		if st := s.server.Stats(); st.Children != 0 || st.InFlight != 0 {
			t.Errorf("after Close: %+v", st)
		}
	})
	return s
}

func (s *site) count(what mcpstdio.What) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.What == what {
			n++
		}
	}
	return n
}

// all returns the events so far.
func (s *site) all() []mcpstdio.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// reasons returns why children have ended so far.
func (s *site) reasons() (list []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.What == mcpstdio.Exited {
			list = append(list, e.Err)
		}
	}
	return list
}

func (s *site) lines(what mcpstdio.What) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.What == what {
			lines = append(lines, e.Line)
		}
	}
	return lines
}

// caller is one peer of a site.
type caller struct {
	t      *testing.T
	client *mcpmap.Client
	far    profiles.Session // the site's end
	hangUp func()

	inFlight func() int
}

// dial connects a caller of its own identity, directly.
func (s *site) dial(identity string) *caller {
	s.t.Helper()
	calling := mcpmap.New(mcpmap.Options{})
	near, far := profiletest.Pair(identity, registry(s.t, calling), "server", registry(s.t, s.served), profiletest.SessionOptions{})
	s.t.Cleanup(func() { near.Close(); near.Wait(); far.Wait() })
	return &caller{t: s.t, client: calling.Client(near), far: far, hangUp: near.Close}
}

// dialOver connects a caller over a kind of connection.
func (s *site) dialOver(kind string) *caller {
	s.t.Helper()
	if kind == "direct" {
		return s.dial("alice")
	}
	calling := mcpmap.New(mcpmap.Options{})
	server, client := transporttest.Pair(s.t, kind)
	near, far := attach(s.t, calling, client), attach(s.t, s.served, server)
	return &caller{t: s.t, client: calling.Client(near), far: far, hangUp: func() { near.Close(profiles.OK) }}
}

// watch logs what a test would want to know if it failed.
type watch struct{ t *testing.T }

func (w watch) Verdict(v endpoint.Verdict) {
	if v.Reject || v.Action != endpoint.Kept {
		w.t.Logf("refused: %v %s: %v (%v), profile %d, type %d, %d octets", v.Code, v.Detail, v.Err, v.Action, v.ProfileID, v.MsgType, v.Bytes)
	}
}
func (watch) Security(transport.SecurityEvent) {}
func (watch) Opened(*endpoint.Session)         {}
func (watch) Closed(*endpoint.Session, error)  {}
func (watch) Refused(*transport.Peer)          {}

// attach serves one end of a connection with an endpoint of its own.
func attach(t *testing.T, m *mcpmap.Mapping, conn transport.Conn) *endpoint.Session {
	t.Helper()
	ep, err := endpoint.New(endpoint.Options{Registry: registry(t, m), Observer: watch{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ep.Close(); err != nil {
			t.Error(err)
		}
		// Held requests end by themselves once they see their peer gone.
		await(t, func() bool { return ep.Stats().InFlightBytes == 0 })
	})
	return ep.Attach(conn)
}

func registry(t *testing.T, m *mcpmap.Mapping) *profiles.Registry {
	t.Helper()
	r, err := profiles.NewRegistry(m.Profile())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type outcome struct {
	octets  string
	session string
	err     error
}

// start sends a request, and returns where its outcome will be.
func (c *caller) start(call *mcpmap.Call) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := c.client.Do(c.t.Context(), call)
		if err != nil {
			done <- outcome{err: err}
			return
		}
		done <- outcome{string(r.Octets), r.Session, nil}
	}()
	return done
}

// do sends a request and returns the response.
func (c *caller) do(octets string) string {
	c.t.Helper()
	return c.in("", octets)
}

// in is do in a session.
func (c *caller) in(session, octets string) string {
	c.t.Helper()
	out := <-c.start(&mcpmap.Call{Session: session, Octets: []byte(octets)})
	if out.err != nil {
		c.t.Fatalf("%.200s: %v", octets, out.err)
	}
	return out.octets
}

func (c *caller) initialize(events mcpmap.Events) string {
	c.t.Helper()
	out := <-c.start(&mcpmap.Call{Octets: []byte(`{"jsonrpc":"2.0","id":"i","method":"initialize"}`), Events: events})
	if out.err != nil || out.session == "" {
		c.t.Fatalf("initialize: %v %s", out.err, out.octets)
	}
	return out.session
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

// modern is a stateless request whose params have a member text.
func modern(id, method, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s,"text":%s}}`, id, method, meta, quote(text))
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func decode[T any](t *testing.T, response string) T {
	t.Helper()
	var r struct {
		Result *T              `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal([]byte(response), &r); err != nil || r.Result == nil {
		t.Fatalf("response %.300s: %v", response, err)
	}
	return *r.Result
}

func unhex(t *testing.T, response string) string {
	t.Helper()
	b, err := hex.DecodeString(decode[string](t, response))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %.300v, want %.300v", what, got, want)
	}
}
