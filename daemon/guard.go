package daemon

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/profiles"
)

// guard is the access rules in force, and the audit of what they deny. It is
// what profiles ask; a reload replaces the rules under their hands.
type guard struct {
	passive
	policy  atomic.Pointer[access.Policy]
	audit   *zap.Logger
	denials *prometheus.CounterVec
	held    heldBack
}

func newGuard(c *config.Config, log *zap.Logger) (*guard, error) {
	policy, err := newPolicy(&c.Access)
	if err != nil {
		return nil, err
	}
	g := &guard{
		audit: log.Named(boundlog.Security),
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_denials_total", Help: "What the access rules denied to peers that are let in.",
		}, []string{"profile"}),
	}
	g.policy.Store(policy)
	return g, nil
}

// collectors implements part.
func (g *guard) collectors() []prometheus.Collector { return []prometheus.Collector{g.denials} }

// newPolicy compiles what a configuration allows.
func newPolicy(a *config.Access) (*access.Policy, error) {
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
func (g *guard) Allowed(identity, profile, operation, name string) bool {
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
func (g *guard) MayUse(identity, agentID string) bool {
	if g.policy.Load().MayUse(identity, agentID) {
		return true
	}
	g.denied(identity, "a2a", "agent_id", agentID)
	return false
}

// Reaches implements profiles.Reacher.
func (g *guard) Reaches(identity, profile, name string) bool {
	return g.policy.Load().Reaches(identity, profile, name)
}

// Would implements profiles.Forecaster.
func (g *guard) Would(identity, profile, operation, name string) bool {
	return g.policy.Load().Allowed(identity, profile, operation, name)
}

// WouldBelow implements profiles.Surveyor.
func (g *guard) WouldBelow(identity, profile, operation, name string) bool {
	return g.policy.Load().AllowedBelow(identity, profile, operation, name)
}

// Denied reports whether an identity is not to be let in at all.
func (g *guard) Denied(identity string) bool { return g.policy.Load().Denied(identity) }

// denied writes the audit trail. Operation and name are what the peer wrote:
// the log cuts and escapes them, and no metric has them as a label.
func (g *guard) denied(identity, profile, operation, name string) {
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
