package serve_test

import (
	"errors"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

func TestLowerPicksTheHighestLowerVersion(t *testing.T) {
	for _, test := range []struct {
		ct        string
		supported []string
		want      string
	}{
		{"task.v4", []string{"task.v1", "task.v3", "task.v2", "tool.v3"}, "task.v3"},
		{"task.v4", []string{"task.v10", "task.v9"}, ""},
		{"task.v10", []string{"task.v9", "task.v8"}, "task.v9"},
		{"task.v1", []string{"task.v1", "task.v0"}, "task.v0"},
		{"task", []string{"task.v1"}, ""},
		{"task.v2", []string{"task", "task.vx", "toolcall.v1"}, ""},
		{"a.v1.v3", []string{"a.v1", "a.v1.v2"}, "a.v1.v2"},
		{"task.v2", nil, ""},
	} {
		if got := serve.Lower(test.ct, test.supported); got != test.want {
			t.Errorf("Lower(%q, %q) = %q, want %q", test.ct, test.supported, got, test.want)
		}
	}
}

// unsupported is the answer of a server to a content type that it does not know.
func unsupported(t *testing.T, v canonical.Value) canonical.Value {
	t.Helper()
	out := ask(t, newServer(t, serve.Options{}), v)
	refused(t, out, sdl.UnsupportedCT, true)
	return out.Response
}

var writing = sdl.Writing{Now: now}

func TestDowngradeSendsTheSamePayloadInALowerVersion(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload).With("ct", canonical.String("task.v4"))
	again, err := serve.Downgrade(v, unsupported(t, v), writing)
	if err != nil {
		t.Fatal(err)
	}
	if ct := text(again.Get("ct")); ct != sdl.CTTask || !again.Get("payload").Equal(v.Get("payload")) {
		t.Errorf("ct %q, payload %s", ct, again.Get("payload").AppendJSON(nil))
	}
	if again.Get("id").Equal(v.Get("id")) {
		t.Error("the id is used twice")
	}
	payload(t, ask(t, newServer(t, serve.Options{}), again), sdl.CTState)
}

func TestDowngradeFallsBackToNegotiation(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload).With("ct", canonical.String("haggle.v2")).With("payload", parse(t, `{"offer":1}`))
	again, err := serve.Downgrade(v, unsupported(t, v), writing)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "payload", again.Get("payload").Without("supported_ct"), `{"need":{"ct":["haggle.v2"]},"have":{"ct":["haggle.v2"]},"ask":["downgrade_ct","send_embedded_schema"]}`)
	payload(t, ask(t, newServer(t, serve.Options{}), again), sdl.CTNegotiation)

	// A payload that the lower version does not take is not sent in it.
	v = request(t, sdl.CTTask, taskPayload).With("ct", canonical.String("task.v2")).With("payload", parse(t, `{"steps":[]}`))
	if again, err = serve.Downgrade(v, unsupported(t, v), writing); err != nil || text(again.Get("ct")) != sdl.CTNegotiation {
		t.Errorf("ct %q, %v, want a negotiation", text(again.Get("ct")), err)
	}
}

func TestDowngradeEndsWhereNothingFits(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload).With("ct", canonical.String("haggle.v2"))
	answer := unsupported(t, v)
	details := answer.Get("payload").With("details", parse(t, `{"supported_ct":["state.v1",7]}`))
	if _, err := serve.Downgrade(v, answer.With("payload", details), writing); !errors.Is(err, serve.ErrNoDowngrade) {
		t.Errorf("%v, want ErrNoDowngrade", err)
	}
	other := ask(t, newServer(t, serve.Options{}), v.Without("cap")).Response
	if _, err := serve.Downgrade(v, other, writing); err == nil || errors.Is(err, serve.ErrNoDowngrade) {
		t.Errorf("answer with another code: %v", err)
	}
}

func TestAnswersThatAreNotOnes(t *testing.T) {
	check := func(v canonical.Value) *sdl.Envelope {
		e, err := sdl.Validate(v, sdl.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	v := request(t, sdl.CTTask, taskPayload)
	answer := ask(t, newServer(t, serve.Options{}), v).Response
	if err := serve.CheckAnswer(check(v), check(answer)); err != nil {
		t.Errorf("the answer: %v", err)
	}
	if err := serve.CheckAnswer(check(v.Without("trace")), check(answer.Without("trace"))); err != nil {
		t.Errorf("the answer without a trace: %v", err)
	}
	unread := newServer(t, serve.Options{Limits: sdl.Limits{MaxBytes: 1000}}).Refuse(sdl.Refuse(sdl.BadRequest, "too long"))
	if err := serve.CheckAnswer(check(v), check(unread.Response)); err != nil {
		t.Errorf("an error of one who could not read: %v", err)
	}
	for name, wrong := range map[string]canonical.Value{
		"from another":       answer.With("from", answer.Get("from").With("agent_id", canonical.String("did:key:eve"))),
		"to another":         answer.With("to", answer.Get("to").With("agent_id", canonical.String("did:key:eve"))),
		"from nobody":        answer.With("from", unread.Response.Get("from")),
		"no answer":          answer.With("type", canonical.String(sdl.TypeEvt)),
		"of another request": answer.With("trace", answer.Get("trace").With("parent_span_id", canonical.String("span-2"))),
		"of no request":      answer.With("trace", answer.Get("trace").Without("parent_span_id")),
		"without trace":      answer.Without("trace"),
	} {
		if err := serve.CheckAnswer(check(v), check(wrong)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
