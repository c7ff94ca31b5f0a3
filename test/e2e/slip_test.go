package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const slipURI = "https://github.com/anthony-maio/slipcore/extensions/a2a-slipstream/v1"

// anchors are files for slip.ucr: of an installation that knows ShipIt, and of one that also
// knows HoldIt.
var anchors = map[string]string{
	"one.json": `{"anchors":[{"index":32768,"mnemonic":"ShipIt","canonical":"Ship it","coords":[3,6,0,5],"is_core":false}]}`,
	"two.json": `{"anchors":[{"index":32768,"mnemonic":"ShipIt","canonical":"Ship it","coords":[3,6,0,5],"is_core":false},` +
		`{"index":32769,"mnemonic":"HoldIt","canonical":"Hold it","coords":[3,1,0,5],"is_core":false}]}`,
}

// inSLIP returns the input of a send with a line, as slip encode writes it.
func (n *node) inSLIP(t *testing.T, line string) string {
	t.Helper()
	cmd := n.client("slip", "encode", "--format", "a2a", "--ucr", filepath.Join(n.dir, "two.json"))
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"slip":true,"wire":%q,"messageId":"m"}`, line))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return `{"message":` + strings.TrimSpace(string(out)) + `}`
}

// Agents that are connected to two organisations speak SLIP-A2A with each other, and with those
// that hear profile 1025, in the commands of users: each swpd checks what comes in and what goes
// out, and knows the anchors of its own slip.ucr.
func TestSLIPA2ABetweenAConnectedAgentAndOneOfAPartner(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			a, b := prepared(t, "--name", "spiffe://a.example/swpd"), prepared(t, "--name", "spiffe://b.example/swpd")
			for _, n := range []*node{a, b} {
				for name, octets := range anchors {
					if err := os.WriteFile(filepath.Join(n.dir, name), []byte(octets), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			partner := func(name string, n *node, more string) string {
				return fmt.Sprintf("partners: {%s: {identity: spiffe://%s.example/swpd, trust: [%q]%s}}\n", name, name, filepath.Join(n.dir, "pki", "ca.crt"), more)
			}
			b.more = partner("a", a, "") + "slip: {ucr: one.json, a2a: {reviewer: {mismatch: refuse}, auditor: {mismatch: refuse}, a/planner: {mismatch: fallback}}}\n"
			b.untilEnd(t)
			a.more = partner("b", b, fmt.Sprintf(", addresses: [%q]", b.transports()[transport])) +
				"slip: {ucr: two.json, a2a: {planner: {mismatch: fallback}, b/reviewer: {mismatch: refuse}}}\n"
			a.untilEnd(t)

			worker := func(n *node, agent, answer string) *program {
				card := filepath.Join(n.dir, agent+".json")
				if err := os.WriteFile(card, []byte(`{"name":"`+agent+`"}`), 0o600); err != nil {
					t.Fatal(err)
				}
				w := n.begin(t, "a2a", "worker", n.transports()[transport], "--agent", agent, "--card", card, "--kind", "a2a/1.0/SendMessage",
					"--", "sh", "-c", `in=$(cat); printf %s "$in" >>"$DIR/got"; to=$(printf %s "$in" | sed -n 's/.*SLIP v1 \([a-z]*\) .*/\1/p')
[ "$to" = author ] && to=another; printf '{"output":%s}\n' '`+n.inSLIP(t, answer)+`' | sed "s/ASKER/$to/"`)
				w.hears("connected to")
				return w
			}
			worker(b, "reviewer", "SLIP v1 reviewer ASKER EvalApprove auth_module")
			worker(a, "planner", "SLIP v1 planner ASKER ShipIt auth_module")
			send := func(n *node, agent, input string, more ...string) (string, error) {
				t.Helper()
				args := append([]string{"a2a", "send", n.transports()[transport] + "/" + agent, "--kind", "a2a/1.0/SendMessage", "--input", "-"}, more...)
				cmd := n.client(args...)
				cmd.Stdin = strings.NewReader(input)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			got := func(n *node) string {
				octets, err := os.ReadFile(filepath.Join(n.dir, "got"))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				return string(octets)
			}
			optIn := []string{"--param", "a2a-extensions=" + slipURI}

			// An anchor that both know, in both directions; octet for octet.
			ship := a.inSLIP(t, "SLIP v1 planner reviewer ShipIt auth_module")
			out, err := send(a, "b/reviewer", ship, optIn...)
			if err != nil || !strings.Contains(out, "SLIP v1 reviewer planner EvalApprove auth_module") || !strings.Contains(out, slipURI) || got(b) != ship {
				t.Errorf("%v\n%s\nthe agent got %s", err, out, got(b))
			}
			back := b.inSLIP(t, "SLIP v1 reviewer planner ShipIt auth_module")
			if out, err := send(b, "a/planner", back, optIn...); err != nil || !strings.Contains(out, "ShipIt") || got(a) != back {
				t.Errorf("%v\n%s\nthe agent got %s", err, out, got(a))
			}
			// Who has not opted in gets plain text.
			if out, err := send(a, "b/reviewer", ship); err != nil || !strings.Contains(out, "EvalApprove") || strings.Contains(out, slipURI) {
				t.Errorf("%v\n%s", err, out)
			}
			seen := got(b)
			// An anchor that only a knows passes a, and is refused by b.
			hold := a.inSLIP(t, "SLIP v1 planner reviewer HoldIt auth_module")
			if out, err := send(a, "b/reviewer", hold, optIn...); err == nil || !strings.Contains(out, "unknown_anchor") {
				t.Errorf("%v\n%s", err, out)
			}
			// Other anchors, and a line that is none, do not reach b.
			foreign := strings.Replace(ship, "sha256:19bb", "sha256:0000", 1)
			if out, err := send(a, "b/reviewer", foreign, optIn...); err == nil || !strings.Contains(out, "ucr_mismatch") {
				t.Errorf("%v\n%s", err, out)
			}
			if out, err := send(a, "b/reviewer", strings.Replace(ship, "ShipIt", "0x8000", 1), optIn...); err == nil || !strings.Contains(out, "hex_anchor") {
				t.Errorf("%v\n%s", err, out)
			}
			if got(b) != seen {
				t.Errorf("the agent got %s, want nothing more", strings.TrimPrefix(got(b), seen))
			}
			// With fallback the other agent gets plain text.
			if out, err := send(b, "a/planner", strings.Replace(back, "sha256:19bb", "sha256:0000", 1), optIn...); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if plain := strings.TrimPrefix(got(a), back); strings.Contains(plain, slipURI) || !strings.Contains(plain, "ShipIt auth_module") {
				t.Errorf("the agent got %s", plain)
			}
			// Over profile 1025 a line reaches the same agent of A2A, and its answer comes back to
			// the agent that asked; other languages do not cross.
			line := func(n *node, text string, more ...string) (string, error) {
				out, err := n.client(append([]string{"slip", "send", n.transports()[transport], text}, more...)...).CombinedOutput()
				return string(out), err
			}
			seen = got(b)
			hears := a.begin(t, "slip", "listen", a.transports()[transport], "coder", "--ucr", filepath.Join(a.dir, "two.json"))
			hears.hears("agent coder at")
			if out, err := line(a, "SLIP v1 coder reviewer ShipIt auth_module"); err != nil || out != "" {
				t.Errorf("%v\n%s", err, out)
			}
			if heard := hears.read(1)[0]; heard != "SLIP v1 reviewer coder EvalApprove auth_module" {
				t.Errorf("the agent heard %q", heard)
			}
			if asked := strings.TrimPrefix(got(b), seen); !strings.Contains(asked, "SLIP v1 coder reviewer ShipIt auth_module") || !strings.Contains(asked, slipURI) {
				t.Errorf("the agent got %s", asked)
			}
			if out, err := line(b, "SLIP v1 maker reviewer ShipIt auth_module", "--wait", "1m", "--ucr", filepath.Join(b.dir, "one.json"), "--json"); err != nil ||
				!strings.Contains(out, `"ok":true`) || !strings.Contains(out, `"answer":"SLIP v1 reviewer maker EvalApprove auth_module"`) {
				t.Errorf("%v\n%s", err, out)
			}
			if out, err := line(b, "SLIP v1 author reviewer ShipIt auth_module", "--wait", "1m", "--ucr", filepath.Join(b.dir, "one.json")); err == nil || !strings.Contains(out, "unanswered") {
				t.Errorf("%v\n%s", err, out) // the agent answers another
			}
			if out, err := line(a, "SLIP v1 coder reviewer HoldIt auth_module", "--wait", "1m"); err == nil || !strings.Contains(out, "unknown_anchor") {
				t.Errorf("%v\n%s", err, out)
			}
			// And a message of A2A reaches an agent that hears profile 1025.
			hearsB := b.begin(t, "slip", "listen", b.transports()[transport], "auditor", "--count", "1", "--ucr", filepath.Join(b.dir, "one.json"))
			hearsB.hears("agent auditor at")
			audit := a.inSLIP(t, "SLIP v1 planner auditor ShipIt auth_module")
			if out, err := send(a, "b/auditor", audit, optIn...); err != nil || !strings.Contains(out, "SLIP v1 auditor planner MetaAck") {
				t.Errorf("%v\n%s", err, out)
			}
			if heard := hearsB.read(1)[0]; heard != "SLIP v1 planner auditor ShipIt auth_module" {
				t.Errorf("the agent heard %q", heard)
			}
			more := strings.Replace(audit, `"parts":[`, `"parts":[{"data":1},`, 1)
			if out, err := send(a, "b/auditor", more, optIn...); err == nil || !strings.Contains(out, "not_carried") {
				t.Errorf("%v\n%s", err, out)
			}
			// The cards of both say it.
			for n, agent := range map[*node]string{a: "b/reviewer", b: "reviewer"} {
				out, err := n.client("agents", "get", n.transports()[transport], agent).CombinedOutput()
				if err != nil || !strings.Contains(string(out), slipURI) {
					t.Errorf("card of %s: %v\n%s", agent, err, out)
				}
			}
		})
	}
}
