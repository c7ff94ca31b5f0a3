package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles/all"
)

func TestLoadReadsStateAccessAndServices(t *testing.T) {
	d := dir(t)
	c, err := load(t, d, `
store: memory
quota: {total: 2GiB, per_identity: 3MiB}
access:
  rules:
    - identity: spiffe://example.org/**
    - identity: [gate.example, "*.edge.example"]
      profile: mcp
      operation: [tools/list, tools/call]
      name: files/*
  agents:
    - {identity: gate.example, agent_ids: [gate, "gate-*"]}
  deny: spiffe://example.org/left
a2a:
  retention: 1h
  workers:
    summarise: {kinds: text.summarise, command: sh, args: [-c, "true"], env: {PORT: 8080}, schema: a.crt, deadline: 5m}
    post: {kinds: [text.a, text.b], url: "https://example.org/tasks", tasks: 1}
rpc:
  replay_window: 10m
  backends:
    demo: {url: "http://127.0.0.1:1/rpc", methods: [demo.echo, demo.fail], repeatable: demo.echo}
events: {retention: 0s}
telemetry: {otlp: "http://127.0.0.1:4318"}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Source, want.Places = filepath.Join(d, "swpd.yaml"), c.Places
	want.Store = StoreMemory
	want.Quota = Quota{Total: 2 << 30, PerIdentity: 3 << 20}
	want.Access = Access{
		Rules: []AccessRule{
			{Identity: List{"spiffe://example.org/**"}},
			{Identity: List{"gate.example", "*.edge.example"}, Profile: List{"mcp"}, Operation: List{"tools/list", "tools/call"}, Name: List{"files/*"}},
		},
		Agents: []AgentRule{{Identity: List{"gate.example"}, AgentIDs: List{"gate", "gate-*"}}},
		Deny:   Denials{{Identity: List{"spiffe://example.org/left"}}},
	}
	want.A2A.Retention = time.Hour
	want.A2A.Workers = map[string]A2AWorker{
		"summarise": {
			Kinds: List{"text.summarise"}, Command: "sh", Args: []string{"-c", "true"}, Env: map[string]string{"PORT": "8080"},
			Dir: "/", Schema: filepath.Join(d, "a.crt"), Timeout: 10 * time.Minute, Tasks: 4, Nodes: NodesActive, Deadline: 5 * time.Minute,
		},
		"post": {Kinds: List{"text.a", "text.b"}, Dir: "/", URL: "https://example.org/tasks", Timeout: 10 * time.Minute, Tasks: 1, Nodes: NodesActive},
	}
	want.RPC = RPC{ReplayWindow: 10 * time.Minute, Backends: map[string]RPCBackend{
		"demo": {URL: "http://127.0.0.1:1/rpc", Methods: List{"demo.echo", "demo.fail"}, Repeatable: List{"demo.echo"}, Timeout: 10 * time.Minute},
	}}
	want.Events.Retention = 0
	want.Telemetry.OTLP = "http://127.0.0.1:4318"
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestOP05BadStateAccessAndServicesAreRefused(t *testing.T) {
	const who, worker, backend = "access:\n  rules:\n    - ", "a2a: {workers: {w: {", "rpc: {backends: {b: {"
	long := strings.Repeat("a", 1025)
	for name, tt := range map[string]struct{ text, want string }{
		"store":                   {"store: nats\n", `swpd.yaml:1: store: is "nats", want embedded, memory, or a URL such as postgres://swpd@db.example/swpd`},
		"durability":              {"durability: strong\n", `durability: is "strong", want power, process`},
		"durability in memory":    {"store: memory\ndurability: power\n", `swpd.yaml:2: durability: is set while store is memory`},
		"no quota":                {"quota: {total: 0}\n", `quota.total: is 0, want at least 1MiB`},
		"quota above the total":   {"quota: {total: 1GiB, per_identity: 2GiB}\n", `quota.per_identity: is 2GiB, want 1MiB to quota.total, which is 1GiB`},
		"default above the total": {"quota: {total: 512MiB}\n", `swpd.yaml:1: quota.per_identity: is 1GiB, want 1MiB to quota.total, which is 512MiB`},
		"size of a fraction":      {"quota: {total: 1025TiB}\n", `quota.total: "1025TiB" is not a size`},

		"rule for nobody":         {who + "profile: mcp\n", `swpd.yaml:3: access.rules[0].identity: missing`},
		"foreign trust domains":   {who + "identity: spiffe://example.org*\n", `swpd.yaml:3: access.rules[0].identity: "spiffe://example.org*" also matches identities of other trust domains; write spiffe://example.org/**`},
		"the same with two":       {who + "identity: spiffe://example.org**\n", `write spiffe://example.org/**`},
		"any trust domain":        {who + "identity: spiffe://*/edge\n", `"spiffe://*/edge" also matches`},
		"any scheme":              {who + "identity: \"**/edge\"\n", `"**/edge" also matches`},
		"HTTP callers":            {who + "identity: http:*\n", `"http:*" also matches callers of the HTTP front that are added later, and the anonymous one; name each caller, such as http:alice`},
		"some HTTP callers":       {who + "identity: \"http:a*\"\n", `"http:a*" also matches callers of the HTTP front`},
		"web addresses":           {who + "identity: http://a*\n", `"http://a*" also matches identities of other trust domains; write http://a/**`},
		"star alone":              {who + "identity: \"*\"\n", `"*" also matches identities of other trust domains; write spiffe://example.org/** or, for names of DNS, *.example.org; "**" is everyone`},
		"end of a DNS name":       {who + "identity: \"*example.org\"\n", `"*example.org" also matches`},
		"start of a DNS name":     {who + "identity: \"gate.*\"\n", `"gate.*" also matches`},
		"a top-level domain":      {who + "identity: \"*.org\"\n", `"*.org" also matches`},
		"deep DNS name":           {who + "identity: \"**.example.org\"\n", `"**.example.org" also matches`},
		"empty pattern":           {who + "{identity: \"**\", name: \"\"}\n", `access.rules[0].name: contains an empty pattern`},
		"long pattern":            {who + "{identity: " + long + "}\n", `access.rules[0].identity: contains a pattern of 1025 octets, want at most 1024`},
		"unknown profile":         {who + "{identity: \"**\", profile: event}\n", `access.rules[0].profile: "event" is no profile with operations; they are a2a, `},
		"letters in turn":         {who + "{identity: \"**\", profile: mpc}\n", `did you mean mcp?`},
		"operation of another":    {who + "{identity: \"**\", profile: [rpc, events], operation: [call, task]}\n", `access.rules[0].operation: "task" is no operation of rpc, events; they are call, publish, subscribe`},
		"rule as text":            {who + "spiffe://example.org/**\n", `access.rules[0]: is "spiffe://example.org/**", want a mapping`},
		"identity as a mapping":   {who + "identity: {a: b}\n", `access.rules[0].identity: is a mapping, want text or a list of texts`},
		"identity as a number":    {who + "identity: 7\n", `access.rules[0].identity: is "7", want text or a list of texts`},
		"agents without ids":      {"access: {agents: [{identity: \"**\"}]}\n", `access.agents[0].agent_ids: missing`},
		"agents without identity": {"access: {agents: [{agent_ids: \"**\"}]}\n", `access.agents[0].identity: missing`},
		"agents of other domains": {"access: {agents: [{identity: spiffe://a*, agent_ids: x}]}\n", `access.agents[0].identity: "spiffe://a*" also matches`},
		"denial in capitals":      {"access: {deny: ['spiffe://Example.org/agents/Bob']}\n", `access.deny[0].identity: "spiffe://Example.org/agents/Bob" matches nobody, because identities have scheme and host in lower case, and %3A before the port of a did:web; write "spiffe://example.org/agents/Bob"`},
		"denial of a did:web":     {"access: {deny: ['did:web:example.org%3a8443:bob']}\n", `access.deny[0].identity: "did:web:example.org%3a8443:bob" matches nobody, because identities have scheme and host in lower case, and %3A before the port of a did:web; write "did:web:example.org%3A8443:bob"`},
		"rule in capitals":        {"access: {rules: [{identity: 'spiffe://Example.org/**'}]}\n", `access.rules[0].identity: "spiffe://Example.org/**" matches nobody`},
		"callers in capitals":     {"access: {deny: [{identity: '**', for: 'SPIFFE://b.example/ann'}]}\n", `access.deny[0].for: "SPIFFE://b.example/ann" matches nobody`},
		"a DNS name in capitals":  {"access: {deny: ['A.example']}\n", `access.deny[0].identity: "A.example" matches nobody`},
		"empty denial":            {"access: {deny: [a, \"\"]}\n", `access.deny[1].identity: contains an empty pattern`},

		"worker of nothing":       {worker + "kinds: a}}}\n", `a2a.workers.w: has neither command nor url`},
		"worker of both":          {worker + "kinds: a, command: sh, url: \"http://a\"}}}\n", `a2a.workers.w: has command and url; keep one`},
		"worker without kinds":    {worker + "command: sh}}}\n", `a2a.workers.w.kinds: missing`},
		"kind as a pattern":       {worker + "command: sh, kinds: \"a.*\"}}}\n", `a2a.workers.w.kinds: "a.*" is a pattern, want names in full`},
		"kind twice":              {"a2a: {workers: {v: {command: sh, kinds: a}, w: {command: sh, kinds: a}}}\n", `a2a.workers.w.kinds: "a" is carried out by v already`},
		"name of a worker":        {"a2a: {workers: {a/b: {command: sh, kinds: a}}}\n", `"a/b" is not a name`},
		"unknown program":         {worker + "kinds: a, command: no-such-program-here}}}\n", `a2a.workers.w.command: "no-such-program-here"`},
		"PATH of a worker":        {worker + "kinds: a, command: sh, env: {PATH: x}}}}\n", `a2a.workers.w.env.PATH: cannot be set`},
		"arguments of a URL":      {worker + "kinds: a, url: \"http://a\", args: [x]}}}\n", `a2a.workers.w.args: is for a command; remove it`},
		"schema that is not":      {worker + "kinds: a, command: sh, schema: none.json}}}\n", `a2a.workers.w.schema: /`},
		"no tasks":                {worker + "kinds: a, command: sh, tasks: 0}}}\n", `a2a.workers.w.tasks: is 0, want 1 to 1024`},
		"too many tasks":          {worker + "kinds: a, command: sh, tasks: 1025}}}\n", `a2a.workers.w.tasks: is 1025`},
		"no time for a task":      {worker + "kinds: a, command: sh, deadline: 0s}}}\n", `a2a.workers.w.deadline: is 0`},
		"no retention":            {"a2a: {retention: 0s}\n", `a2a.retention: is 0, want a duration above 0`},
		"no replay window":        {"rpc: {replay_window: 0s}\n", `rpc.replay_window: is 0`},
		"backend without URL":     {backend + "methods: a}}}\n", `rpc.backends.b.url: missing`},
		"backend of a file":       {backend + "methods: a, url: \"file:///x\"}}}\n", `rpc.backends.b.url: "file:///x" is not an absolute http:// or https:// URL`},
		"relative backend":        {backend + "methods: a, url: a/b}}}\n", `rpc.backends.b.url: "a/b" is not an absolute`},
		"backend with a query":    {backend + "methods: a, url: \"http://a/?b\"}}}\n", `rpc.backends.b.url: "http://a/?b" has a query`},
		"backend with a fragment": {backend + "methods: a, url: \"http://a/#b\"}}}\n", `rpc.backends.b.url: "http://a/#b" has a fragment`},
		"no methods":              {backend + "url: \"http://a\"}}}\n", `rpc.backends.b.methods: missing`},
		"method as a pattern":     {backend + "url: \"http://a\", methods: \"demo.*\"}}}\n", `rpc.backends.b.methods: "demo.*" is a pattern`},
		"built-in method":         {backend + "url: \"http://a\", methods: swp.ping}}}\n", `rpc.backends.b.methods: "swp.ping" is reserved`},
		"method twice":            {"rpc: {backends: {a: {url: \"http://a\", methods: x}, b: {url: \"http://a\", methods: x}}}\n", `rpc.backends.b.methods: "x" is served by a already`},
		"repeatable, not served":  {backend + "url: \"http://a\", methods: x, repeatable: y}}}\n", `rpc.backends.b.repeatable: "y" is not in methods`},
		"no patience":             {backend + "url: \"http://a\", methods: x, timeout: 0s}}}\n", `rpc.backends.b.timeout: is 0`},
		"collector":               {"telemetry: {otlp: \"127.0.0.1:4318\"}\n", `telemetry.otlp: `},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, dir(t), tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error:\n%v\nwant it to contain:\n%s", err, tt.want)
			}
		})
	}
}

func TestPatternsOfOneTrustDomainAreAccepted(t *testing.T) {
	for _, pattern := range []string{
		"**", "loopback", "gate.example", "*.example.org", "spiffe://example.org", "spiffe://example.org/**", "spiffe://example.org/*/x", "spiffe://example.org/a*",
		"urn:example:agent",
	} {
		if _, err := load(t, dir(t), "access: {rules: [{identity: \""+pattern+"\"}]}\n"); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func TestOP02AddressesWithPasswordsAreNotQuoted(t *testing.T) {
	const canary = "s3cr3t-c4n4ry"
	for _, text := range []string{
		"telemetry: {otlp: \"http://user:" + canary + "@a\"}\n",
		"telemetry: {otlp: \"ftp://user:" + canary + "@a\"}\n",
		"telemetry: {otlp: \"http://user:" + canary + "@a:port\"}\n",
		"rpc: {backends: {b: {methods: x, url: \"http://user:" + canary + "@a/?q\"}}}\n",
		"a2a: {workers: {w: {command: sh, kinds: a, env: {TOKEN: [" + canary + "]}}}}\n",
		"a2a: {workers: {w: {command: sh, kinds: a, args: [!foo " + canary + "]}}}\n",
	} {
		_, err := load(t, dir(t), text)
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: error %v, want one without the password", text, err)
		}
	}
}

func TestEnvironmentSetsListsWrittenAsOne(t *testing.T) {
	c, err := load(t, dir(t), "access: {rules: [{identity: a}], deny: [b, c]}\nrpc: {backends: {d: {url: \"http://a\", methods: x}}}\n",
		"SWPD_ACCESS_RULES_0_IDENTITY_1=two",
		"SWPD_ACCESS_RULES_0_NAME=files",
		"SWPD_ACCESS_RULES_1_IDENTITY=three",
		"SWPD_ACCESS_DENY_1=changed",
		"SWPD_ACCESS_AGENTS_0_IDENTITY=a", "SWPD_ACCESS_AGENTS_0_AGENT_IDS=x",
		"SWPD_RPC_BACKENDS_D_METHODS=y",
		"SWPD_QUOTA_TOTAL=2GiB",
	)
	if err != nil {
		t.Fatal(err)
	}
	want := Access{
		Rules:  []AccessRule{{Identity: List{"a", "two"}, Name: List{"files"}}, {Identity: List{"three"}}},
		Agents: []AgentRule{{Identity: List{"a"}, AgentIDs: List{"x"}}},
		Deny:   Denials{{Identity: List{"b"}}, {Identity: List{"changed"}}},
	}
	if diff := cmp.Diff(want, c.Access); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(List{"y"}, c.RPC.Backends["d"].Methods); diff != "" || c.Quota.Total != 2<<30 {
		t.Errorf("%s\nquota %v", diff, c.Quota.Total)
	}
	if _, err := load(t, dir(t), "access: {deny: a}\n", "SWPD_ACCESS_DENY_2=x"); err == nil || !strings.Contains(err.Error(), "SWPD_ACCESS_DENY_2: names no key") {
		t.Errorf("an index past the end: %v", err)
	}
}

func TestBuiltInConfigurationAllowsItsOwnAndNobodyElse(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	for _, tt := range []struct {
		environ []string
		want    Access
	}{
		{nil, Everything("spiffe://localhost/**")},
		{[]string{"SWPD_LISTENERS_0_ADDRESS=swp+tcp://127.0.0.1:1"}, Everything("spiffe://localhost/**", "loopback")},
		{[]string{"SWPD_ACCESS_DENY=x"}, Access{Deny: Denials{{Identity: List{"x"}}}}},
	} {
		c, err := Load("", tt.environ)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, c.Access); diff != "" {
			t.Errorf("%q: %s", tt.environ, diff)
		}
	}
	c, err := load(t, dir(t), "listeners: [{address: \"swp+tcp://127.0.0.1:1\"}]\n")
	if err != nil || len(c.Access.Rules) != 0 {
		t.Errorf("a file without access: %+v, %v; want no rules", c.Access, err)
	}
}

// The words that rules can use are those that configuration.md has.
func TestOperationsAreThoseOfTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| profile | operation | name |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := make(map[string][]string)
	for line := range strings.Lines(table) {
		column := strings.Split(line, " | ")
		profile := strings.Trim(column[0], "|` ")
		documented[profile] = append(documented[profile], strings.Split(strings.ReplaceAll(column[1], "`", ""), ", ")...)
	}
	for _, p := range all.Tables() {
		got := documented[p.Name]
		delete(documented, p.Name)
		if p.Open && len(got) > 0 {
			continue // it says in words what they are
		}
		if diff := cmp.Diff(got, operationsOf(p)); diff != "" {
			t.Errorf("operations of %s: %s", p.Name, diff)
		}
	}
	if len(documented) != 0 {
		t.Errorf("rules cannot name %v", documented)
	}
	_, row, _ := strings.Cut(string(text), "| `access.rules[].profile` |")
	row, _, _ = strings.Cut(row, "\n")
	for _, name := range new(Config).ruled() {
		if !strings.Contains(row, "`"+name+"`") {
			t.Errorf("access.rules[].profile does not name %s", name)
		}
	}
}
