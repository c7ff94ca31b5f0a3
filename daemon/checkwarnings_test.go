package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/check"
)

// warningsOf returns what check warns of in a configuration, which is in a file of a mode.
func warningsOf(t *testing.T, yaml string, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "swpd.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "data: %s\n%s", filepath.Join(dir, "data"), yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	plan, err := check.Read(mustLoad(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan.Warnings, "\n")
}

func TestOP21CheckWarnsOfRulesThatOpenTransit(t *testing.T) {
	for rule, want := range map[string]string{
		"identity: spiffe://a.example/swpd":                             "(a to b, a to c)",
		"identity: spiffe://a.example/swpd, profile: mcp":               "(a to b, a to c)",
		"identity: spiffe://a.example/swpd, name: '**'":                 "(a to b, a to c)",
		"identity: spiffe://a.example/swpd, name: ['*/*/*', b/files/*]": "(a to b, a to c)",
		"identity: spiffe://a.example/swpd, for: planner":               "(a to b, a to c)",
		"identity: '**'": "(b to a, c to a, a to b, and 3 more)",
		"identity: spiffe://b.example/swpd, profile: mcp, name: files/*": "",
		"identity: spiffe://a.example/swpd, profile: mcp, name: b/files": "",
		"identity: spiffe://a.example/swpd, profile: mcp, name: b/**":    "",
		"identity: spiffe://a.example/swpd, name: [b/**, c/**]":          "",
		"identity: spiffe://a.example/swpd, profile: obs":                "",
		"identity: spiffe://test.invalid/planner":                        "",
	} {
		warnings := warningsOf(t, `
partners:
  a: {identity: spiffe://a.example/swpd}
  b: {identity: spiffe://b.example/swpd}
  c: {identity: spiffe://c.example/swpd}
access: {rules: [{`+rule+`}]}
`, 0o600)
		const told = "access.rules[0].name: partners may use each other through this endpoint "
		if want == "" && strings.Contains(warnings, told) || !strings.Contains(warnings, told+want) && want != "" {
			t.Errorf("%s: %q, want %q", rule, warnings, want)
		}
	}
}

func TestOP20CheckWarnsOfSecretsInAConfigurationThatEveryUserCanRead(t *testing.T) {
	const yaml = `
mcp: {servers: {web: {url: "http://127.0.0.1:1/", headers: {Authorization: Bearer x}}, child: {command: /bin/true, env: {TOKEN: y}}}}
a2a:
  agents: {peer: {url: "http://127.0.0.1:1/", headers: {X-Key: z}}}
  workers: {w: {command: /bin/true, kinds: [k], env: {PASSWORD: p}}}
`
	const want = "with mcp.servers.child.env.TOKEN, mcp.servers.web.headers.Authorization, a2a.agents.peer.headers.X-Key, and 1 more; if one is secret, run: chmod 640 "
	for mode, warned := range map[os.FileMode]bool{0o644: true, 0o604: true, 0o640: false, 0o600: false} {
		if warnings := warningsOf(t, yaml, mode); strings.Contains(warnings, want) != warned {
			t.Errorf("mode %04o: %q", mode, warnings)
		}
	}
	if warnings := warningsOf(t, "mcp: {servers: {child: {command: /bin/true}}}\n", 0o644); strings.Contains(warnings, "secret") {
		t.Errorf("without a secret: %q", warnings)
	}
}

// A card that clients of A2A may refuse is named, wherever its file is; a card that they take is
// not, and it need not have interfaces.
func TestCheckWarnsOfCardsThatAreNone(t *testing.T) {
	const whole = `{"name":"n","description":"d","version":"1","capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":[],"skills":[]}`
	for card, want := range map[string]string{
		whole:                                   "",
		`{"hello":"world"}`:                     "without name, description, version, capabilities, defaultInputModes, defaultOutputModes, skills",
		strings.Replace(whole, "[]", "null", 1): "without defaultOutputModes",
		strings.Replace(whole, "name", "Name", 1): "without name",
		"text":            "not a JSON object",
		"null":            "not a JSON object",
		"[" + whole + "]": "not a JSON object",
	} {
		file := filepath.Join(t.TempDir(), "card.json")
		if err := os.WriteFile(file, []byte(card), 0o600); err != nil {
			t.Fatal(err)
		}
		for key, yaml := range map[string]string{
			"agdisc.cards.a.file": "agdisc: {cards: {a: {file: " + file + "}}}\n",
			"teams.help.card":     "teams: {help: {card: " + file + ", title: Help, default: a, members: {a: {agent: a, title: A, description: d}}}}\n",
		} {
			got := warningsOf(t, yaml+"access: {rules: [{identity: '**'}]}\n", 0o600)
			if text := key + " is no card of A2A: " + want; strings.Contains(got, text) != (want != "") || want == "" && strings.Contains(got, "no card") {
				t.Errorf("%s: %s: warnings %q, want %q", key, card, got, want)
			}
		}
	}
}

// Names that only the configuration can make are compared with it.
func TestCheckWarnsOfNamesOfRulesThatNothingHas(t *testing.T) {
	for name, row := range map[string]struct{ rule, more, want string }{
		"an unknown method":           {"profile: rpc, operation: call, name: swp.pong", "", `"swp.pong" is nothing, because no method of swpd or of rpc.backends has this name, and neither has a partner; did you mean swp.ping?`},
		"a method of swpd":            {"profile: rpc, operation: call, name: swp.ping", "", ""},
		"a method of a backend":       {"profile: rpc, operation: call, name: [orders.find, orders.*]", "", ""},
		"a method of a partner":       {"profile: rpc, operation: call, name: b/x", "", ""},
		"an unknown agent":            {"profile: a2a, operation: task, name: bo/a2a/1.0/*", "", ""},
		"an agent that nobody can be": {"profile: a2a, operation: task, name: planer/plan", "", `"planer/plan" is nothing, because none of a2a.workers, a2a.agents and teams has this name`},
		"an agent that connects":      {"profile: a2a, operation: task, name: planer/plan", "  agents: [{identity: spiffe://a.example/x, agent_ids: planer}]\n", ""},
		"kinds, agents and partners":  {"profile: a2a, operation: task, name: [report, planner/plan, planner, b/k]", "", ""},
		"several profiles":            {"profile: [rpc, a2a], name: swp.pong", "", ""},
	} {
		warnings := warningsOf(t, `
partners:
  b: {identity: spiffe://b.example/swpd}
rpc: {backends: {orders: {url: 'http://127.0.0.1:1/', methods: [orders.find]}}}
a2a:
  workers: {one: {kinds: [report], command: cat}}
  agents: {planner: {url: 'http://127.0.0.1:1/'}}
access:
  rules: [{identity: spiffe://a.example/x, `+row.rule+`}]
`+row.more, 0o600)
		if row.want == "" && strings.Contains(warnings, "is nothing, because") || !strings.Contains(warnings, row.want) {
			t.Errorf("%s: %s", name, warnings)
		}
	}
}
