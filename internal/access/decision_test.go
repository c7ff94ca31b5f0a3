package access

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecideNamesTheRule(t *testing.T) {
	p, err := New(Options{
		Rules: []Rule{
			{Identity: []string{"spiffe://a/**"}, Profile: []string{"mcp"}, Operation: []string{"tools/list"}, Name: []string{"files"}},
			{Identity: []string{"spiffe://a/one"}, Profile: []string{"mcp"}, Operation: []string{"tools/call"}, Name: []string{"files/read_*"}},
			{Identity: []string{"spiffe://b/**"}},
			{Identity: []string{"spiffe://a/**"}, Profile: []string{"mcp"}},
			{Identity: []string{"spiffe://c/**"}, Profile: []string{"rpc"}, Operation: []string{"call"}, Name: []string{"x"}},
		},
		Agents: []Agents{{Identity: []string{"spiffe://a/**"}, AgentIDs: []string{"left"}}, {Identity: []string{"spiffe://a/one"}, AgentIDs: []string{"planner-*"}}},
		Deny:   []Denial{{Identity: []string{"spiffe://d/**"}}, {Identity: []string{"spiffe://b/left"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const one, other = "spiffe://a/one", "spiffe://c/one"
	for name, test := range map[string]struct {
		identity, profile, operation, name string
		want                               Decision
	}{
		"first that matches":  {one, "mcp", "tools/call", "files/read_file", Decision{Allowed: true, Rule: 1, Deny: -1}},
		"with a wildcard":     {one, "mcp", "tools/call", "files/write", Decision{Allowed: true, Rule: 3, Deny: -1}},
		"denied all the same": {"spiffe://b/left", "mcp", "ping", "x", Decision{Rule: 2, Deny: 1}},
		"another name":        {other, "rpc", "call", "y", Decision{Rule: -1, Deny: -1, Nearest: []Miss{{Rule: 4, Name: true}, {Rule: 2, Identity: true}}}},
		"for somebody else": {other, "mcp", "tools/list", "files", Decision{Rule: -1, Deny: -1, Nearest: []Miss{
			{Rule: 0, Identity: true}, {Rule: 2, Identity: true}, {Rule: 3, Identity: true},
		}}},
	} {
		if got := p.Decide(test.identity, test.profile, test.operation, test.name); !cmp.Equal(test.want, got) {
			t.Errorf("%s: %s", name, cmp.Diff(test.want, got))
		}
		if got := p.Allowed(test.identity, test.profile, test.operation, test.name); got != test.want.Allowed {
			t.Errorf("%s: Allowed %v, Decide %v", name, got, test.want.Allowed)
		}
	}
	if got, want := p.DecideUse(one, "planner-1"), (Decision{Allowed: true, Rule: 1, Deny: -1}); !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
	if got, want := p.DecideUse("spiffe://d/x", "left"), (Decision{Rule: -1, Deny: 0}); !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}
