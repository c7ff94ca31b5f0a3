package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The line of a problem is the line of the mistake: each mistake here is marked with
// the comment that its line ends with, or stands in the line that is named.
func TestProblemsNameTheLineOfTheMistake(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		line int
		want string
	}{
		"indented less than its neighbours, at the top": {"limits:\n    in_flight: 1\n  idle: 5s\n", 3, "is this line indented like"},
		"indented less than its neighbours":             {"admin: off\nlimits:\n    in_flight: 1\n  idle: 5s\n", 4, "is this line indented like"},
		"an element indented less":                      {"admin: off\nlisteners:\n  - address: x\n - address: y\n", 4, "not YAML"},
		"an element indented more":                      {"admin: off\ntrust:\n  ca:\n    - a\n      - b: c\n", 5, "not YAML"},
		"a tab before a key":                            {"admin: off\nlimits:\n\tidle: 5s\n", 3, "spaces instead of tabs"},
		"a tab among spaces":                            {"admin: off\nlimits:\n  idle: 5s\n\tin_flight: 1\nlog: {}\n", 4, "spaces instead of tabs"},
		"a key without a colon":                         {"admin: off\nlisteners\n  - address: x\n", 2, "a key ends with a colon"},
		"a key without a colon before another":          {"admin: off\nlisteners\nlimits:\n  idle: 5s\n", 2, "a key ends with a colon"},
		"a brace that is not closed":                    {"admin: off\nlimits: {idle: 5s\nlog:\n  level: info\n", 2, "or its }"},
		"a brace too many":                              {"admin: off\nlimits: {idle: 5s}}\nlog: {}\n", 2, "not YAML"},
		"a comma that is missing":                       {"admin: off\ntrust:\n  ca: [\n   a,\n   \"b\"\n   \"c\"\n  ]\n", 5, "needs a comma here"},
		"a quote that is not closed":                    {"data: x\nadmin: \"off\nlimits:\n  idle: 5s\nlog:\n level: x\n", 2, "never closed"},
		"a quote that is not closed, in the first line": {"admin: \"off\nlimits:\n  idle: 5s\n", 1, "never closed"},
		"a colon in a value":                            {"data: x\nadmin: a: b\nlog: {}\n", 2, "needs quotes"},
		"a colon in a value of the first line":          {"admin: a: b\nlog: {}\n", 1, "needs quotes"},
		"text that begins with @":                       {"admin: off\nlimits:\n  idle: @x\nlog: {}\n", 3, "quote text"},
		"an alias without an anchor":                    {"admin: off\nlimits:\n  idle: *x\nlog: {}\n", 3, "needs its anchor"},
		"a control character":                           {"admin: off\n# \x01\nlog: {}\n", 2, "control characters"},
		"octets that are no text":                       {"admin: off\nlog:\n  level: \xff\nrate: {}\n", 3, "save the file as UTF-8"},
		"a second document":                             {"admin: off\n\n# more\n---\nadmin: off\n", 4, "a second YAML document"},
		"a second document that is no YAML":             {"admin: off\n---\nadmin: a: b\n", 3, "needs quotes"},

		"a list instead of the file":     {"# swpd\n- admin\n", 2, "is a list, want a mapping"},
		"unknown key with a value":       {"admin: off\nlimitz: 1\n", 2, "did you mean limits?"},
		"unknown key of a mapping":       {"admin: off\nlimitz:\n  idle: 5s\n", 2, "did you mean limits?"},
		"unknown key below a comment":    {"admin: off\nlimits:\n  # how long\n  idel: 5s\n", 4, "did you mean idle?"},
		"unknown key in a list":          {"listeners:\n  - address: swp+tls://127.0.0.1:1\n  - address: swp+tls://127.0.0.1:2\n    error_frame: true\n", 4, "did you mean error_frames?"},
		"key twice":                      {"admin: off\nlimits:\n  idle: 5s\nadmin:\n  off\n", 4, "set twice, first in line 1"},
		"merge key":                      {"admin: off\nlimits:\n  <<: {idle: 5s}\n", 3, "merging mappings is not supported"},
		"a list as a key":                {"admin: off\n? [a]\n: b\n", 2, "a key is a list, want text"},
		"list for a number":              {"admin: off\nlimits:\n  in_flight:\n    - 5\n", 3, "is a list, want a whole number"},
		"list for a mapping":             {"admin: off\nlimits:\n  - idle\n", 2, "is a list, want a mapping"},
		"value in the next line":         {"limits:\n  idle: 5s\n  in_flight:\n    many\n", 3, `is "many", want a whole number`},
		"duration without unit":          {"limits:\n  in_flight: 5\n\n  idle: 5\n", 4, `is "5", want a duration`},
		"out of range":                   {"limits:\n  idle: 5s\n  connections: 0\n", 3, "is 0, want 1 to"},
		"element of a list of text":      {"trust:\n  ca:\n    - a\n    - [b]\n", 4, "is a list, want text"},
		"pattern in a nested list":       {"access:\n  rules:\n    - identity: spiffe://a/**\n    - identity:\n        - spiffe://a/**\n        - spiffe://b*\n", 6, "also matches identities of other trust domains"},
		"profile in a nested list":       {"access:\n  rules:\n    - identity: spiffe://a/**\n      profile: [mcp,\n        nosuch]\n", 5, "is no profile"},
		"operation in a nested list":     {"access:\n  rules:\n    - identity: spiffe://a/**\n      profile: rpc\n      operation:\n        - call\n        - cal\n", 7, "is no operation of rpc"},
		"kind in a list":                 {"a2a:\n  workers:\n    w:\n      url: http://127.0.0.1/\n      kinds:\n        - a\n        - b*\n", 7, "is a pattern"},
		"method in a list":               {"rpc:\n  backends:\n    w:\n      url: http://127.0.0.1/\n      methods:\n        - a\n        - swp.b\n", 7, "is reserved"},
		"key that a server lacks":        {"admin: off\nmcp:\n  servers:\n    a:\n      args: [x]\n", 4, "a.command: missing"},
		"value of an anchor":             {"mcp:\n  servers:\n    a: &x\n      command: sh\n      idle: 5\n    b: *x\n", 5, `mcp.servers.b.idle: is "5", want a duration`},
		"value that an alias stands for": {"data: &x [a]\nadmin: *x\n", 2, "admin: is a list, want a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, dir(t), tt.text)
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("error %v, want Problems", err)
			}
			where := fmt.Sprintf("swpd.yaml:%d", tt.line)
			for _, p := range problems {
				if filepath.Base(p.Where) == where && strings.Contains(p.String(), tt.want) {
					return
				}
			}
			t.Errorf("problems:\n%v\nwant one at %s with %q", err, where, tt.want)
		})
	}
}

func TestSyntaxOfALongFileIsFoundWithoutReadingItForEachLine(t *testing.T) {
	text := "data: x\nadmin: \"off\n" + strings.Repeat("a: 1\n", 20_000)
	_, err := load(t, dir(t), text)
	if err == nil || !strings.Contains(err.Error(), "swpd.yaml:2: not YAML: found unexpected end of stream") {
		t.Errorf("error %v", err)
	}
}

func TestProblemsOfTheEnvironmentNameTheVariable(t *testing.T) {
	for _, tt := range []struct{ text, kv, want string }{
		{"", "SWPD_LIMITS_IDLE=5", "environment SWPD_LIMITS_IDLE: limits.idle: "},
		{"limits:\n  idle: 1m\n", "SWPD_LIMITS_IDLE=5", "environment SWPD_LIMITS_IDLE: limits.idle: "},
		{"limits:\n  idle: 1m\n", "SWPD_LIMITS_CONNECTIONS=0", "environment SWPD_LIMITS_CONNECTIONS: limits.connections: is 0"},
		{"listeners:\n  - address: swp+tls://127.0.0.1:1\n", "SWPD_LISTENERS_1_ERROR_FRAMES=true", "environment SWPD_LISTENERS_1_ERROR_FRAMES: listeners[1].address: missing"},
		{"access: {rules: [{identity: a}]}\n", "SWPD_ACCESS_RULES_0_PROFILE_0=nosuch", "environment SWPD_ACCESS_RULES_0_PROFILE_0: access.rules[0].profile: \"nosuch\" is no profile"},
		{"access: {rules: [{identity: a, profile: mcp}]}\n", "SWPD_ACCESS_RULES_0_PROFILE_1=nosuch", "environment SWPD_ACCESS_RULES_0_PROFILE_1: access.rules[0].profile: \"nosuch\" is no profile"},
		{"", "SWPD_FRESHNESS_REQUIRED=true", "environment SWPD_FRESHNESS_REQUIRED: freshness.required: is true while"},
	} {
		_, err := load(t, dir(t), tt.text, tt.kv)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s over %q: error %v, want it to contain %s", tt.kv, tt.text, err, tt.want)
		}
	}
}

func TestEnvironmentOverridesWhatAnAliasStandsFor(t *testing.T) {
	c, err := load(t, dir(t), "mcp:\n  servers:\n    a: &a {command: sh, args: [x]}\n    b: *a\n", "SWPD_MCP_SERVERS_B_DEFAULT=true")
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.MCP.Servers["a"], c.MCP.Servers["b"]
	if a.Default || !b.Default || b.Command != "sh" || len(b.Args) != 1 {
		t.Errorf("a is %+v, b is %+v", a, b)
	}
}
