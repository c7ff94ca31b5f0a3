// Package guard enforces the access rules: it says which peers are let in and what each of
// them may do, writes the audit trail of what it denies, and closes the connections of
// peers that are not let in any more.
package guard

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
)

// Guard is the access rules in force, and the audit of what they deny. It is
// what profiles ask; a reload replaces the rules under their hands.
type Guard struct {
	part.Passive
	policy   atomic.Pointer[access.Policy]
	running  func() *config.Config
	changed  func(differs func(identity, server string) bool)
	security func(transport.SecurityEvent)
	audit    *zap.Logger
	denials  *prometheus.CounterVec
	held     heldBack
}

// Options configure a Guard.
type Options struct {
	Access *config.Access
	Log    *zap.Logger

	// Running returns the configuration in force.
	Running func() *config.Config

	// Changed is told of new rules: whether they show a peer more or less of an MCP server
	// than the old ones.
	Changed func(differs func(identity, server string) bool)

	// Security takes note of connections that were closed.
	Security func(transport.SecurityEvent)
}

// New compiles the rules.
func New(o Options) (*Guard, error) {
	policy, err := NewPolicy(o.Access)
	if err != nil {
		return nil, err
	}
	g := &Guard{
		running: o.Running, changed: o.Changed, security: o.Security, audit: o.Log.Named(boundlog.Security),
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_denials_total", Help: "What the access rules denied to peers that are let in.",
		}, []string{"profile"}),
	}
	g.policy.Store(policy)
	return g, nil
}

// Section is the access rules.
func Section(prepare part.Prepare) part.Section {
	return part.Section{Name: "access rules", Stays: "the old ones stay in force", Keys: []string{"access"}, Prepare: prepare}
}

// Prepare compiles the access rules of a configuration.
func (g *Guard) Prepare(c *config.Config) (part.Change, error) {
	policy, err := NewPolicy(&c.Access)
	if err != nil {
		return part.Change{}, err
	}
	changed, before := len(config.Changed(g.running(), c)) > 0, g.policy.Load()
	return part.Change{
		Fields: []zap.Field{zap.Int("rules", len(c.Access.Rules)), zap.Int("agents", len(c.Access.Agents)), zap.Int("denied", len(c.Access.Deny))},
		Commit: func() bool {
			g.policy.Store(policy)
			return changed
		},
		Then: func() {
			if changed { // peers that are shown less or more than before are told
				g.changed(func(identity, server string) bool { return policy.Differs(before, identity, "mcp", server) })
			}
		},
	}, nil
}

// Offer implements part.Part.
func (g *Guard) Offer(o *all.Options) error {
	o.Access = g
	return nil
}

// Collectors implements part.Part.
func (g *Guard) Collectors() []prometheus.Collector { return []prometheus.Collector{g.denials} }

// NewPolicy compiles what a configuration allows.
func NewPolicy(a *config.Access) (*access.Policy, error) {
	o := access.Options{Deny: a.Deny}
	for _, r := range a.Rules {
		o.Rules = append(o.Rules, access.Rule{Identity: r.Identity, Profile: r.Profile, Operation: r.Operation, Name: r.Name})
	}
	for _, r := range a.Agents {
		o.Agents = append(o.Agents, access.Agents{Identity: r.Identity, AgentIDs: r.AgentIDs})
	}
	return access.New(o)
}

// Allowed implements profiles.Access. Each denial is a line of the audit trail,
// but for that of an event that a subscription does not get: the peer asked for
// it once, so it is one line for each identity and event_type, and another
// after a minute.
func (g *Guard) Allowed(identity, profile, operation, name string) bool {
	if g.policy.Load().Allowed(identity, profile, operation, name) {
		return true
	}
	if operation == "subscribe" && !g.held.news(identity, name) {
		return false
	}
	g.denied(identity, profile, operation, name)
	return false
}

// MayUse reports whether an identity may use an agent_id as its own.
func (g *Guard) MayUse(identity, agentID string) bool {
	if g.policy.Load().MayUse(identity, agentID) {
		return true
	}
	g.denied(identity, "a2a", "agent_id", agentID)
	return false
}

// Reaches implements profiles.Reacher.
func (g *Guard) Reaches(identity, profile, name string) bool {
	return g.policy.Load().Reaches(identity, profile, name)
}

// Would implements profiles.Forecaster.
func (g *Guard) Would(identity, profile, operation, name string) bool {
	return g.policy.Load().Allowed(identity, profile, operation, name)
}

// WouldBelow implements profiles.Surveyor.
func (g *Guard) WouldBelow(identity, profile, operation, name string) bool {
	return g.policy.Load().AllowedBelow(identity, profile, operation, name)
}

// denied writes the audit trail. Operation and name are what the peer wrote:
// the log cuts and escapes them, and no metric has them as a label.
func (g *Guard) denied(identity, profile, operation, name string) {
	g.denials.WithLabelValues(profile).Inc()
	g.audit.Warn("denied",
		zap.Stringer("err_code", profiles.SecurityPolicy),
		zap.String("peer", identity),
		zap.String("profile", profile),
		zap.String("operation", operation),
		zap.String("name", name),
	)
}

// heldBack remembers which events were held back from whom of late. The zero
// value is ready.
type heldBack struct {
	mu   sync.Mutex
	last map[[2]string]time.Time // by identity and event_type
}

const (
	heldBackFor = time.Minute
	maxHeldBack = 4096 // remembered at once; then all are forgotten
)

// news reports whether that is worth saying, and takes it as said.
func (h *heldBack) news(identity, eventType string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, now := [2]string{identity, eventType}, time.Now()
	if last, ok := h.last[key]; ok && now.Sub(last) < heldBackFor {
		return false
	}
	if h.last == nil || len(h.last) >= maxHeldBack {
		h.last = make(map[[2]string]time.Time)
	}
	h.last[key] = now
	return true
}
