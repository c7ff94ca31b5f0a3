package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/sdl/fetch"
)

// SDL configures profile 1024, A2A-SDL. Without an AgentID it is not served.
type SDL struct {
	AgentID  string        `yaml:"agent_id"`                  // of this endpoint
	Keys     string        `yaml:"keys"`                      // file: keys of trusted signatures, and keys for decryption
	Mode     string        `yaml:"mode" choice:"sig,enc+sig"` // required of envelopes; empty: any that is signed
	Agents   List          `yaml:"agents"`                    // from.agent_id that are admitted; empty: all
	Versions string        `yaml:"versions"`                  // file: the supported versions
	Replay   SDLReplay     `yaml:"replay"`
	Session  SDLSession    `yaml:"session"`
	Sign     SDLSign       `yaml:"sign"`
	Trust    SDLTrust      `yaml:"trust"`
	Tools    SDLTools      `yaml:"tools"`
	Limits   SDLLimits     `yaml:"limits"`
	Deadline time.Duration `yaml:"deadline"` // of a request, at most
	Tasks    int           `yaml:"tasks"`    // that are not over
	Socket   string        `yaml:"socket"`   // path of a Unix socket for programs without SWP; empty: none
	Rate     SDLRate       `yaml:"rate"`     // of a program without SWP
	Schemas  SDLSchemas    `yaml:"schemas"`  // that envelopes name by address
	Audit    SDLAudit      `yaml:"audit"`    // chain of A2A-SDL, apart from the audit trail

	// Routes are the partners, as partner or partner/partner, that envelopes go to, by
	// patterns of the agent_ids that they are for.
	Routes map[string]string `yaml:"routes"`
}

// SDLSchemas says from where schemas are loaded that an envelope over SWP names by its address.
type SDLSchemas struct {
	Hosts    List     `yaml:"hosts"`    // of https addresses; empty: such envelopes are refused
	CA       string   `yaml:"ca"`       // file: authorities of the hosts; empty: those of the system
	Networks []string `yaml:"networks"` // of the hosts, besides public addresses
}

// Prefixes returns Networks.
func (s *SDLSchemas) Prefixes() []netip.Prefix { return networksOf(s.Networks) }

// SDLAudit configures the audit chain in SDLAuditFile.
type SDLAudit struct {
	Enabled bool   `yaml:"enabled"`
	Fail    string `yaml:"fail" choice:"closed,open"` // whether requests are refused if no entry can be added
	Size    Size   `yaml:"size"`                      // of the file, at most
}

// Values of SDLAudit.
const (
	SDLAuditClosed = "closed"
	SDLAuditOpen   = "open"
)

// SDLAuditFile is the file of the audit chain of A2A-SDL.
func (c *Config) SDLAuditFile() string { return filepath.Join(c.Data, "sdl-audit.jsonl") }

func (s *SDL) checkAudit(p *problems) {
	if s.Audit.Size < minAudit {
		p.add("sdl.audit.size", "is %v, want at least %v", s.Audit.Size, Size(minAudit))
	}
	if !s.Audit.Enabled && s.Audit != defaultSDL().Audit {
		p.add("sdl.audit", "has fail or size while sdl.audit.enabled is false, so that nothing is written; set enabled")
	}
}

// SDLReplay configures the detection of repeated envelopes.
type SDLReplay struct {
	Required bool          `yaml:"required"`
	Window   time.Duration `yaml:"window"` // how far ahead an envelope may expire
	Skew     time.Duration `yaml:"skew"`   // permitted difference of clocks
}

// SDLSession selects the envelopes that need an open session.
type SDLSession struct {
	Required bool `yaml:"required"`
	Exempt   List `yaml:"exempt"` // content types; empty: session.v1, error.v1 and negotiation.v1
}

// SDLSign is the signature of this endpoint, on answers to signed requests and on
// sessions.
type SDLSign struct {
	Key  string `yaml:"key"` // file
	Kid  string `yaml:"kid"`
	Form string `yaml:"form" choice:"cbor,json"`
}

// SDLTrust selects the proposals that change the trust registry: those signed with one
// key, or those of several approvers.
type SDLTrust struct {
	Key    string `yaml:"key"`    // file
	Quorum string `yaml:"quorum"` // file
}

// SDLTools limits the calls of tools, in addition to the rules of access.
type SDLTools struct {
	Allow  List              `yaml:"allow"`  // tools that may be called
	Agents map[string]List   `yaml:"agents"` // tools by agent_id
	Scopes map[string]string `yaml:"scopes"` // required by a tool, by tool
	Grants map[string]List   `yaml:"grants"` // scopes by agent_id
	Args   Size              `yaml:"args"`   // of one call, at most
}

// SDLRate is a token bucket for envelopes over HTTP and the socket.
type SDLRate struct {
	Burst     int `yaml:"burst"`
	PerSecond int `yaml:"per_second"`
}

// SDLLimits bound an envelope.
type SDLLimits struct {
	Bytes Size `yaml:"bytes"`
	Depth int  `yaml:"depth"`
	Array int  `yaml:"array"`
	Hops  int  `yaml:"hops"`
}

// defaultSDL has the defaults.
func defaultSDL() SDL {
	return SDL{
		Replay: SDLReplay{Window: 10 * time.Minute}, Sign: SDLSign{Form: "cbor"}, Tools: SDLTools{Args: 4 << 10},
		Limits: SDLLimits{Bytes: 1 << 20, Depth: 64, Array: 10_000, Hops: 8}, Deadline: time.Hour, Tasks: 1024,
		Rate: SDLRate{Burst: 512, PerSecond: 256}, Audit: SDLAudit{Fail: SDLAuditClosed, Size: 1 << 30},
	}
}

// SDLBytes is sdl.limits.bytes, or less if messages are smaller.
func (c *Config) SDLBytes() Size { return min(c.SDL.Limits.Bytes, c.Limits.PayloadBytes) }

func (s *SDL) files() map[string]*string {
	return map[string]*string{
		"keys": &s.Keys, "versions": &s.Versions, "sign.key": &s.Sign.Key, "trust.key": &s.Trust.Key, "trust.quorum": &s.Trust.Quorum,
		"schemas.ca": &s.Schemas.CA,
	}
}

// Files returns the names of the files that are set.
func (s *SDL) Files() (names []string) {
	files := s.files()
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if name := *files[key]; name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (c *Config) resolveSDL(dir string) {
	for _, file := range append(slices.Collect(maps.Values(c.SDL.files())), &c.SDL.Socket) {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
}

func (c *Config) checkSDL(p *problems) {
	s := &c.SDL
	files := s.files()
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if key == "keys" || key == "sign.key" {
			private(p, "sdl."+key, *files[key])
		} else {
			readable(p, "sdl."+key, *files[key])
		}
	}
	c.checkSDLRoutes(p)
	alone := *s
	if len(s.Routes) > 0 { // they also work without serving A2A-SDL, for callers everywhere
		alone.Routes, alone.Socket, alone.Rate = nil, "", defaultSDL().Rate
	}
	if s.AgentID == "" && !reflect.DeepEqual(alone, defaultSDL()) {
		p.add("sdl.agent_id", "missing; name the agent_id that envelopes for this endpoint have as to.agent_id")
	}
	if (s.Sign.Key == "") != (s.Sign.Kid == "") {
		p.add("sdl.sign", "key and kid go together; set both, or neither")
	}
	if s.Trust.Key != "" && s.Trust.Quorum != "" {
		p.add("sdl.trust", "has key and quorum; keep one")
	}
	if s.Keys == "" {
		for key, set := range map[string]bool{
			"mode": s.Mode != "", "agents": len(s.Agents) > 0, "replay.required": s.Replay.Required, "session.required": s.Session.Required,
			"trust": s.Trust != SDLTrust{},
		} {
			if set {
				p.add("sdl."+key, "is set while sdl.keys is not, so that no signature is trusted; set sdl.keys")
			}
		}
	}
	c.checkSDLSchemas(p)
	s.checkAudit(p)
	if s.Rate != defaultSDL().Rate && s.Socket == "" && c.HTTP.Address == HTTPOff {
		p.add("sdl.rate", "has values while http.address is off and sdl.socket is not set, so that all envelopes come over SWP; set one of them")
	}
	if most := 24 * time.Hour; s.Replay.Window <= 0 || s.Replay.Window > most {
		p.add("sdl.replay.window", "is %v, want more than 0 and at most %v", s.Replay.Window, most)
	}
	if most := 5 * time.Minute; s.Replay.Skew > most {
		p.add("sdl.replay.skew", "is %v, want at most %v", s.Replay.Skew, most)
	}
	if s.Deadline <= 0 {
		p.add("sdl.deadline", "is 0, want a duration above 0, such as 1h")
	}
	for _, row := range []struct {
		key              string
		value, low, most int64
	}{
		{"tools.args", int64(s.Tools.Args), 2, int64(s.Limits.Bytes)},
		{"limits.bytes", int64(s.Limits.Bytes), 4 << 10, 8 << 20},
		{"limits.depth", int64(s.Limits.Depth), 8, 256},
		{"limits.array", int64(s.Limits.Array), 16, 1_000_000},
		{"limits.hops", int64(s.Limits.Hops), 1, 64},
		{"tasks", int64(s.Tasks), 1, 65_536},
		{"rate.burst", int64(s.Rate.Burst), 1, 65_536},
		{"rate.per_second", int64(s.Rate.PerSecond), 0, 65_536},
	} {
		if row.value < row.low || row.value > row.most {
			p.add("sdl."+row.key, "is %d, want %d to %d", row.value, row.low, row.most)
		}
	}
}

func (c *Config) checkSDLSchemas(p *problems) {
	s := &c.SDL.Schemas
	if len(s.Hosts) == 0 && (s.CA != "" || len(s.Networks) > 0) {
		p.add("sdl.schemas", "has ca or networks while no host is listed, so that nothing is loaded; set hosts")
	}
	for i, host := range s.Hosts {
		if u, err := url.Parse("https://" + host); err != nil || u.Hostname() != host || host != strings.ToLower(strings.TrimSuffix(host, ".")) {
			p.add(fmt.Sprintf("sdl.schemas.hosts[%d]", i), "%.80q is no host, want a name in lower case without a port, such as schemas.example.org", host)
		} else if fetch.Here(host) {
			p.add(fmt.Sprintf("sdl.schemas.hosts[%d]", i), "%.80q is a name of this machine or its link, and schemas are never loaded from there; list the host under another name and its address in sdl.schemas.networks", host)
		}
	}
	for i, text := range s.Networks {
		if _, err := parseNetwork(text); err != nil {
			p.add(fmt.Sprintf("sdl.schemas.networks[%d]", i), "%.64q is neither an address nor a network, want one such as 10.1.2.3 or 10.1.0.0/16", text)
		}
	}
}

func (c *Config) checkSDLRoutes(p *problems) {
	for _, pattern := range slices.Sorted(maps.Keys(c.SDL.Routes)) {
		key, target := "sdl.routes."+pattern, c.SDL.Routes[pattern]
		checkPatterns(p, key, List{pattern})
		if err := profiles.CheckTarget(target); err != nil {
			p.add(key, "%.80q is no partner: %v", target, err)
			continue
		}
		if name, _, _ := strings.Cut(target, "/"); c.Partners[name].Identity == "" {
			p.add(key, "there is no partner %.80q; add partners.%[1]s, or remove the route", name)
		}
	}
}
