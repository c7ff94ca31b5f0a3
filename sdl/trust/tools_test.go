package trust

import (
	"errors"
	"testing"
)

// Rows 55 and 56 of the acceptance list, and weakness 14 of §13: who asks for a scope
// has not been granted it.
func TestAllowLetsAgentsCallWhatTheyWereGranted(t *testing.T) {
	scoped := &ToolPolicy{
		ByAgent: map[string][]string{gardener: {"math.add", "sys.ping"}, stranger: {"math.add"}},
		Scopes:  map[string]string{"math.add": "tool:math.add"},
		Granted: map[string][]string{gardener: {"tool:math.add", "other"}, miller: {"tool:math.add"}},
	}
	asserted := *scoped
	asserted.AssertedScopes = true
	for name, test := range map[string]struct {
		policy      *ToolPolicy
		agent, tool string
		authz       string
		allowed     bool
		scope       bool // is what is missing
	}{
		"no policy":                   {nil, gardener, "sys.ping", `{}`, false, false},
		"an empty one":                {&ToolPolicy{}, gardener, "sys.ping", `{}`, false, false},
		"named":                       {&ToolPolicy{Tools: []string{"sys.ping"}}, gardener, "sys.ping", `{}`, true, false},
		"not named":                   {&ToolPolicy{Tools: []string{"sys.ping"}}, gardener, "math.add", `{}`, false, false},
		"by agent":                    {scoped, gardener, "sys.ping", `{}`, true, false},
		"agent not listed":            {scoped, miller, "sys.ping", `{}`, false, false},
		"listed for another tool":     {scoped, stranger, "sys.ping", `{}`, false, false},
		"named, but not for him":      {&ToolPolicy{Tools: []string{"sys.ping"}, ByAgent: map[string][]string{gardener: {"sys.ping"}}}, stranger, "sys.ping", `{}`, false, false},
		"for him, but not named":      {&ToolPolicy{Tools: []string{"sys.ping"}, ByAgent: map[string][]string{gardener: {"math.add"}}}, gardener, "math.add", `{}`, false, false},
		"scope asked and granted":     {scoped, gardener, "math.add", `{"scopes":["x","tool:math.add"]}`, true, false},
		"scope not asked":             {scoped, gardener, "math.add", `{"scopes":["other"]}`, false, true},
		"no scopes":                   {scoped, gardener, "math.add", `{}`, false, true},
		"no authz":                    {scoped, gardener, "math.add", `null`, false, true},
		"scopes are no array":         {scoped, gardener, "math.add", `{"scopes":"tool:math.add"}`, false, true},
		"scope asked, not granted":    {scoped, stranger, "math.add", `{"scopes":["tool:math.add"]}`, false, true},
		"granted, but tool not his":   {scoped, miller, "math.add", `{"scopes":["tool:math.add"]}`, false, false},
		"asserted: asked":             {&asserted, stranger, "math.add", `{"scopes":["tool:math.add"]}`, true, false},
		"asserted: not asked":         {&asserted, gardener, "math.add", `{"scopes":[]}`, false, true},
		"asserted: tool not his":      {&asserted, miller, "math.add", `{"scopes":["tool:math.add"]}`, false, false},
		"in another case":             {&ToolPolicy{Tools: []string{"sys.ping"}}, gardener, "SYS.PING", `{}`, false, false},
		"named once for everyone":     {&ToolPolicy{Tools: []string{"sys.ping"}}, stranger, "sys.ping", `{}`, true, false},
		"an agent that is not known":  {scoped, "", "sys.ping", `{}`, false, false},
		"a tool that has a scope not": {&ToolPolicy{Tools: []string{"a"}, Scopes: map[string]string{"b": "s"}}, gardener, "a", `{}`, true, false},
	} {
		err := test.policy.Allow(test.agent, test.tool, mustParse(t, test.authz))
		if (err == nil) != test.allowed || errors.Is(err, ErrScope) != test.scope {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMaxArgs(t *testing.T) {
	for _, test := range []struct {
		policy *ToolPolicy
		want   int
	}{{nil, 4096}, {&ToolPolicy{}, 4096}, {&ToolPolicy{MaxArgsBytes: 20}, 20}} {
		if got := test.policy.MaxArgs(); got != test.want {
			t.Errorf("got %d, want %d", got, test.want)
		}
	}
}
