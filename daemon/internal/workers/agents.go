package workers

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/daemon/internal/slip"
	"github.com/slimwire/swp/internal/bridge/a2ahttp"
	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/slip/ucr"
)

// Agents are the A2A 1.0 agents at URLs. Each has a connection pool and a limit of
// concurrent operations. It implements agdisc.Source.
type Agents struct {
	part.Passive
	hires    *served.Profiles
	declare  func(*config.Config)
	roster   roster[config.A2AAgent, *remote]
	records  a2aowners.Records
	memory   *memory.Budget
	may      profiles.Access
	cards    agdisc.Source
	anchors  func() *ucr.Table
	log      *zap.Logger
	failures *prometheus.CounterVec
	health   *health.Records
}

// remote is an agent of the configuration.
type remote struct {
	back *a2ahttp.Back
	slip *slip.A2A // nil: this endpoint leaves SLIP to the agent
	card agdisc.Source
}

func (r *remote) registrations() []a2a.Registration {
	return r.slip.Registrations(r.back.Registrations())
}

func (r *remote) close() { r.back.Close() }

// AgentOptions configure Agents.
type AgentOptions struct {
	Config  *config.Config
	Log     *zap.Logger
	Records a2aowners.Records // owners of tasks
	Access  profiles.Access
	Hires   *served.Profiles // registers Workers
	Memory  *memory.Budget   // for their answers
	Cards   agdisc.Source    // of the configuration, in place of those of agents
	Health  *health.Records  // has a record of each agent; nil: nobody has one

	// Declare puts the hints on agents from a configuration into force.
	Declare func(*config.Config)
}

// NewAgents makes the agents of a configuration. It does not connect.
func NewAgents(o AgentOptions) (*Agents, error) {
	a := &Agents{
		hires: o.Hires, declare: o.Declare, records: o.Records, memory: o.Memory, may: o.Access, cards: o.Cards, health: o.Health, log: o.Log.Named(boundlog.Backend),
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
	next, err := a.roster.prepare(o.Config.A2A.Agents)
	if err != nil {
		return nil, err
	}
	a.put(next)
	a.health.Probe(health.Agent, a.prober)
	return a, nil
}

// prober is a health.Prober: an agent is asked for its card.
func (a *Agents) prober(name string) func(context.Context, *health.Entry) {
	one := a.roster.named(name)
	if one == nil {
		return nil
	}
	return func(ctx context.Context, _ *health.Entry) { one.is.back.Probe(ctx) }
}

// SetAnchors has agents that speak SLIP use the anchors that the function returns for each
// message. It is called before the first task; without it they use the core.
func (a *Agents) SetAnchors(anchors func() *ucr.Table) { a.anchors = anchors }

// SLIP returns the extension of an agent that speaks SLIP, nil for another.
func (a *Agents) SLIP(agentID string) *slip.A2A {
	if one := a.roster.named(agentID); one != nil {
		return one.is.slip
	}
	return nil
}

func (a *Agents) inForce() *ucr.Table {
	if a.anchors == nil {
		return nil
	}
	return a.anchors()
}

func (a *Agents) build(name string, conf *config.A2AAgent) (*remote, error) {
	extension, err := slip.NewA2A(name, &conf.Slip, a.inForce, a.log)
	if err != nil {
		return nil, err
	}
	back, err := a2ahttp.NewBack(a2ahttp.BackOptions{
		Name: name, URL: conf.URL, Binding: a2ahttp.Binding(conf.Binding), CardURL: conf.Card, Header: conf.Header(),
		Records: a.records, Memory: a.memory, Access: a.may, Told: a.cards, Calls: conf.Calls, Streams: conf.Streams,
		Silence: conf.Timeout, Deadline: conf.Deadline, Retention: conf.Retention,
		Trouble: func(operation string, err error) {
			a.failures.WithLabelValues(name).Inc()
			a.log.Warn("request to an agent failed", zap.String("agent", name), zap.String("operation", operation), zap.Error(err))
			if !errors.Is(err, upstream.ErrBusy) { // else the agent has not failed
				a.health.Of(health.Agent, name).Failed(health.AgentRequest, err, nil)
			}
		},
		Answered: func() { a.health.Of(health.Agent, name).Worked() },
	})
	if err != nil {
		return nil, err
	}
	return &remote{back: back, slip: extension, card: extension.Source(back)}, nil
}

// put sends new tasks to the agents of next as soon as their Workers are hired.
func (a *Agents) put(next map[string]*enlisted[config.A2AAgent, *remote]) (gone, come []a2a.Registration) {
	for name := range next {
		a.failures.WithLabelValues(name)
	}
	return record(a.health, health.Agent, &a.roster, next)
}

// AgentSection is the reloadable part of the configuration.
func AgentSection(prepare part.Prepare) part.Section {
	return part.Section{Name: "a2a agents", Stays: "the old ones stay", Keys: []string{"a2a.agents"}, Prepare: prepare}
}

// Prepare reads the agents.
func (a *Agents) Prepare(c *config.Config) (part.Change, error) {
	next, err := a.roster.prepare(c.A2A.Agents)
	if err != nil {
		return part.Change{}, err
	}
	return part.Change{
		Fields: []zap.Field{zap.String("a2a_agents", part.Names(next))},
		Commit: func() bool {
			a.declare(c)
			a.hires.Replace(a.put(next))
			return false
		},
		Then:    a.hires.Hire,
		Abandon: func() { a.roster.abandon(next) },
	}, nil
}

// Offer implements part.Part.
func (a *Agents) Offer(o *all.Options) error {
	o.A2A.Workers = append(o.A2A.Workers, a.roster.registrations()...)
	o.AGDISC.Sources = append(o.AGDISC.Sources, a)
	return nil
}

// Agents implements agdisc.Source.
func (a *Agents) Agents() (list []agdisc.Entry) {
	for _, one := range a.roster.inForce() {
		list = append(list, one.is.card.Agents()...)
	}
	return list
}

// Card implements agdisc.Source.
func (a *Agents) Card(agentID string, found func(agdisc.Card, error)) bool {
	one := a.roster.named(agentID)
	return one != nil && one.is.card.Card(agentID, found)
}

// Collectors implements part.Part.
func (a *Agents) Collectors() []prometheus.Collector { return []prometheus.Collector{a.failures} }

// Close implements part.Part: it closes idle connections.
func (a *Agents) Close() error {
	a.roster.close()
	return nil
}
