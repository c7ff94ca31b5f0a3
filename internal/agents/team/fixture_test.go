package team_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is what an agent does with a message: it returns the responses, one unless
// it is asked to stream.
type script func(c *call) []string

// call is what an agent was sent.
type call struct {
	agent  string
	kind   string
	params []string
	input  string
	hops   uint64

	message struct {
		MessageID  string                     `json:"messageId"`
		ContextID  string                     `json:"contextId"`
		TaskID     string                     `json:"taskId"`
		Role       string                     `json:"role"`
		Parts      json.RawMessage            `json:"parts"`
		Extensions []string                   `json:"extensions"`
		Metadata   map[string]json.RawMessage `json:"metadata"`
	}
	routing struct {
		AgentCards []map[string]any `json:"agentCards"`
		Sender     any              `json:"sender"`
	}
}

// peers are the ids of the agents that it was told of.
func (c *call) peers() string {
	var ids []string
	for _, card := range c.routing.AgentCards {
		ids = append(ids, fmt.Sprint(card["id"]))
	}
	return strings.Join(ids, " ")
}

// told reports whether the agent was given anything of the extension.
func (c *call) told() bool { return strings.Contains(c.input+strings.Join(c.params, ""), team.URI) }

// cast is agents that follow scripts.
type cast struct {
	t       *testing.T
	scripts map[string]script
	about   map[string]team.Description // those that are not here cannot be described

	mu        sync.Mutex
	calls     []*call
	described map[string]int
}

func (k *cast) Describe(_ context.Context, agent string) (team.Description, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.described == nil {
		k.described = make(map[string]int)
	}
	k.described[agent]++
	d, ok := k.about[agent]
	if !ok {
		return d, errors.New("away")
	}
	return d, nil
}

func (k *cast) Send(_ context.Context, agent string, task *a2a.Task, hops uint64) (team.Delivery, error) {
	c := &call{agent: agent, kind: task.Kind, params: task.Params, input: string(task.Input), hops: hops}
	var input struct {
		Message json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal(task.Input, &input); err != nil {
		k.t.Errorf("%s was sent %q", agent, task.Input)
	}
	if input.Message != nil {
		if err := json.Unmarshal(input.Message, &c.message); err != nil {
			k.t.Errorf("%s was sent %q", agent, task.Input)
		}
		if data := c.message.Metadata[team.URI]; data != nil {
			if err := json.Unmarshal(data, &c.routing); err != nil {
				k.t.Errorf("%s was sent %q", agent, task.Input)
			}
		}
	}
	k.mu.Lock()
	k.calls = append(k.calls, c)
	does := k.scripts[agent]
	k.mu.Unlock()
	if does == nil {
		return nil, errors.New("no such agent")
	}
	d := &delivery{result: &a2a.Result{OK: true}}
	said := does(c)
	if len(said) == 1 && strings.HasPrefix(said[0], "!") {
		d.result = &a2a.Result{Reason: "secret", Output: []byte(said[0][1:])}
		return d, nil
	}
	if o, _ := a2abinding.OfKind(task.Kind); !o.Streams {
		d.result.Output = []byte(said[0])
		return d, nil
	}
	d.events = said
	return d, nil
}

// said are the agents that were sent something, in order.
func (k *cast) said() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []string
	for _, c := range k.calls {
		list = append(list, c.agent)
	}
	return strings.Join(list, " ")
}

type delivery struct {
	events []string
	result *a2a.Result
}

func (d *delivery) Recv(context.Context) (*a2a.Event, error) {
	if len(d.events) == 0 {
		return nil, io.EOF
	}
	payload := d.events[0]
	d.events = d.events[1:]
	return &a2a.Event{Payload: []byte(payload)}, nil
}
func (d *delivery) Result() *a2a.Result                  { return d.result }
func (d *delivery) Cancel(context.Context, string) error { return nil }
func (d *delivery) Close()                               {}

// routing is a card that declares the extension, basic one that does not.
func routing(name string) team.Description {
	return team.Description{Card: []byte(`{"name":"` + name + `","description":"does ` + name + `","capabilities":{"extensions":[{"uri":"urn:other"},{"uri":"` + team.URI + `","description":"d","required":false}]},"skills":[{"id":"s","name":"skill of ` + name + `"}]}`)}
}

func basic(name string) team.Description {
	return team.Description{Card: []byte(`{"name":"` + name + `","description":"does ` + name + `","capabilities":{}}`)}
}

// says is a Message that names a recipient, as a JSON value; none if it is empty.
func says(text, recipient string) string {
	metadata := ""
	if recipient != "" {
		metadata = `,"extensions":["` + team.URI + `"],"metadata":{"kept":1,"` + team.URI + `":{"recipient":` + recipient + `,"reason":"because","more":{}}}`
	}
	return `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"` + text + `"}]` + metadata + `}}`
}

// always says the same.
func always(responses ...string) script {
	return func(*call) []string { return responses }
}

// turns says one after the other, then the last one for ever.
func turns(responses ...string) script {
	n := 0
	return func(*call) []string {
		n = min(n+1, len(responses))
		return responses[n-1 : n]
	}
}

// build makes a team of all agents of a cast, "a" is the default agent.
func (k *cast) build(edit func(*team.Options)) *team.Team {
	k.t.Helper()
	o := team.Options{Name: "team", Members: make(map[string]team.Member), Default: "a", Agents: k}
	for id := range k.scripts {
		o.Members[id] = team.Member{Agent: id}
	}
	if edit != nil {
		edit(&o)
	}
	if o.Records == nil {
		o.Records = records(k.t)
	}
	teams, err := team.New(o)
	if err != nil {
		k.t.Fatal(err)
	}
	return teams["team"]
}

func records(t testing.TB) *sqlstore.Store {
	t.Helper()
	db, err := sqlstore.Open(context.Background(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

const caller = "spiffe://example.org/caller"

// ask has a team carry out an operation for a caller.
func ask(t *testing.T, one *team.Team, operation, input string, params ...string) (output string, events []string, err error) {
	t.Helper()
	return askAs(t, caller, one, operation, input, params...)
}

func askAs(t *testing.T, who string, one *team.Team, operation, input string, params ...string) (output string, events []string, err error) {
	t.Helper()
	task := &a2a.Task{Kind: "a2a/1.0/" + operation, Input: []byte(input), Peer: who, Params: params, Hops: 2}
	out, err := one.Registration().Worker.Run(t.Context(), task, func(_ string, payload []byte) error {
		events = append(events, string(payload))
		return nil
	})
	return string(out), events, err
}

const hello = `{"message":{"messageId":"1","role":"ROLE_USER","contextId":"c","parts":[{"text":"hello"}]},"metadata":{"x": 1}}`

// failure is the error object of an error.
func failure(t *testing.T, err error) *a2abinding.Failure {
	t.Helper()
	told, ok := errors.AsType[*a2a.Failure](err)
	if !ok {
		t.Fatalf("error %v, want one that the caller is told", err)
	}
	f, err := a2abinding.Parse(told.Output)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wantReason wants a failure of the router's own.
func wantReason(t *testing.T, err error, reason a2abinding.Reason) {
	t.Helper()
	f := failure(t, err)
	if f.Code != a2abinding.CodeInternal || !strings.Contains(string(f.Data), `"`+string(reason)+`"`) {
		t.Errorf("failure %d %s, want reason %s", f.Code, f.Data, reason)
	}
	if strings.Contains(string(f.Data)+f.Message, "secret") {
		t.Errorf("failure %q %s tells what is internal", f.Message, f.Data)
	}
}
