package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLoadReadsDiscovery(t *testing.T) {
	d := dir(t)
	if err := os.WriteFile(filepath.Join(d, "card.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, d, `
agdisc:
  cards:
    agent.one: {file: card.json}
    "https://example.org/two": {file: `+filepath.Join(d, "card.json")+`, revision: "7", max_age: 0s}
tooldisc:
  refresh: 1m
  eager: true
  tools:
    - {tool_id: search, version: "1", schema: card.json, descriptor: card.json}
    - {tool_id: search, name: Search, version: "2", schema_ref: "https://example.org/s"}
`)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d, "card.json")
	want := map[string]AgentCard{
		"agent.one":               {File: file, MaxAge: 5 * time.Minute},
		"https://example.org/two": {File: file, Revision: "7"},
	}
	if diff := cmp.Diff(want, c.AGDISC.Cards); diff != "" {
		t.Error(diff)
	}
	tools := TOOLDISC{Refresh: time.Minute, Idle: 10 * time.Minute, Eager: true, Tools: []Tool{
		{ToolID: "search", Version: "1", Schema: file, Descriptor: file},
		{ToolID: "search", Name: "Search", Version: "2", SchemaRef: "https://example.org/s"},
	}}
	if diff := cmp.Diff(tools, c.TOOLDISC); diff != "" {
		t.Error(diff)
	}
}

func TestOP05BadDiscoveryIsRefused(t *testing.T) {
	const tool = "tool_id: a, version: '1', schema_ref: 'x:y'"
	for name, test := range map[string]struct{ text, want string }{
		"a card without a file":     {"agdisc: {cards: {a: {}}}", "agdisc.cards.a.file: missing"},
		"a card that is not there":  {"agdisc: {cards: {a: {file: nowhere}}}", "agdisc.cards.a.file: /"},
		"a card of nobody":          {"agdisc: {cards: {'': {file: a.crt}}}", "has no name"},
		"a negative age":            {"agdisc: {cards: {a: {file: a.crt, max_age: -1s}}}", "agdisc.cards.a.max_age"},
		"no refresh":                {"tooldisc: {refresh: 0s}", "tooldisc: refresh and idle are durations above 0"},
		"no idle":                   {"tooldisc: {idle: 0s}", "tooldisc: refresh and idle are durations above 0"},
		"idle for good":             {"tooldisc: {idle: 1m, eager: true}", "tooldisc.idle: is set while tooldisc.eager"},
		"a tool without an id":      {"tooldisc: {tools: [{version: '1', schema_ref: 'x:y'}]}", "tooldisc.tools[0].tool_id: missing"},
		"a tool without a version":  {"tooldisc: {tools: [{tool_id: a, schema_ref: 'x:y'}]}", "tooldisc.tools[0].version: missing"},
		"a tool without a schema":   {"tooldisc: {tools: [{tool_id: a, version: '1'}]}", "tooldisc.tools[0]: wants one of schema"},
		"a tool with two":           {"tooldisc: {tools: [{" + tool + ", schema: a.crt}]}", "tooldisc.tools[0]: wants one of schema"},
		"a tool twice":              {"tooldisc: {tools: [{" + tool + "}, {" + tool + "}]}", `tooldisc.tools[1]: "a" is described in version "1" already`},
		"a schema that is not":      {"tooldisc: {tools: [{tool_id: a, version: '1', schema: nowhere}]}", "tooldisc.tools[0].schema: /"},
		"a descriptor that is not":  {"tooldisc: {tools: [{" + tool + ", descriptor: nowhere}]}", "tooldisc.tools[0].descriptor: /"},
		"a tool of a server":        {"mcp: {servers: {s: {command: sh}}}\ntooldisc: {tools: [{tool_id: s/x, version: '1', schema_ref: 'x:y'}]}", `"s/x" is a tool of the MCP server s`},
		"an operation there is not": {"access: {rules: [{identity: '**', profile: agdisc, operation: list}]}", `"list" is no operation of agdisc`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, dir(t), test.text+"\n")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error:\n%v\nwant it to contain:\n%s", err, test.want)
			}
		})
	}
}
