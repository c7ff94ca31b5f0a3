package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAgentsAtAURLAreRead(t *testing.T) {
	c, err := load(t, dir(t), `a2a:
  agents:
    plain: {url: "http://127.0.0.1:8080/a2a"}
    full:
      url: https://example.org/agents/full
      binding: rest
      card: https://example.org/card.json
      headers: {x-tenant: t}
      calls: 1
      streams: 1024
      timeout: 10s
      deadline: 1m
      retention: 24h
      slip: {mismatch: fallback, require_hash: true, required: true}
`, "SWPD_A2A_AGENTS_FULL_HEADERS_AUTHORIZATION=Bearer x")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]A2AAgent{
		"plain": {URL: "http://127.0.0.1:8080/a2a", Calls: 64, Streams: 256, Timeout: 10 * time.Minute, Retention: 720 * time.Hour},
		"full": {
			URL: "https://example.org/agents/full", Binding: "rest", Card: "https://example.org/card.json",
			Headers: map[string]string{"x-tenant": "t", "AUTHORIZATION": "Bearer x"}, Calls: 1, Streams: 1024,
			Timeout: 10 * time.Second, Deadline: time.Minute, Retention: 24 * time.Hour,
			Slip: SlipA2A{Mismatch: "fallback", RequireHash: true, Required: true},
		},
	}
	if diff := cmp.Diff(want, c.A2A.Agents); diff != "" {
		t.Error(diff)
	}
	full := c.A2A.Agents["full"]
	if got := full.Header().Get("Authorization"); got != "Bearer x" {
		t.Errorf("header %q", got)
	}
}

func TestAgentsThatSpeakSLIPAreRead(t *testing.T) {
	c, err := load(t, dir(t), `partners: {acme: {identity: spiffe://acme.example/swpd}}
slip:
  a2a:
    reviewer: {mismatch: refuse}
    acme/planner: {mismatch: fallback, require_hash: true, required: true}
    acme/far/agent: {mismatch: refuse}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]SlipA2A{
		"reviewer": {Mismatch: "refuse"}, "acme/planner": {Mismatch: "fallback", RequireHash: true, Required: true}, "acme/far/agent": {Mismatch: "refuse"},
	}
	if diff := cmp.Diff(want, c.SLIP.A2A); diff != "" {
		t.Error(diff)
	}
}

func TestOP05BadAgentsAreRefused(t *testing.T) {
	const agent = "a2a: {agents: {a: {url: \"http://h/p\""
	for name, tt := range map[string]struct{ text, want string }{
		"a slash":           {"a2a: {agents: {a/b: {url: \"http://h\"}}}\n", `"a/b" is not a name`},
		"a partner":         {agent + "}}}\npartners: {a: {identity: spiffe://p.example/swpd}}\n", `a2a.agents.a: has the name of partners.a`},
		"a kind":            {"a2a: {agents: {a: {url: \"http://h\"}}, workers: {w: {command: sh, kinds: a/k}}}\n", `begins with; rename one`},
		"no URL":            {"a2a: {agents: {a: {binding: rest}}}\n", `a2a.agents.a.url: missing`},
		"a file":            {"a2a: {agents: {a: {url: \"file:///x\"}}}\n", `a2a.agents.a.url: "file:///x" is not an absolute`},
		"a query":           {"a2a: {agents: {a: {url: \"http://h/?q\"}}}\n", `has a query`},
		"a binding":         {agent + ", binding: grpc}}}\n", `a2a.agents.a.binding: is "grpc", want jsonrpc, rest`},
		"a mismatch":        {agent + ", slip: {mismatch: ignore}}}}\n", `a2a.agents.a.slip.mismatch: is "ignore", want refuse, fallback`},
		"no mismatch":       {agent + ", slip: {required: true}}}}\n", `a2a.agents.a.slip.mismatch: missing`},
		"a card":            {agent + ", card: card.json}}}\n", `a2a.agents.a.card: "card.json" is not an absolute`},
		"two cards":         {agent + ", card: \"http://h/c\"}}}\nagdisc: {cards: {a: {file: /dev/null}}}\n", `a2a.agents.a.card: is set while agdisc.cards.a`},
		"a header":          {agent + ", headers: {\"a b\": x}}}}\n", `"a b" is no name of a header`},
		"a line break":      {agent + ", headers: {A: \"b\\r\\nc: d\"}}}}\n", `a2a.agents.a.headers.A: contains a character`},
		"a host":            {agent + ", headers: {host: x}}}}\n", `a2a.agents.a.headers.host: cannot be set`},
		"a version":         {agent + ", headers: {A2A-Version: x}}}}\n", `cannot be set`},
		"a header twice":    {agent + ", headers: {X-A: x, x-a: y}}}}\n", `is set twice`},
		"no calls":          {agent + ", calls: 0}}}\n", `a2a.agents.a.calls: is 0, want 1 to 1024`},
		"too many":          {agent + ", streams: 1025}}}\n", `a2a.agents.a.streams: is 1025`},
		"no patience":       {agent + ", timeout: 0s}}}\n", `a2a.agents.a.timeout: is 0s, want`},
		"no deadline":       {agent + ", deadline: 0s}}}\n", `a2a.agents.a.deadline: is 0`},
		"another":           {agent + ", retries: 1}}}\n", `a2a.agents.a.retries`},
		"SLIP, no mismatch": {"slip: {a2a: {a: {required: true}}}\n", `slip.a2a.a.mismatch: missing`},
		"SLIP, empty entry": {"slip: {a2a: {a: {}}}\n", `slip.a2a.a.mismatch: missing`},
		"SLIP, a mismatch":  {"slip: {a2a: {a: {mismatch: ignore}}}\n", `slip.a2a.a.mismatch: is "ignore", want refuse, fallback`},
		"SLIP, no partner":  {"slip: {a2a: {p/a: {mismatch: refuse}}}\n", `slip.a2a.p/a: there is no partners.p`},
		"SLIP, no agent":    {"partners: {p: {identity: spiffe://p.example/swpd}}\nslip: {a2a: {p/: {mismatch: refuse}}}\n", `slip.a2a.p/: names no agent`},
		"SLIP, a URL":       {agent + "}}}\nslip: {a2a: {a: {mismatch: refuse}}}\n", `set a2a.agents.a.slip instead`},
		"SLIP, another":     {"slip: {a2a: {a: {mismatch: refuse, hash: x}}}\n", `slip.a2a.a.hash`},
		"a user in a URL":   {"a2a: {agents: {a: {url: \"http://u:p@h\"}}}\n", `contains a user or password`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, dir(t), tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error:\n%v\nwant it to contain:\n%s", err, tt.want)
			}
		})
	}
}
