package daemon

import (
	"fmt"
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
// operations of its own.
type agents struct {
	passive
	list     []*a2ahttp.Back
	workers  []a2a.Registration
	cards    []agdisc.Source
	log      *zap.Logger
	failures *prometheus.CounterVec
	troubles troubles
}

func newAgents(c *config.Config, records a2aowners.Records, may profiles.Access, log *zap.Logger) (*agents, error) {
	a := &agents{
		log: log.Named(boundlog.Backend),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_a2a_agent_failures_total", Help: "Requests that an agent at a URL did not properly answer.",
		}, []string{"agent"}),
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Agents)) {
		conf := c.A2A.Agents[name]
		failed := a.failures.WithLabelValues(name)
		back, err := a2ahttp.NewBack(a2ahttp.BackOptions{
			Name: name, URL: conf.URL, Binding: a2ahttp.Binding(conf.Binding), CardURL: conf.Card, Header: conf.Header(),
			Records: records, Access: may, Calls: conf.Calls, Streams: conf.Streams,
			Silence: conf.Timeout, Deadline: conf.Deadline, Retention: conf.Retention,
			Trouble: func(operation string, err error) {
				failed.Inc()
				a.log.Warn("request to an agent failed", zap.String("agent", name), zap.String("operation", operation), zap.Error(err))
				a.troubles.note(name, err.Error())
			},
		})
		if err != nil {
			_ = a.close()
			return nil, fmt.Errorf("a2a.agents.%s: %w", name, err)
		}
		a.list = append(a.list, back)
		slip, err := newSlip(name, &conf.Slip, a.log)
		if err != nil {
			_ = a.close()
			return nil, fmt.Errorf("a2a.agents.%s: %w", name, err)
		}
		a.workers = append(a.workers, slip.registrations(back.Registrations())...)
		a.cards = append(a.cards, slip.source(back))
	}
	return a, nil
}

// registrations are the Workers of all agents.
func (a *agents) registrations() []a2a.Registration { return a.workers }

// sources have the cards of the agents.
func (a *agents) sources() []agdisc.Source { return a.cards }

// collectors implements part.
func (a *agents) collectors() []prometheus.Collector { return []prometheus.Collector{a.failures} }

// look implements part.
func (a *agents) look(h *Health) {
	h.Warnings = append(h.Warnings, a.troubles.warnings("a2a agent")...)
}

// close implements part: it gives back the connections that no task is using.
func (a *agents) close() error {
	for _, back := range a.list {
		back.Close()
	}
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
