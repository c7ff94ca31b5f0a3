package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/transport"
)

// dir returns a directory with files that a configuration can name.
func dir(t *testing.T) string {
	t.Helper()
	d := t.TempDir()
	for _, name := range []string{"a.crt", "a.key", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(d, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(d, "open.key"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return d
}

const valid = `identity: {cert: a.crt, key: a.key}
trust: {ca: [ca.crt]}
`

// parse is Load for a text.
func parse(file string, text []byte, partners []partnerText, environ []string) (*Config, error) {
	c, _, err := everything.parse(file, text, partners, environ)
	return c, err
}

func load(t *testing.T, d, text string, environ ...string) (*Config, error) {
	t.Helper()
	file := filepath.Join(d, "swpd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file, environ)
}

func TestLoadReadsEveryKindOfValue(t *testing.T) {
	d := dir(t)
	c, err := load(t, d, valid+`
listeners:
  - {address: "swp+tls://0.0.0.0:1", error_frames: true}
  - address: swp+quic://0.0.0.0:1
admin: off
data: state
mcp:
  servers:
    a:
      command: /bin/sh
      args: [-c, "true"]
      env: {PORT: 8080, DEBUG: true, TEXT: x}
      idle: 90s
      default: true
freshness: {owner: s1, skew: 30s, required: true}
limits: {frame_bytes: 1MiB, payload_bytes: 4096, frame_rate: 0, idle: 1m}
rate: {frames: 128, window_ms: 500}
log: {level: debug, format: text}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Source, want.Places = filepath.Join(d, "swpd.yaml"), c.Places
	want.Identity = Identity{Cert: filepath.Join(d, "a.crt"), Key: filepath.Join(d, "a.key")}
	want.Trust.CA = []string{filepath.Join(d, "ca.crt")}
	want.Listeners = []Listener{
		{Address: Address{transport.Addr{Transport: "tls", Host: "0.0.0.0", Port: 1}}, ErrorFrames: true},
		{Address: Address{transport.Addr{Transport: "quic", Host: "0.0.0.0", Port: 1}}},
	}
	want.Admin.Address = AdminOff
	want.Data = filepath.Join(d, "state")
	want.MCP.Servers = map[string]MCPServer{"a": {
		Command: "/bin/sh", Args: []string{"-c", "true"},
		Env: map[string]string{"PORT": "8080", "DEBUG": "true", "TEXT": "x"},
		Dir: "/", Timeout: 10 * time.Minute, Idle: 90 * time.Second, SessionIdle: 24 * time.Hour, MaxChildren: 64, Nodes: NodesActive, Default: true,
	}}
	want.Freshness = Freshness{Owner: "s1", Skew: 30 * time.Second, Required: true}
	want.Limits.FrameBytes, want.Limits.PayloadBytes, want.Limits.FrameRate, want.Limits.Idle = 1<<20, 4096, 0, time.Minute
	want.Rate = Rate{Frames: 128, WindowMS: 500}
	want.Log = Log{Level: "debug", Format: "text", Access: "off"}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

// refused are configurations, each with one problem.
var refused = map[string]struct{ text, want string }{
	"a partner here":         {"listeners: [{address: \"swp+tls://127.0.0.1:7777\"}]\npartners: {acme: {identity: x, addresses: [\"swp+tls://127.0.0.1:7777\"]}}\n", `swpd.yaml:2: partners.acme.addresses[0]: swp+tls://127.0.0.1:7777 is listeners[0].address of this endpoint; name that of the partner`},
	"a hint as declaration":  {"endpoint: {hints: {no_pii: true}}\n", `swpd.yaml:1: endpoint.hints.no_pii: unknown key; did you mean pii?`},
	"unknown key":            {"peers: []\n", `swpd.yaml:1: peers: unknown key; known here: a2a,`},
	"typing error":           {"listners: []\n", `swpd.yaml:1: listners: unknown key; did you mean listeners?`},
	"unknown nested key":     {"limits:\n  frame_ratee: 1\n", `swpd.yaml:2: limits.frame_ratee: unknown key; did you mean frame_rate?`},
	"unknown key in a list":  {"listeners:\n  - adress: x\n", `swpd.yaml:2: listeners[0].adress: unknown key; did you mean address?`},
	"key twice":              {"admin: off\nadmin: off\n", `swpd.yaml:2: admin: set twice, first in line 1`},
	"server twice":           {"mcp:\n  servers:\n    a: {command: sh}\n    a: {command: sh}\n", `swpd.yaml:4: mcp.servers.a: set twice`},
	"wrong kind":             {"limits: {in_flight: many}\n", `swpd.yaml:1: limits.in_flight: is "many", want a whole number`},
	"list for text":          {"data: [a]\n", `swpd.yaml:1: data: is a list, want text`},
	"text for list":          {"listeners: swp+tls://127.0.0.1:1\n", `listeners: is "swp+tls://127.0.0.1:1", want a list`},
	"duration without unit":  {"limits: {idle: 5}\n", `limits.idle: is "5", want a duration such as 30s`},
	"negative duration":      {"limits: {idle: -5s}\n", `limits.idle: "-5s" is not a duration`},
	"bad size":               {"limits: {frame_bytes: 8MB}\n", `limits.frame_bytes: "8MB" is not a size`},
	"not YAML":               {"a: [\n", `swpd.yaml:1: not YAML: `},
	"two documents":          {"admin: off\n---\nadmin: off\n", `swpd.yaml:2: a second YAML document begins here`},
	"a list":                 {"- 1\n", `is a list, want a mapping`},
	"plaintext elsewhere":    {valid + "listeners:\n  - address: swp+tcp://0.0.0.0:7777\n", `swpd.yaml:4: listeners[0].address: "swp+tcp://0.0.0.0:7777": plaintext is for loopback`},
	"no scheme":              {"listeners:\n  - address: 127.0.0.1:7777\n", `listeners[0].address: "127.0.0.1:7777": want swp+tls://host:port`},
	"path in a listener":     {"listeners:\n  - address: swp+tls://127.0.0.1:7777/x\n", `listeners[0].address: "swp+tls://127.0.0.1:7777/x": only host and port may follow`},
	"no listeners":           {"listeners: []\n", `listeners: is empty`},
	"address missing":        {"listeners:\n  - error_frames: true\n", `listeners[0].address: missing`},
	"same port twice":        {"listeners:\n  - address: swp+tls://127.0.0.1:1\n  - address: swp+tcp://127.0.0.1:1\n", `swpd.yaml:3: listeners[1].address: swp+tcp://127.0.0.1:1 is the same tcp port as listeners[0].address`},
	"admin on the same port": {"listeners:\n  - address: swp+tls://127.0.0.1:1\nadmin: 127.0.0.1:1\n", `swpd.yaml:3: admin: 127.0.0.1:1 is the same tcp port`},
	"admin at no path":       {"admin: unix:admin.sock\n", `swpd.yaml:1: admin: "admin.sock" is not the path of a socket`},
	"admin at a long path":   {"admin: unix:/" + strings.Repeat("x", 107) + "\n", "at most 107 octets"},
	"admin elsewhere":        {"admin: 0.0.0.0:7780\n", `swpd.yaml:1: admin: "0.0.0.0:7780" is not a loopback address`},
	"health without port":    {"health: localhost\n", `swpd.yaml:1: health: "localhost" is not host:port; set one such as 0.0.0.0:7781, or off`},
	"health at a bad port":   {"health: 0.0.0.0:65536\n", `health: port "65536", want 0 to 65535`},
	"health at admin":        {"health: 127.0.0.1:7780\n", `health: 127.0.0.1:7780 is the same tcp port as admin`},
	"health at a listener":   {"listeners:\n  - address: swp+tls://127.0.0.1:1\nhealth: 127.0.0.1:1\n", `swpd.yaml:3: health: 127.0.0.1:1 is the same tcp port as listeners[0].address`},
	"metrics without TLS":    {"metrics: {address: '0.0.0.0:1', tokens: [" + strings.Repeat("ab", 32) + "]}\n", `metrics.tls.cert: missing: metrics are served over TLS only`},
	"metrics for nobody":     {"metrics: {address: '0.0.0.0:1', tls: {cert: a.crt, key: a.key}}\n", `metrics: has neither tokens nor certificates`},
	"metrics, token itself":  {"metrics: {address: '0.0.0.0:1', tokens: [secret], tls: {cert: a.crt, key: a.key}}\n", `metrics.tokens[0]: has 6 characters`},
	"metrics, no authority":  {"metrics: {address: '0.0.0.0:1', certificates: [x], tls: {cert: a.crt, key: a.key}}\n", `metrics.tls.ca: is empty`},
	"metrics off":            {"metrics: {tokens: [" + strings.Repeat("ab", 32) + "]}\n", `metrics.tokens: is set while metrics.address is off`},
	"metrics at health":      {"health: 127.0.0.1:1\nmetrics: {address: '127.0.0.1:1'}\n", `metrics.address: 127.0.0.1:1 is the same tcp port as health`},
	"admin without port":     {"admin: localhost\n", `admin: "localhost" is not host:port`},
	"key without cert":       {"identity: {key: a.key}\n", `identity.cert: missing beside identity.key`},
	"cert without key":       {"identity: {cert: a.crt}\ntrust: {ca: [ca.crt]}\n", `identity.key: missing beside identity.cert`},
	"no trust":               {"identity: {cert: a.crt, key: a.key}\n", `trust.ca: no authority is trusted`},
	"trust without identity": {"trust: {ca: [ca.crt]}\n", `swpd.yaml:1: trust.ca: set without identity`},
	"trust twice":            {"identity: {cert: a.crt, key: a.key}\ntrust: {ca: [ca.crt, ./ca.crt]}\n", `trust.ca[1]: `},
	"no such file":           {"identity: {cert: none.crt, key: a.key}\ntrust: {ca: [ca.crt]}\n", "/none.crt does not exist; make it, or name another one"},
	"world-readable key":     {"identity:\n  cert: a.crt\n  key: open.key\ntrust: {ca: [ca.crt]}\n", `swpd.yaml:3: identity.key: `},
	"development elsewhere":  {"listeners:\n  - address: swp+tls://0.0.0.0:7777\n", `listeners[0].address: swp+tls://0.0.0.0:7777 can be reached from other machines`},
	"slash in a name":        {"mcp:\n  servers:\n    a/b: {command: sh}\n", `swpd.yaml:3: mcp.servers.a/b: "a/b" is not a name`},
	"no command":             {"mcp: {servers: {a: {}}}\n", `mcp.servers.a.command: missing`},
	"relative command":       {"mcp: {servers: {a: {command: ./x}}}\n", `/x does not exist; install it, or name another path`},
	"unknown command":        {"mcp: {servers: {a: {command: no-such-program-here}}}\n", `mcp.servers.a.command: "no-such-program-here"`},
	"two defaults":           {"mcp: {servers: {a: {command: sh, default: true}, b: {command: sh, default: true}}}\n", `mcp.servers.b.default: is true for a too`},
	"PATH for a child":       {"mcp: {servers: {a: {command: sh, env: {PATH: /x}}}}\n", `mcp.servers.a.env.PATH: cannot be set`},
	"no such directory":      {"mcp: {servers: {a: {command: sh, dir: x}}}\n", `/x" is not a directory`},
	"no children":            {"mcp: {servers: {a: {command: sh, max_children: 0}}}\n", `mcp.servers.a.max_children: is 0`},
	"unknown owner":          {"freshness: {owner: me}\n", `freshness.owner: is "me", want off, core, s1`},
	"required but off":       {"freshness: {required: true}\n", `freshness.required: is true while freshness.owner is off`},
	"skew but off":           {"freshness: {owner: off, skew: 1m}\n", `freshness.skew: is set while freshness.owner is off`},
	"window but off":         {"rate: {window_ms: 5}\n", `rate.window_ms: is set while rate.frames is 0`},
	"burst but off":          {"limits: {frame_rate: 0, frame_burst: 5}\n", `limits.frame_burst: is 5 while limits.frame_rate is 0`},
	"limit of zero":          {"limits: {connections: 0}\n", `limits.connections: is 0, want 1 to 1000000`},
	"negative limit":         {"limits: {in_flight: -1}\n", `limits.in_flight: is -1, want 1`},
	"number too large":       {"limits: {in_flight: 99999999999}\n", `limits.in_flight: 99999999999 is not a number`},
	"log level":              {"log: {level: loud}\n", `log.level: is "loud", want debug, info, warn, error`},
}

func TestOP05BadConfigurationIsRefusedAndNamesTheField(t *testing.T) {
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, dir(t), tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error:\n%v\nwant it to contain:\n%s", err, tt.want)
			}
		})
	}
}

func TestAllProblemsAreReportedInTheOrderOfTheFile(t *testing.T) {
	_, err := load(t, dir(t), "log: {level: loud}\nadmin: 0.0.0.0:1\nfreshness: {owner: me}\n")
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("error %v, want Problems", err)
	}
	var keys []string
	for _, p := range problems {
		keys = append(keys, p.Key)
	}
	if diff := cmp.Diff([]string{"log.level", "admin", "freshness.owner"}, keys); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentOverridesTheFile(t *testing.T) {
	text := valid + "listeners:\n  - address: swp+tls://127.0.0.1:1\nmcp:\n  servers:\n    my-files: {command: sh, args: [a]}\n"
	c, err := load(t, dir(t), text,
		"SWPD_LISTENERS_0_ADDRESS=swp+tls://127.0.0.1:2",
		"SWPD_LISTENERS_0_ERROR_FRAMES=true",
		"SWPD_LISTENERS_1_ADDRESS=swp+quic://127.0.0.1:3",
		"SWPD_LIMITS_FRAME_BYTES=1MiB",
		"SWPD_LIMITS_IN_FLIGHT_BYTES_PER_CONNECTION=1MiB",
		"SWPD_LIMITS_IN_FLIGHT=7",
		"SWPD_MCP_SERVERS_MY_FILES_ENV_TOKEN=12345",
		"SWPD_MCP_SERVERS_MY_FILES_ARGS_1=b",
		"SWPD_LOG_LEVEL=warn",
		"SWPD_CONFIG=ignored", "SWPD_SERVICE_HOST=ignored", "SWPD_PORT_7777_TCP=ignored", "HOME=ignored",
	)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.Listeners, c.Limits.FrameBytes, c.Limits.InFlightBytesPerConn, c.Limits.InFlight, c.MCP.Servers["my-files"], c.Log.Level}
	want := []any{
		[]Listener{
			{Address: Address{transport.Addr{Transport: "tls", Host: "127.0.0.1", Port: 2}}, ErrorFrames: true},
			{Address: Address{transport.Addr{Transport: "quic", Host: "127.0.0.1", Port: 3}}},
		},
		Size(1 << 20), Size(1 << 20), 7,
		MCPServer{Command: "sh", Args: []string{"a", "b"}, Env: map[string]string{"TOKEN": "12345"}, Dir: "/", Timeout: 10 * time.Minute, Idle: 10 * time.Minute, SessionIdle: 24 * time.Hour, MaxChildren: 64, Nodes: NodesActive},
		"warn",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentIsAsStrictAsTheFile(t *testing.T) {
	for kv, want := range map[string]string{
		"SWPD_LISTNERS_0_ADDRESS=x":        "environment SWPD_LISTNERS_0_ADDRESS: names no key",
		"SWPD_LISTENERS_9_ADDRESS=x":       "environment SWPD_LISTENERS_9_ADDRESS: names no key",
		"SWPD_MCP_SERVERS_NONE_COMMAND=x":  "environment SWPD_MCP_SERVERS_NONE_COMMAND: names no key",
		"SWPD_LOG=x":                       "environment SWPD_LOG: names no key",
		"SWPD_LIMITS_IN_FLIGHT=x":          `environment SWPD_LIMITS_IN_FLIGHT: limits.in_flight: is "x", want a whole number`,
		"SWPD_ADMIN=0.0.0.0:1":             "environment SWPD_ADMIN: admin: ",
		"SWPD_LISTENERS_0_ADDRESS=swp+tcp": "environment SWPD_LISTENERS_0_ADDRESS: listeners[0].address: ",
	} {
		_, err := load(t, dir(t), valid, kv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to contain %s", kv, err, want)
		}
	}
}

func TestOP02ProblemsNeverQuoteArgumentsOrEnvironment(t *testing.T) {
	const canary = "s3cr3t-c4n4ry"
	for _, text := range []string{
		"mcp: {servers: {a: {command: sh, env: {TOKEN: [" + canary + "]}}}}\n",
		"mcp: {servers: {a: {command: sh, env: {TOKEN: {x: " + canary + "}}}}}\n",
		"mcp: {servers: {a: {command: sh, env: {TOKEN: !foo " + canary + "}}}}\n",
		"mcp: {servers: {a: {command: sh, args: [!foo " + canary + "]}}}\n",
		"mcp: {servers: {a: {command: sh, env: {TOKEN: \"" + canary + "\\0\"}}}}\n",
		"mcp: {servers: {a: {command: sh, args: [\"" + canary + "\\0\"]}}}\n",
		"mcp: {servers: {a: {url: http://127.0.0.1/, headers: {TOKEN: [" + canary + "]}}}}\n",
		"mcp: {servers: {a: {url: http://127.0.0.1/, headers: {TOKEN: !foo " + canary + "}}}}\n",
		"mcp: {servers: {a: {url: http://127.0.0.1/, headers: {TOKEN: \"" + canary + "\\0\"}}}}\n",
		"a2a: {agents: {a: {url: http://127.0.0.1/, headers: {TOKEN: !foo " + canary + "}}}}\n",
	} {
		_, err := load(t, dir(t), text)
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: error %v, want one without the value", text, err)
		}
	}
}

func TestBuiltInConfigurationIsValid(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	c, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Development() || c.Source != "" {
		t.Errorf("Development %v, Source %q", c.Development(), c.Source)
	}
}

func TestEmptyFileIsTheBuiltInConfiguration(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "limits:\n", "---\n"} {
		if _, err := load(t, dir(t), text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPathsOfProgramsAreRelativeToTheFile(t *testing.T) {
	d := dir(t)
	if err := os.MkdirAll(filepath.Join(d, "tools", "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(d, "tools", "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, d, `
mcp: {servers: {a: {command: tools/tool, dir: tools/work, args: [./x]}, b: {command: ./tools/../tools/tool}, c: {command: sh}}}
a2a: {workers: {w: {kinds: k, command: tools/tool, dir: tools}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	a, b, w := c.MCP.Servers["a"], c.MCP.Servers["b"], c.A2A.Workers["w"]
	if a.Command != tool || a.Dir != filepath.Join(d, "tools", "work") || a.Args[0] != "./x" || b.Command != tool || b.Dir != "/" {
		t.Errorf("servers %+v, %+v", a, b)
	}
	if w.Command != tool || w.Dir != filepath.Join(d, "tools") || c.MCP.Servers["c"].Command != "sh" {
		t.Errorf("worker %+v, server %+v", w, c.MCP.Servers["c"])
	}
}

func TestAliasesAreFollowedAndEnd(t *testing.T) {
	c, err := load(t, dir(t), "log: {level: &l warn}\ndata: *l\n")
	if err != nil || filepath.Base(c.Data) != "warn" {
		t.Errorf("Data %v, error %v", c, err)
	}
	if _, err := load(t, dir(t), "mcp: &a {servers: {x: *a}}\n"); err == nil {
		t.Error("an alias that contains itself was accepted")
	}
}

// keys returns every key of the configuration with <name> and [] for what varies.
func keys(prefix string, typ reflect.Type) []string {
	switch {
	case typ == reflect.TypeFor[Address](), typ == reflect.TypeFor[[]Address]():
		return []string{prefix}
	case typ.Kind() == reflect.Struct:
		var list []string
		for f := range typ.Fields() {
			if name := f.Tag.Get("yaml"); name != "" && name != "-" {
				list = append(list, keys(join(prefix, name), f.Type)...)
			}
		}
		return list
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
		return keys(prefix+"[]", typ.Elem())
	case typ.Kind() == reflect.Map && typ.Elem().Kind() == reflect.Struct:
		return keys(prefix+".<name>", typ.Elem())
	}
	return []string{prefix}
}

func TestEveryKeyIsDocumentedAndInTheTemplate(t *testing.T) {
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys("", reflect.TypeFor[Config]()) {
		if !strings.Contains(string(doc), "| `"+key+"`") {
			t.Errorf("docs/configuration.md has no row for `%s`", key)
		}
		last := key[strings.LastIndexByte(key, '.')+1:]
		if !strings.Contains(string(template), last+":") {
			t.Errorf("the template does not show %s", key)
		}
	}
}

func TestTemplateIsValidAndShowsDefaults(t *testing.T) {
	d := dir(t)
	if err := os.Mkdir(filepath.Join(d, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server.crt", "server.key", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(d, "pki", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listen, err := ParseListen("127.0.0.1:7777")
	if err != nil {
		t.Fatal(err)
	}
	const most = 35 // lines that a new user reads
	if lines := strings.Count(string(Template(New{Identity: "spiffe://example.org/edge", Listen: listen})), "\n"); lines > most {
		t.Errorf("the short one has %d lines, want at most %d", lines, most)
	}
	for _, full := range []bool{false, true} {
		c, err := load(t, d, string(Template(New{Identity: "spiffe://example.org/edge", Listen: listen, Full: full})))
		if err != nil {
			t.Fatal(err)
		}
		want := Default()
		want.Source, want.Places, want.Identity, want.Trust = c.Source, c.Places, c.Identity, c.Trust
		if full {
			want.Limits.FrameBurst = 40_000
		}
		want.Access = Everything("spiffe://example.org/**")
		want.Data = filepath.Join(d, "data")
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("full %v: %s", full, diff)
		}
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]Size{"0": 0, "17": 17, "4KiB": 4096, "1 MiB": 1 << 20, "1GiB": 1 << 30, "2147483648": 1 << 31, "10GiB": 10 << 30, "1024TiB": 1 << 50} {
		got, err := ParseSize(in)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
		if again, err := ParseSize(got.String()); err != nil || again != got {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", got.String(), again, err, got)
		}
	}
	for _, in := range []string{"", "-1", "1025TiB", "1125899906842625", "18446744073709551616", "18014398509481985KiB", "1KB", "KiB", "1.5MiB", "0x10"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add(template)
	f.Add([]byte("mcp: &a {servers: {x: *a}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxFile {
			return
		}
		c, err := parse("", text, nil, []string{"SWPD_LISTENERS_0_ADDRESS=swp+tls://127.0.0.1:1"})
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
		if c, _, err := (Needs{Keys: []string{"data"}}).parse("", text, nil, nil); (c == nil) == (err == nil) {
			t.Fatalf("of data: config %v, error %v", c, err)
		}
	})
}
