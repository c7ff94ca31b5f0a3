package check

import (
	"maps"
	"slices"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// PlanAgent is an agent of a Plan. It does not contain header values: they may be secret.
type PlanAgent struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Binding string   `json:"binding"` // empty: as its card says
	Headers []string `json:"headers"` // names
	Allowed []string `json:"allowed"` // patterns of the identities with any right there
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
