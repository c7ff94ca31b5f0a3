package access

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles"
)

func mustNew(t testing.TB, o Options) *Policy {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	own     = "spiffe://example.org/edge"
	partner = "spiffe://partner.example/agents/one"
)

func TestWhatNoRuleAllowsIsDenied(t *testing.T) {
	for name, p := range map[string]*Policy{
		"no rules":     mustNew(t, Options{}),
		"another rule": mustNew(t, Options{Rules: []Rule{{Identity: []string{own}}}}),
		"zero value":   {},
	} {
		if p.Allowed(partner, "rpc", "call", "demo.echo") {
			t.Errorf("%s: allowed", name)
		}
		if p.MayUse(partner, "agent") {
			t.Errorf("%s: may use an agent_id", name)
		}
		if p.Denied(partner) {
			t.Errorf("%s: not let in; that nothing is allowed is no denial of entry", name)
		}
	}
}

func TestARuleAllowsWhatAllOfItsListsMatch(t *testing.T) {
	p := mustNew(t, Options{Rules: []Rule{
		{
			Identity: []string{"spiffe://partner.example/agents/*", "gate.example"}, Profile: []string{"mcp"},
			Operation: []string{"tools/list", "tools/call"}, Name: []string{"files", "files/read_*"},
		},
		{Identity: []string{"spiffe://example.org/**"}},
	}})
	for _, tt := range []struct {
		identity, profile, operation, name string
		want                               bool
	}{
		{partner, "mcp", "tools/list", "files", true},
		{partner, "mcp", "tools/call", "files/read_text", true},
		{"gate.example", "mcp", "tools/call", "files/read_text", true},
		{partner, "mcp", "tools/call", "files/write", false},
		{partner, "mcp", "tools/call", "files/read_a/b", false},
		{partner, "mcp", "tools/call", "db/read_text", false},
		{partner, "mcp", "resources/read", "files", false},
		{partner, "mcp", "Tools/List", "files", false},
		{partner, "rpc", "tools/list", "files", false},
		{partner + "/deeper", "mcp", "tools/list", "files", false},
		{"spiffe://partner.example.evil/agents/one", "mcp", "tools/list", "files", false},
		{"", "mcp", "tools/list", "files", false},
		{own, "anything", "at all", "", true},
		{"spiffe://example.org", "rpc", "call", "x", false},
		{"spiffe://example.orgy/edge", "rpc", "call", "x", false},
		{"SPIFFE://example.org/edge", "rpc", "call", "x", false},
	} {
		if got := p.Allowed(tt.identity, tt.profile, tt.operation, tt.name); got != tt.want {
			t.Errorf("Allowed(%q, %q, %q, %q) = %v", tt.identity, tt.profile, tt.operation, tt.name, got)
		}
	}
}

func TestDenyIsStrongerThanAnyRule(t *testing.T) {
	p := mustNew(t, Options{
		Rules:  []Rule{{Identity: []string{"**"}}},
		Agents: []Agents{{Identity: []string{"**"}, AgentIDs: []string{"**"}}},
		Deny:   []Denial{{Identity: []string{"spiffe://partner.example/**"}}},
	})
	if !p.Denied(partner) || p.Allowed(partner, "rpc", "call", "x") || p.MayUse(partner, "x") {
		t.Error("a denied identity may do something")
	}
	if p.Denied(own) || !p.Allowed(own, "rpc", "call", "x") || !p.MayUse(own, "x") {
		t.Error("another identity is denied")
	}
}

func TestAgentIDsNeedAnEntryOfTheirOwn(t *testing.T) {
	p := mustNew(t, Options{
		Rules: []Rule{{Identity: []string{"**"}}},
		Agents: []Agents{
			{Identity: []string{"spiffe://partner.example/**"}, AgentIDs: []string{"partner-*"}},
			{Identity: []string{partner}, AgentIDs: []string{"one", "two"}},
		},
	})
	for id, want := range map[string]bool{"partner-7": true, "one": true, "two": true, "three": false, "partner-7/x": false, "": false} {
		if got := p.MayUse(partner, id); got != want {
			t.Errorf("MayUse(%q) = %v", id, got)
		}
	}
	if p.MayUse(own, "one") {
		t.Error("an identity without an entry may use an agent_id")
	}
}

// A peer chooses names; only the side of the rule has wildcards.
func TestPR05WildcardsOfAPeerWidenNothing(t *testing.T) {
	p := mustNew(t, Options{Rules: []Rule{{
		Identity: []string{partner}, Profile: []string{"events"}, Operation: []string{"subscribe"}, Name: []string{"orders.eu", "public.*"},
	}}})
	for _, name := range []string{
		"*", "**", "orders.*", "orders.**", "*.eu", "orders.>", ">", "orders.eu ", " orders.eu", "orders.eu\x00", "orders.eu\r\n",
		"orders\x00.eu", "orders.e?", "orders.[e]u", "orders.{eu}", `orders\.eu`, "ORDERS.EU", "", ".", "$JS.API.x", "$SYS.x",
		strings.Repeat("*", 4096), strings.Repeat("orders.eu", 500), "public./x", "public",
	} {
		if p.Allowed(partner, "events", "subscribe", name) {
			t.Errorf("%.40q is allowed", name)
		}
	}
	for _, name := range []string{"orders.eu", "public.", "public.*", "public.a\x00b\r\n", "public.>", "public." + strings.Repeat("x", 4096)} {
		if !p.Allowed(partner, "events", "subscribe", name) {
			t.Errorf("%.40q is not allowed", name)
		}
	}
	for _, identity := range []string{"*", "**", "spiffe://partner.example/agents/*", partner + "\x00", partner + "/"} {
		if p.Allowed(identity, "events", "subscribe", "orders.eu") {
			t.Errorf("identity %q is allowed", identity)
		}
	}
}

func TestReachesSaysWhatIsWorthShowing(t *testing.T) {
	p := mustNew(t, Options{Rules: []Rule{
		{Identity: []string{partner}, Profile: []string{"mcp"}, Operation: []string{"tools/call"}, Name: []string{"files/read_*", "d*/q", "log**x"}},
		{Identity: []string{"gate.example"}},
		{Identity: []string{"out.example"}},
	}, Deny: []Denial{{Identity: []string{"out.example"}}}})
	for _, tt := range []struct {
		identity, profile, name string
		want                    bool
	}{
		{partner, "mcp", "files", true},
		{partner, "mcp", "db", true},
		{partner, "mcp", "logs", true},
		{partner, "mcp", "file", false},
		{partner, "mcp", "files2", false},
		{partner, "mcp", "d/b", false},
		{partner, "rpc", "files", false},
		{"gate.example", "mcp", "anything", true},
		{"out.example", "mcp", "anything", false},
		{own, "mcp", "files", false},
	} {
		if got := p.Reaches(tt.identity, tt.profile, tt.name); got != tt.want {
			t.Errorf("Reaches(%q, %q, %q) = %v", tt.identity, tt.profile, tt.name, got)
		}
	}
}

func TestForListsWhatHoldsForAnIdentityInOrder(t *testing.T) {
	rules := []Rule{
		{Identity: []string{"spiffe://partner.example/**", partner}, Profile: []string{"rpc"}},
		{Identity: []string{own}},
		{Identity: []string{partner}, Profile: []string{"mcp"}, Name: []string{"files"}},
	}
	p := mustNew(t, Options{
		Rules:  rules,
		Agents: []Agents{{Identity: []string{"**"}, AgentIDs: []string{"a"}}, {Identity: []string{partner}, AgentIDs: []string{"b-*"}}},
		Deny:   []Denial{{Identity: []string{"gate.example"}}},
	})
	want := Grants{Rules: []Rule{rules[0], rules[2]}, AgentIDs: []string{"a", "b-*"}}
	if diff := cmp.Diff(want, p.For(partner)); diff != "" {
		t.Error(diff)
	}
	if g := p.For("gate.example"); !g.Denied {
		t.Error("denied, and For does not say so")
	}
}

func TestNewRefuses(t *testing.T) {
	long := []string{strings.Repeat("a", MaxPattern+1)}
	who := []string{own}
	for want, o := range map[string]Options{
		"access: rules[0].identity: none":                                       {Rules: []Rule{{}}},
		"access: rules[1].identity[1]: pattern of 0 octets, want 1 to 1024":     {Rules: []Rule{{Identity: who}, {Identity: []string{own, ""}}}},
		"access: rules[0].profile[0]: pattern of 1025 octets, want 1 to 1024":   {Rules: []Rule{{Identity: who, Profile: long}}},
		"access: rules[0].operation[0]: pattern of 1025 octets, want 1 to 1024": {Rules: []Rule{{Identity: who, Operation: long}}},
		"access: rules[0].name[0]: pattern of 1025 octets, want 1 to 1024":      {Rules: []Rule{{Identity: who, Name: long}}},
		"access: agents[0].identity: none":                                      {Agents: []Agents{{AgentIDs: []string{"a"}}}},
		"access: agents[0].agent_ids: none":                                     {Agents: []Agents{{Identity: who}}},
		"access: agents[0].agent_ids[0]: pattern of 0 octets, want 1 to 1024":   {Agents: []Agents{{Identity: who, AgentIDs: []string{""}}}},
		"access: deny[0].identity[0]: pattern of 1025 octets, want 1 to 1024":   {Deny: []Denial{{Identity: long}}},
	} {
		if _, err := New(o); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := New(Options{Rules: []Rule{{Identity: who, Name: []string{strings.Repeat("*a", MaxPattern/2)}}}}); err != nil {
		t.Errorf("a pattern of %d octets: %v", MaxPattern, err)
	}
}

// large is a policy as a big installation has: a thousand partners by name and
// fifty by pattern.
func large(t testing.TB) *Policy {
	var o Options
	for i := range 1000 {
		o.Rules = append(o.Rules, Rule{
			Identity: []string{"spiffe://partner-" + string(rune('a'+i%26)) + ".example/" + strings.Repeat("x", i/26)}, Profile: []string{"rpc"},
		})
	}
	for i := range 50 {
		o.Rules = append(o.Rules, Rule{Identity: []string{"spiffe://group-" + strings.Repeat("g", i) + ".example/**"}, Profile: []string{"mcp", "events"}})
	}
	o.Rules = append(o.Rules, Rule{Identity: []string{"spiffe://example.org/**"}, Profile: []string{"events"}, Name: []string{"a.*", "order*.*.done"}})
	o.Agents = []Agents{{Identity: []string{"spiffe://example.org/*"}, AgentIDs: []string{"edge-*"}}}
	return mustNew(t, o)
}

func TestDecidingAllocatesNothing(t *testing.T) {
	p := large(t)
	n := testing.AllocsPerRun(100, func() {
		if !p.Allowed(own, "events", "publish", "orders.eu.done") || p.Allowed(own, "events", "publish", "orders.eu.open") ||
			!p.MayUse(own, "edge-1") || p.Denied(own) {
			t.Fail()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAllowed(b *testing.B) {
	p := large(b)
	for name, event := range map[string]string{"allowed": "orders.eu.done", "denied": "orders.eu.open"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Allowed(own, "events", "publish", event)
			}
		})
	}
}

func TestAllowedSomeSaysWhetherAnyNameMayBe(t *testing.T) {
	p := mustNew(t, Options{Rules: []Rule{
		{Identity: []string{partner}, Profile: []string{"mcp"}, Operation: []string{"tools/call"}, Name: []string{"files/read_*", "d*/q"}},
		{Identity: []string{partner}, Profile: []string{"mcp"}, Operation: []string{"tools/list"}, Name: []string{"*"}},
		{Identity: []string{"gate.example", "out.example"}},
	}, Deny: []Denial{{Identity: []string{"out.example"}}}})
	for _, tt := range []struct {
		identity, operation, name string
		want                      bool
	}{
		{partner, "tools/call", "files/", true},
		{partner, "tools/call", "db/", true},
		{partner, "tools/call", "", true},
		{partner, "tools/call", "files/re", true},
		{partner, "tools/call", "files/write", false},
		{partner, "tools/call", "files2/", false},
		{partner, "tools/list", "files/", false}, // the server, and nothing below it
		{partner, "prompts/get", "", false},
		{"gate.example", "anything", "files", true},
		{"out.example", "anything", "files", false},
		{own, "tools/call", "files", false},
	} {
		if got := p.AllowedSome(tt.identity, "mcp", tt.operation, tt.name); got != tt.want {
			t.Errorf("AllowedSome(%q, mcp, %q, %q) = %v", tt.identity, tt.operation, tt.name, got)
		}
	}
}

func TestDiffersSaysWhoseRulesChanged(t *testing.T) {
	files := Rule{Identity: []string{partner}, Profile: []string{"mcp"}, Operation: []string{"tools/call"}, Name: []string{"files/read"}}
	db := Rule{Identity: []string{partner}, Profile: []string{"mcp"}, Name: []string{"db"}}
	more := files
	more.Name = []string{"files/read", "files/write"}
	before := mustNew(t, Options{Rules: []Rule{files, db}})
	after := mustNew(t, Options{Rules: []Rule{more, db}})
	for _, tt := range []struct {
		now                     *Policy
		identity, profile, name string
		want                    bool
	}{
		{before, partner, "mcp", "files", false},
		{after, partner, "mcp", "files", true},
		{after, partner, "mcp", "db", false},
		{after, partner, "rpc", "files", false},
		{after, own, "mcp", "files", false},
		{mustNew(t, Options{Rules: []Rule{files, db}, Deny: []Denial{{Identity: []string{partner}}}}), partner, "mcp", "files", true},
		{mustNew(t, Options{Rules: []Rule{files, db}, Deny: []Denial{{Identity: []string{own}}}}), partner, "mcp", "files", false},
	} {
		if got := tt.now.Differs(before, tt.identity, tt.profile, tt.name); got != tt.want {
			t.Errorf("Differs(%q, %q, %q) = %v", tt.identity, tt.profile, tt.name, got)
		}
	}
}

func TestForNamesAssertedCallers(t *testing.T) {
	alice, behind := profiles.OnBehalf(own, "http:alice"), profiles.OnBehalf(own, profiles.OnBehalf("spiffe://gate.example/swpd", "http:alice"))
	p := mustNew(t, Options{
		Rules: []Rule{
			{Identity: []string{own}, Name: []string{"shared"}},
			{Identity: []string{own}, For: []string{"http:*"}, Name: []string{"callers"}},
			{Identity: []string{own}, For: []string{"spiffe://gate.example/swpd for **"}, Name: []string{"behind"}},
			{Identity: []string{partner}, For: []string{"**"}, Name: []string{"anyone"}},
		},
		Agents: []Agents{{Identity: []string{own}, AgentIDs: []string{"edge"}}},
		Deny:   []Denial{{Identity: []string{"**"}, For: []string{"http:mallory"}}},
	})
	for _, tt := range []struct {
		identity, name string
		want           int
	}{
		{own, "shared", 0}, {alice, "shared", 0}, {behind, "shared", 0},
		{own, "callers", -1}, {alice, "callers", 1}, {behind, "callers", -1},
		{own, "behind", -1}, {alice, "behind", -1}, {behind, "behind", 2},
		{partner, "anyone", -1}, {profiles.OnBehalf(partner, "x"), "anyone", 3},
		{profiles.OnBehalf(own, "http:mallory"), "shared", -1},
		{profiles.OnBehalf(own, profiles.OnBehalf("spiffe://gate.example/swpd", "http:mallory")), "shared", -1},
	} {
		if got := p.Rule(tt.identity, "rpc", "call", tt.name); got != tt.want {
			t.Errorf("%s, %s: rule %d, want %d", tt.identity, tt.name, got, tt.want)
		}
		d := p.Decide(tt.identity, "rpc", "call", tt.name)
		if got := d.Rule; d.Deny < 0 && got != tt.want || d.Deny >= 0 && tt.want >= 0 {
			t.Errorf("%s, %s: decided %+v", tt.identity, tt.name, d)
		}
		if reaches := p.Reaches(tt.identity, "rpc", tt.name); reaches != (tt.want >= 0) {
			t.Errorf("%s, %s: reaches %v", tt.identity, tt.name, reaches)
		}
	}
	if !p.MayUse(alice, "edge") || p.Denied(own) || !p.Denied(profiles.OnBehalf(own, "http:mallory")) {
		t.Error("agent_ids and denials")
	}
	if d := p.Decide(own, "rpc", "call", "callers"); !slices.ContainsFunc(d.Nearest, func(m Miss) bool { return m.Rule == 1 && m.For }) {
		t.Errorf("nearest: %+v", d.Nearest)
	}
	if n := testing.AllocsPerRun(100, func() { p.Allowed(behind, "rpc", "call", "behind") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRulesWithWildcardsDoNotApplyToTheNamed(t *testing.T) {
	rules := []Rule{{Identity: []string{"**"}, Profile: []string{"rpc"}}, {Identity: []string{"a", "x*"}, Profile: []string{"mcp"}}}
	o := Options{
		Rules: rules, Agents: []Agents{{Identity: []string{"**"}, AgentIDs: []string{"any"}}, {Identity: []string{"a"}, AgentIDs: []string{"its"}}},
		Deny: []Denial{{Identity: []string{"x*"}}}, Named: []string{"a", "xa"},
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		identity, profile string
		want              bool
	}{
		{"a", "rpc", false}, {"a", "mcp", true}, {"b", "rpc", true}, {"b", "mcp", false}, {"xa", "mcp", false},
		{profiles.OnBehalf("a", "caller"), "rpc", false}, {profiles.OnBehalf("a", "caller"), "mcp", true},
	} {
		if got := p.Allowed(c.identity, c.profile, "o", "n"); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if got := p.Decide(c.identity, c.profile, "o", "n").Allowed; got != c.want {
			t.Errorf("%+v: decided %v", c, got)
		}
		if got := p.Reaches(c.identity, c.profile, "n"); got != c.want {
			t.Errorf("%+v: reaches %v", c, got)
		}
	}
	if n := len(p.For("a").Rules); n != 1 {
		t.Errorf("%d rules are for a, want 1", n)
	}
	if p.MayUse("a", "any") || !p.MayUse("a", "its") || !p.MayUse("b", "any") || p.DecideUse("a", "any").Allowed {
		t.Error("the agent_ids of a pattern are for a as well")
	}
	if !p.Denied("xa") {
		t.Error("a denial with a wildcard does not apply")
	}
}
