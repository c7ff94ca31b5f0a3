package daemon

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/storage"
	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/sdk/a2atransport"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// player is an agent on the SDK that does what a function says.
type player func(x *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool)

func (p player) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) { p(x, yield) }
}

func (p player) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
	}
}

// to is a message that names a recipient.
func to(recipient, text string) *sdk.Message {
	m := sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(text))
	m.Extensions, m.Metadata = []string{team.URI}, map[string]any{team.URI: map[string]any{"recipient": recipient}}
	return m
}

// sender is who sent a message, as its routing data says; empty without.
func sender(m *sdk.Message) string {
	data, _ := m.Metadata[team.URI].(map[string]any)
	who, _ := data["sender"].(string)
	return who
}

// join has an agent that is written with the SDK connect to a daemon.
func join(r *running, id string, p player, capabilities ...string) {
	r.t.Helper()
	state, err := storage.Open(r.t.Context(), storage.Options{Config: &config.Config{Data: r.t.TempDir(), Store: config.StoreMemory, Quota: config.Quota{Total: 1 << 30, PerIdentity: 1 << 30}}, Log: zap.NewNop()})
	if err != nil {
		r.t.Fatal(err)
	}
	worker := a2atransport.NewWorker(a2asrv.NewHandler(p))
	set, err := all.New(all.Options{A2A: a2a.Options{Store: state, Workers: []a2a.Registration{{Kinds: a2abinding.Kinds(), Worker: worker}}}})
	if err != nil {
		r.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Tracer: endpoint.ContextFunc(set.Carriers.Attach)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
		_ = state.Close()
	})
	conn, err := connect(r.t, r.addrs[0], devpki.Client(filepath.Join(r.dir, "pki")))
	if err != nil {
		r.t.Fatal(err)
	}
	s := &session{ep.Attach(conn), set.MCP, set.A2A, set.Relay}
	s.declare(r.t, id, append(a2abinding.Kinds(), capabilities...)...)
}

// deskClient speaks to the team "desk" as programs on the SDK do.
func deskClient(t *testing.T, s *session) *a2aclient.Client {
	t.Helper()
	card := &sdk.AgentCard{
		Name: "desk", Capabilities: sdk.AgentCapabilities{Streaming: true},
		SupportedInterfaces: []*sdk.AgentInterface{{URL: "swp:///desk", ProtocolBinding: a2atransport.Protocol, ProtocolVersion: sdk.Version}},
	}
	factory := a2atransport.Factory(func(context.Context, *sdk.AgentInterface) (*a2atransport.Client, error) {
		return &a2atransport.Client{
			Peer: a2atransport.PeerFunc(func(context.Context, string) (profiles.Session, *a2a.Service, error) {
				return s.Session, s.tasks, nil
			}), Agent: "desk",
		}, nil
	})
	client, err := a2aclient.NewFromCard(t.Context(), card, a2aclient.WithTransport(a2atransport.Protocol, factory))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func user(text string) *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))}
}

const teamYAML = "teams: {desk: {description: answers, default: triage, members: {triage: {}, billing: {}}}}\n"

const everyoneYAML = "access: {rules: [{identity: '**'}], agents: [{identity: '**', agent_ids: '**'}]}\n"

// triage hands what it is asked to billing, and what billing says to the user.
func triage(senders chan<- string) player {
	return func(x *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		from, text := sender(x.Message), x.Message.Parts[0].Text()
		senders <- from
		if from == "user" {
			yield(to("billing", "please: "+text), nil)
			return
		}
		yield(to("user", "billing says "+text), nil)
	}
}

func TestATeamIsOneAgentToAnSDKClient(t *testing.T) {
	billing := newScripted(t, func(string) (string, string) {
		return `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"42 EUR"}]}}`, ""
	})
	r := start(t, agentYAML(billing.url, "")+teamYAML+everyoneYAML)
	senders := make(chan string, 2*len(r.addrs))
	join(r, "triage", triage(senders), team.URI)
	for _, address := range r.addrs {
		client := deskClient(t, r.mustDial(address))
		result, err := client.SendMessage(t.Context(), user("what do I owe?"))
		if err != nil {
			t.Fatalf("%s: %v\n%s", address, err, r.log)
		}
		m, ok := result.(*sdk.Message)
		if !ok || m.Parts[0].Text() != "billing says 42 EUR" || m.Metadata[team.URI] != nil {
			t.Errorf("%s: %+v", address, result)
		}
		if first, second := <-senders, <-senders; first != "user" || second != "billing" {
			t.Errorf("%s: senders %q and %q", address, first, second)
		}
	}
	billing.mu.Lock()
	defer billing.mu.Unlock()
	if sent := billing.bodies[0]; strings.Contains(sent, team.URI) || !strings.Contains(sent, "please: what do I owe?") {
		t.Errorf("an agent without the extension was sent %s", sent)
	}
	if got := billing.headers[0].Get("A2A-Extensions"); got != "" {
		t.Errorf("and extensions %q", got)
	}
	r.counts(`swpd_team_hops_total{outcome="routed",team="desk"}`, fmt.Sprint(2*len(r.addrs)))
}

func TestATaskOfATeamIsFollowedAndOnlyByItsCaller(t *testing.T) {
	r := start(t, "teams: {desk: {default: triage, members: {triage: {}}}}\n"+everyoneYAML)
	steps := make(chan struct{})
	join(r, "triage", func(x *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		if x.StoredTask == nil {
			if yield(sdk.NewSubmittedTask(x, x.Message), nil) {
				yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateInputRequired, sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("which?"))), nil)
			}
			return
		}
		<-steps
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCompleted, to("user", "done: "+x.Message.Parts[0].Text())), nil)
	}, team.URI)
	client := deskClient(t, r.mustDial(r.addrs[0]))
	var id sdk.TaskID
	var states []sdk.TaskState
	for e, err := range client.SendStreamingMessage(t.Context(), user("book")) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *sdk.Task:
			id, states = e.ID, append(states, e.Status.State)
		case *sdk.TaskStatusUpdateEvent:
			states = append(states, e.Status.State)
		}
	}
	if want := []sdk.TaskState{sdk.TaskStateSubmitted, sdk.TaskStateInputRequired}; id == "" || !slices.Equal(states, want) {
		t.Fatalf("task %q, states %v, want %v", id, states, want)
	}
	if task, err := client.GetTask(t.Context(), &sdk.GetTaskRequest{ID: id}); err != nil || task.Status.State != sdk.TaskStateInputRequired {
		t.Fatalf("%+v, %v", task, err)
	}
	other := deskClient(t, r.mustDial(r.addrs[2])) // a plaintext listener: the identity loopback
	if _, err := other.GetTask(t.Context(), &sdk.GetTaskRequest{ID: id}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("somebody else: %v", err)
	}
	close(steps)
	more := user("the blue one")
	more.Message.TaskID = id
	result, err := client.SendMessage(t.Context(), more)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	if task, ok := result.(*sdk.Task); !ok || task.ID != id || task.Status.State != sdk.TaskStateCompleted || task.Status.Message.Parts[0].Text() != "done: the blue one" || task.Status.Message.Metadata[team.URI] != nil {
		t.Errorf("%+v", result)
	}
}

func TestATeamHasMembersBehindPartners(t *testing.T) {
	b := open(t, "b", "")
	a := open(t, "a", "partners:\n"+entry("b", b, b.addrs[0])+
		"teams: {desk: {default: near, members: {near: {}, far: {agent: b/expert, title: Far, description: knows, routes: true}}}}\n")
	b.trusting("a", a)
	a.connected("b")
	told := make(chan string, 1)
	join(a.running, "near", func(x *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		cards, err := json.Marshal(x.Message.Metadata[team.URI])
		if err != nil {
			t.Error(err)
		}
		told <- string(cards)
		yield(to("far", "ask"), nil)
	}, team.URI)
	join(b.running, "expert", func(x *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		yield(to("user", "an answer for "+sender(x.Message)), nil)
	})
	s := a.mustDial(a.addrs[0])
	result, err := deskClient(t, s).SendMessage(t.Context(), user("hello"))
	if err != nil {
		t.Fatalf("%v\n%s", err, a.log)
	}
	if m, ok := result.(*sdk.Message); !ok || m.Parts[0].Text() != "an answer for near" {
		t.Errorf("%+v", result)
	}
	const want = `{"agentCards":[{"capabilities":[],"description":"knows","id":"far","name":"Far","supportsClientRouting":true}],"sender":"user"}`
	if got := <-told; got != want {
		t.Errorf("the default agent was told %s, want %s", got, want)
	}
}

func TestATeamIsReachedOverHTTP(t *testing.T) {
	billing := newScripted(t, func(string) (string, string) {
		return `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"42", "n":1.0}]}}`, ""
	})
	file := filepath.Join(t.TempDir(), "desk.json")
	const card = `{"name":"Desk","version":"1","capabilities":{"extensions":[{"uri":"urn:must","required":true}]},"supportedInterfaces":[]}`
	if err := os.WriteFile(file, []byte(card), 0o600); err != nil {
		t.Fatal(err)
	}
	a := open(t, "a", httpYAML+agentYAML(billing.url, "")+fmt.Sprintf("teams: {desk: {card: %q, default: billing, members: {billing: {}}}}\n", file))
	url := a.front() + "/a2a/desk"
	const body = `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"?"}],"extensions":["` + team.URI + `"],"metadata":{"` + team.URI + `":{"recipient":"x"}}}}`
	status, _, got := post(t, url+"/message:send", body, version)
	if status != 400 || !strings.Contains(got, "EXTENSION_SUPPORT_REQUIRED") || billing.asked() > 0 {
		t.Errorf("without the extension that is required: %d %s", status, got)
	}
	status, _, got = post(t, url+"/message:send", body, version, "A2A-Extensions: urn:other, urn:must")
	if status != 200 || got != `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"42", "n":1.0}]}}` {
		t.Fatalf("with it: %d %s\n%s", status, got, a.log)
	}
	_, _, listed := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, version, "A2A-Extensions: urn:must")
	if !strings.Contains(listed, "-32004") {
		t.Errorf("ListTasks: %s", listed)
	}
	billing.mu.Lock()
	defer billing.mu.Unlock()
	if sent := billing.bodies[0]; strings.Contains(sent, team.URI) || strings.Contains(sent, "recipient") {
		t.Errorf("the agent was sent what the caller forged: %s", sent)
	}
	if got := billing.headers[0].Get("A2A-Extensions"); got != "urn:other,urn:must" {
		t.Errorf("and extensions %q", got)
	}
}

func TestTheCardOfATeamHasTheSkillsOfItsMembers(t *testing.T) {
	billing := newScripted(t, func(string) (string, string) { return `{}`, "" })
	yaml := "teams: {desk: {title: Desk, description: answers, default: billing, members: {billing: {capabilities: [invoices, refunds]}, away: {}}}}\n"
	r := start(t, agentYAML(billing.url, "")+yaml+everyoneYAML)
	s := r.mustDial(r.addrs[0])
	card, err := agdisc.Ask(t.Context(), s.Session, "desk", "")
	if err != nil {
		t.Fatal(err)
	}
	var got sdk.AgentCard
	if err := json.Unmarshal(card.Payload, &got); err != nil {
		t.Fatalf("%v: %s", err, card.Payload)
	}
	var skills []string
	for _, skill := range got.Skills {
		skills = append(skills, skill.ID)
	}
	if got.Name != "Desk" || got.Description != "answers" || !slices.Equal(skills, []string{"billing/invoices", "billing/refunds"}) || len(got.Capabilities.Extensions) != 0 {
		t.Errorf("card %s", card.Payload)
	}
	if card.ETag != agdisc.HashOf(card.Payload) || card.MaxAge <= 0 {
		t.Errorf("etag %q, max_age %v", card.ETag, card.MaxAge)
	}
}

func TestATeamMayDoWhatTheRulesAllowIt(t *testing.T) {
	billing := newScripted(t, func(string) (string, string) {
		return `{"message":{"messageId":"m","parts":[{"text":"x"}]}}`, ""
	})
	const rules = "access: {rules: [{identity: ['spiffe://localhost/**', loopback], profile: [a2a, rpc], name: ['desk/**', 'swp.*']}%s]}\n"
	for name, test := range map[string]struct {
		rule string
		ok   bool
	}{
		"allowed":     {", {identity: 'team:desk', profile: a2a, operation: task, name: 'billing/a2a/1.0/SendMessage'}", true},
		"not allowed": {", {identity: 'team:other'}", false},
	} {
		t.Run(name, func(t *testing.T) {
			yaml := "teams: {desk: {default: billing, members: {billing: {routes: false}}}}\n"
			r := start(t, agentYAML(billing.url, "")+yaml+fmt.Sprintf(rules, test.rule))
			before := billing.asked()
			_, err := deskClient(t, r.mustDial(r.addrs[0])).SendMessage(t.Context(), user("hi"))
			if (err == nil) != test.ok || (billing.asked() > before) != test.ok {
				t.Errorf("error %v, asked %v\n%s", err, billing.asked() > before, r.log)
			}
			if !test.ok && !strings.Contains(r.log.String(), `"peer":"team:desk"`) {
				t.Errorf("the audit trail says\n%s", r.log)
			}
		})
	}
}

// The identity of a team is given by this endpoint, and by no certificate.
func TestTL11NoCertificateIsATeam(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pki", "ca.crt")
	own, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ca := transporttest.NewCA(t)
	if err := os.WriteFile(file, append(own, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw})...), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startIn(t, dir, everyoneYAML)
	a, err := transport.ParseAddr(d.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := ca.Pool()
	roots.AppendCertsFromPEM(own)
	conn, err := tlsconn.Dial(t.Context(), a.HostPort(), transporttest.PolicyOf(ca.Issue(t, transporttest.Named("team:desk")), roots), tlsconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(uint64(profiles.OK)) }()
	_ = transporttest.NewRaw(t, conn).ExpectEnd() // fails the test if there is none
	d.await(`"reason":"denied"`)
	d.await(`"team:desk"`)
}

func TestATeamThatIsNotLetInAnyMoreSendsNothing(t *testing.T) {
	billing := newScripted(t, func(string) (string, string) {
		return `{"message":{"messageId":"m","parts":[{"text":"x"}]}}`, ""
	})
	r := start(t, agentYAML(billing.url, "")+"teams: {desk: {default: billing, members: {billing: {routes: false}}}}\n"+everyoneYAML)
	client := deskClient(t, r.mustDial(r.addrs[0]))
	if _, err := client.SendMessage(t.Context(), user("hi")); err != nil {
		t.Fatal(err)
	}
	r.rewrite("access: {", "access: {deny: ['team:desk'], ")
	r.reloaded()
	if _, err := client.SendMessage(t.Context(), user("hi")); err == nil || billing.asked() != 1 {
		t.Errorf("error %v, asked %d times", err, billing.asked())
	}
}

func TestCheckSaysWhatATeamMayNotSend(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "swpd.yaml")
	text := "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\ndata: data\n" + agentYAML("http://127.0.0.1:1/", "") +
		"partners: {acme: {identity: 'spiffe://acme.example/swpd'}}\n" +
		"teams: {desk: {default: a, members: {a: {}, billing: {}, far: {agent: acme/x}, inner: {}}}, inner: {default: a, members: {a: {}}}}\n" +
		"access: {rules: [{identity: 'team:desk', profile: a2a, operation: task, name: ['a2a/1.0/*', 'acme/**']}, {identity: 'spiffe://localhost/**', profile: a2a, name: 'desk/**'}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := check.Read(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []check.PlanTeam{
		{Name: "desk", Default: "a", Members: []string{"a=a", "billing=billing", "far=acme/x", "inner=inner"}, Allowed: []string{"spiffe://localhost/**"}, Denied: []string{"billing"}},
		{Name: "inner", Default: "a", Members: []string{"a=a"}, Allowed: []string{}, Denied: []string{"a"}},
	}
	if diff := cmp.Diff(want, plan.Teams, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if warnings := strings.Join(plan.Warnings, "\n"); !strings.Contains(warnings, "do not let team:desk send billing/a2a/1.0/SendMessage to billing") {
		t.Errorf("warnings %s", warnings)
	}
}
