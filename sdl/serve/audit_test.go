package serve_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
)

// ledger is an audit chain in memory.
type ledger struct {
	events       []canonical.Value
	ready, fails error
	silent       bool // adds nothing, and refuses nothing
	of           []string
}

func (l *ledger) Of(identity string) serve.Audit {
	l.of = append(l.of, identity)
	return l
}

func (l *ledger) Ready() error { return l.ready }

func (l *ledger) Add(event canonical.Value) (canonical.Value, error) {
	if l.fails != nil || l.silent {
		return canonical.Value{}, l.fails
	}
	l.events = append(l.events, event)
	return l.Longest(), nil
}

func (*ledger) Longest() canonical.Value {
	return canonical.Object(canonical.Member{Name: "entry_hash", Value: canonical.String(strings.Repeat("h", 71))})
}

var errDisk = errors.New("disk")

func TestEachAnsweredRequestHasAnEntryAndAReceipt(t *testing.T) {
	l := new(ledger)
	o := guarded(t)
	o.Audit = l
	s := newServer(t, o)
	good := sign(t, request(t, sdl.CTTask, taskPayload), "n1")
	for i, row := range []struct {
		body  string
		event string // without the id of the answer
	}{
		{string(good.AppendJSON(nil)), `{"request_id":"r1","request_ct":"task.v1","request_from":"did:key:planner","request_payload_present":true,
			"response_ct":"state.v1","response_error_code":null}`},
		{string(good.AppendJSON(nil)), `{"request_id":"r1","request_ct":"task.v1","request_from":"did:key:planner","request_payload_present":true,
			"response_ct":"error.v1","response_error_code":"BAD_REQUEST"}`},
		{"{", `{"request_id":null,"request_ct":null,"request_from":null,"request_payload_present":false,
			"response_ct":"error.v1","response_error_code":"UNSUPPORTED_ENCODING"}`},
		{`{"id":"` + strings.Repeat("x", 511) + `é","ct":7}`, `{"request_id":"` + strings.Repeat("x", 511) + `","request_ct":null,"request_from":null,"request_payload_present":false,
			"response_ct":"error.v1","response_error_code":"BAD_REQUEST"}`},
	} {
		out := deliver(t, s, []byte(row.body), serve.Caller{Identity: row.body, Type: sdl.TypeReq})
		if len(l.of) != i+1 || l.of[i] != row.body {
			t.Errorf("the entry is of %q", l.of)
		}
		if len(l.events) != i+1 {
			t.Fatalf("%d entries after %d requests", len(l.events), i+1)
		}
		event := l.events[i]
		equal(t, "event", event.Without("response_id"), row.event)
		if !event.Get("response_id").Equal(out.Response.Get("id")) {
			t.Errorf("the entry is of answer %s, not of %s", event.AppendJSON(nil), out.Response.AppendJSON(nil))
		}
		trace := out.Response.Get("trace")
		if !trace.Get("audit").Equal(l.Longest()) {
			t.Errorf("no receipt: %s", trace.AppendJSON(nil))
		}
		if i < 2 {
			if _, err := seal.Verify(out.Response, publicKey(executorKid)); err != nil || text(trace.Get("parent_span_id")) != "span" {
				t.Errorf("%v: %s", err, out.Response.AppendJSON(nil))
			}
			continue
		}
		// The request has no trace.
		hops, ok := trace.Get("hops").Int64()
		if !trace.Get("root_id").Equal(out.Response.Get("id")) || text(trace.Get("span_id")) == "" || trace.Has("parent_span_id") || hops != 0 || !ok {
			t.Errorf("trace %s", trace.AppendJSON(nil))
		}
	}
	event := request(t, sdl.CTTask, taskPayload).With("type", canonical.String(sdl.TypeEvt)).AppendJSON(nil)
	if out := s.Handle(t.Context(), event, sdl.JSON, serve.Caller{Type: sdl.TypeReq}); out.Answer != nil || len(l.events) != 4 {
		t.Errorf("what is not answered has an entry: %s", out.Answer)
	}
}

func TestARequestIsRefusedBeforeItsHandlerWhileNoEntryCanBeAdded(t *testing.T) {
	l := &ledger{ready: errDisk}
	o := guarded(t)
	o.Audit = l
	calls := 0
	o.Handlers = map[string]serve.Handler{sdl.CTTask: func(context.Context, *serve.Request) (serve.Result, error) {
		calls++
		return serve.Result{CT: sdl.CTState, Payload: parse(t, `{"base":"b","patch":[]}`)}, nil
	}}
	s := newServer(t, o)
	v := sign(t, request(t, sdl.CTTask, taskPayload), "n1")
	for _, body := range []string{string(v.AppendJSON(nil)), "{"} {
		out := deliver(t, s, []byte(body), serve.Caller{})
		refused(t, out, sdl.Internal, true)
		if trace := out.Response.Get("trace"); trace.Has("audit") {
			t.Errorf("a receipt without an entry: %s", trace.AppendJSON(nil))
		}
	}
	if calls > 0 {
		t.Error("the handler was called")
	}
	event := v.With("type", canonical.String(sdl.TypeEvt)).AppendJSON(nil)
	if out := s.Handle(t.Context(), event, sdl.JSON, serve.Caller{Type: sdl.TypeReq}); out.Answer != nil {
		t.Errorf("answered: %s", out.Answer)
	}
	l.ready = nil
	if out := ask(t, s, v); calls != 1 || out.Err != nil { // its nonce was not used
		t.Errorf("later: %d calls, %v", calls, out.Err)
	}
}

func TestAnAnswerWithoutAnEntryIsNotSent(t *testing.T) {
	l := &ledger{fails: errDisk}
	var failed error
	s := newServer(t, serve.Options{Audit: l, Failed: func(_ *serve.Request, err error) { failed = err }})
	out := ask(t, s, request(t, sdl.CTTask, taskPayload))
	refused(t, out, sdl.Internal, true)
	if failed == nil || out.Response.Get("trace").Has("audit") {
		t.Errorf("failed %v, answer %s", failed, out.Response.AppendJSON(nil))
	}
	l.fails, l.silent = nil, true
	out = ask(t, s, request(t, sdl.CTTask, taskPayload))
	if payload(t, out, sdl.CTState); out.Response.Get("trace").Has("audit") {
		t.Errorf("a receipt: %s", out.Response.AppendJSON(nil))
	}
}

// The receipt counts for the limits, and an answer that is too long with it has no entry.
func TestAnAnswerHasRoomForItsReceipt(t *testing.T) {
	l := new(ledger)
	o := serve.Options{Audit: l, Limits: sdl.Limits{MaxBytes: 9999, MaxDepth: 64, MaxArray: 10_000, MaxHops: 8}, Handlers: map[string]serve.Handler{sdl.CTTask: func(context.Context, *serve.Request) (serve.Result, error) {
		return serve.Result{CT: sdl.CTState, Payload: parse(t, `{"base":"b","patch":[{"op":"add","path":"/x","value":"`+strings.Repeat("v", 5000)+`"}]}`)}, nil
	}}}
	v := request(t, sdl.CTTask, taskPayload)
	n := ask(t, newServer(t, o), v).Response.JSONSize()
	for most, want := range map[int]string{n: sdl.CTState, n - 1: sdl.CTError} {
		l.events = nil
		o.Limits.MaxBytes = most
		out := ask(t, newServer(t, o), v)
		if got := text(out.Response.Get("ct")); got != want || len(l.events) != 1 || text(l.events[0].Get("response_ct")) != want {
			t.Errorf("%d octets at most: %s, %d entries", most, got, len(l.events))
		}
	}
}

func TestARequestThatWasNotReadHasNoEntry(t *testing.T) {
	l := new(ledger)
	out := newServer(t, serve.Options{Audit: l}).Refuse(&sdl.Error{Code: sdl.Internal})
	if out.Response.Has("trace") || len(l.events) > 0 {
		t.Errorf("%s", out.Answer)
	}
}

func TestAResultThatIsNotKeptIsRefused(t *testing.T) {
	l := new(ledger)
	s := newServer(t, serve.Options{Audit: l, Keep: func(_ context.Context, r *serve.Request, result serve.Result) error {
		if r.Envelope.CT != sdl.CTTask || result.CT != sdl.CTState {
			t.Errorf("%s is kept for %s", result.CT, r.Envelope.CT)
		}
		return errDisk
	}})
	refused(t, ask(t, s, request(t, sdl.CTTask, taskPayload)), sdl.Internal, true)
	if len(l.events) != 1 || text(l.events[0].Get("response_error_code")) != string(sdl.Internal) {
		t.Errorf("entries %v", l.events)
	}
}
