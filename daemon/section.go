package daemon

import (
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

// section is a part of the configuration that is taken up while the daemon serves. A key
// that is in no section waits for the next start, and is named until then.
type section struct {
	name  string   // in the log and in warnings
	stays string   // what is said to stay while the section cannot be used
	keys  []string // what is taken up, with all below them; none: only files are read again

	// fits reports whether the keys of a configuration can be taken up by what was started;
	// if not, they wait for the next start. Nil: always.
	fits func(started, now *config.Config) bool

	// files are read again when they change. Nil: there are none.
	files func(c *config.Config) []string

	// prepare reads what a configuration says. What is in force does not change.
	prepare func(c *config.Config) (change, error)

	stamp   string                 // what the files looked like when they were read last
	failure atomic.Pointer[string] // why the section cannot be used as it is now; nil if it can
}

// change is a section that is ready to be in force: either commit is called, and then, or
// abandon.
type change struct {
	// commit puts it in force. It reports whether somebody may not be let in any more.
	commit func() (stricter bool)

	then     func()      // once peers were held against what is in force; nil: nothing
	abandon  func()      // gives back what was prepared; nil: nothing
	identity string      // that this endpoint has with it; empty: the one it had
	fields   []zap.Field // of the log line
}

// look describes the files of a configuration.
func (s *section) look(c *config.Config) string {
	if s.files == nil {
		return ""
	}
	return stampOf(s.files(c)...)
}

func (s *section) fitting(started, now *config.Config) bool {
	return s.fits == nil || s.fits(started, now)
}

// has reports whether a key is one that the section takes up.
func (s *section) has(key string) bool {
	for _, own := range s.keys {
		if key == own || strings.HasPrefix(key, own+".") {
			return true
		}
	}
	return false
}

func (s *section) trouble() string { return s.name + " not reloaded, " + s.stays }

// sections are all of them, in the order in which they are taken up: rules come ahead of
// what they are about.
func (d *daemon) sections() []*section {
	return []*section{
		{
			name: "access rules", stays: "the old ones stay in force", keys: []string{"access"}, prepare: d.prepareRules,
		},
		{
			name: "certificates", stays: "the old ones stay in use", keys: []string{"identity", "trust"},
			// A development identity lives in the data directory, and is made at a start.
			fits:  func(started, now *config.Config) bool { return started.Development() == now.Development() },
			files: identityFiles, prepare: d.prepareCertificates,
		},
		{
			name: "http", stays: "what was there stays in force",
			keys: []string{"http.callers", "http.anonymous", "http.hosts", "http.origins", "http.tls"},
			// What is right for one address may not be for another.
			fits:  func(started, now *config.Config) bool { return sameFront(&started.HTTP, &now.HTTP) },
			files: func(c *config.Config) []string { return tlsFiles(&c.HTTP.TLS) }, prepare: d.prepareHTTP,
		},
		{
			name: "agent cards", stays: "the old ones stay", keys: []string{"agdisc.cards"},
			files: cardFiles, prepare: d.prepareCards,
		},
		{
			name: "keys of credentials", stays: "the old ones stay in force",
			keys: []string{
				"cred.issuers", "cred.opaque", "cred.audience", "cred.leeway", "cred.max_depth", "cred.max_lifetime", "cred.chains", "cred.chains_per_identity",
			},
			files: verifierFiles, prepare: d.prepareVerifiers,
		},
		{
			name: "access log", stays: "the old one stays", keys: []string{"log.access", "log.access_file"}, prepare: d.prepareAccessLog,
		},
		{
			name: "mcp servers", stays: "the old ones stay", keys: []string{"mcp.servers", "tooldisc.tools"},
			files: toolFiles, prepare: d.prepareServers,
		},
		{
			name: "a2a workers", stays: "the old ones stay", keys: []string{"a2a.workers"},
			files: schemaFiles, prepare: d.prepareWorkers,
		},
		{
			name: "a2a agents", stays: "the old ones stay", keys: []string{"a2a.agents"}, prepare: d.prepareAgents,
		},
		{
			name: "teams", stays: "the old ones stay", keys: []string{"teams"}, files: teamFiles, prepare: d.prepareTeams,
		},
		{
			name: "slip", stays: "the old one stays", keys: []string{"slip"}, files: slipFiles, prepare: d.prepareSLIP,
		},
		{
			name: "sdl", stays: "the old one stays",
			keys: []string{"sdl.keys", "sdl.mode", "sdl.agents", "sdl.versions", "sdl.replay", "sdl.session", "sdl.sign", "sdl.trust", "sdl.tools", "sdl.limits"},
			// Who this endpoint is in the language, and whether it speaks it, does not change.
			fits:  func(started, now *config.Config) bool { return started.SDL.AgentID == now.SDL.AgentID },
			files: sdlFiles, prepare: d.prepareSDL,
		},
		{
			name: "quotas", stays: "the old ones stay", prepare: d.prepareBounds,
			keys: []string{
				"quota", "artifact", "relay.window", "relay.ttl", "relay.retention", "relay.dead_retention", "relay.ack_timeout", "relay.backoff",
				"relay.max_backoff", "relay.max_attempts", "relay.waiting", "relay.remembered", "relay.max_in_flight", "relay.in_flight", "relay.in_flight_per_identity",
			},
		},
		{
			name: "limits", stays: "the old ones stay", keys: limitKeys(), prepare: d.prepareLimits,
		},
		{
			name: "rpc backends", stays: "the old ones stay", keys: []string{"rpc.backends"}, prepare: d.prepareBackends,
		},
		{
			name: "log", stays: "the old one stays", keys: []string{"log.level", "log.format"}, prepare: d.prepareLog,
		},
		{
			name: "partners", stays: "the old ones stay", keys: []string{"partners"},
			files: bundleFiles, prepare: d.preparePartners,
		},
	}
}

// prepareRules compiles the access rules.
func (d *daemon) prepareRules(c *config.Config) (change, error) {
	policy, err := newPolicy(&c.Access)
	if err != nil {
		return change{}, err
	}
	changed, before := len(config.Changed(d.reloader.running, c)) > 0, d.guard.policy.Load()
	return change{
		fields: []zap.Field{zap.Int("rules", len(c.Access.Rules)), zap.Int("agents", len(c.Access.Agents)), zap.Int("denied", len(c.Access.Deny))},
		commit: func() bool {
			d.guard.policy.Store(policy)
			return changed
		},
		then: func() {
			if changed { // peers that are shown less or more than before are told
				d.profiles.MCP.RulesChanged(func(identity, server string) bool { return policy.Differs(before, identity, "mcp", server) })
			}
		},
	}, nil
}
