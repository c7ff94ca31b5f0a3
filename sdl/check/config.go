package check

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"time"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// readConfig reads the member config of a flow. Its server has both built-in tools.
func readConfig(s *shape, now time.Time, keys *Keys) setup {
	c := newSetup(now)
	c.options.Tools = serve.ToolSet{"sys.ping": serve.Ping, "math.add": serve.Sum}
	if s.has("tool_policy") {
		c.options.ToolPolicy = readToolPolicy(s.object("tool_policy"))
	}
	if s.has("registry") {
		c.registry = s.of("registry", canonical.KindObject)
	}
	if s.has("store") {
		c.sessions = s.truth("store")
	}
	if s.has("signed_doc_canonical") {
		c.signedDoc = s.text("signed_doc_canonical")
	}
	if s.has("session_signing_key") {
		key, err := seal.ParseSigningKey(keys.private(s, s.text("session_signing_key")))
		if err != nil {
			s.fault("session_signing_key", "%v", err)
		}
		c.options.SessionKey = key
	}
	switch quorum, single := s.has("approvers"), s.has("verify_key"); {
	case quorum && single:
		s.fault("approvers", "exclude verify_key")
	case quorum:
		c.options.Proposals = readQuorum(s, keys)
	case single:
		c.options.Proposals = &trust.SingleKey{Key: verifyKey(s, s.text("verify_key"), keys)}
	}
	s.done()
	return c
}

func readToolPolicy(s *shape) *trust.ToolPolicy {
	p := &trust.ToolPolicy{
		Tools:   s.words("allowed_tools"),
		ByAgent: s.lists("allowed_tools_by_agent"),
		Scopes:  s.dictionary("required_scopes_by_tool"),
	}
	if s.has("max_args_bytes") {
		p.MaxArgsBytes = s.count("max_args_bytes")
	}
	s.done()
	return p
}

func readQuorum(s *shape, keys *Keys) trust.Verifier {
	approvers := make(map[string]ed25519.PublicKey)
	names := s.dictionary("approvers")
	for _, approver := range slices.Sorted(maps.Keys(names)) {
		approvers[approver] = verifyKey(s, names[approver], keys)
	}
	threshold := 1
	if s.has("threshold") {
		threshold = s.count("threshold")
	}
	q, err := trust.NewQuorum(approvers, threshold)
	if err != nil {
		s.fault("approvers", "%v", err)
		return nil
	}
	return q
}

func verifyKey(s *shape, name string, keys *Keys) ed25519.PublicKey {
	key, err := seal.ParseVerifyKey(keys.public(s, name))
	if err != nil {
		s.fault("verify_key", "%q: %v", name, err)
	}
	return key
}
