package sdl_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// counted returns ids 1, 2, 3 …
func counted() func() string {
	n := 0
	return func() string { n++; return strconv.Itoa(n) }
}

func TestResponse(t *testing.T) {
	request := state(t).With("trace", parse(t, `{"root_id":"r","span_id":"s","hops":2}`))
	request = set(t, request, "from.extra", `{"kept":true}`)
	answer := sdl.Response(request, sdl.CTArtifact, parse(t, `{"items":[],"refs":[]}`), sdl.Writing{Tools: []string{"a/x", "b/y"}, Now: now, NewID: counted()})
	e, refused := sdl.Validate(answer, sdl.Options{Now: now})
	if refused != nil {
		t.Fatal(refused)
	}
	if e.Type != sdl.TypeRes || e.From != executor || !answer.Get("to").Equal(request.Get("from")) || e.ID != "1" || e.CT != sdl.CTArtifact || e.Sec.Present {
		t.Errorf("%v", answer)
	}
	if got := e.Trace; *got != (sdl.Trace{RootID: "r", SpanID: "2", ParentSpanID: "s", Hops: 3}) {
		t.Errorf("%+v", got)
	}
	const want = `{"a2a_sdl":{"comp":[],"enc":["cbor","json"],"kex":["x25519"],"sig":["ed25519"],"v":1},"limits":{"max_array_len":10000,"max_bytes":1048576,"max_depth":64,"max_hops":8},"modalities":["text"],"tools":["a/x","b/y"]}`
	if got := answer.Get("cap").String(); got != want {
		t.Error(got)
	}
	if ts, _ := answer.Get("ts").Text(); ts != "2026-03-01T12:00:00Z" {
		t.Error(ts)
	}
}

func TestTraceOfAnAnswer(t *testing.T) {
	for trace, want := range map[string]string{
		``:                                       `null`,
		`null`:                                   `null`,
		`"r"`:                                    `null`,
		`{"root_id":"r","span_id":"s","hops":0}`: `{"hops":1,"parent_span_id":"s","root_id":"r","span_id":"2"}`,
		`{"root_id":"r","span_id":"s","hops":7,"parent_span_id":"p"}`: `{"hops":8,"parent_span_id":"s","root_id":"r","span_id":"2"}`,
		`{"root_id":"r","span_id":"s","hops":8}`:                      `{"hops":8,"parent_span_id":"s","root_id":"r","span_id":"2"}`, // not one more
		`{"root_id":"r","span_id":"s","hops":9223372036854775807}`:    `{"hops":8,"parent_span_id":"s","root_id":"r","span_id":"2"}`,
		`{"root_id":"r","span_id":"s","hops":99999999999999999999}`:   `{"hops":8,"parent_span_id":"s","root_id":"r","span_id":"2"}`,
		`{"root_id":"r","span_id":"s","hops":-99999999999999999999}`:  `{"hops":1,"parent_span_id":"s","root_id":"r","span_id":"2"}`,
		`{"root_id":"r","span_id":"s","hops":1e30}`:                   `{"hops":1,"parent_span_id":"s","root_id":"r","span_id":"2"}`,
		`{"root_id":"r","span_id":"s","hops":-1}`:                     `{"hops":1,"parent_span_id":"s","root_id":"r","span_id":"2"}`,
		`{"root_id":"r","span_id":"s","hops":true}`:                   `{"hops":1,"parent_span_id":"s","root_id":"r","span_id":"2"}`,
		`{"root_id":"","span_id":"s"}`:                                `{"hops":1,"parent_span_id":"s","root_id":"s","span_id":"2"}`,
		`{"root_id":"r","span_id":7}`:                                 `{"hops":1,"root_id":"r","span_id":"2"}`,
		`{}`:                                                          `{"hops":1,"root_id":"2","span_id":"3"}`,
	} {
		request := set(t, state(t), "trace", trace)
		for _, answer := range []canonical.Value{
			sdl.Response(request, sdl.CTState, request.Get("payload"), sdl.Writing{NewID: counted()}),
			sdl.ErrorEnvelope(request, sdl.Refuse(sdl.BadRequest, ""), sdl.Writing{NewID: counted()}),
		} {
			if got := answer.Get("trace").String(); got != want {
				t.Errorf("%s: %s, want %s", trace, got, want)
			}
			if got := validate(answer, sdl.Options{}); got != accepted {
				t.Error(got)
			}
		}
	}
}

// Whatever a request is, the answer that refuses it is an envelope.
func TestErrorEnvelopesAreValid(t *testing.T) {
	const nobody = `{"agent_id":"did:key:unknown","instance":"unknown","name":"unknown","role":"unknown"}`
	planner, executor := planner.Value().String(), executor.Value().String()
	huge := `"` + strings.Repeat("x", 1<<20) + `"`
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for _, test := range []struct{ path, text, from, to string }{
		{"x", "", executor, planner},
		{"from", `"x"`, executor, nobody},
		{"from.agent_id", `""`, executor, nobody},
		{"to", `null`, nobody, planner},
		{"to.role", ``, nobody, planner},
		{"from.agent_id", huge, nobody, nobody},
		{"from.extra", deep, nobody, nobody},
		{"trace", `{"root_id":` + huge + `,"span_id":"s","hops":0}`, nobody, nobody},
	} {
		refusal := &sdl.Error{Code: sdl.BadRequest, Reason: "SECRET of this side"}
		answer := sdl.ErrorEnvelope(set(t, state(t), test.path, test.text), refusal, sdl.Writing{Now: now})
		if from, to := answer.Get("from").String(), answer.Get("to").String(); from != test.from || to != test.to {
			t.Errorf("%s: from %.200s to %.200s", test.path, from, to)
		}
		if got := validate(answer, sdl.Options{}); got != accepted {
			t.Errorf("%s: %s", test.path, got)
		}
		if strings.Contains(answer.String(), "SECRET") {
			t.Error("the reason is sent")
		}
	}
	answer := sdl.ErrorEnvelope(canonical.Value{}, sdl.Replayed(sdl.ReplayDetected), sdl.Writing{})
	if got := validate(answer, sdl.Options{}); got != accepted || answer.Get("from").String() != nobody || answer.Get("to").String() != nobody {
		t.Errorf("%s: %v", got, answer)
	}
}

func TestPayloadsOfErrors(t *testing.T) {
	for _, test := range []struct {
		e    *sdl.Error
		want string
	}{
		{sdl.Refuse(sdl.Internal, "x"), `{"code":"INTERNAL","details":{},"retryable":false}`},
		{sdl.Insecure(false, "x"), `{"code":"SECURITY_UNSUPPORTED","details":` + supported + `,"retryable":false}`},
		{sdl.Insecure(true, "x"), `{"code":"SECURITY_UNSUPPORTED","details":` + supported + `,"retryable":true}`},
		{sdl.Replayed(sdl.ReplayExpired), `{"code":"BAD_REQUEST","details":{"reason":"replay_expired"},"retryable":false}`},
		{sdl.NoHandler(sdl.CTState, []string{"task.v1"}), `{"code":"UNSUPPORTED_CT","details":{"implemented":["task.v1"],"supported_ct":["task.v1"]},"retryable":true}`},
	} {
		payload := test.e.Payload()
		if message, _ := payload.Get("message").Text(); message == "" {
			t.Errorf("%v has no message", test.e)
		}
		if got := payload.Without("message").String(); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}

func TestIDsAreUUIDs(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := make(map[string]bool)
	for range 1000 {
		id := sdl.NewID()
		if !form.MatchString(id) || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
}
