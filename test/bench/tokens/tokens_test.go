// Package tokens counts the octets and tokens of the same messages in nSLIP, SLIP v1, JSON and
// A2A-SDL, with the vocabularies of two tokenizers, offline.
package tokens

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tiktoken-go/tokenizer"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
)

var update = flag.Bool("update", false, "write the table into the document")

// document has the table between two comments.
const (
	document = "../../../docs/profile-slip.md"
	begin    = "<!-- tokens: begin -->\n"
	end      = "<!-- tokens: end -->\n"
)

// count is how many messages there are.
const count = 200

// message is the content of one message.
type message struct {
	act, anchor            string // of nSLIP, and the anchor of SLIP v1 that is nearest in meaning
	frame                  string
	conv, turn, goal, task uint64
	priority               uint64
	src, dst               int
	tag                    string
}

var (
	agents = []string{"coordinator", "planner", "executor", "critic"}
	kinds  = []message{
		{act: "REQUEST", frame: "TASK", anchor: "RequestTask"},
		{act: "PROPOSE", frame: "PLAN", anchor: "ProposePlan"},
		{act: "ACCEPT", frame: "PLAN", anchor: "Accept"},
		{act: "INFORM", frame: "OBSERVATION", anchor: "InformResult"},
		{act: "OBSERVE", frame: "OBSERVATION", anchor: "ObserveState"},
		{act: "EVAL", frame: "EVALUATION", anchor: "EvalApprove"},
		{act: "ASK", frame: "TASK", anchor: "AskStatus"},
		{act: "ERROR", frame: "TASK", anchor: "ErrorGeneric"},
	}
	tags = []string{"refactor_auth", "deploy_staging", "database_migration", "review_pull_request", "rotate_keys", "index_documents", "invoice_42", "load_test"}
)

// messages are the same in each run.
func messages() []message {
	list := make([]message, count)
	for i := range list {
		m := kinds[i%len(kinds)]
		m.conv, m.turn = uint64(i/10+1), uint64(i%10+1)
		m.goal, m.task, m.priority = uint64(17+i/10), uint64(42+7*i), uint64(i%3+1)
		m.src, m.dst = i%len(agents), (i+1+i/7%3)%len(agents)
		if m.dst == m.src {
			m.dst = (m.dst + 1) % len(agents)
		}
		m.tag = tags[(i*3+i/8)%len(tags)]
		list[i] = m
	}
	return list
}

// form writes a message in one form.
type form struct {
	name  string
	write func(t *testing.T, m *message) string
}

var forms = []form{
	{"nSLIP", func(t *testing.T, m *message) string {
		text := fmt.Sprintf("@a%s|f%s|c%s|S%d|d%d|T%s|g%s|k%s|q%d|t%q#", b62(act[m.act]), b62(frame[m.frame]), b62(m.conv), m.src, m.dst, b62(m.turn), b62(m.goal), b62(m.task), m.priority, m.tag)
		if err := (nslip.Codec{}).Parse(new(nslip.Message), []byte(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return text
	}},
	{"SLIP v1", func(t *testing.T, m *message) string {
		text := fmt.Sprintf("SLIP v1 %s %s %s thread%d turn%d goal%d task%d priority%d %s", agents[m.src], agents[m.dst], m.anchor, m.conv, m.turn, m.goal, m.task, m.priority, m.tag)
		if _, err := (slipstream.Codec{}).Parse(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return text
	}},
	{"JSON", func(_ *testing.T, m *message) string { return object(m) }},
	{"A2A-SDL", func(t *testing.T, m *message) string {
		who := func(n int) sdl.Identity {
			return sdl.Identity{AgentID: "did:key:" + agents[n], Name: agents[n], Instance: "1", Role: "agent"}
		}
		content, err := canonical.ParseJSON([]byte(object(m)))
		if err != nil {
			t.Fatal(err)
		}
		payload, err := canonical.ParseJSON([]byte(`{"kind":"task.v1","constraints":{"time_budget_s":0,"compute_budget":"low","safety":{}},"deliverables":[],"acceptance":[],"context":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		payload = payload.With("goal", canonical.String(m.tag)).With("inputs", content)
		v := sdl.New(sdl.TypeReq, sdl.CTTask, who(m.src), who(m.dst), payload, sdl.Writing{
			Now:   func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
			NewID: func() string { return fmt.Sprintf("01a218a8-db51-740e-bd6c-%012x", m.task) },
		})
		if _, refused := sdl.Validate(v, sdl.Options{}); refused != nil {
			t.Fatal(refused)
		}
		return string(sdl.JSON.Append(nil, v))
	}},
}

var (
	act   = map[string]uint64{"OBSERVE": 0, "INFORM": 1, "ASK": 2, "REQUEST": 3, "PROPOSE": 4, "ACCEPT": 6, "EVAL": 8, "ERROR": 9}
	frame = map[string]uint64{"TASK": 0, "PLAN": 1, "OBSERVATION": 2, "EVALUATION": 3}
)

// b62 writes an integer of nSLIP.
func b62(n uint64) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if n < 62 {
		return digits[n : n+1]
	}
	return b62(n/62) + digits[n%62:n%62+1]
}

// object is the content as compact JSON.
func object(m *message) string {
	octets, err := json.Marshal(struct {
		Act      string `json:"act"`
		Frame    string `json:"frame"`
		ConvID   uint64 `json:"conv_id"`
		Src      string `json:"src"`
		Dst      string `json:"dst"`
		Turn     uint64 `json:"turn"`
		GoalID   uint64 `json:"goal_id"`
		TaskID   uint64 `json:"task_id"`
		Priority uint64 `json:"priority"`
		Tag      string `json:"tag"`
	}{m.act, m.frame, m.conv, agents[m.src], agents[m.dst], m.turn, m.goal, m.task, m.priority, m.tag})
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(octets)
}

// The document has the figures of these messages.
func TestTheTableOfTokensIsThatOfTheDocument(t *testing.T) {
	var codecs []tokenizer.Codec
	for _, name := range []tokenizer.Encoding{tokenizer.O200kBase, tokenizer.R50kBase} {
		codec, err := tokenizer.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		codecs = append(codecs, codec)
	}
	table := new(bytes.Buffer)
	fmt.Fprintf(table, "| %d messages in | octets | of JSON | tokens, %s | of JSON | tokens, %s | of JSON |\n|---|---|---|---|---|---|---|\n", count, codecs[0].GetName(), codecs[1].GetName())
	sums := make([][3]int, len(forms))
	for i, f := range forms {
		for _, m := range messages() {
			text := f.write(t, &m)
			sums[i][0] += len(text)
			for j, codec := range codecs {
				ids, _, err := codec.Encode(text)
				if err != nil {
					t.Fatal(err)
				}
				if back, err := codec.Decode(ids); err != nil || back != text {
					t.Fatalf("%s: %q comes back as %q, %v", codec.GetName(), text, back, err)
				}
				sums[i][j+1] += len(ids)
			}
		}
	}
	json := sums[2]
	for i, f := range forms {
		fmt.Fprintf(table, "| %s |", f.name)
		for j, n := range sums[i] {
			fmt.Fprintf(table, " %d | %d %% |", n, (200*n+json[j])/(2*json[j]))
		}
		fmt.Fprintln(table)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", document)
	}
	switch {
	case old == table.String():
	case *update:
		if err := os.WriteFile(document, []byte(before+begin+table.String()+end+after), 0o644); err != nil { //nolint:gosec // as in a source tree
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in %s is another one (go test ./tokens -update, in test/bench):\n%s", document, table)
	}
	first := messages()[0]
	for _, f := range forms {
		t.Logf("%s: %s", f.name, f.write(t, &first))
	}
}
