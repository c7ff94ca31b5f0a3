package serve_test

import (
	"testing"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

const (
	planner  = "did:key:planner"
	executor = "did:key:executor"
)

var clock = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func now() time.Time { return clock }

// parse reads a JSON text of a test.
func parse(t testing.TB, text string) canonical.Value {
	t.Helper()
	v, err := canonical.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// request returns a request of the planner to the executor.
func request(t testing.TB, ct, payload string) canonical.Value {
	t.Helper()
	return parse(t, `{"v":1,"id":"r1","ts":"2026-05-04T03:02:00Z","type":"req",
		"from":{"agent_id":"`+planner+`","name":"p","instance":"i","role":"planner"},
		"to":{"agent_id":"`+executor+`","name":"e","instance":"j","role":"executor"},
		"cap":{"a2a_sdl":{"v":1}},
		"trace":{"root_id":"root","span_id":"span","hops":2}}`).
		With("ct", canonical.String(ct)).With("schema", sdl.Schema(ct)).With("payload", parse(t, payload))
}

const taskPayload = `{"kind":"task.v1","goal":"tidy up","inputs":{},
	"constraints":{"time_budget_s":30,"compute_budget":"low","safety":{}},
	"deliverables":[],"acceptance":[],"context":{}}`

// newServer returns a server at the time of the clock.
func newServer(t testing.TB, o serve.Options) *serve.Server {
	t.Helper()
	if o.Now == nil {
		o.Now = now
	}
	s, err := serve.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask delivers a message as JSON; the answer has to be a valid envelope.
func ask(t testing.TB, s *serve.Server, v canonical.Value) *serve.Outcome {
	t.Helper()
	return deliver(t, s, v.AppendJSON(nil), serve.Caller{})
}

func deliver(t testing.TB, s *serve.Server, body []byte, caller serve.Caller) *serve.Outcome {
	t.Helper()
	out := s.Handle(t.Context(), body, sdl.JSON, caller)
	valid(t, out.Answer, sdl.JSON)
	return out
}

// valid returns the envelope in an answer.
func valid(t testing.TB, answer []byte, form sdl.Form) *sdl.Envelope {
	t.Helper()
	v, refused := sdl.Decode(answer, form, sdl.Limits{})
	if refused != nil {
		t.Fatalf("answer %q: %v", answer, refused)
	}
	e, refused := sdl.Validate(v, sdl.Options{Now: now})
	if refused != nil {
		t.Fatalf("answer %s: %v", answer, refused)
	}
	return e
}

// payload returns the payload of an answer, which is of a content type.
func payload(t testing.TB, out *serve.Outcome, ct string) canonical.Value {
	t.Helper()
	if got := text(out.Response.Get("ct")); got != ct {
		t.Fatalf("answer %s, want %s: %v", out.Response.AppendJSON(nil), ct, out.Err)
	}
	return out.Response.Get("payload")
}

// refused wants an error envelope with a code.
func refused(t testing.TB, out *serve.Outcome, code sdl.Code, retryable bool) canonical.Value {
	t.Helper()
	p := payload(t, out, sdl.CTError)
	if got := text(p.Get("code")); got != string(code) {
		t.Errorf("code %q, want %q: %v", got, code, out.Err)
	}
	if got, _ := p.Get("retryable").Bool(); got != retryable {
		t.Errorf("retryable %v, want %v: %v", got, retryable, out.Err)
	}
	return p
}

func text(v canonical.Value) string {
	s, _ := v.Text()
	return s
}

// equal compares with a JSON text.
func equal(t testing.TB, what string, got canonical.Value, want string) {
	t.Helper()
	if !got.Equal(parse(t, want)) {
		t.Errorf("%s: got %s, want %s", what, got.AppendJSON(nil), want)
	}
}
