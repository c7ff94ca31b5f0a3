package check

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"maps"
	"slices"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// setup describes the server of a case. Each play gets a new server with fresh state.
type setup struct {
	now          time.Time
	options      serve.Options // without what has state
	validateOnly bool
	replay       bool // nonces count without a policy too

	policy   *trust.Policy   // without what has state; nil is none
	registry canonical.Value // of the policy, or of trustsync; null is none
	sessions bool            // are remembered
	bindings []trust.Session

	verifyKeys  map[string]ed25519.PublicKey // of the policy
	decryptKeys map[string]*ecdh.PrivateKey
	signedDoc   string // what approvals are about; "" if not given
}

// server returns a server with a stopped clock.
func (c *setup) server() (*serve.Server, error) {
	o := c.options
	if c.sessions {
		o.Sessions = trust.NewSessions(trust.SessionOptions{})
		for _, b := range c.bindings {
			if err := o.Sessions.Register(b, c.now); err != nil {
				return nil, err
			}
		}
	}
	if !c.registry.IsNull() {
		registry, err := trust.NewRegistry(c.registry, c.now, trust.RegistryOptions{})
		if err != nil {
			return nil, err
		}
		o.Registry = registry
	}
	replay := &trust.Replay{Nonces: trust.NewMemory(trust.MemoryOptions{Now: o.Now})}
	if c.replay {
		o.Replay = replay
	}
	if c.policy != nil {
		p := *c.policy
		p.Registry, p.Sessions = o.Registry, o.Sessions
		if c.replay || p.RequireReplay {
			p.Replay = replay
		}
		o.Policy = &p
		o.Registry = nil // trustsync is set up by flows
	}
	return serve.New(o)
}

// newSetup returns the setup of a server with all switches of Compat set, as the reference.
func newSetup(now time.Time) setup {
	return setup{now: now, options: serve.Options{Now: func() time.Time { return now }, Compat: serve.Reference()}}
}

// readSetup reads the member server of a case.
func readSetup(s *shape, now time.Time) setup {
	c := newSetup(now)
	if s.has("enforce_replay") {
		c.replay = s.truth("enforce_replay")
	}
	if s.has("validate_only") {
		c.validateOnly = s.truth("validate_only")
	}
	if s.has("limits") {
		c.options.Limits = readLimits(s.object("limits"))
	}
	if s.has("version_policy") {
		versions, err := sdl.ParseVersionPolicy(s.get("version_policy"))
		if err != nil {
			s.fault("version_policy", "%v", err)
		}
		c.options.Versions = versions
	}
	if s.has("session_bindings") {
		c.sessions = true
		for _, b := range s.elements("session_bindings") {
			c.bindings = append(c.bindings, readBinding(b))
		}
	}
	if s.has("policy") {
		c.readPolicy(s.object("policy"))
	}
	if s.has("local_agent_id") {
		if local := s.text("local_agent_id"); c.policy != nil {
			c.policy.Local = local
		} else {
			s.fault("local_agent_id", "is of no use without a policy")
		}
	}
	s.done()
	return c
}

func readLimits(s *shape) (l sdl.Limits) {
	limit := func(name string, to *int) {
		if s.has(name) {
			if *to = s.count(name); *to == 0 {
				s.fault(name, "want 1 or more")
			}
		}
	}
	limit("max_bytes", &l.MaxBytes)
	limit("max_depth", &l.MaxDepth)
	limit("max_array_len", &l.MaxArray)
	limit("max_hops", &l.MaxHops)
	s.done()
	return l
}

func readBinding(s *shape) trust.Session {
	s.ignore("profile") // is behind the binding_id
	b := trust.Session{ID: s.text("binding_id"), From: s.text("from_agent"), To: s.text("to_agent"), Expires: s.time("expires")}
	s.done()
	return b
}

// registryMembers are the members of a policy that belong to the trust
// registry.
var registryMembers = []string{"trusted_signing_keys", "required_kid_by_agent", "allowed_kids_by_agent", "revoked_kids", "kid_not_after"}

// readPolicy reads the members of a security policy (A2A-SDL §7.1).
func (c *setup) readPolicy(s *shape) {
	p := &trust.Policy{Agents: s.words("allowed_agents"), SessionExempt: s.words("session_binding_exempt_ct")}
	if s.has("require_mode") {
		p.Mode = s.text("require_mode")
	}
	if s.has("require_replay") {
		p.RequireReplay = s.truth("require_replay")
	}
	if s.has("require_session_binding") {
		p.RequireSession = s.truth("require_session_binding")
		c.sessions = c.sessions || p.RequireSession
	}
	if s.has("local_agent_id") {
		p.Local = s.text("local_agent_id")
	}
	c.registry = canonical.Object()
	for _, name := range registryMembers {
		if s.has(name) {
			c.registry = c.registry.With(name, s.get(name))
		}
	}
	c.verifyKeys = make(map[string]ed25519.PublicKey)
	for kid, text := range s.dictionary("trusted_signing_keys") {
		if key, err := seal.ParseVerifyKey(text); err == nil {
			c.verifyKeys[kid] = key // an invalid key is not trusted, as in a registry
		}
	}
	c.decryptKeys = decryptKeys(s)
	p.DecryptKeys = c.decryptKeys
	s.done()
	c.policy = p
}

// decryptKeys reads the private keys of a policy.
func decryptKeys(s *shape) map[string]*ecdh.PrivateKey {
	const name = "decrypt_private_keys"
	keys := make(map[string]*ecdh.PrivateKey)
	texts := s.dictionary(name)
	for _, kid := range slices.Sorted(maps.Keys(texts)) {
		key, err := seal.ParseDecryptKey(texts[kid])
		if err != nil {
			s.fault(name+"."+kid, "%v", err)
			continue
		}
		keys[kid] = key
	}
	return keys
}
