package serve_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// The tests of this file are the weaknesses of the public implementation (A2A-SDL §13)
// as a server would show them; what an IPC port and an admin port would show is not
// here, for there are none.

// embed returns a request whose descriptor embeds a schema.
func embed(t *testing.T, ct, payload, schema string) canonical.Value {
	t.Helper()
	embedded := parse(t, schema)
	return request(t, ct, payload).With("schema", canonical.Object(
		canonical.Member{Name: "kind", Value: canonical.String("embedded")},
		canonical.Member{Name: "id", Value: canonical.String(canonical.Hash(embedded))},
		canonical.Member{Name: "embedded", Value: embedded},
	))
}

// listener counts the requests that reach an address.
func listener(t *testing.T) (address string, reached *atomic.Int32) {
	t.Helper()
	reached = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(s.Close)
	return s.URL, reached
}

func TestWeakness01EmbeddedSchemaDoesNotMakeTheServerFetch(t *testing.T) {
	address, reached := listener(t)
	for _, ref := range []string{address + "/schema", "file:///etc/passwd", "other.json"} {
		out := ask(t, newServer(t, serve.Options{}), embed(t, sdl.CTTask, taskPayload, `{"type":"object","properties":{"goal":{"$ref":"`+ref+`"}}}`))
		refused(t, out, sdl.SchemaInvalid, true)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestWeakness02SchemaOfTheSenderDoesNotReplaceTheBuiltInOne(t *testing.T) {
	out := ask(t, newServer(t, serve.Options{}), embed(t, sdl.CTTask, `{"anything":1}`, `{"type":"object"}`))
	refused(t, out, sdl.SchemaInvalid, true)
	payload(t, ask(t, newServer(t, serve.Options{}), embed(t, sdl.CTTask, taskPayload, `{"type":"object"}`)), sdl.CTState)
}

func TestWeakness03SchemaAtAnAddressIsNotFetchedInAnyMode(t *testing.T) {
	address, reached := listener(t)
	v := request(t, sdl.CTTask, taskPayload)
	v = v.With("schema", parse(t, `{"kind":"uri","id":"`+text(v.Get("schema").Get("id"))+`","uri":"`+address+`"}`))
	refused(t, ask(t, newServer(t, guarded(t)), sign(t, v, "")), sdl.SchemaInvalid, true)
	refused(t, ask(t, newServer(t, guarded(t)), sign(t, encrypt(t, v), "")), sdl.SchemaInvalid, true)
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// With Fetch a schema at an address is loaded for a caller whose carriage allows it, and only for a
// message between agents that are right.
func TestPR18ASchemaAtAnAddressIsLoadedForTheRightMessageAlone(t *testing.T) {
	const document = `{"type":"object","required":["goal"]}`
	asked := 0
	o := serve.Options{Local: "did:web:server.example", Fetch: func(uri string) (canonical.Value, error) {
		asked++
		return parse(t, document), nil
	}}
	v := request(t, sdl.CTTask, taskPayload)
	v = v.With("to", v.Get("to").With("agent_id", canonical.String(o.Local)))
	at := func(v canonical.Value, id string) canonical.Value {
		return v.With("schema", parse(t, `{"kind":"uri","id":"`+id+`","uri":"https://schemas.example/task.json"}`))
	}
	right := canonical.Hash(parse(t, document))
	may := func(agent string) bool { return agent == text(v.Get("from").Get("agent_id")) }
	for name, test := range map[string]struct {
		v      canonical.Value
		caller serve.Caller
		code   sdl.Code // empty: answered
		loads  int
	}{
		"right":                   {at(v, right), serve.Caller{MayUse: may, Fetches: func() {}}, "", 1},
		"another hash":            {at(v, canonical.Hash(parse(t, `{}`))), serve.Caller{MayUse: may, Fetches: func() {}}, sdl.SchemaInvalid, 1},
		"the carriage allows not": {at(v, right), serve.Caller{MayUse: may}, sdl.SchemaInvalid, 0},
		"another sender":          {at(v, right), serve.Caller{MayUse: func(string) bool { return false }, Fetches: func() {}}, sdl.SecurityUnsupported, 0},
		"another receiver":        {at(v.With("to", v.Get("from")), right), serve.Caller{MayUse: may, Fetches: func() {}}, sdl.SecurityUnsupported, 0},
	} {
		asked = 0
		out := newServer(t, o).Handle(t.Context(), sdl.JSON.Append(nil, test.v), sdl.JSON, test.caller)
		got := sdl.Code("")
		if out.Err != nil {
			got = out.Err.Code
		}
		if got != test.code || asked != test.loads {
			t.Errorf("%s: %v, loaded %d times; want %q, %d times", name, out.Err, asked, test.code, test.loads)
		}
	}
}

func TestWeakness04NothingSecuredIsDispatchedWithoutAPolicy(t *testing.T) {
	asked := false
	s := newServer(t, serve.Options{Tasks: tasks(func(*serve.Request) error { asked = true; return nil })})
	v := request(t, sdl.CTTask, taskPayload)
	for _, v := range []canonical.Value{sign(t, v, "n"), encrypt(t, v), sign(t, encrypt(t, v), "n")} {
		equal(t, "details", refused(t, ask(t, s, v), sdl.SecurityUnsupported, false).Get("details"), accepting("none"))
	}
	if asked {
		t.Error("the handler was asked")
	}
}

func TestWeakness05TrustedKeyDoesNotSpeakForOtherAgents(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload)
	v = v.With("from", v.Get("from").With("agent_id", canonical.String("did:key:someone")))
	refused(t, ask(t, newServer(t, guarded(t)), sign(t, v, "")), sdl.SecurityUnsupported, false)
}

func TestWeakness06MessageForAnotherAgentIsRefused(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload)
	v = v.With("to", v.Get("to").With("agent_id", canonical.String("did:key:someone")))
	refused(t, ask(t, newServer(t, guarded(t)), sign(t, v, "")), sdl.SecurityUnsupported, false)
}

func TestWeakness07NonceIsRememberedUntilItExpires(t *testing.T) {
	var passed atomic.Int64
	later := func() time.Time { return clock.Add(time.Duration(passed.Load())) }
	o := guarded(t)
	o.Now = later
	o.Policy.Replay = &trust.Replay{Nonces: trust.NewMemory(trust.MemoryOptions{Max: 2, PerAgent: 2, Now: later})}
	s := newServer(t, o)
	at := func(nonce, exp string) *serve.Outcome {
		v := request(t, sdl.CTTask, taskPayload).With("sec", parse(t, `{"mode":"none","replay":{"nonce":"`+nonce+`","exp":"`+exp+`"}}`))
		return ask(t, s, sign(t, v, ""))
	}
	refused(t, at("far", "2026-05-04T03:12:02Z"), sdl.BadRequest, false) // 10 minutes and 1 second ahead
	payload(t, at("a", "2026-05-04T03:12:01Z"), sdl.CTState)
	payload(t, at("b", "2026-05-04T03:12:01Z"), sdl.CTState)
	equal(t, "full", refused(t, at("c", "2026-05-04T03:12:01Z"), sdl.BadRequest, true).Get("details"), `{"reason":"replay_full"}`)
	passed.Store(int64(10*time.Minute - time.Second))
	equal(t, "late", refused(t, at("a", "2026-05-04T03:12:01Z"), sdl.BadRequest, false).Get("details"), `{"reason":"replay_detected"}`)
}

func TestWeakness08ForgedMessageDoesNotUseUpANonce(t *testing.T) {
	s := newServer(t, guarded(t))
	v := sign(t, request(t, sdl.CTTask, taskPayload), "n1")
	forged := v.With("id", canonical.String("r2"))
	refused(t, ask(t, s, forged), sdl.SecurityUnsupported, false)
	payload(t, ask(t, s, v), sdl.CTState)
}

func TestWeakness09LimitsHoldForWhatWasEncrypted(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 62) + "1" + strings.Repeat("}", 62) // with envelope, payload and inputs 65
	wide := "[" + strings.Repeat("0,", 10_000) + "0]"
	for name, value := range map[string]string{"depth": deep, "array": `{"a":` + wide + `}`} {
		p := parse(t, taskPayload).With("inputs", parse(t, value))
		v := encrypt(t, request(t, sdl.CTTask, taskPayload).With("payload", p))
		if out := ask(t, newServer(t, guarded(t)), sign(t, v, "")); out.Err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			refused(t, out, sdl.BadRequest, false)
		}
	}
}

func TestWeakness10SignatureHasOneForm(t *testing.T) {
	v := sign(t, request(t, sdl.CTTask, taskPayload), "")
	sec := v.Get("sec")
	good := text(sec.Get("sig").Get("value"))
	octets, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, guarded(t))
	for _, value := range []string{good + "==", good + " ", " " + good, base64.RawStdEncoding.EncodeToString(octets) + "\n", good[:85] + string(good[85]+1)} {
		changed := v.With("sec", sec.With("sig", sec.Get("sig").With("value", canonical.String(value))))
		refused(t, ask(t, s, changed), sdl.SecurityUnsupported, false)
	}
	payload(t, ask(t, s, v), sdl.CTState)
}

func TestWeakness11SecuredRequestIsNotDowngraded(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload).With("ct", canonical.String("task.v2"))
	answer := unsupported(t, v)
	for _, v := range []canonical.Value{sign(t, v, ""), encrypt(t, v), sign(t, encrypt(t, v), "")} {
		if again, err := serve.Downgrade(v, answer, writing); !errors.Is(err, serve.ErrSecured) {
			t.Errorf("%s: %v, want ErrSecured", again.AppendJSON(nil), err)
		}
	}
}

func TestWeakness12RegistryIsNotRolledBackByAnOldSignature(t *testing.T) {
	o := guarded(t)
	o.Proposals = &trust.SingleKey{Key: publicKey("approver")}
	s := newServer(t, o)
	first := propose(t, s, `{"proposal_id":"p1","registry":{"revoked_kids":["first"]}}`, "approver")
	equal(t, "first", first.Get("status"), `"accepted"`)
	equal(t, "second", propose(t, s, `{"proposal_id":"p2","registry":{"revoked_kids":["second"]}}`, "approver").Get("status"), `"accepted"`)

	// The signature of the first, with another id and merge false.
	p, err := trust.ReadProposal(parse(t, `{"proposal_id":"p1","registry":{"revoked_kids":["first"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	v := request(t, sdl.CTTrustSync, `{"op":"propose","proposal_id":"p3","merge":false,"registry":{"revoked_kids":["first"]}}`)
	v = v.With("payload", v.Get("payload").With("signature", canonical.String(p.Sign(signingKey("approver")))))
	equal(t, "rolled back", payload(t, ask(t, s, sign(t, v, "")), sdl.CTTrustSync).Get("status"), `"rejected"`)
	equal(t, "revoked", discover(t, s).Get("snapshot").Get("revoked_kids"), `["first","second"]`)

	// Nobody who did not sign is shown the registry, and no proposal brings keys that decrypt.
	refused(t, ask(t, s, request(t, sdl.CTTrustSync, `{"op":"discover"}`)), sdl.SecurityUnsupported, false)
	equal(t, "decrypt keys", propose(t, s, `{"proposal_id":"p4","registry":{"decrypt_private_keys":{"k":"v"}}}`, "approver").Get("status"), `"rejected"`)

	// One key under two names is one approver.
	if _, err := trust.NewQuorum(map[string]ed25519.PublicKey{"a": publicKey("a"), "b": publicKey("a")}, 2); err == nil {
		t.Error("two approvers with one key make a quorum")
	}
}

func TestWeakness13SessionsAreShortAndOpenedOnly(t *testing.T) {
	o := guarded(t)
	o.Sessions = trust.NewSessions(trust.SessionOptions{})
	s := newServer(t, o)
	for _, op := range []string{"open", "ack"} { // of somebody
		v := request(t, sdl.CTSession, `{"op":"`+op+`","profile":{},"nonce":"nonce-01"}`)
		refused(t, ask(t, s, v), sdl.SecurityUnsupported, false)
		refused(t, ask(t, newServer(t, serve.Options{Sessions: o.Sessions}), v), sdl.SecurityUnsupported, false)
	}
	for _, test := range []struct {
		payload string
		code    sdl.Code
		held    int
	}{
		{`{"op":"open","profile":{},"nonce":"nonce-01","expires":"9999-12-31T23:59:59Z"}`, sdl.BadRequest, 0},
		{`{"op":"open","profile":{},"nonce":"nonce-01","expires":"2026-05-05T03:02:02Z"}`, sdl.BadRequest, 0},
		{`{"op":"ack","profile":{},"nonce":"nonce-01","expires":"2026-05-05T03:02:01Z"}`, "", 0},
		{`{"op":"open","profile":{},"nonce":"nonce-01","expires":"2026-05-05T03:02:01Z"}`, "", 1},
	} {
		out := ask(t, s, sign(t, request(t, sdl.CTSession, test.payload), ""))
		if test.code == "" {
			payload(t, out, sdl.CTSession)
		} else {
			refused(t, out, test.code, false)
		}
		if n := o.Sessions.Len(); n != test.held {
			t.Errorf("%s: %d sessions are held, want %d", test.payload, n, test.held)
		}
	}
}

func TestWeakness14ScopesAreNotGrantedByAskingForThem(t *testing.T) {
	o := guarded(t)
	o.Tools = bothTools
	o.ToolPolicy = &trust.ToolPolicy{Tools: []string{"math.add"}, Scopes: map[string]string{"math.add": "sums"}}
	v := request(t, sdl.CTToolCall, `{"tool":"math.add","call_id":"c","args":{"values":[1]},"expect":{},"authz":{"scopes":["sums"]}}`)
	p := payload(t, ask(t, newServer(t, o), sign(t, v, "")), sdl.CTToolResult)
	equal(t, "ok", p.Get("ok"), `false`)
	if line := text(p.Get("logs").At(0)); !strings.Contains(line, "scope") {
		t.Errorf("log %q does not name the scope", line)
	}
}

const secret = "dial tcp 10.0.0.7:5432: password=hunter2"

func TestWeakness15TextsOfErrorsStayHere(t *testing.T) {
	fail := func(how func() error) serve.Handler {
		return serve.Handler(func(context.Context, *serve.Request) (serve.Result, error) { return serve.Result{}, how() })
	}
	var told int
	for _, test := range []struct {
		handler   serve.Handler
		retryable bool
	}{
		{fail(func() error { return errors.New(secret) }), true},
		{fail(func() error { return sdl.Refuse(sdl.Internal, "%s", secret) }), true},
		{fail(func() error { panic(secret) }), true},
		{serve.Handler(func(context.Context, *serve.Request) (serve.Result, error) {
			return serve.Result{CT: sdl.CTState, Payload: canonical.String(secret)}, nil
		}), false},
		{serve.Handler(func(context.Context, *serve.Request) (serve.Result, error) { return serve.Result{}, nil }), false},
	} {
		s := newServer(t, serve.Options{
			Handlers: map[string]serve.Handler{sdl.CTTask: test.handler},
			Failed:   func(*serve.Request, error) { told++ },
		})
		out := ask(t, s, request(t, sdl.CTTask, taskPayload))
		equal(t, "details", refused(t, out, sdl.Internal, test.retryable).Get("details"), `{}`)
		if strings.Contains(string(out.Answer), "hunter2") || strings.Contains(string(out.Answer), "goroutine") {
			t.Errorf("answer %s", out.Answer)
		}
	}
	if told != 5 {
		t.Errorf("Failed was told of %d errors, want 5", told)
	}
	s := newServer(t, open(serve.ToolSet{"db": func(context.Context, *serve.ToolCall) (serve.ToolResult, error) {
		return serve.ToolResult{Value: canonical.String(secret)}, errors.New(secret)
	}}))
	out := ask(t, s, request(t, sdl.CTToolCall, `{"tool":"db","call_id":"c","args":{},"expect":{}}`))
	equal(t, "result", payload(t, out, sdl.CTToolResult).Get("result"), `{}`)
	if strings.Contains(string(out.Answer), "hunter2") {
		t.Errorf("answer %s", out.Answer)
	}
}

func TestWeakness18AnswerIsSignedAndAboutItsRequest(t *testing.T) {
	s := newServer(t, guarded(t))
	v := sign(t, request(t, sdl.CTTask, taskPayload), "")
	answer := ask(t, s, v).Response
	if _, err := seal.Verify(answer, publicKey(executorKid)); err != nil {
		t.Fatal(err)
	}
	if got := text(answer.Get("trace").Get("parent_span_id")); got != "span" {
		t.Errorf("parent_span_id %q, want that of the request", got)
	}
}

func TestWeakness19EncryptionAloneIsNotTrusted(t *testing.T) {
	refused(t, ask(t, newServer(t, guarded(t)), encrypt(t, request(t, sdl.CTTask, taskPayload))), sdl.SecurityUnsupported, false)
}

func TestWeakness20AmbiguousMessagesAreRefused(t *testing.T) {
	good := string(request(t, sdl.CTTask, taskPayload).AppendJSON(nil))
	for _, change := range [][2]string{
		{`"v":1`, `"v":true`},
		{`"ct":"task.v1"`, `"ct":"task.v1","ct":"session.v1"`},
		{`"hops":2`, `"hops":true`},
		{`"hops":2`, `"hops":2.0`},
		{`"ts":"2026-05-04T03:02:00Z"`, `"ts":"2026-05-04T03:02:00"`},
		{`"ts":"2026-05-04T03:02:00Z"`, `"ts":"2026-05-04T05:02:00+02:00"`},
	} {
		body := strings.Replace(good, change[0], change[1], 1)
		if body == good {
			t.Fatalf("%s is not in %s", change[0], good)
		}
		refused(t, deliver(t, newServer(t, serve.Options{}), []byte(body), serve.Caller{}), sdl.BadRequest, false)
	}
}
