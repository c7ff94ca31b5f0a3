package daemon

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ahttp"
	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
)

// agents are the agents of A2A 1.0 at URLs. Each has connections and a bound on
// operations of its own. It implements agdisc.Source.
type agents struct {
	passive
	roster   roster[config.A2AAgent, *remote]
	records  a2aowners.Records
	may      profiles.Access
	log      *zap.Logger
	failures *prometheus.CounterVec
	troubles troubles
}

// remote is an agent of the configuration.
type remote struct {
	back *a2ahttp.Back
	slip *slip // nil: SLIP is the agent's own affair
	card agdisc.Source
}

func (r *remote) registrations() []a2a.Registration {
	return r.slip.registrations(r.back.Registrations())
}

func (r *remote) close() { r.back.Close() }

func newAgents(c *config.Config, records a2aowners.Records, may profiles.Access, log *zap.Logger) (*agents, error) {
	a := &agents{
		records: records, may: may, log: log.Named(boundlog.Backend),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_a2a_agent_failures_total", Help: "Requests that an agent at a URL did not properly answer.",
		}, []string{"agent"}),
	}
	a.roster = roster[config.A2AAgent, *remote]{
		key: "a2a.agents", build: a.build,
		bare: func(c config.A2AAgent) config.A2AAgent {
			c.Hints = config.Hints{}
			return c
		},
		left: func(name string) { a.failures.DeleteLabelValues(name) },
	}
	next, err := a.roster.prepare(c.A2A.Agents)
	if err != nil {
		return nil, err
	}
	a.put(next)
	return a, nil
}

func (a *agents) build(name string, conf *config.A2AAgent) (*remote, error) {
	slip, err := newSlip(name, &conf.Slip, a.log)
	if err != nil {
		return nil, err
	}
	back, err := a2ahttp.NewBack(a2ahttp.BackOptions{
		Name: name, URL: conf.URL, Binding: a2ahttp.Binding(conf.Binding), CardURL: conf.Card, Header: conf.Header(),
		Records: a.records, Access: a.may, Calls: conf.Calls, Streams: conf.Streams,
		Silence: conf.Timeout, Deadline: conf.Deadline, Retention: conf.Retention,
		Trouble: func(operation string, err error) {
			a.failures.WithLabelValues(name).Inc()
			a.log.Warn("request to an agent failed", zap.String("agent", name), zap.String("operation", operation), zap.Error(err))
			a.troubles.note(name, err.Error())
		},
	})
	if err != nil {
		return nil, err
	}
	return &remote{back: back, slip: slip, card: slip.source(back)}, nil
}

// put has tasks that come from now on go to other agents, once their Workers are hired.
func (a *agents) put(next map[string]*enlisted[config.A2AAgent, *remote]) (gone, come []a2a.Registration) {
	for name := range next {
		a.failures.WithLabelValues(name)
	}
	a.troubles.only(slices.Collect(maps.Keys(next)))
	return a.roster.put(next)
}

// prepareAgents makes the agents of a configuration ready.
func (d *daemon) prepareAgents(c *config.Config) (change, error) {
	next, err := d.agents.roster.prepare(c.A2A.Agents)
	if err != nil {
		return change{}, err
	}
	return change{
		fields: []zap.Field{zap.String("a2a_agents", named(next))},
		commit: func() bool {
			d.targets.agents.Store(new(agentTargets(c)))
			d.hiring.add(d.agents.put(next))
			return false
		},
		then:    d.hire,
		abandon: func() { d.agents.roster.abandon(next) },
	}, nil
}

// Agents implements agdisc.Source.
func (a *agents) Agents() (list []agdisc.Entry) {
	for _, one := range a.roster.inForce() {
		list = append(list, one.is.card.Agents()...)
	}
	return list
}

// Card implements agdisc.Source.
func (a *agents) Card(agentID string, found func(agdisc.Card, error)) bool {
	one := a.roster.named(agentID)
	return one != nil && one.is.card.Card(agentID, found)
}

// collectors implements part.
func (a *agents) collectors() []prometheus.Collector { return []prometheus.Collector{a.failures} }

// look implements part.
func (a *agents) look(h *Health) {
	h.Warnings = append(h.Warnings, a.troubles.warnings("a2a agent")...)
}

// close implements part: it gives back the connections that no task is using.
func (a *agents) close() error {
	a.roster.close()
	return nil
}

// PlanAgent is an agent of a Plan. Values of headers may be secret and are not in
// it.
type PlanAgent struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Binding string   `json:"binding"` // empty: as its card says
	Headers []string `json:"headers"` // names
	Allowed []string `json:"allowed"` // patterns of the identities that may do something there
}

func (p *Plan) agents(c *config.Config) {
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Agents)) {
		conf := c.A2A.Agents[name]
		p.Agents = append(p.Agents, PlanAgent{
			Name: name, URL: conf.URL, Binding: conf.Binding, Headers: slices.Sorted(maps.Keys(conf.Headers)),
			Allowed: whoMay(&c.Access, func(may *access.Policy) bool {
				return slices.ContainsFunc(a2abinding.Kinds(), func(kind string) bool {
					return may.Allowed(anyone, "a2a", "task", name+"/"+kind)
				})
			}),
		})
	}
}
