package serve_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

func TestSessionIsBoundSignedAndThenDemanded(t *testing.T) {
	o := guarded(t)
	o.Sessions = trust.NewSessions(trust.SessionOptions{})
	o.SessionKey = signingKey("session")
	o.Policy.RequireSession, o.Policy.Sessions = true, o.Sessions
	s := newServer(t, o)

	out := ask(t, s, sign(t, request(t, sdl.CTSession, `{"op":"open","profile":{"mode":"sig"},"nonce":"nonce-01"}`), ""))
	p := payload(t, out, sdl.CTSession)
	document := parse(t, `{"from_agent":"`+planner+`","to_agent":"`+executor+`","profile":{"mode":"sig"},"nonce":"nonce-01","expires":"2026-05-04T03:12:01Z"}`)
	id := canonical.Hash(document)
	equal(t, "answer", p.Without("binding_sig").Without("message"), `{"op":"ack","accepted":true,"profile":{"mode":"sig"},
		"nonce":"nonce-01","expires":"2026-05-04T03:12:01Z","binding_id":"`+id+`","binding_alg":"ed25519"}`)
	if err := seal.VerifyDetached(document, text(p.Get("binding_sig")), publicKey("session")); err != nil {
		t.Error(err)
	}
	if !o.Sessions.Active(id, planner, executor, clock) {
		t.Error("the session is not remembered")
	}

	refused(t, ask(t, s, sign(t, request(t, sdl.CTTask, taskPayload), "")), sdl.SecurityUnsupported, false)
	v := request(t, sdl.CTTask, taskPayload).With("sec", parse(t, `{"mode":"none","session":{"binding_id":"`+id+`"}}`))
	payload(t, ask(t, s, sign(t, v, "")), sdl.CTState)
}

// Op ack confirms a session that is open between the two agents, and opens none.
func TestAckConfirmsAnOpenSessionOnly(t *testing.T) {
	const ack = `{"op":"ack","profile":{"mode":"sig"},"nonce":"nonce-01","expires":"2026-05-04T03:30:00Z"}`
	o := guarded(t)
	o.Sessions, o.SessionKey = trust.NewSessions(trust.SessionOptions{}), signingKey("session")
	s := newServer(t, o)
	for _, step := range []struct {
		payload string
		bound   bool
	}{
		{ack, false},
		{strings.Replace(ack, "ack", "open", 1), true},
		{ack, true},
		{strings.Replace(ack, "nonce-01", "nonce-02", 1), false},
	} {
		p := payload(t, ask(t, s, sign(t, request(t, sdl.CTSession, step.payload), "")), sdl.CTSession)
		if accepted, _ := p.Get("accepted").Bool(); accepted != step.bound || p.Has("binding_sig") != step.bound || (text(p.Get("message")) == "bound") != step.bound {
			t.Errorf("%s: %s", step.payload, p.AppendJSON(nil))
		}
	}
	if n := o.Sessions.Len(); n != 1 {
		t.Errorf("%d sessions are remembered, want the one that was opened", n)
	}
	o = serve.Options{Compat: serve.Compat{UnauthenticatedSession: true, AcksUnopened: true}}
	p := payload(t, ask(t, newServer(t, o), request(t, sdl.CTSession, ack)), sdl.CTSession)
	equal(t, "accepted, as the reference", p.Get("accepted"), `true`)
}

func TestSessionWithoutStoreOrKeyIsBoundAllTheSame(t *testing.T) {
	s := newServer(t, serve.Options{Compat: serve.Compat{UnauthenticatedSession: true}})
	p := payload(t, ask(t, s, request(t, sdl.CTSession, `{"op":"open","profile":{},"nonce":"nonce-01","expires":"2026-05-04T03:30:00.5Z"}`)), sdl.CTSession)
	equal(t, "expires", p.Get("expires"), `"2026-05-04T03:30:00.5Z"`)
	if p.Has("binding_sig") || p.Has("binding_alg") {
		t.Errorf("a signature in %s", p.AppendJSON(nil))
	}
}

func TestSessionsThatAreRefused(t *testing.T) {
	o := serve.Options{Compat: serve.Compat{UnauthenticatedSession: true}, Sessions: trust.NewSessions(trust.SessionOptions{})}
	for _, test := range []struct {
		payload string
		code    sdl.Code
	}{
		{`{"op":"open","profile":{},"nonce":"1234567"}`, sdl.SchemaInvalid},
		{`{"op":"close","profile":{},"nonce":"12345678"}`, sdl.SchemaInvalid},
		{`{"op":"open","nonce":"12345678"}`, sdl.SchemaInvalid},
		{`{"op":"open","profile":{},"nonce":"12345678","expires":"soon"}`, sdl.BadRequest},
		{`{"op":"open","profile":{},"nonce":"12345678","expires":"2026-05-04T03:02:01Z"}`, sdl.BadRequest}, // is over
	} {
		out := ask(t, newServer(t, o), request(t, sdl.CTSession, test.payload))
		refused(t, out, test.code, test.code == sdl.SchemaInvalid)
	}
	if n := o.Sessions.Len(); n != 0 {
		t.Errorf("%d sessions are remembered", n)
	}
}
