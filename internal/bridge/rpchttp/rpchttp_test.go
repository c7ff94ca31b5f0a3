package rpchttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/rpchttp"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/bridge/upstream/upstreamtest"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is an RPC profile with methods behind an HTTP server.
type service struct {
	t       *testing.T
	profile *profiles.Profile
	trouble chan error
	answers atomic.Int64
}

type setup struct {
	upstream   upstream.Options
	repeatable []string
	outcomes   bool
	places     *fair.Slots
}

var names = []string{"demo.echo", "demo.other", "strange/na me?#%2f"}

func newService(t *testing.T, o setup, h http.HandlerFunc) *service {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	client := upstream.New(o.upstream)
	t.Cleanup(client.Close)
	s := &service{t: t, trouble: make(chan error, 100)}
	methods, err := rpchttp.Methods(rpchttp.Options{
		Name: "crm", URL: srv.URL + "/base/", Methods: names, Repeatable: o.repeatable, Client: client, Places: o.places,
		Trouble:  func(_ string, err error) { s.trouble <- err },
		Answered: func() { s.answers.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	opts := rpc.Options{Methods: methods}
	if o.outcomes {
		db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		opts.Outcomes = db
	}
	if s.profile, err = rpc.New(opts); err != nil {
		t.Fatal(err)
	}
	return s
}

// dial returns a caller of an identity.
func (s *service) dial(identity string) profiles.Session {
	s.t.Helper()
	registry := func(p *profiles.Profile, err error) *profiles.Registry {
		if err != nil {
			s.t.Fatal(err)
		}
		r, err := profiles.NewRegistry(p)
		if err != nil {
			s.t.Fatal(err)
		}
		return r
	}
	a, b := profiletest.Pair(identity, registry(rpc.New(rpc.Options{})), "spiffe://test/server", registry(s.profile, nil), profiletest.SessionOptions{})
	s.t.Cleanup(func() {
		a.Close()
		a.Wait()
		b.Wait()
	})
	return a
}

func (s *service) call(method, params string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	result, err := rpc.Call(ctx, s.dial("spiffe://test/a"), method, []byte(params))
	return string(result), err
}

func TestACallIsOneRequest(t *testing.T) {
	type seen struct {
		method, uri, body string
		header            http.Header
	}
	var last seen
	s := newService(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last = seen{r.Method, r.RequestURI, string(body), r.Header.Clone()}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "a=b")
		_, _ = io.WriteString(w, " {\"as\" : \"it is\"}\n")
	})
	for _, test := range []struct{ method, params, uri, contentType string }{
		{"demo.echo", ` {"a" : 1} `, "/base/demo.echo", "application/json"},
		{"demo.echo", "\xff\x00", "/base/demo.echo", "application/octet-stream"},
		{"demo.other", "", "/base/demo.other", ""},
		{"strange/na me?#%2f", "1", "/base/strange%2Fna%20me%3F%23%252f", "application/json"},
	} {
		got, err := s.call(test.method, test.params)
		if err != nil || got != " {\"as\" : \"it is\"}\n" {
			t.Errorf("%s: %q, %v, want the octets of the server", test.method, got, err)
		}
		h := last.header
		if last.method != "POST" || last.uri != test.uri || last.body != test.params || h.Get("Content-Type") != test.contentType {
			t.Errorf("request %+v, want %+v", last, test)
		}
		if h.Get("Swp-Peer") != "spiffe://test/a" || h.Get("Idempotency-Key") != "" || h.Get("Cookie") != "" || h.Get("Authorization") != "" {
			t.Errorf("headers %v", h)
		}
	}
}

func TestGW01APeerReachesNoOtherURL(t *testing.T) {
	var requests atomic.Int64
	s := newService(t, setup{}, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	for _, method := range []string{
		"demo.echo/../admin", "../admin", "demo.echo?x=y", "demo.echo#x", "/demo.echo", "demo.echo/", "http://127.0.0.1:1/", "demo.echo\r\nX: y", "DEMO.ECHO",
	} {
		_, err := s.call(method, "")
		if got := new(rpc.Error); !errors.As(err, &got) || got.Code != rpc.CodeUnknownMethod {
			t.Errorf("%q: %v, want unknown_method", method, err)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
	for _, o := range []rpchttp.Options{
		{Name: "crm", URL: "file:///etc"}, {Name: "crm", URL: "http://127.0.0.1/?x=y"}, {Name: "crm", URL: "http://user:password@127.0.0.1/"},
		{Name: "crm", URL: "http://127.0.0.1/", Methods: []string{".."}}, {Name: "crm", URL: "http://127.0.0.1/", Methods: []string{"."}},
		{Name: "crm", URL: "http://127.0.0.1/", Methods: []string{""}}, {Name: "crm", URL: "http://127.0.0.1/", Methods: []string{"a"}, Repeatable: []string{"b"}},
		{URL: "http://127.0.0.1/", Methods: []string{"a"}},
	} {
		if _, err := rpchttp.Methods(o); err == nil {
			t.Errorf("%+v: accepted", o)
		}
	}
}

func TestStreamsArriveAsTheyAreWritten(t *testing.T) {
	next := make(chan struct{})
	s := newService(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
		for _, line := range []string{`{"item":1}`, "", ` { "item" : {"b" : [ ] } } `, `{"item":"x"}`} {
			_, _ = fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
			if line != "" {
				<-next
			}
		}
		_, _ = fmt.Fprintln(w, `{"result":{"count":3,"done":true}}`)
	})
	stream, err := rpc.Open(t.Context(), s.dial("spiffe://test/a"), "demo.echo", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for _, want := range []string{"1", `{"b" : [ ] }`, `"x"`} {
		item, err := stream.Recv(t.Context())
		if err != nil || string(item) != want {
			t.Fatalf("item %q, %v, want %q", item, err, want)
		}
		next <- struct{}{}
	}
	if _, err := stream.Recv(t.Context()); err != io.EOF || string(stream.Result()) != `{"count":3,"done":true}` {
		t.Errorf("result %q, %v", stream.Result(), err)
	}
}

// answer is a handler that answers every request alike.
func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestFailuresOfTheServer(t *testing.T) {
	const ndjson = "application/x-ndjson"
	unknown := "; whether the call had an effect is not known"
	for _, test := range []struct {
		name       string
		h          http.HandlerFunc
		want       rpc.Error
		repeatable string // another message and retryable, for repeatable methods
	}{
		{"400", answer(400, "text/plain", "secret"), rpc.Error{Code: "invalid_request", Message: "back end crm answered with status 400"}, ""},
		{"401", answer(401, "", ""), rpc.Error{Code: "unauthorized", Message: "back end crm answered with status 401"}, ""},
		{"403", answer(403, "", ""), rpc.Error{Code: "unauthorized", Message: "back end crm answered with status 403"}, ""},
		{"404", answer(404, "", ""), rpc.Error{Code: "unknown_method", Message: "back end crm answered with status 404"}, ""},
		{"408", answer(408, "", ""), rpc.Error{Code: "timeout", Message: "back end crm answered with status 408", Retryable: true}, ""},
		{"418", answer(418, "", ""), rpc.Error{Code: "invalid_request", Message: "back end crm answered with status 418"}, ""},
		{"429", answer(429, "", ""), rpc.Error{Code: "unavailable", Message: "back end crm answered with status 429", Retryable: true}, ""},
		{"500", answer(500, "", ""), rpc.Error{Code: "internal", Message: "back end crm answered with status 500"}, ""},
		{"502", answer(502, "", ""), rpc.Error{Code: "unavailable", Message: "back end crm answered with status 502", Retryable: true}, ""},
		{"503", answer(503, "", ""), rpc.Error{Code: "unavailable", Message: "back end crm answered with status 503", Retryable: true}, ""},
		{"504", answer(504, "", ""), rpc.Error{Code: "timeout", Message: "back end crm answered with status 504" + unknown}, "back end crm answered with status 504"},
		{"302", answer(302, "", ""), rpc.Error{Code: "internal", Message: "back end crm answered with status 302"}, ""},
		{"json", answer(409, "application/json", `{"code":"conflict","message":"taken","retryable":true,"more":1}`), rpc.Error{Code: "conflict", Message: "taken", Retryable: true}, ""},
		{"json of another kind", answer(409, "application/json", `{"error":"x"}`), rpc.Error{Code: "invalid_request", Message: "back end crm answered with status 409"}, ""},
		{"broken json", answer(500, "application/json", `{"code":`), rpc.Error{Code: "internal", Message: "back end crm answered with status 500"}, ""},
		{"error in a stream", answer(200, ndjson, "{\"item\":1}\n{\"error\":{\"code\":\"c\",\"message\":\"m\"}}\n{\"result\":1}\n"), rpc.Error{Code: "c", Message: "m"}, ""},
		{"no object", answer(200, ndjson, "[1]\n"), rpc.Error{Code: "internal", Message: "back end crm gave no proper answer"}, ""},
		{"two members", answer(200, ndjson, `{"item":1,"result":2}`), rpc.Error{Code: "internal", Message: "back end crm gave no proper answer"}, ""},
		{"another member", answer(200, ndjson, `{"Item":1}`), rpc.Error{Code: "internal", Message: "back end crm gave no proper answer"}, ""},
		{"an error without a code", answer(200, ndjson, `{"error":{}}`), rpc.Error{Code: "internal", Message: "back end crm gave no proper answer"}, ""},
		{"no result", answer(200, ndjson, "{\"item\":1}\n"), rpc.Error{Code: "unavailable", Message: "back end crm ended the stream without a result" + unknown}, "back end crm ended the stream without a result"},
		{"sudden close", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
		}, rpc.Error{Code: "unavailable", Message: "the connection to back end crm was lost" + unknown}, "the connection to back end crm was lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, repeatable := range []bool{false, true} {
				o, want := setup{}, test.want
				if repeatable {
					o.repeatable = names[:1]
					if test.repeatable != "" {
						want.Message, want.Retryable = test.repeatable, true
					}
				}
				_, err := newService(t, o, test.h).call("demo.echo", "")
				if got := new(rpc.Error); !errors.As(err, &got) || *got != want {
					t.Errorf("repeatable %v: %v, want %+v", repeatable, err, want)
				}
			}
		})
	}
}

func TestGW09TheServerCannotHoldOrFloodACall(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	big := func(w io.Writer) {
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range 1 << 10 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for name, test := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"no head": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}, rpc.CodeTimeout},
		"a stream that falls silent": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_, _ = io.WriteString(w, "{\"item\":1}\n{\"item\":")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, rpc.CodeTimeout},
		"an endless stream": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("\n", 4096))
			}
		}, rpc.CodeInternal},
		"1 GiB": {func(w http.ResponseWriter, _ *http.Request) { big(w) }, rpc.CodeInternal},
		"a gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_ = upstreamtest.Bomb(w, 1<<30)
		}, rpc.CodeInternal},
		"a line of 1 GiB": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			big(w)
		}, rpc.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			o := setup{upstream: upstream.Options{MaxBody: 1 << 20, MaxLine: 1 << 20, MaxLines: 2 << 20}}
			if test.want == rpc.CodeTimeout {
				o.upstream.Silence = 100 * time.Millisecond
			}
			s := newService(t, o, test.h)
			_, err := s.call("demo.echo", "")
			if got := new(rpc.Error); !errors.As(err, &got) || got.Code != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
			if len(s.trouble) != 1 {
				t.Errorf("%d troubles were told, want 1", len(s.trouble))
			}
		})
	}
}

// A backend that refuses a call works; one that answers with an error page does not.
func TestAnswersAndFailuresOfAServerAreTold(t *testing.T) {
	for name, test := range map[string]struct {
		h       http.HandlerFunc
		answers int64
	}{
		"a result":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("1")) }, 1},
		"not found":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, 1},
		"an error page": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 0},
		"an error of its own": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"code":"broken"}`))
		}, 1},
		"the end of a stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_, _ = w.Write([]byte(`{"result":1}` + "\n"))
		}, 1},
		"an error in a stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_, _ = w.Write([]byte(`{"error":{"code":"broken"}}` + "\n"))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, setup{}, test.h)
			_, _ = s.call("demo.echo", "")
			if s.answers.Load() != test.answers || int64(len(s.trouble)) != 1-test.answers {
				t.Errorf("%d answers and %d troubles", s.answers.Load(), len(s.trouble))
			}
		})
	}
}

func TestGW09CancellationClosesTheRequest(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	s := newService(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.(http.Flusher).Flush()
		started <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	})
	session := s.dial("spiffe://test/a")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := rpc.Call(ctx, session, "demo.echo", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-ended
	// So does the end of the connection.
	if _, err := rpc.Open(t.Context(), session, "demo.echo", nil); err != nil {
		t.Fatal(err)
	}
	<-started
	session.(*profiletest.Session).Close()
	<-ended
	if len(s.trouble) != 0 {
		t.Errorf("trouble %v for what the caller ended", <-s.trouble)
	}
}

func TestKeysReachTheServerScopedToTheirOwner(t *testing.T) {
	keys := make(chan string, 10)
	s := newService(t, setup{outcomes: true}, func(_ http.ResponseWriter, r *http.Request) { keys <- r.Header.Get("Idempotency-Key") })
	call := func(identity, key string) string {
		t.Helper()
		in := rpc.Invocation{Method: "demo.echo", Params: []byte("p"), IdempotencyKey: key}
		if _, err := in.Call(t.Context(), s.dial(identity)); err != nil {
			t.Fatal(err)
		}
		select {
		case key := <-keys:
			return key
		default:
			return "not called"
		}
	}
	a := call("spiffe://test/a", "key")
	if len(a) != 66 || strings.Contains(a, "key") || !strings.HasPrefix(a, `"`) {
		t.Errorf("key %s, want 64 digits in quotes", a)
	}
	if again := call("spiffe://test/a", "key"); again != "not called" {
		t.Errorf("the call was repeated with key %s", again)
	}
	for _, other := range []string{call("spiffe://test/b", "key"), call("spiffe://test/a", "key2"), call("spiffe://test/ak", "ey")} {
		if other == a || len(other) != 66 {
			t.Errorf("key %s of another caller, or of another key", other)
		}
	}
}

func TestWhatWasLostUnderAKeyIsNotDoneTwice(t *testing.T) {
	var requests atomic.Int64
	h := func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
		}
	}
	for _, repeatable := range []bool{false, true} {
		requests.Store(0)
		o := setup{outcomes: true}
		if repeatable {
			o.repeatable = names
		}
		s := newService(t, o, h)
		in := rpc.Invocation{Method: "demo.echo", IdempotencyKey: "key"}
		session := s.dial("spiffe://test/a")
		_, first := in.Call(t.Context(), session)
		_, second := in.Call(t.Context(), session)
		switch {
		case first == nil:
			t.Error("the lost call succeeded")
		case repeatable && (second != nil || requests.Load() != 2):
			t.Errorf("repeatable: %v then %v, %d requests; want the second to succeed", first, second, requests.Load())
		case !repeatable && (second == nil || second.Error() != first.Error() || requests.Load() != 1):
			t.Errorf("not repeatable: %v then %v, %d requests; want the same error twice and one request", first, second, requests.Load())
		}
	}
}

// The trace context of a call reaches the server octet for octet, for as long as
// the call runs; what cannot stand in a header does not.
func TestTraceContextsReachTheServer(t *testing.T) {
	traces := make(chan [2]string, 1)
	s := newService(t, setup{outcomes: true}, func(_ http.ResponseWriter, r *http.Request) {
		if got := r.Header.Values("Swp-Policy"); len(got) != 1 || got[0] != "note=a%0Ab;MAY" {
			t.Errorf("Swp-Policy %q", got)
		}
		traces <- [2]string{r.Header.Get("traceparent"), r.Header.Get("tracestate")}
	})
	hints := []profiles.Hint{
		{Key: "note", Value: "a\nb", Scope: profiles.ScopeConnection}, {Key: "region", Value: "eu", Scope: "target:another"},
	}
	for _, test := range []struct{ given, want profiles.Trace }{
		{profiles.Trace{}, profiles.Trace{}},
		{profiles.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1, b=2"},
			profiles.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1, b=2"}},
		{profiles.Trace{Parent: "00-x\r\nHost: y", State: "\xff"}, profiles.Trace{}},
	} {
		attach := func(conn transport.Conn, p *profiles.Profile) *endpoint.Session {
			registry, err := profiles.NewRegistry(p)
			if err != nil {
				t.Fatal(err)
			}
			ep, err := endpoint.New(endpoint.Options{
				Registry: registry,
				Tracer: endpoint.ContextFunc(func(ctx context.Context, _ *profiles.Profile, _ *profiles.Request) context.Context {
					return profiles.WithHints(profiles.WithTrace(ctx, test.given), hints)
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ep.Close() })
			return ep.Attach(conn)
		}
		here, there := transport.Pipe()
		caller, err := rpc.New(rpc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		attach(there, s.profile)
		session := attach(here, caller)
		for _, key := range []string{"", test.given.Parent + "key"} {
			if _, err := (rpc.Invocation{Method: "demo.echo", IdempotencyKey: key}).Call(t.Context(), session); err != nil {
				t.Fatal(err)
			}
			if got := <-traces; got != [2]string{test.want.Parent, test.want.State} {
				t.Errorf("key %q: trace %q, want %q", key, got, test.want)
			}
		}
	}
}

func TestRS28CallsOfOneIdentityLeavePlacesAtABackEndForAnother(t *testing.T) {
	fairtest.Places(t, "rpc: calls of a back end", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
		began, ends := make(chan string), map[string]chan struct{}{fairtest.Alice: make(chan struct{}), fairtest.Mallory: make(chan struct{})}
		s := newService(t, setup{places: fair.NewSlots(16)}, func(w http.ResponseWriter, r *http.Request) {
			who := r.Header.Get("Swp-Peer")
			began <- who
			<-ends[who]
		})
		sessions := map[string]profiles.Session{}
		ended := make(chan error, 64)
		take := func(who string) bool {
			if sessions[who] == nil {
				sessions[who] = s.dial(who)
			}
			go func() {
				_, err := rpc.Call(t.Context(), sessions[who], "demo.echo", nil)
				ended <- err
			}()
			select {
			case <-began:
				return true
			case err := <-ended:
				var failed *rpc.Error
				if !errors.As(err, &failed) && !errors.As(err, new(*profiles.PeerError)) {
					t.Errorf("refused with %v", err)
				}
				return false
			}
		}
		return take, func(who string) {
			ends[who] <- struct{}{}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
