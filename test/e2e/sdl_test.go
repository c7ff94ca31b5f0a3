package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// speaksSDL is a configuration that wants envelopes signed and encrypted, each once.
const speaksSDL = `sdl:
  agent_id: did:web:server.example
  keys: "@DIR@/server/keys.json"
  mode: enc+sig
  replay: {required: true}
  sign: {key: "@DIR@/server/sign.key", kid: "did:web:server.example#1"}
  tools: {allow: [modern/add, legacy/add]}
mcp:
  servers:
`

// A request that is signed and encrypted is answered by a tool of a real MCP server,
// over mutual TLS and QUIC, and is refused when it comes again: at once, and after swpd
// was killed and started anew (ABUSE PR-18).
func TestSealedRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	n := prepared(t)
	path := func(name string) string { return filepath.Join(n.dir, name) }
	run(t, n.bin+"/swp-client", "sdl", "keygen", "--agent", "did:key:caller", path("caller"))
	run(t, n.bin+"/swp-client", "sdl", "keygen", "--agent", "did:web:server.example", "--trust", "@"+path("caller/sign.pub"), "--recipient", "@"+path("caller/box.pub"), path("server"))
	n.more = speaksSDL + "    modern: {command: \"" + n.bin + "/mcp-modern\"}\n    legacy: {command: \"" + n.bin + "/mcp-legacy\"}\n"
	n.untilEnd(t)

	send := func(address, file string) (string, error) {
		out, err := n.client("sdl", "send", "--json", address, "@"+path(file), "--envelope", "--trust", "@"+path("server/sign.pub"), "--keys", path("caller/keys.json")).CombinedOutput()
		return string(out), err
	}
	const detected = "replay_detected"
	calls := map[string]string{"modern": n.tls, "legacy": n.quic}
	for server, address := range calls {
		request := `{"v":1,"id":"` + server + `","ts":"2026-01-01T00:00:00Z","type":"req",` +
			`"from":{"agent_id":"did:key:caller","name":"c","instance":"1","role":"caller"},` +
			`"to":{"agent_id":"did:web:server.example","name":"s","instance":"1","role":"server"},"cap":{},"ct":"toolcall.v1",` +
			`"schema":{"kind":"embedded","id":"sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0","embedded":{"type":"object"}},` +
			`"payload":{"tool":"` + server + `/add","call_id":"1","args":{"a":2,"b":40},"expect":{}},"trace":{"root_id":"r","span_id":"s","hops":0}}`
		seal := n.client("sdl", "seal", "--sign", path("caller/sign.key"), "--encrypt", "@"+path("server/box.pub"), "--expires", "9m", "-")
		seal.Stdin = strings.NewReader(request)
		sealed, err := seal.Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(sealed), "call_id") {
			t.Errorf("the payload is in the clear: %s", sealed)
		}
		if err := os.WriteFile(path(server), sealed, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := send(address, server)
		if err != nil || !strings.Contains(out, `"ok":true`) || !strings.Contains(out, `"sum":42`) || !strings.Contains(out, `"parent_span_id":"s"`) {
			t.Errorf("%s: %v\n%s", server, err, out)
		}
		if out, err := send(address, server); err == nil || !strings.Contains(out, detected) {
			t.Errorf("%s again: %v\n%s", server, err, out)
		}
	}
	n.kill(t)
	n.launch(t)
	for server, address := range calls {
		if out, err := send(address, server); err == nil || !strings.Contains(out, detected) {
			t.Errorf("%s after a crash: %v\n%s", server, err, out)
		}
	}
}
