package tracing_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/daemon/internal/tracing"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
	sampled  = "00-" + traceID + "-" + parentID + "-01"
	secret   = "correct horse battery staple"
)

// collector is what spans are sent to.
type collector struct {
	*httptest.Server

	mu    sync.Mutex
	spans []*tracepb.Span
	of    map[string]string // attributes of the resource
	paths []string
	raw   []byte
	token string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{of: make(map[string]string)}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in collectorpb.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = append(c.paths, r.URL.Path)
	c.raw = append(c.raw, body...)
	c.token = r.Header.Get("Authorization")
	for _, rs := range in.ResourceSpans {
		for _, kv := range rs.Resource.Attributes {
			c.of[kv.Key] = kv.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// got returns the spans so far, by name.
func (c *collector) got() map[string]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]*tracepb.Span)
	for _, s := range c.spans {
		all[s.Name] = s
	}
	return all
}

func attributes(s *tracepb.Span) map[string]string {
	all := make(map[string]string)
	for _, kv := range s.Attributes {
		all[kv.Key] = kv.Value.GetStringValue()
	}
	return all
}

// asker tells what trace context its handlers have. The msg_type says in which
// way they answer.
func asker() *profiles.Profile {
	tell := func(ctx context.Context, w profiles.Responder) error {
		t := profiles.TraceOf(ctx)
		return w.Finish(e1.Envelope{MsgType: 9, Payload: []byte(t.Parent + "|" + t.State)})
	}
	row := func(id uint64, name string) profiles.Type {
		return profiles.Type{ID: id, Name: name, Role: profiles.Initiating}
	}
	return &profiles.Profile{
		ID: 900, Name: "asker",
		Types: []profiles.Type{
			row(1, "INLINE"), row(2, "DETACHED"), row(3, "HELD"), row(4, "DEFERRED"), row(5, "REFUSED"), row(6, "UNKNOWN"), row(7, "BROKEN"),
			{ID: 9, Name: "TOLD", Role: profiles.Answer},
		},
		Lifecycle: func(*e1.Envelope) []byte { return []byte("task") },
		Refusal: func(*profiles.Request, *profiles.Error) (e1.Envelope, bool) {
			return e1.Envelope{MsgType: 9, Payload: []byte("refused")}, true
		},
		Handler: profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			switch req.MsgType {
			case 2:
				return req.Detach(func(ctx context.Context, _ *profiles.Request, w profiles.Responder) error { return tell(ctx, w) })
			case 3:
				_, w, err := req.Hold()
				if err != nil {
					return err
				}
				return tell(w.Context(), w)
			case 4:
				req.Defer()(nil)
				return nil
			case 5:
				return profiles.Errorf(profiles.InvalidProfilePayload, "%s", secret)
			case 6:
				return &profiles.Error{Code: profiles.NotFound, Detail: "no_such", Domain: true}
			case 7:
				return errors.New(secret)
			}
			return tell(ctx, w)
		}),
	}
}

// joining has handlers find the trace contexts of peers, as an endpoint does that is
// traced.
type joining struct {
	endpoint.Tracer
	contexts *obs.Contexts
}

func (j joining) Begin(ctx context.Context, p *profiles.Profile, req *profiles.Request) (context.Context, func(endpoint.Verdict)) {
	return j.Tracer.Begin(j.contexts.Attach(ctx, p, req), p, req)
}

// connect returns a lane whose other end is traced.
func connect(t *testing.T, url string, failed func(int, error)) (*tracing.Tracer, profiles.Lane) {
	t.Helper()
	contexts := obs.New(obs.Options{})
	tr, err := tracing.New(tracing.Options{Collector: url, Version: "v1", Identity: "spiffe://test/swpd", Failed: failed})
	if err != nil {
		t.Fatal(err)
	}
	attach := func(conn transport.Conn, tr endpoint.Tracer, list ...*profiles.Profile) *endpoint.Session {
		reg, err := profiles.NewRegistry(list...)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: reg, Tracer: tr})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ep.Close() })
		return ep.Attach(conn)
	}
	a, b := transport.Pipe()
	attach(b, joining{tr, contexts}, contexts.Profile(), asker())
	lane, err := attach(a, nil, obs.New(obs.Options{}).Profile(), asker()).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tr, lane
}

func ask(t *testing.T, lane profiles.Lane, msgType uint64) string {
	t.Helper()
	call, err := lane.Call(t.Context(), e1.Envelope{ProfileID: 900, MsgType: msgType, Payload: []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	env, err := call.Recv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(env.Payload)
}

func stop(t *testing.T, tr *tracing.Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := tr.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestSpansJoinTheTraceOfTheCaller(t *testing.T) {
	c := newCollector(t)
	tr, lane := connect(t, c.URL, nil)
	task := obs.IDs{TaskID: []byte("task")}
	for _, set := range []struct {
		name, state string
		ids         obs.IDs
	}{
		{"of the connection", "b=2, a=1 ", obs.IDs{}},
		{"of the task", "b=2, a=1 ", task},
		{"with a tracestate that is none", ",,=,", task},
		{"without a tracestate", "", task},
		{"with more members than are allowed", strings.Repeat("a=1,", 100), task},
		{"with a member that is there twice", "a=1,a=2", task},
	} {
		if err := obs.Send(t.Context(), lane, profiles.Trace{Parent: sampled, State: set.state}, set.ids); err != nil {
			t.Fatal(err)
		}
		for _, msgType := range []uint64{1, 2, 3} {
			parent, state, _ := strings.Cut(ask(t, lane, msgType), "|")
			if state != set.state {
				t.Errorf("%s: the handler has the tracestate %q, want %q", set.name, state, set.state)
			}
			if !strings.HasPrefix(parent, "00-"+traceID+"-") || strings.Contains(parent, parentID) || !strings.HasSuffix(parent, "-01") {
				t.Errorf("%s: the handler has %q", set.name, parent)
			}
		}
	}
	inline, _, _ := strings.Cut(ask(t, lane, 1), "|")
	if err := lane.Send(t.Context(), e1.Envelope{ProfileID: 900, MsgType: 4, Payload: []byte(secret)}); err != nil {
		t.Fatal(err)
	}
	for _, refused := range []uint64{5, 6, 7} {
		ask(t, lane, refused)
	}
	stop(t, tr)

	spans := c.got()
	for name, want := range map[string]struct {
		msgType, code, detail string
		failed                bool
	}{
		"asker INLINE":   {"1", "OK", "", false},
		"asker DETACHED": {"2", "OK", "", false},
		"asker HELD":     {"3", "OK", "", false},
		"asker DEFERRED": {"4", "OK", "", false},
		"asker REFUSED":  {"5", "ERR_INVALID_PROFILE_PAYLOAD", "", true},
		"asker UNKNOWN":  {"6", "ERR_NOT_FOUND", "no_such", false},
		"asker BROKEN":   {"7", "ERR_INTERNAL_ERROR", "", true},
	} {
		s := spans[name]
		if s == nil {
			t.Errorf("no span %q", name)
			continue
		}
		if hex.EncodeToString(s.TraceId) != traceID || hex.EncodeToString(s.ParentSpanId) != parentID {
			t.Errorf("%s: trace %x, parent %x", name, s.TraceId, s.ParentSpanId)
		}
		if s.Kind != tracepb.Span_SPAN_KIND_SERVER || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s: %v from %d to %d", name, s.Kind, s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
		got := attributes(s)
		if got["swp.profile"] != "asker" || got["swp.msg_type"] != want.msgType || got["swp.peer"] != "spiffe://pipe.invalid/a" ||
			got["swp.transport"] != "pipe" || got["swp.code"] != want.code || got["swp.detail"] != want.detail {
			t.Errorf("%s: attributes %v", name, got)
		}
		if failed := s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR; failed != want.failed {
			t.Errorf("%s: status %v", name, s.Status)
		}
	}
	if len(spans) != 7 {
		t.Errorf("%d kinds of spans, want 7: OBS itself has none", len(spans))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(string(c.raw), secret) {
		t.Error("a payload is in the spans")
	}
	if !slices.ContainsFunc(c.spans, func(s *tracepb.Span) bool {
		return "00-"+hex.EncodeToString(s.TraceId)+"-"+hex.EncodeToString(s.SpanId)+"-01" == inline
	}) {
		t.Errorf("no span is the one that the handler was told of, %s", inline)
	}
	if c.of["service.name"] != "swpd" || c.of["service.version"] != "v1" || c.of["swp.identity"] != "spiffe://test/swpd" {
		t.Errorf("made by %v", c.of)
	}
	if c.paths[0] != "/v1/traces" {
		t.Errorf("sent to %q", c.paths[0])
	}
	if tr.Sent() != uint64(len(c.spans)) || tr.Lost() != 0 {
		t.Errorf("%d sent and %d lost of %d", tr.Sent(), tr.Lost(), len(c.spans))
	}
}

func TestWithoutATraceASpanBeginsOne(t *testing.T) {
	c := newCollector(t)
	tr, lane := connect(t, c.URL+"/custom/path", nil)
	parent, state, _ := strings.Cut(ask(t, lane, 1), "|")
	stop(t, tr)
	s := c.got()["asker INLINE"]
	if s == nil || len(s.ParentSpanId) != 0 || fmt.Sprintf("00-%x-%x-01", s.TraceId, s.SpanId) != parent || state != "" {
		t.Errorf("span %v, the handler has %q, %q", s, parent, state)
	}
	if got := c.paths[0]; got != "/custom/path" {
		t.Errorf("sent to %q", got)
	}
}

func TestATraceThatIsNotSampledGoesOnAsItIs(t *testing.T) {
	c := newCollector(t)
	tr, lane := connect(t, c.URL, nil)
	const parent, state = "01-" + traceID + "-" + parentID + "-00-later", " a=1 "
	if err := obs.Send(t.Context(), lane, profiles.Trace{Parent: parent, State: state}, obs.IDs{}); err != nil {
		t.Fatal(err)
	}
	for _, msgType := range []uint64{1, 2, 3} {
		if got := ask(t, lane, msgType); got != parent+"|"+state {
			t.Errorf("the handler has %q", got)
		}
	}
	stop(t, tr)
	if spans := c.got(); len(spans) != 0 {
		t.Errorf("spans %v", spans)
	}
}

// A collector that takes nothing costs exchanges nothing, and a stop no more
// than it is given.
func TestACollectorThatHangsDelaysNobody(t *testing.T) {
	hang, hanging := make(chan struct{}), make(chan struct{}, 16)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hanging <- struct{}{}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(hang)
	var failures sync.WaitGroup
	failures.Add(1)
	var once sync.Once
	tr, lane := connect(t, srv.URL, func(n int, err error) {
		if n == 0 || err == nil {
			t.Errorf("%d spans were not sent: %v", n, err)
		}
		once.Do(failures.Done)
	})
	for range 6000 { // above all that may wait
		ask(t, lane, 1)
	}
	<-hanging
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	failures.Wait()
	if tr.Sent() != 0 || tr.Lost() == 0 {
		t.Errorf("%d sent, %d lost", tr.Sent(), tr.Lost())
	}
	if got := ask(t, lane, 1); !strings.HasPrefix(got, "00-") { // served all the same
		t.Errorf("after Close: %q", got)
	}
}

func TestSpansGoNowhereElse(t *testing.T) {
	c := newCollector(t)
	srv := httptest.NewServer(http.RedirectHandler(c.URL+"/v1/traces", http.StatusTemporaryRedirect))
	defer srv.Close()
	tr, lane := connect(t, srv.URL, nil)
	ask(t, lane, 1)
	stop(t, tr)
	if spans := c.got(); len(spans) != 0 || tr.Lost() != 1 {
		t.Errorf("a redirect took %d spans along; %d lost", len(spans), tr.Lost())
	}
}

func TestTheEnvironmentGivesHeadersAndNothingElse(t *testing.T) {
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer token")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tr, lane := connect(t, c.URL, nil)
	ask(t, lane, 1)
	stop(t, tr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spans) != 1 || c.token != "Bearer token" {
		t.Errorf("%d spans, authorization %q", len(c.spans), c.token)
	}
}

func TestNewRefusesWhatIsNoCollector(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://%zz"} {
		if _, err := tracing.New(tracing.Options{Collector: url}); err == nil || !strings.HasPrefix(err.Error(), "collector ") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
