package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const routingURI = "https://ranch.woi.dev/extensions/client-routing/v1"

// routingAgents are two agents of a team as shell commands, which get the input of SendMessage on
// standard input. Each keeps what it got in the file got.NAME.
var routingAgents = map[string]string{
	// triage sends questions about invoices to billing, and what billing says to the caller.
	"triage": `case "$in" in
*'"sender":"billing"'*) says user "billing says: $text" ;;
*invoice*) says billing "please answer: $text" ;;
*) says user "triage: $text" ;;
esac`,
	// billing asks the caller for a number first, and reports to the agent that it works for.
	"billing": `case "$in" in
*'"taskId":"invoice-1"'*) says sender "paid, $text" ;;
*) printf '{"output":{"task":{"id":"invoice-1","contextId":"%s","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":%s}}}}\n' \
	"$context" "$(message user "which number?")" ;;
esac`,
}

const routingShell = `in=$(cat); printf '%s\n' "$in" >>"$DIR/got.$NAME"
context=$(printf %s "$in" | sed -n 's/.*"contextId":"\([^"]*\)".*/\1/p')
text=$(printf %s "$in" | sed -n 's/.*"text":"\([^"]*\)".*/\1/p')
message() { printf '{"messageId":"m%s","role":"ROLE_AGENT","contextId":"%s","parts":[{"text":"%s"}],"extensions":["` + routingURI +
	`"],"metadata":{"` + routingURI + `":{"recipient":"%s"}}}' $$ "$context" "$2" "$1"; }
says() { printf '{"output":{"message":%s}}\n' "$(message "$1" "$2")"; }
`

// A conversation with a team has three turns in one context, each a command of its own: a question
// that goes by triage to an agent of a partner, which asks back; its answer, after swpd was killed,
// which that agent reports to triage; and a new question, which begins at triage.
func TestATeamOverThreeTurnsOfOneContext(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			a, b := prepared(t, "--name", "spiffe://a.example/swpd"), prepared(t, "--name", "spiffe://b.example/swpd")
			partner := func(name string, n *node, more string) string {
				return fmt.Sprintf("partners: {%s: {identity: spiffe://%s.example/swpd, trust: [%q]%s}}\n", name, name, filepath.Join(n.dir, "pki", "ca.crt"), more)
			}
			b.more = partner("a", a, "")
			b.untilEnd(t)
			a.more = partner("b", b, fmt.Sprintf(", addresses: [%q]", b.transports()[transport])) +
				"teams: {helpdesk: {description: answers, default: triage, members: {triage: {}, billing: {agent: b/billing, sends: []}}}}\n"
			a.launch(t)

			workers := map[string]*program{}
			for name, n := range map[string]*node{"triage": a, "billing": b} {
				card := filepath.Join(n.dir, name+".json")
				if err := os.WriteFile(card, []byte(`{"name":"`+name+`","capabilities":{"extensions":[{"uri":"`+routingURI+`"}]}}`), 0o600); err != nil {
					t.Fatal(err)
				}
				workers[name] = n.begin(t, "a2a", "worker", n.transports()[transport], "--agent", name, "--card", card, "--kind", "a2a/1.0/SendMessage",
					"--", "sh", "-c", "NAME="+name+"; "+routingShell+routingAgents[name])
				workers[name].hears("connected to")
			}
			// turn sends a message of the caller as a command of its own.
			turn := func(id, text, task string) string {
				t.Helper()
				cmd := a.client("a2a", "send", a.transports()[transport]+"/helpdesk", "--kind", "a2a/1.0/SendMessage", "--input", "-")
				cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","contextId":"orders"%s,"parts":[{"text":%q}]}}`, id, task, text))
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", text, err, out)
				}
				return string(out)
			}
			// got returns what the agent of n got since it was asked last.
			read := map[string]int{}
			got := func(n *node, name string) []string {
				octets, err := os.ReadFile(filepath.Join(n.dir, "got."+name))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimSuffix(string(octets), "\n"), "\n")
				defer func() { read[name] = len(lines) }()
				return lines[read[name]:]
			}
			wants := func(where, text string, parts ...string) {
				t.Helper()
				for _, part := range parts {
					if !strings.Contains(text, part) {
						t.Errorf("%s: %s\nwant %s", where, text, part)
					}
				}
			}

			wants("first turn", turn("1", "my invoice", ""), `"id":"invoice-1"`, `"contextId":"orders"`, "INPUT_REQUIRED", "which number?")
			if heard := got(b, "billing"); len(heard) != 1 {
				t.Errorf("billing got %q", heard)
			} else {
				wants("billing", heard[0], `"sender":"triage"`, "please answer: my invoice", `"contextId":"orders"`)
			}
			if heard := got(a, "triage"); len(heard) != 1 {
				t.Errorf("triage got %q", heard)
			} else {
				wants("triage", heard[0], `"sender":"user"`, `"id":"billing"`)
			}

			a.kill(t)
			a.launch(t)
			workers["triage"].hears("connected to")
			wants("second turn", turn("2", "number 7", `,"taskId":"invoice-1"`), "billing says: paid, number 7", `"contextId":"orders"`)
			if heard := got(b, "billing"); len(heard) != 1 {
				t.Errorf("billing got %q", heard)
			} else {
				wants("billing", heard[0], `"sender":"user"`, `"taskId":"invoice-1"`)
			}
			if heard := got(a, "triage"); len(heard) != 1 {
				t.Errorf("triage got %q", heard)
			} else {
				wants("triage", heard[0], `"sender":"billing"`, "paid, number 7")
			}

			wants("third turn", turn("3", "thanks", ""), "triage: thanks", `"contextId":"orders"`)
			if heard := got(b, "billing"); len(heard) != 0 {
				t.Errorf("billing got %q", heard)
			}
			a.stop(t)
		})
	}
}
