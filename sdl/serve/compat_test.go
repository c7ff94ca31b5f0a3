package serve_test

import (
	"reflect"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// A test below has both positions of each switch.
func TestReferenceSetsEverySwitch(t *testing.T) {
	all := reflect.ValueOf(serve.Reference())
	for i := range all.NumField() {
		if !all.Field(i).Bool() {
			t.Errorf("%s is not set", all.Type().Field(i).Name)
		}
	}
}

func TestCompatUnauthenticatedTrust(t *testing.T) {
	v := request(t, sdl.CTTrustSync, `{"op":"discover"}`)
	equal(t, "closed", refused(t, ask(t, newServer(t, serve.Options{}), v), sdl.SecurityUnsupported, false).Get("details"), accepting("none"))
	s := newServer(t, serve.Options{Compat: serve.Compat{UnauthenticatedTrust: true}})
	p := payload(t, ask(t, s, v), sdl.CTTrustSync)
	equal(t, "snapshot", p.Get("snapshot"), `{}`)
	equal(t, "registry_hash", p.Get("registry_hash"), `"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"`)
}

func TestCompatUnauthenticatedSession(t *testing.T) {
	v := request(t, sdl.CTSession, `{"op":"open","profile":{},"nonce":"nonce-01"}`)
	refused(t, ask(t, newServer(t, serve.Options{}), v), sdl.SecurityUnsupported, false)
	s := newServer(t, serve.Options{Compat: serve.Compat{UnauthenticatedSession: true}})
	equal(t, "accepted", payload(t, ask(t, s, v), sdl.CTSession).Get("accepted"), `true`)

	// A carriage that knows its sender vouches for it.
	caller := serve.Caller{MayUse: func(agent string) bool { return agent == planner }}
	out := deliver(t, newServer(t, serve.Options{}), v.AppendJSON(nil), caller)
	equal(t, "accepted", payload(t, out, sdl.CTSession).Get("accepted"), `true`)
}

func TestCompatRegistrySignature(t *testing.T) {
	for _, test := range []struct {
		open   bool
		signed canonical.Value
		status string
	}{
		{false, parse(t, `{"revoked_kids":["old"]}`), `"rejected"`},
		{true, parse(t, `{"revoked_kids":["old"]}`), `"accepted"`},
		{false, parse(t, `{"op":"propose","proposal_id":"p","merge":true,"registry":{"revoked_kids":["old"]}}`), `"accepted"`},
		{true, parse(t, `{"op":"propose","proposal_id":"p","merge":true,"registry":{"revoked_kids":["old"]}}`), `"accepted"`},
	} {
		o := guarded(t)
		o.Proposals = &trust.SingleKey{Key: publicKey("approver")}
		o.Compat.RegistrySignature = test.open
		v := request(t, sdl.CTTrustSync, `{"op":"propose","proposal_id":"p","registry":{"revoked_kids":["old"]}}`)
		v = v.With("payload", v.Get("payload").With("signature", canonical.String(seal.SignDetached(test.signed, signingKey("approver")))))
		p := payload(t, ask(t, newServer(t, o), sign(t, v, "")), sdl.CTTrustSync)
		equal(t, "status", p.Get("status"), test.status)
	}
}

func TestCompatAssertedScopes(t *testing.T) {
	for _, test := range []struct {
		open, signed, granted bool
		ok                    string
	}{
		{open: false, signed: true, granted: true, ok: `true`},
		{open: false, signed: true, granted: false, ok: `false`},
		{open: true, signed: true, granted: false, ok: `true`},
		{open: true, signed: false, granted: false, ok: `true`},
		{open: false, signed: false, granted: true, ok: `false`}, // anyone may call itself the planner
	} {
		o := guarded(t)
		o.Tools = bothTools
		o.ToolPolicy = &trust.ToolPolicy{
			ByAgent: map[string][]string{planner: {"math.add"}},
			Scopes:  map[string]string{"math.add": "sums"},
		}
		if test.granted {
			o.ToolPolicy.Granted = map[string][]string{planner: {"sums"}}
		}
		o.Compat.AssertedScopes = test.open
		v := request(t, sdl.CTToolCall, `{"tool":"math.add","call_id":"c","args":{"values":[1]},"expect":{},"authz":{"scopes":["sums"]}}`)
		if test.signed {
			v = sign(t, v, "")
		} else {
			o.Policy = nil
		}
		p := payload(t, ask(t, newServer(t, o), v), sdl.CTToolResult)
		if !p.Get("ok").Equal(parse(t, test.ok)) {
			t.Errorf("%+v: ok %s", test, p.Get("ok").AppendJSON(nil))
		}
		if o.ToolPolicy.AssertedScopes {
			t.Error("the policy of the caller was changed")
		}
	}
}

func TestCompatNoToolPolicyAllows(t *testing.T) {
	v := request(t, sdl.CTToolCall, `{"tool":"math.add","call_id":"c","args":{"values":[1]},"expect":{}}`)
	closed := newServer(t, serve.Options{Tools: bothTools})
	equal(t, "closed", payload(t, ask(t, closed, v), sdl.CTToolResult).Get("ok"), `false`)
	open := newServer(t, serve.Options{Tools: bothTools, Compat: serve.Compat{NoToolPolicyAllows: true}})
	equal(t, "open", payload(t, ask(t, open, v), sdl.CTToolResult).Get("ok"), `true`)
	denied := newServer(t, serve.Options{Tools: bothTools, ToolPolicy: &trust.ToolPolicy{}, Compat: serve.Compat{NoToolPolicyAllows: true}})
	equal(t, "policy without tools", payload(t, ask(t, denied, v), sdl.CTToolResult).Get("ok"), `false`)
}
