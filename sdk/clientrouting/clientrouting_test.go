package clientrouting_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/sdk/clientrouting"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agents are agents of a team that use this package, and what each has read.
type agents struct {
	t     *testing.T
	read  map[string]clientrouting.Data
	order []string
}

func (a *agents) Describe(_ context.Context, agent string) (team.Description, error) {
	card, err := clientrouting.Declare([]byte(`{"name":"` + agent + `","capabilities":{"streaming":false},"skills":[{"name":"knows ` + agent + `"}]}`))
	return team.Description{Card: card}, err
}

func (a *agents) Send(_ context.Context, agent string, task *a2a.Task, _ uint64) (team.Delivery, error) {
	var in struct {
		Message json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal(task.Input, &in); err != nil {
		return nil, err
	}
	data, ok, err := clientrouting.Read(in.Message)
	if !ok || err != nil {
		a.t.Errorf("%s: %v, %v", agent, ok, err)
	}
	a.read[agent], a.order = data, append(a.order, agent)
	d := clientrouting.Decision{Recipient: clientrouting.User, Reason: "done"}
	if agent == "triage" && data.Sender == clientrouting.User {
		d = clientrouting.Decision{Recipient: data.Agents[0].ID, Handoffs: []string{"triage"}}
	} else if agent != "triage" {
		d.Recipient = clientrouting.Sender
	}
	answer, err := clientrouting.Decide([]byte(`{"messageId":"m","role":"ROLE_AGENT","parts":[{"text": "by `+agent+`"}]}`), d)
	return delivery(answer), err
}

type delivery []byte

func (delivery) Recv(context.Context) (*a2a.Event, error) { return nil, io.EOF }
func (d delivery) Result() *a2a.Result {
	return &a2a.Result{OK: true, Output: fmt.Appendf(nil, `{"message":%s}`, d)}
}
func (delivery) Cancel(context.Context, string) error { return nil }
func (delivery) Close()                               {}

func TestAgentsOfATeamReadAndDecide(t *testing.T) {
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	a := &agents{t: t, read: make(map[string]clientrouting.Data)}
	members := map[string]team.Member{"triage": {Agent: "triage"}, "billing": {Agent: "billing", Form: team.FormObject}, "orders": {Agent: "orders"}}
	teams, err := team.New(team.Options{Name: "desk", Default: "triage", Members: members, Agents: a, Records: db})
	if err != nil {
		t.Fatal(err)
	}
	task := &a2a.Task{Kind: "a2a/1.0/SendMessage", Peer: "spiffe://example.org/c", Input: []byte(`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`)}
	output, err := teams["desk"].Registration().Worker.Run(t.Context(), task, nil)
	if err != nil || !strings.Contains(string(output), "by triage") {
		t.Fatalf("%s, %v", output, err)
	}
	if diff := cmp.Diff([]string{"triage", "billing", "triage"}, a.order); diff != "" {
		t.Error(diff)
	}
	want := clientrouting.Data{Sender: "triage", Agents: []clientrouting.Agent{{ID: "triage", Name: "triage", Capabilities: []string{"knows triage"}, SupportsClientRouting: true}}}
	if diff := cmp.Diff(want, a.read["billing"]); diff != "" {
		t.Errorf("the handoffs:\n%s", diff)
	}
	if got := a.read["triage"]; got.Sender != "billing" || len(got.Agents) != 2 {
		t.Errorf("triage read %+v", got)
	}
}

func TestReadSaysWhatIsNoRoutingData(t *testing.T) {
	uri := `"` + clientrouting.URI + `"`
	for message, fails := range map[string]bool{
		`{}`:                                       false,
		`{"metadata":{"other":{}}}`:                false,
		`{"metadata":{` + uri + `:{}}}`:            true,
		`{"metadata":{` + uri + `:1}}`:             true,
		`{"metadata":{` + uri + `:{"sender":""}}}`: true,
		`{"metadata":{` + uri + `:{"sender":"a","agentCards":{}}}}`:          true,
		`{"metadata":{` + uri + `:{"sender":{"type":"agent","id":"user"}}}}`: true,
		`{"metadata":{` + uri + `:{"sender":"a"}},"metadata":{}}`:            true,
		`[]`: true,
	} {
		if _, ok, err := clientrouting.Read([]byte(message)); ok || (err != nil) != fails {
			t.Errorf("%s: %v, %v", message, ok, err)
		}
	}
	d, ok, err := clientrouting.Read([]byte(`{"metadata":{` + uri + `:{"sender":{"type":"agent","id":"a"}}}}`))
	if !ok || err != nil || d.Sender != "a" {
		t.Errorf("%+v, %v, %v", d, ok, err)
	}
}

func TestDecideReplacesADecisionAndKeepsTheRest(t *testing.T) {
	message := `{"parts":[{"text": "x", "n":9007199254740993}],"metadata":{"mine":1.0},"extensions":["urn:mine"]}`
	once, err := clientrouting.Decide([]byte(message), clientrouting.Decision{Recipient: "a", Handoffs: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := clientrouting.Decide(once, clientrouting.Decision{Recipient: clientrouting.User})
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{`[{"text": "x", "n":9007199254740993}]`, `"mine":1.0`, `"urn:mine"`} {
		if !strings.Contains(string(twice), kept) {
			t.Errorf("%s has no %s", twice, kept)
		}
	}
	if n := strings.Count(string(twice), clientrouting.URI); n != 2 || strings.Contains(string(twice), "handoffs") {
		t.Errorf("%s", twice)
	}
	for _, wrong := range []struct{ message, recipient string }{{message, ""}, {`[]`, "a"}, {`{"metadata":1}`, "a"}} {
		if _, err := clientrouting.Decide([]byte(wrong.message), clientrouting.Decision{Recipient: wrong.recipient}); err == nil {
			t.Errorf("%v: no error", wrong)
		}
	}
}

func TestDeclareLeavesSignedCardsAlone(t *testing.T) {
	card := []byte(`{"name":"a"}`)
	declared, err := clientrouting.Declare(card)
	if err != nil || !strings.Contains(string(declared), clientrouting.URI) {
		t.Fatalf("%s, %v", declared, err)
	}
	again, err := clientrouting.Declare(declared)
	if err != nil || string(again) != string(declared) {
		t.Errorf("%s, %v", again, err)
	}
	if got, err := clientrouting.Declare([]byte(`{"name":"a","signatures":[{}]}`)); err == nil {
		t.Errorf("%s", got)
	}
	if _, err := clientrouting.Declare([]byte(`[]`)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}
