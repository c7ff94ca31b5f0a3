// Package guard enforces the access rules: it decides which peers are admitted and what
// they may do, logs denials, and closes the connections of peers that
// are no longer admitted.
package guard

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Guard has the access rules in force, and logs denials. Profiles ask it; a reload replaces
// its rules.
type Guard struct {
	part.Passive
	policy   atomic.Pointer[ruling]
	callers  atomic.Pointer[config.HTTP] // nil: everybody may be an HTTP caller
	running  func() *config.Config
	changed  func(differs func(identity, server string) bool)
	security func(transport.SecurityEvent)
	tells    *endpoint.Farewells
	denials  *prometheus.CounterVec
	denied   denials
	held     heldBack

	expelled atomic.Pointer[map[string]bool] // identities; nil: none
	record   func(identity, profile, operation, name string)
}

// Options configure a Guard.
type Options struct {
	Access *config.Access
	HTTP   *config.HTTP // with the callers that there are, see SetCallers; nil: any

	Log *zap.Logger

	// Running returns the configuration in force.
	Running func() *config.Config

	// Changed is called after new rules take effect, to end what they deny. differs reports
	// whether a peer sees more or less of an MCP server than before.
	Changed func(differs func(identity, server string) bool)

	// Security is called for closed connections.
	Security func(transport.SecurityEvent)

	// Farewells tell a partner that is not let in why. Nil: only QUIC has a code for that.
	Farewells *endpoint.Farewells
}

// barredError is why a partner is not let in.
type barredError struct {
	cause causes.Cause
	why   string
}

func (e *barredError) Error() string { return e.why }

// ruling is a compiled policy with the keys and reasons for its decisions.
type ruling struct {
	*access.Policy
	keys   []string         // of the rules
	barred map[string]error // why partners are denied, by identity
	denied int              // denials in force

	asserts *access.Names // peers whose callers have the quotas of one identity each
}

func newRuling(a *config.Access, now time.Time) (*ruling, error) {
	policy, err := NewPolicy(a, now)
	if err != nil {
		return nil, err
	}
	names, err := access.NewNames(a.Asserting)
	if err != nil {
		return nil, err
	}
	r := &ruling{Policy: policy, asserts: names, keys: make([]string, len(a.Rules)), barred: make(map[string]error)}
	for i := range a.Rules {
		r.keys[i] = a.RuleKey(i)
	}
	denials := a.DeniedAt(now)
	for _, d := range denials {
		if d.Why != "" {
			r.barred[d.Identity[0]] = &barredError{d.Cause, d.Why}
		}
	}
	r.denied = len(denials)
	return r, nil
}

// New compiles the rules.
func New(o Options) (*Guard, error) {
	policy, err := newRuling(o.Access, time.Now())
	if err != nil {
		return nil, err
	}
	g := &Guard{
		running: o.Running, changed: o.Changed, record: func(string, string, string, string) {}, security: o.Security, tells: o.Farewells, denied: denials{log: o.Log.Named(boundlog.Denied)},
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_denials_total", Help: "What the access rules denied to peers that are let in.",
		}, []string{"profile"}),
	}
	g.policy.Store(policy)
	g.callers.Store(o.HTTP)
	return g, nil
}

// Section has the access rules.
func Section(prepare part.Prepare) part.Section {
	return part.Section{Name: "access rules", Stays: "the old ones stay in force", Keys: []string{"access"}, Prepare: prepare, State: standing}
}

// standing changes when a denial begins, and with the peers in Asserting.
func standing(c *config.Config) string {
	return strconv.Itoa(len(c.Access.DeniedAt(time.Now()))) + " " + strings.Join(c.Access.Asserting, " ")
}

// Prepare compiles the access rules of a configuration.
func (g *Guard) Prepare(c *config.Config) (part.Change, error) {
	policy, err := newRuling(&c.Access, time.Now())
	if err != nil {
		return part.Change{}, err
	}
	before := g.policy.Load()
	changed := len(config.Changed(g.running(), c)) > 0 || policy.denied != before.denied
	return part.Change{
		Fields: []zap.Field{zap.Int("rules", len(c.Access.Rules)), zap.Int("agents", len(c.Access.Agents)), zap.Int("denied", len(c.Access.Deny))},
		Commit: func() bool {
			g.policy.Store(policy)
			return changed
		},
		Then: func() {
			if changed { // what is under way may be denied now, and peers may see more or less
				g.changed(func(identity, server string) bool { return policy.Differs(before.Policy, identity, "mcp", server) })
			}
		},
	}, nil
}

// Offer implements part.Part.
func (g *Guard) Offer(o *all.Options) error {
	o.Access, o.Relay.MayUse = g, g.MayUse
	o.Relay.Denied = func(identity string) bool { return g.policy.Load().Denied(identity) }
	return nil
}

// Close implements part.Part.
func (g *Guard) Close() error {
	g.denied.close()
	return nil
}

// Collectors implements part.Part.
func (g *Guard) Collectors() []prometheus.Collector { return []prometheus.Collector{g.denials} }

// NewPolicy compiles the access rules of a configuration, with the denials that are in force
// at a time.
func NewPolicy(a *config.Access, now time.Time) (*access.Policy, error) {
	o := access.Options{Named: a.Named}
	for _, d := range a.DeniedAt(now) {
		o.Deny = append(o.Deny, access.Denial{Identity: d.Identity, For: d.For})
	}
	for _, r := range a.Rules {
		rule := access.Rule{Identity: r.Identity, For: r.For, Profile: r.Profile, Operation: r.Operation, Name: r.Name}
		if err := implySession(&rule); err != nil {
			return nil, err
		}
		o.Rules = append(o.Rules, rule)
	}
	for _, r := range a.Agents {
		o.Agents = append(o.Agents, access.Agents{Identity: r.Identity, AgentIDs: r.AgentIDs})
	}
	return access.New(o)
}

// SetCallers replaces the known HTTP callers. An unknown one may do nothing, even if a rule
// names it.
func (g *Guard) SetCallers(conf *config.HTTP) { g.callers.Store(conf) }

// Expel ends what peers have under way that are partners no more: hold is called while they
// may do nothing. Afterwards the rules and the trust anchors decide about them, as about every
// peer.
func (g *Guard) Expel(identities []string, hold func()) {
	expelled := make(map[string]bool, len(identities))
	for _, identity := range identities {
		expelled[identity] = true
	}
	g.expelled.Store(&expelled)
	hold()
	g.expelled.Store(nil)
}

// expels reports whether Expel concerns an identity now.
func (g *Guard) expels(identity string) bool {
	expelled := g.expelled.Load()
	return expelled != nil && (*expelled)[profiles.Link(identity)]
}

// gone reports whether an identity belongs to an unknown HTTP caller, or is expelled.
func (g *Guard) gone(identity string) bool {
	if g.expels(identity) {
		return true
	}
	conf, link := g.callers.Load(), profiles.Link(identity)
	if conf == nil || !IsCaller(link) {
		return false
	}
	name := strings.TrimPrefix(link, gate.Prefix)
	_, there := conf.Callers[name]
	there = there || name == conf.Anonymous
	return !there
}

// MayAssert implements profiles.Asserter.
func (g *Guard) MayAssert(peer string) bool { return g.policy.Load().asserts.Match(peer) }

// Allowed implements profiles.Access. Each denial is a line of the audit trail. For events
// that a subscription does not get, there is one line a minute for each identity and
// event_type, because the peer asked only once.
func (g *Guard) Allowed(identity, profile, operation, name string) bool {
	if g.Would(identity, profile, operation, name) {
		return true
	}
	if operation == "subscribe" && !g.held.news(identity, name) {
		return false
	}
	g.deny(identity, profile, operation, name, "")
	return false
}

// Audit implements profiles.Auditor.
func (g *Guard) Audit(identity, profile, operation, name, why string) {
	g.deny(identity, profile, operation, name, why)
}

// MayUse reports whether an identity may use an agent_id as its own.
func (g *Guard) MayUse(identity, agentID string) bool {
	if g.policy.Load().MayUse(identity, agentID) && !g.gone(identity) {
		return true
	}
	g.deny(identity, "a2a", "agent_id", agentID, "")
	return false
}

// RuleOf returns the configuration key of the deciding entry: a rule that allows the
// request, or access.deny; empty if no rule allows it.
func (g *Guard) RuleOf(identity, profile, operation, name string) string {
	policy := g.policy.Load()
	if i := policy.Rule(identity, profile, operation, name); i >= 0 {
		return policy.keys[i]
	}
	if policy.Denied(identity) {
		return "access.deny"
	}
	return ""
}

// Ruled reports whether a rule allows an identity anything.
func (g *Guard) Ruled(identity string) bool { return g.policy.Load().HasAny(identity) }

// Reaches implements profiles.Reacher.
func (g *Guard) Reaches(identity, profile, name string) bool {
	return g.policy.Load().Reaches(identity, profile, name) && !g.gone(identity)
}

// Serves reports whether a rule of a profile allows the identity anything. Like Lets it is for
// requests before their exchange.
func (g *Guard) Serves(identity, profile string) bool {
	return g.policy.Load().Has(identity, profile) || g.turn(identity, profile, "")
}

// Lets is Allowed for a request before its exchange: a denial gets a separate record in the
// audit trail.
func (g *Guard) Lets(identity, profile, operation string) bool {
	return g.Would(identity, profile, operation, "") || g.turn(identity, profile, operation)
}

// turn denies a request before its exchange. It returns false.
func (g *Guard) turn(identity, profile, operation string) bool {
	g.deny(identity, profile, operation, "", "")
	g.record(identity, profile, operation, "")
	return false
}

// SetRecord sets the function that records the denial of a request before its exchange. It is
// called once, before the first request.
func (g *Guard) SetRecord(record func(identity, profile, operation, name string)) { g.record = record }

// Would implements profiles.Forecaster.
func (g *Guard) Would(identity, profile, operation, name string) bool {
	return g.policy.Load().Allowed(identity, profile, operation, name) && !g.gone(identity)
}

// WouldSome implements profiles.Surveyor.
func (g *Guard) WouldSome(identity, profile, operation, beginning string) bool {
	return g.policy.Load().AllowedSome(identity, profile, operation, beginning) && !g.gone(identity)
}

// deny counts a denial and logs it. The peer chose operation and name: the log cuts and
// escapes them, and no metric has them as a label. why is the reason if the rules are not.
func (g *Guard) deny(identity, profile, operation, name, why string) {
	g.denials.WithLabelValues(profile).Inc()
	g.denied.add(denial{identity, profile, operation, name, why})
}

// heldBack records which events were recently withheld, and from which identities. The zero
// value is ready.
type heldBack struct {
	mu   sync.Mutex
	last map[[2]string]time.Time // by identity and event_type
}

const (
	heldBackFor = time.Minute
	maxHeldBack = 4096 // maximum number of entries; then all are forgotten
)

// news reports whether to log this, and records it as logged.
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
