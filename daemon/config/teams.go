package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/agents/team"
)

// Teams are teams by the names of their agents.
type Teams map[string]Team

// Team is a group of agents that callers see as one agent; see package team.
type Team struct {
	Title       string                `yaml:"title"`                             // empty: its name
	Description string                `yaml:"description"`                       // for the choice of an agent
	Card        string                `yaml:"card"`                              // file; empty: made from the cards of the members
	Default     string                `yaml:"default"`                           // member that gets the messages of callers
	Members     map[string]TeamMember `yaml:"members"`                           // by id
	MaxHops     int                   `yaml:"max_hops"`                          // deliveries for one message
	BasicReply  string                `yaml:"basic_reply" choice:"default,user"` // destination of answers of agents without the extension
	Context     Size                  `yaml:"context"`                           // of the description of the other members for a member
	Held        Size                  `yaml:"held"`                              // of a buffered answer
	Tasks       int                   `yaml:"tasks"`                             // operations at once
	Deadline    time.Duration         `yaml:"deadline"`                          // of operations without one; 0 = a2a.deadline
	Refresh     time.Duration         `yaml:"refresh"`                           // after which a member's card is requested again
	Retention   time.Duration         `yaml:"retention"`                         // of the member of a task, after its last use
	Hints       Hints                 `yaml:"hints"`
}

// TeamMember is an agent of a team.
type TeamMember struct {
	Agent        string   `yaml:"agent"`                       // agent, or partner/agent; empty: as the id
	Title        string   `yaml:"title"`                       // this and the next two override the card
	Description  string   `yaml:"description"`                 //
	Capabilities []string `yaml:"capabilities"`                //
	Routes       *bool    `yaml:"routes"`                      // it supports client routing; not set: according to its card
	Form         string   `yaml:"form" choice:"string,object"` // of senders
	Sends        []string `yaml:"sends"`                       // members that it may name as recipients; not set: all
}

// defaultTeam has the defaults of an entry.
var defaultTeam = Team{
	MaxHops: 10, BasicReply: string(team.ToDefault), Context: 64 << 10, Held: 4 << 20, Tasks: 64,
	Refresh: time.Minute, Retention: 30 * 24 * time.Hour,
}

// defaultMember has the defaults of a member.
var defaultMember = TeamMember{Form: string(team.FormString)}

func (c *Config) resolveTeams(dir string) {
	for _, name := range slices.Sorted(maps.Keys(c.Teams)) {
		if t := c.Teams[name]; t.Card != "" && !filepath.IsAbs(t.Card) {
			t.Card = filepath.Join(dir, t.Card)
			c.Teams[name] = t
		}
	}
}

// maxTeamHops bounds how often one message is delivered.
const maxTeamHops = 1000

func (c *Config) checkTeams(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Teams)) {
		t, key := c.Teams[name], "teams."+name
		checkName(p, key, name, "; '/' separates a partner from its agent")
		if _, taken := c.AGDISC.Cards[name]; taken && t.Card != "" {
			p.add(key+".card", "is set while agdisc.cards.%s holds the card of this agent; remove one", name)
		}
		if len(t.Members) == 0 || len(t.Members) > team.MaxMembers {
			p.add(key+".members", "are %d, want 1 to %d", len(t.Members), team.MaxMembers)
		}
		if t.Default == "" {
			p.add(key+".default", "missing; name the member that gets the messages of callers")
		} else if _, ok := t.Members[t.Default]; !ok {
			p.add(key+".default", "%.80q is no member of the team", t.Default)
		}
		for _, row := range []struct {
			key                string
			value, least, most int64
		}{
			{"max_hops", int64(t.MaxHops), 1, maxTeamHops},
			{"context", int64(t.Context), 1 << 10, 1 << 20},
			{"held", int64(t.Held), 1 << 10, 64 << 20},
			{"tasks", int64(t.Tasks), 1, MaxTasks},
		} {
			if row.value < row.least || row.value > row.most {
				p.add(key+"."+row.key, "is %d, want %d to %d", row.value, row.least, row.most)
			}
		}
		if t.Refresh <= 0 || t.Retention <= 0 {
			p.add(key, "refresh and retention are durations above 0, such as 1m")
		}
		if t.Deadline <= 0 && p.isSet(key+".deadline") {
			p.add(key+".deadline", "is 0, want a duration above 0, such as 5m; without it a2a.deadline holds")
		}
		readable(p, key+".card", t.Card)
		for _, id := range slices.Sorted(maps.Keys(t.Members)) {
			c.checkMember(p, key+".members."+id, id, t.Members[id])
			for i, to := range t.Members[id].Sends {
				if _, known := t.Members[to]; !known || to == id {
					p.add(fmt.Sprintf("%s.members.%s.sends[%d]", key, id, i), "%.80q is no other member of the team", to)
				}
			}
		}
		if path := c.circle([]string{name}, make(map[string]bool)); path != nil {
			p.add(key, "contains itself: %s", strings.Join(path, " > "))
		}
	}
}

func (c *Config) checkMember(p *problems, key, id string, m TeamMember) {
	if !serverName.MatchString(id) || id == team.User || id == team.Sender {
		p.add(key, "%.80q is not an id: 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit, and neither %s nor %s", id, team.User, team.Sender)
	}
	partner, agent, behind := strings.Cut(m.Agent, "/")
	if _, known := c.Partners[partner]; behind && (!known || agent == "") {
		p.add(key+".agent", "%.200q is no agent of a partner: %.80q is not in partners, or no agent is named", m.Agent, partner)
	}
}

// circle returns the path by which a team is a member of itself, or nil. path leads to
// the team at its end, and been are the teams already checked.
func (c *Config) circle(path []string, been map[string]bool) []string {
	t := c.Teams[path[len(path)-1]]
	for _, id := range slices.Sorted(maps.Keys(t.Members)) {
		name := t.Members[id].Name(id)
		further := append(slices.Clip(path), name)
		if name == path[0] {
			return further
		}
		if been[name] {
			continue
		}
		been[name] = true
		if found := c.circle(further, been); found != nil {
			return found
		}
	}
	return nil
}

// Name is the agent of the member with an id.
func (m TeamMember) Name(id string) string { return cmp.Or(m.Agent, id) }
