package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	stateprofile "github.com/slimwire/swp/profiles/state"
)

// hinted is a worker that answers with the hints of its task.
func hinted(name string) a2a.WorkerFunc {
	return func(ctx context.Context, t *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		return []byte(name + ": " + profiles.FormatHints(profiles.HintsOf(ctx, t.Kind))), nil
	}
}

// A task under a MUST goes only to agents that declare that they keep it, and what they
// declare is still known when they are away.
func TestHintsChooseTheAgentThatKeepsThem(t *testing.T) {
	o := open(t, "a", "")
	o.agent("any", hinted("any"), "k")
	o.declaring("external_network=true;region=us", "us", hinted("us"), "k")
	s := o.mustDial(o.addrs[0])
	s.put(t, s.Session, "MUST region=eu target:k", "SHOULD note=x")
	if _, result := s.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{}); result.OK || !strings.Contains(result.Reason, "MUST region for target:k") {
		t.Errorf("nobody keeps it: %+v", result)
	}
	o.declaring("region=eu-west-1", "eu", hinted("eu"), "k")
	for range 3 {
		if _, result := s.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{}); !result.OK || string(result.Output) != "eu: region=eu;MUST, note=x;SHOULD" {
			t.Errorf("%+v %q", result, result.Output)
		}
	}
	if _, result := s.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{Agent: "us"}); result.OK || !strings.Contains(result.Reason, "UNSATISFIED") {
		t.Errorf("an agent that does not: %+v", result)
	}
	plain := o.mustDial(o.addrs[0])
	if _, result := plain.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{Agent: "us"}); !result.OK {
		t.Errorf("without hints: %+v", result)
	}
}

func TestHintsReachAgentsAtAURLAndTeams(t *testing.T) {
	const answer = `{"message":{"messageId":"m"}}`
	agent := newScripted(t, func(string) (string, string) { return answer, "" })
	r := start(t, agentYAML(agent.url, ", hints: {region: eu-west-1}")+
		"teams: {desk: {default: billing, members: {billing: {}}, hints: {region: eu}}, other: {default: billing, members: {billing: {}}}}\n"+
		"access: {rules: [{identity: ['spiffe://localhost/**', 'team:desk', 'team:other']}]}\n")
	s := r.mustDial(r.addrs[0])
	s.put(t, s.Session, "MUST region=eu", "MAY note=x")
	send := func(agent string) *a2a.Result {
		_, result := s.hand(t, &a2a.Task{Kind: a2abinding.Kinds()[0], Input: []byte(`{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}],"messageId":"1"}}`)}, a2a.SendOptions{Agent: agent})
		return result
	}
	for _, name := range []string{"billing", "desk"} {
		before := agent.asked()
		if result := send(name); !result.OK {
			t.Errorf("%s: %+v", name, result)
		}
		for _, header := range agent.headers[before:agent.asked()] {
			if got := header.Get("Swp-Policy"); got != "region=eu;MUST, note=x;MAY" {
				t.Errorf("%s: Swp-Policy %q", name, got)
			}
		}
	}
	before := agent.asked()
	if result := send("other"); result.OK || !strings.Contains(result.Reason, "UNDECLARED") || agent.asked() != before {
		t.Errorf("a team that has declared nothing: %+v", result)
	}
	s.put(t, s.Session, "MUST no_pii=true")
	if result := send("billing"); result.OK || !strings.Contains(result.Reason, "no_pii") || agent.asked() != before {
		t.Errorf("an agent that has not declared that: %+v", result)
	}
}

func TestCallersOverHTTPSetHintsInAHeader(t *testing.T) {
	a := open(t, "a", httpYAML+strings.Replace(modernYAML(t), "      command:", "      hints: {region: eu}\n      command:", 1)+
		"access: {rules: [{identity: 'http:guest'}, {identity: 'http:alice', profile: [mcp, a2a]}, {identity: 'spiffe://a.example/**'}], agents: [{identity: 'spiffe://a.example/**', agent_ids: '**'}]}\n")
	a.declaring("region=eu", "near", func(ctx context.Context, t *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		return json.Marshal(map[string]string{"hints": profiles.FormatHints(profiles.HintsOf(ctx, t.Kind))})
	}, a2abinding.Kinds()...)
	for _, test := range []struct {
		policy, caller string
		status         int
		says           string
	}{
		{"", "", 200, "tool"},
		{"region=eu;MUST, note=red;MAY", "", 200, "tool"},
		{"region=mars;MUST", "", 0, "stopped by a policy hint: MUST region for this message: UNSATISFIED"},
		{"", "", 200, "tool"},
		{"region=mars;SHOULD", "", 200, "tool"},
		{"region=MARS;MUST", "", 400, "region"},
		{"region=eu", "", 400, "want key=value;MODE"},
		{"region=eu;MUST", "Authorization: Bearer secret-a", 403, "Swp-Policy"},
		{"", "Authorization: Bearer secret-a", 200, "tool"},
	} {
		headers := append([]string{}, modernHeaders...)
		if test.policy != "" {
			headers = append(headers, "Swp-Policy: "+test.policy)
		}
		if test.caller != "" {
			headers = append(headers, test.caller)
		}
		status, _, got := post(t, a.front()+"/mcp/modern", modernCall, headers...)
		if !strings.Contains(got, test.says) || test.status != 0 && status != test.status || test.status == 0 && strings.Contains(got, "result") {
			t.Errorf("MCP under %q %s: %d %s, want %d with %q", test.policy, test.caller, status, got, test.status, test.says)
		}
	}
	send := func(policy string) (int, string) {
		headers := []string{version}
		if policy != "" {
			headers = append(headers, "Swp-Policy: "+policy)
		}
		status, _, got := post(t, a.front()+"/a2a/near/message:send", oddInput, headers...)
		return status, got
	}
	if status, got := send("region=eu;MUST"); status != 200 || !strings.Contains(got, "region=eu;MUST") {
		t.Errorf("A2A: %d %s", status, got)
	}
	if status, got := send("region=mars;MUST"); status == 200 || !strings.Contains(got, "stopped by a policy hint") {
		t.Errorf("A2A, elsewhere: %d %s", status, got)
	}
	if status, got := send(""); status != 200 || got != `{"hints":""}` {
		t.Errorf("A2A, later: %d %s", status, got)
	}
}

// Hints go with messages of every profile to a partner, which compares them again.
func TestHintsCrossToPartnersWithEveryProfile(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pairOf(t, transport, "", "endpoint: {hints: {region: eu-west-1, pii: false}}\n"+
			strings.Replace(modernYAML(t), "      command:", "      hints: {region: eu}\n      command:", 1))
		a.configure(func(text string) string {
			return strings.Replace(text, "b: {identity:", "b: {hints: {region: eu, pii: false, cost: '1'}, identity:", 1)
		})
		if got := a.reloads(); len(got.Problems) > 0 {
			t.Fatalf("%+v", got)
		}
		a.connected("b")
		plain := a.mustDial(a.addrs[transport])
		if err := upload(t.Context(), plain.Session, "b/kept"); err != nil {
			t.Fatal(err)
		}
		for _, deed := range []struct {
			name string
			do   func(ctx context.Context, s *session, name string) error
		}{
			{"mcp", func(ctx context.Context, s *session, _ string) error {
				result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Target: "b/modern", Octets: []byte(modernCall)})
				if err != nil {
					return err
				}
				return refusedIn(string(result.Octets))
			}},
			{"rpc", func(ctx context.Context, s *session, _ string) error {
				_, err := rpc.Call(ctx, profiles.Toward(s.Session, "b"), artifact.MethodList, []byte(`{}`))
				return err
			}},
			{"artifact put", func(ctx context.Context, s *session, name string) error { return upload(ctx, s.Session, "b/"+name) }},
			{"artifact get", func(ctx context.Context, s *session, _ string) error {
				_, err := artifact.Download{ArtifactID: "b/kept", Sink: func(*artifact.Chunk) error { return nil }}.Receive(ctx, s.Session)
				return err
			}},
			{"state put", func(ctx context.Context, s *session, name string) error {
				return put(ctx, profiles.Toward(s.Session, "b"), stateprofile.State{Blob: []byte(name)})
			}},
			{"events publish", func(ctx context.Context, s *session, name string) error {
				lane, err := s.Open(ctx)
				if err != nil {
					return err
				}
				p := events.NewPublisher(lane, rpc.Sync)
				defer p.Close()
				err = p.Publish(ctx, &events.Record{EventID: []byte(name), EventType: []byte("b/t"), Severity: []byte("info"), Timestamp: 1, TaskID: []byte("t")})
				if err == nil {
					err = p.Sync(ctx)
				}
				return err
			}},
			{"events subscribe", func(ctx context.Context, s *session, _ string) error {
				sub, err := events.Open(ctx, s.Session, events.SubscribeOptions{Filter: "type:b/t"})
				if err == nil {
					sub.Close()
				}
				return err
			}},
			{"relay publish", func(ctx context.Context, s *session, name string) error {
				_, err := relay.Send(ctx, s.Session, &relay.Publication{ID: []byte(name), Topic: "b/t", Payload: []byte(name)})
				return err
			}},
		} {
			for _, hint := range []struct {
				text string
				kept bool
			}{
				{"MUST region=eu", true},
				{"SHOULD region=mars", true},
				{"MUST region=mars", false},  // by neither
				{"MUST cost_limit=2", false}, // by the partner, as this endpoint has it; not as the partner has it
			} {
				s := a.mustDial(a.addrs[transport])
				s.put(t, s.Session, hint.text)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				err := deed.do(ctx, s, deed.name+" "+hint.text)
				cancel()
				if hint.text == "MUST cost_limit=2" && deed.name == "relay publish" && err == nil { // custody is taken here
					becomes(t, plain.Session, deed.name+" "+hint.text, relay.DeadState)
					err = errors.New("it died")
				}
				if (err == nil) != hint.kept {
					t.Errorf("%s under %s: %v", deed.name, hint.text, err)
				}
				s.Close(profiles.OK)
			}
		}
		_ = b
	})
}

// refusedIn returns an error if an answer says that a hint or a chain forbids something.
func refusedIn(answer string) error {
	if strings.Contains(answer, "policy hint") || strings.Contains(answer, "chain of credentials") {
		return errors.New(answer)
	}
	return nil
}

// What is denied over HTTP before it opens an exchange: a header, and a body that is not read.
func TestOP27ADenialWithoutAnExchangeIsInTheLogAndInTheTrail(t *testing.T) {
	t.Parallel()
	r := open(t, "a", httpYAML+modernYAML(t)+"access: {rules: [{identity: 'http:guest', profile: rpc}, {identity: 'http:alice', profile: mcp}]}\n")
	headers := append([]string{"Swp-Policy: region=eu;MUST", "Authorization: Bearer secret-a"}, modernHeaders...)
	if status, _, got := post(t, r.front()+"/mcp/modern", modernCall, headers...); status != 403 {
		t.Errorf("a hint: %d %s", status, got)
	}
	if status, _, got := post(t, r.front()+"/mcp/modern", modernCall+strings.Repeat(" ", 1<<20), modernHeaders...); status != 403 {
		t.Errorf("a large body: %d %s", status, got)
	}
	r.await(`"peer":"http:alice","profile":"policyhint","operation":"set"`)
	r.await(`"peer":"http:guest","profile":"mcp"`)
	want := map[string]bool{"http:alice policyhint set": true, "http:guest mcp ": true}
	r.eventually("a record of each", func() bool {
		for _, e := range r.trail() {
			if e.Outcome == "denied" && e.Transport == "http" {
				delete(want, e.Identity+" "+e.Profile+" "+e.Operation)
			}
		}
		return len(want) == 0
	})
}
