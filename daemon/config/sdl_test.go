package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSDLIsRead(t *testing.T) {
	d := dir(t)
	c, err := load(t, d, valid+`
sdl:
  agent_id: did:web:example.org
  keys: a.key
  mode: enc+sig
  agents: did:key:one
  replay: {required: true, window: 1m, skew: 5s}
  session: {required: true, exempt: [session.v1]}
  sign: {key: a.key, kid: "did:web:example.org#1", form: json}
  trust: {quorum: ca.crt}
  tools:
    allow: [files/read]
    agents: {"did:key:one": [files/read]}
    scopes: {files/read: read}
    grants: {"did:key:one": read}
    args: 1KiB
  limits: {bytes: 64KiB, depth: 32, array: 100, hops: 4}
  deadline: 1m
  tasks: 3
`)
	if err != nil {
		t.Fatal(err)
	}
	s := c.SDL
	if s.Keys != filepath.Join(d, "a.key") || s.Sign.Key != s.Keys || s.Trust.Quorum != filepath.Join(d, "ca.crt") || s.Replay.Skew != 5*time.Second ||
		s.Tools.Agents["did:key:one"][0] != "files/read" || s.Tools.Grants["did:key:one"][0] != "read" || s.Agents[0] != "did:key:one" {
		t.Errorf("%+v", s)
	}
	if got := c.SDLBytes(); got != 64<<10 {
		t.Errorf("limits.bytes %v", got)
	}
	c.Limits.PayloadBytes = 4096
	if got := c.Effective().SDL.Limits.Bytes; got != 4096 {
		t.Errorf("limits.bytes %v where a payload has 4096", got)
	}
}

func TestSDLIsChecked(t *testing.T) {
	d := dir(t)
	if err := os.Chmod(filepath.Join(d, "open.key"), 0o644); err != nil { // whatever the umask
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"{mode: sig}":                                                      "sdl.agent_id: missing",
		"{agent_id: a, keys: none}":                                        "sdl.keys: ",
		"{agent_id: a, keys: open.key}":                                    "so every user can reach the secret in it",
		"{agent_id: a, sign: {key: open.key, kid: k}}":                     "so every user can reach the secret in it",
		"{agent_id: a, mode: sig}":                                         "sdl.mode: is set while sdl.keys is not",
		"{agent_id: a, agents: [b]}":                                       "sdl.agents: is set while sdl.keys is not",
		"{agent_id: a, replay: {required: true}}":                          "sdl.replay.required: is set while",
		"{agent_id: a, session: {required: true}}":                         "sdl.session.required: is set while",
		"{agent_id: a, trust: {key: ca.crt}}":                              "sdl.trust: is set while",
		"{agent_id: a, keys: a.key, mode: enc}":                            `sdl.mode: is "enc", want sig, enc+sig`,
		"{agent_id: a, sign: {form: xml}}":                                 `sdl.sign.form: is "xml"`,
		"{agent_id: a, sign: {kid: k}}":                                    "sdl.sign: key and kid go together",
		"{agent_id: a, sign: {key: a.key}}":                                "sdl.sign: key and kid go together",
		"{agent_id: a, keys: a.key, trust: {key: ca.crt, quorum: ca.crt}}": "sdl.trust: has key and quorum",
		"{agent_id: a, replay: {window: 0s}}":                              "sdl.replay.window: is 0s",
		"{agent_id: a, replay: {window: 25h}}":                             "sdl.replay.window: is 25h",
		"{agent_id: a, replay: {skew: 6m}}":                                "sdl.replay.skew: is 6m",
		"{agent_id: a, deadline: 0s}":                                      "sdl.deadline: is 0",
		"{agent_id: a, tasks: 0}":                                          "sdl.tasks: is 0",
		"{agent_id: a, tools: {args: 2MiB}}":                               "sdl.tools.args: is 2097152",
		"{agent_id: a, limits: {bytes: 9MiB}}":                             "sdl.limits.bytes: is 9437184",
		"{agent_id: a, limits: {depth: 7}}":                                "sdl.limits.depth: is 7",
		"{agent_id: a, limits: {array: 15}}":                               "sdl.limits.array: is 15",
		"{agent_id: a, schemas: {ca: ca.crt}}":                             "sdl.schemas: has ca or networks while no host is listed",
		"{agent_id: a, schemas: {networks: [10.0.0.0/8]}}":                 "sdl.schemas: has ca or networks while no host is listed",
		"{agent_id: a, schemas: {hosts: ['h:1']}}":                         `sdl.schemas.hosts[0]: "h:1" is no host`,
		"{agent_id: a, schemas: {hosts: [h, 'https://h/']}}":               "sdl.schemas.hosts[1]: ",
		"{agent_id: a, schemas: {hosts: [localhost]}}":                     `sdl.schemas.hosts[0]: "localhost" is a name of this machine`,
		"{agent_id: a, schemas: {hosts: [h, printer.local]}}":              "sdl.schemas.hosts[1]: ",
		"{agent_id: a, schemas: {hosts: [Example.org]}}":                   "sdl.schemas.hosts[0]: ",
		"{agent_id: a, schemas: {hosts: [h], networks: [h]}}":              `sdl.schemas.networks[0]: "h" is neither`,
		"{agent_id: a, schemas: {hosts: [h], ca: none}}":                   "sdl.schemas.ca: ",
		"{schemas: {hosts: [h]}}":                                          "sdl.agent_id: missing",
		"{agent_id: a, rate: {burst: 511}}":                                "sdl.rate: has values while http.address is off and sdl.socket is not set",
		"{agent_id: a, rate: {per_second: 0}}":                             "sdl.rate: has values while",
		"{agent_id: a, socket: s, rate: {burst: 0}}":                       "sdl.rate.burst: is 0, want 1 to 65536",
		"{agent_id: a, socket: s, rate: {per_second: 65537}}":              "sdl.rate.per_second: is 65537, want 0 to 65536",
		"{agent_id: a, audit: {fail: open}}":                               "sdl.audit: has fail or size while",
		"{agent_id: a, audit: {size: 2GiB}}":                               "sdl.audit: has fail or size while",
		"{agent_id: a, audit: {enabled: true, fail: never}}":               `sdl.audit.fail: is "never", want closed, open`,
		"{agent_id: a, audit: {enabled: true, size: 1023KiB}}":             "sdl.audit.size: is 1023KiB, want at least 1MiB",
		"{audit: {enabled: true}}":                                         "sdl.agent_id: missing",
		"{agent_id: a, limits: {hops: 65}}":                                "sdl.limits.hops: is 65",
	} {
		if _, err := load(t, d, valid+"sdl: "+text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for name, text := range map[string]string{
		"an empty section":           "sdl:\n",
		"an audit chain":             "sdl: {agent_id: a, audit: {enabled: true, fail: open, size: 1MiB}}\n",
		"a rate of the socket":       "sdl: {agent_id: a, socket: s, rate: {burst: 1, per_second: 0}}\n",
		"a rate of the HTTP front":   "sdl: {agent_id: a, rate: {burst: 1}}\nhttp: {address: '127.0.0.1:0', anonymous: x}\n",
		"a rate that is the default": "sdl: {agent_id: a, rate: {burst: 512, per_second: 256}}\n",
	} {
		if _, err := load(t, d, valid+text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
