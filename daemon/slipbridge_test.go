package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	messages "github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// inMessage is an answer with a line in SLIP.
func inMessage(t *testing.T, src, dst, anchor string) string {
	t.Helper()
	x, err := slipa2a.New(slipa2a.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := x.Encode(slipa2a.Outgoing{MessageID: "m", Role: slipa2a.RoleAgent, SLIP: slipstream.Say(src, dst, anchor, "auth_module")})
	if err != nil {
		t.Fatal(err)
	}
	return `{"message":` + string(m) + `}`
}

func TestALineReachesAgentsOfA2AOfAPartnerAndTheirAnswersComeBack(t *testing.T) {
	t.Parallel()
	for i, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			billing := newScripted(t, func(string) (string, string) { return inMessage(t, "billing", "planner", "EvalApprove"), "" })
			a := open(t, "a", "slip: {}\n")
			b := open(t, "b", "slip: {agents: {1: planner, 2: reviewer}, a2a: {reviewer: {mismatch: refuse}}}\n"+agentYAML(billing.url, ", slip: {mismatch: refuse}")+
				"partners:\n"+entry("a", a, a.addrs[i]))
			a.trusting("b", b)
			b.connected("a")
			a.connected("b")
			var says atomic.Value
			says.Store(`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"all is well"}]}}`)
			var heard atomic.Value
			review := func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
				heard.Store(string(task.Input))
				said, _ := says.Load().(string)
				if failure, ok := strings.CutPrefix(said, "!"); ok {
					return nil, a2abinding.Fail(a2abinding.CodeUnsupported, failure).Result()
				}
				return []byte(said), nil
			}
			b.seats(devpki.Client(filepath.Join(b.dir, "pki")), b.addrs[i], "", "reviewer", review, "a2a/1.0/SendMessage")
			planner := a.speaks(a.addrs[i], "planner")
			hears := func(want string) {
				t.Helper()
				if diff := cmp.Diff(said{Type: messages.TypeSLIP, Payload: want}, planner.hears()); diff != "" {
					t.Error(diff)
				}
			}
			const line = "SLIP v1 planner reviewer RequestReview a:b"
			planner.says(messages.TypeSLIP, "SLIP v1 planner billing RequestReview auth_module")
			hears("SLIP v1 billing planner EvalApprove auth_module")
			if last := billing.bodies[billing.asked()-1]; !strings.Contains(last, "SLIP v1 planner billing RequestReview auth_module") || !strings.Contains(last, ucr.CoreHash) {
				t.Errorf("the agent was asked with %s", last)
			}
			planner.says(messages.TypeSLIP, line)
			hears(`SLIP v1 reviewer planner Fallback "all is well"`)
			if input, _ := heard.Load().(string); !strings.Contains(input, line) || !strings.Contains(input, slipa2a.URI) {
				t.Errorf("the agent was asked with %s", input)
			}
			for said, code := range map[string]string{
				`!not today`: messages.CodeRefused,
				`{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`:                                    messages.CodeUnanswered,
				`{"message":{"messageId":"m","parts":[{"text":"see"},{"data":{}}]}}`:                             messages.CodeUnanswered,
				inMessage(t, "reviewer", "boss", "EvalApprove"):                                                  messages.CodeUnanswered,
				strings.Replace(inMessage(t, "reviewer", "planner", "EvalApprove"), "EvalApprove", "EvalOdd", 1): messages.CodeRefused,
			} {
				says.Store(said)
				planner.isRefused(planner.says(messages.TypeSLIP, line), code)
			}
			says.Store(inMessage(t, "reviewer", "planner", "MetaAck"))
			planner.says(messages.TypeSLIP, line)
			hears("SLIP v1 reviewer planner MetaAck auth_module")
		})
	}
}

func TestAMessageOfA2AReachesAnAgentThatHearsLinesAtAPartner(t *testing.T) {
	t.Parallel()
	for i, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			a := open(t, "a", "slip: {relay: [sleeper], a2a: {billing: {mismatch: refuse}, sleeper: {mismatch: refuse}}}\n")
			b := open(t, "b", "partners:\n"+entry("a", a, a.addrs[i]))
			a.trusting("b", b)
			b.connected("a")
			a.connected("b")
			s := b.mustDial(b.addrs[i])
			sendTo := func(agent, input string) *a2a.Result {
				t.Helper()
				_, got := s.hand(t, &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(input), Params: []string{slipa2a.Param}}, a2a.SendOptions{Agent: agent})
				return got
			}
			send := func(input string) *a2a.Result { return sendTo("a/billing", input) }
			line := strings.Replace(inSLIP(t), `{"text":"SLIP v1 planner billing RequestReview invoice"},{ "data":9007199254740993 }`, `{"text":"SLIP v1 planner billing RequestReview a:b"}`, 1)
			if got := send(line); got.OK || !strings.Contains(string(got.Output), "unknown_destination") {
				t.Errorf("while nobody is there: %+v %s", got, got.Output)
			}
			if got := sendTo("a/sleeper", strings.Replace(line, " billing ", " sleeper ", 1)); !got.OK {
				t.Errorf("while it is away and the relay keeps: %+v %s", got, got.Output)
			}
			billing := a.speaks(a.addrs[i], "billing")
			if got := send(line); !got.OK || !strings.Contains(string(got.Output), "SLIP v1 billing planner MetaAck") {
				t.Errorf("%+v %s", got, got.Output)
			}
			if diff := cmp.Diff(said{Type: messages.TypeSLIP, Payload: "SLIP v1 planner billing RequestReview a:b"}, billing.hears()); diff != "" {
				t.Error(diff)
			}
			for name, input := range map[string]string{
				"not_carried":   inSLIP(t), // it has an attachment
				"other_agent":   strings.Replace(line, " billing ", " boss ", 1),
				"ucr_mismatch":  strings.Replace(line, ucr.CoreHash, "sha256:00", 1),
				"not marked as": `{"message":{"messageId":"m","parts":[{"text":"hello"}]}}`,
			} {
				if got := send(input); got.OK || !strings.Contains(string(got.Output), name) {
					t.Errorf("%s: %+v %s", name, got, got.Output)
				}
			}
			if len(billing.heard) > 0 {
				t.Errorf("the agent heard %v", <-billing.heard)
			}
		})
	}
}

// A caller over A2A may speak as no other agent than one over profile 1025, and reaches no other.
func TestPR18ALineOfA2AIsUnderTheRulesOfProfile1025(t *testing.T) {
	t.Parallel()
	const rules = "access: {rules: [%s], agents: [{identity: '**', agent_ids: [planner, billing]}]}\n"
	for access, want := range map[string]bool{
		"{identity: '**', profile: [a2a, rpc, agdisc]}":       false,
		"{identity: '**', profile: [a2a, rpc, agdisc, slip]}": true,
	} {
		a := open(t, "a", "slip: {a2a: {billing: {mismatch: refuse}}}\n"+fmt.Sprintf(rules, access))
		billing := a.speaks(a.addrs[0], "billing")
		s := a.mustDial(a.addrs[0])
		for src, may := range map[string]bool{"planner": want, "boss": false} {
			line := strings.Replace(inSLIP(t), `{"text":"SLIP v1 planner billing RequestReview invoice"},{ "data":9007199254740993 }`, `{"text":"SLIP v1 `+src+` billing RequestReview x"}`, 1)
			_, got := s.hand(t, &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(line), Params: []string{slipa2a.Param}}, a2a.SendOptions{Agent: "billing"})
			if got.OK != may || !may && !strings.Contains(string(got.Output), `"DENIED"`) {
				t.Errorf("%s, from %s: %+v %s", access, src, got, got.Output)
			}
		}
		if want {
			billing.hears()
		}
		if len(billing.heard) > 0 {
			t.Errorf("%s: the agent heard %v", access, <-billing.heard)
		}
	}
}

// The hints of a line hold for the agent of A2A, and go to it.
func TestHintsOfALineHoldForAnAgentOfA2A(t *testing.T) {
	t.Parallel()
	billing := newScripted(t, func(string) (string, string) { return inMessage(t, "billing", "planner", "EvalApprove"), "" })
	r := open(t, "a", "slip: {}\n"+agentYAML(billing.url, ", slip: {mismatch: refuse}, hints: {region: [eu-west-1]}"))
	for hint, kept := range map[string]bool{"": true, "MUST region=eu": true, "MUST region=mars": false, "MUST cost_limit=2": false} {
		planner := r.speaks(r.addrs[0], "planner")
		if hint != "" {
			(&session{Session: planner.session}).put(t, planner.session, hint)
		}
		asked := billing.asked()
		id := planner.says(messages.TypeSLIP, "SLIP v1 planner billing RequestReview auth_module")
		if !kept {
			if said := soon(t, planner.errs); said.MsgID != id || billing.asked() != asked {
				t.Errorf("%q: %+v, and the agent was asked %d times", hint, said, billing.asked()-asked)
			}
		} else if got := planner.hears(); !strings.Contains(got.Payload, "EvalApprove") || (billing.headers[asked].Get("Swp-Policy") != "") != (hint != "") {
			t.Errorf("%q: %+v, under %q", hint, got, billing.headers[asked].Get("Swp-Policy"))
		}
		planner.session.Close(profiles.OK)
	}
}

// An agent of the same name at a partner is not the one that a task is for.
func TestALineOfATaskGoesToNoOtherOrganisation(t *testing.T) {
	t.Parallel()
	a := open(t, "a", "slip: {a2a: {billing: {mismatch: refuse}}}\n")
	b := open(t, "b", "partners:\n"+entry("a", a, a.addrs[0]))
	a.trusting("b", b)
	b.connected("a")
	a.connected("b")
	billing := b.speaks(b.addrs[0], "billing")
	planner := a.speaks(a.addrs[0], "planner")
	planner.says(messages.TypeSLIP, "SLIP v1 planner billing RequestReview x") // which by its name alone it reaches
	billing.hears()
	line := strings.Replace(inSLIP(t), `,{ "data":9007199254740993 }`, "", 1)
	_, got := a.mustDial(a.addrs[0]).hand(t, &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(line), Params: []string{slipa2a.Param}}, a2a.SendOptions{Agent: "billing"})
	if got.OK || !strings.Contains(string(got.Output), "NO_ROUTE") || len(billing.heard) > 0 {
		t.Errorf("%+v %s; %d messages heard", got, got.Output, len(billing.heard))
	}
}
