package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/agdisc"
)

// PlanTeam is a team of a Plan.
type PlanTeam struct {
	Name    string   `json:"name"`
	Default string   `json:"default"` // id of a member
	Members []string `json:"members"` // id=agent
	Allowed []string `json:"allowed"` // patterns of the identities with any right there
	Denied  []string `json:"denied"`  // agents of members to which the team may not send
}

func (p *Plan) teams(c *config.Config) error {
	policy, err := guard.NewPolicy(&c.Access, time.Now())
	if err != nil {
		return err
	}
	send := "a2a/" + a2abinding.Version + "/" + a2abinding.SendMessage
	for _, name := range slices.Sorted(maps.Keys(c.Teams)) {
		conf := c.Teams[name]
		if conf.Card != "" {
			octets, err := part.ReadUpTo(conf.Card, agdisc.MaxCard)
			if err != nil {
				return fmt.Errorf("teams.%s.card: %w", name, err)
			}
			p.card("teams."+name+".card", octets)
		}
		one := PlanTeam{Name: name, Default: conf.Default, Members: []string{}, Denied: []string{}}
		for _, id := range slices.Sorted(maps.Keys(conf.Members)) {
			agent := conf.Members[id].Name(id)
			one.Members = append(one.Members, id+"="+agent)
			_, inside := c.Teams[agent]
			_, hosted := c.A2A.Agents[agent]
			task := send
			if hosted || strings.Contains(agent, "/") {
				task = agent + "/" + send
			}
			if !inside && !policy.Allowed(guard.TeamPrefix+name, "a2a", "task", task) {
				one.Denied = append(one.Denied, agent)
				p.Warnings = append(p.Warnings, fmt.Sprintf("teams.%s: access.rules do not let %s send %s to %s", name, guard.TeamPrefix+name, task, agent))
			}
		}
		one.Allowed = whoMay(&c.Access, func(may *access.Policy) bool {
			return slices.ContainsFunc(a2abinding.Kinds(), func(kind string) bool { return may.Allowed(anyone, "a2a", "task", name+"/"+kind) })
		})
		p.Teams = append(p.Teams, one)
	}
	return nil
}
