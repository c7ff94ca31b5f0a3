package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/rpc"
)

// Each of three organisations in a row refuses, and says that it was who did.
func TestARefusalSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport,
			"access: {rules: [{identity: 'spiffe://a.example/**', profile: [mcp, rpc, a2a], name: ['b/modern/**', 'b/c/**', 'b/swp.*', 'b/secret', 'b/x/*']}]}\n",
			"access: {rules: [{identity: 'spiffe://a.example/swpd', profile: [mcp, rpc, a2a], name: ['c/modern/**', 'c/secret', 'c/x/*']}]}\n"+modernYAML(t),
			"access: {rules: [{identity: 'spiffe://b.example/swpd', profile: mcp, name: 'modern/exact'}]}\n"+modernYAML(t))
		a, b := row[0], row[1]
		s := a.mustDial(a.addrs[transport])

		if got := s.mustAsk(t, "b/c/modern", modernCall); !strings.Contains(got, sayTool) {
			t.Errorf("what all three allow: %s", got)
		}
		for target, by := range map[string]string{"modern": "a", "b/modern": "b", "b/c/other": "b", "b/c/modern": "c"} {
			request := strings.Replace(modernCall, `\u0065xact`, "write", 1)
			if got, want := s.mustAsk(t, target, request), `"data":{"code":"ERR_SECURITY_POLICY","retryable":false,"endpoint":"spiffe://`+by+`.example/swpd"}`; !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", target, got, want)
			}
		}
		a.await(`"msg":"refused by partner","err_code":"ERR_SECURITY_POLICY","partner":"b","endpoint":"spiffe://c.example/swpd",` +
			`"peer":"spiffe://a.example/swp-client","profile":"mcp","operation":"tools/call","name":"b/c/modern/write"`)
		b.await(`"partner":"c","endpoint":"spiffe://c.example/swpd","peer":"spiffe://a.example/swpd"`)

		// The audit trail has room for eight lines at once: what it has to say comes first.
		for agent, by := range map[string]string{"x": "a", "b/x": "b", "b/c/x": "c"} {
			_, result := s.hand(t, &a2a.Task{Kind: "secret"}, a2a.SendOptions{Agent: agent})
			if result.OK || result.Reason != a2a.ReasonDenied || result.Endpoint != "spiffe://"+by+".example/swpd" {
				t.Errorf("task for %s: %+v, want a refusal by %s", agent, result, by)
			}
		}
		a.await(`"endpoint":"spiffe://c.example/swpd","peer":"spiffe://a.example/swp-client","profile":"a2a","operation":"task","name":"b/c/x/secret"`)
		for method, by := range map[string]string{"secret": "a", "b/secret": "b", "b/c/secret": "c"} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, err := rpc.Call(ctx, s.Session, method, nil)
			cancel()
			e, ok := errors.AsType[*rpc.Error](err)
			if !ok || e.Code != rpc.CodeUnauthorized || e.Endpoint != "spiffe://"+by+".example/swpd" {
				t.Errorf("%s: %#v, want a refusal by %s", method, err, by)
			}
		}
		a.counts(`swpd_partner_refusals_total{code="ERR_SECURITY_POLICY",partner="b"}`, "7")
		b.counts(`swpd_partner_refusals_total{code="ERR_SECURITY_POLICY",partner="c"}`, "3")
		a.rewrite("  b: {", "  other: {")
		a.reloaded()
		if _, metrics := a.get("/metrics"); strings.Contains(metrics, `partner="b"`) {
			t.Error("a partner that was removed is still counted")
		}
	})
}
