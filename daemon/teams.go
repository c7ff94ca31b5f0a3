package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport/endpoint"
)

// teams are agents of this endpoint that hand what they are told to others. Each has a
// session of its own to this endpoint, over a pipe, so that rules, limits and the
// audit trail see it as they see every peer; it is the identity team:NAME.
type teams struct {
	passive
	d     *daemon
	log   *zap.Logger
	list  map[string]*team.Team
	names []string // sorted
	hops  *prometheus.CounterVec

	way   *door         // nil: there are no teams
	cards *agdisc.Cache // of members

	mu    sync.Mutex
	links map[string]*endpoint.Session // by team
	told  map[string]*toldCard         // by team
	work  sync.WaitGroup
}

// teamPrefix is what the identities of teams begin with.
const teamPrefix = "team:"

// isTeam reports whether an identity is one of a team, which no certificate may have.
func isTeam(identity string) bool { return strings.HasPrefix(identity, teamPrefix) }

// How a delivery to a member ended, as a label.
const (
	hopReturned = "returned" // the answer is the caller's
	hopRouted   = "routed"   // it went on to a member
	hopFailed   = "failed"
)

func newTeams(d *daemon) (*teams, error) {
	t := &teams{
		d: d, log: d.log.Named(boundlog.Backend), links: make(map[string]*endpoint.Session), told: make(map[string]*toldCard),
		names: slices.Sorted(maps.Keys(d.config.Teams)),
		hops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_team_hops_total", Help: "Deliveries to the members of a team, by what became of the answer.",
		}, []string{"team", "outcome"}),
	}
	var options []team.Options
	for _, name := range t.names {
		o, err := t.options(name)
		if err != nil {
			return nil, fmt.Errorf("teams.%s: %w", name, err)
		}
		options = append(options, o)
		t.told[name] = new(toldCard)
		for _, outcome := range []string{hopReturned, hopRouted, hopFailed} {
			t.hops.WithLabelValues(name, outcome)
		}
	}
	var err error
	if t.list, err = team.New(options...); err != nil || len(t.names) == 0 {
		return t, err
	}
	t.cards = agdisc.NewCache(agdisc.CacheOptions{})
	t.way, err = newDoor(d, all.Options{A2A: a2a.Options{Carrier: carrier{d}}})
	return t, err
}

func (t *teams) options(name string) (team.Options, error) {
	c := t.d.config.Teams[name]
	o := team.Options{
		Name: name, Title: c.Title, Text: c.Description, Members: make(map[string]team.Member, len(c.Members)), Default: c.Default,
		MaxHops: c.MaxHops, BasicReply: team.BasicReply(c.BasicReply), Context: int(c.Context), Held: int(c.Held),
		Tasks: c.Tasks, Deadline: c.Deadline, Refresh: c.Refresh, Retention: c.Retention,
		Agents: &teamLink{t, name}, Records: t.d.state, Observe: t.observe,
	}
	for id, m := range c.Members {
		o.Members[id] = team.Member{
			Agent: m.Name(id), Name: m.Title, Text: m.Description, Capabilities: m.Capabilities, Routes: m.Routes, Form: team.Form(m.Form),
		}
	}
	if c.Card != "" {
		var err error
		if o.Card, err = readUpTo(c.Card, agdisc.MaxCard); err != nil {
			return o, fmt.Errorf("card: %w", err)
		}
	}
	return o, nil
}

// observe logs and counts deliveries to members.
func (t *teams) observe(h team.Hop) {
	fields := []zap.Field{
		zap.String("team", h.Team), zap.Int("hop", h.N), zap.String("sender", h.Sender), zap.String("member", h.Member),
		zap.String("next", h.Next), zap.String("reason", h.Reason),
	}
	outcome := hopRouted
	switch {
	case h.Err != nil:
		outcome = hopFailed
		t.log.Warn("team failed", append(fields, zap.Error(h.Err))...)
	case h.Next == team.User:
		outcome = hopReturned
		fallthrough
	default:
		t.log.Debug("team", fields...)
	}
	t.hops.WithLabelValues(h.Team, outcome).Inc()
}

// registrations are the Workers of all teams.
func (t *teams) registrations() (list []a2a.Registration) {
	for _, name := range t.names {
		list = append(list, t.list[name].Registration())
	}
	return list
}

// collectors implements part.
func (t *teams) collectors() []prometheus.Collector { return []prometheus.Collector{t.hops} }

// open implements part. Each operation of a team is one delivery at a time, and asks for
// each card once.
func (t *teams) open() error {
	if t.way == nil {
		return nil
	}
	most := 0
	for _, c := range t.d.config.Teams {
		most = max(most, c.Tasks+team.MaxMembers)
	}
	return t.way.open(2 * most)
}

// door implements part.
func (t *teams) door() *door { return t.way }

// session returns the session of a team, and makes one if there is none that lives.
func (t *teams) session(name string) (*endpoint.Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.links[name]; s != nil && s.Context().Err() == nil {
		return s, nil
	}
	s, err := t.way.pass(teamPrefix + name)
	if err == nil {
		t.links[name] = s
	}
	return s, err
}

// recheck implements part.
func (t *teams) recheck() (kept, closed int) { return t.way.recheck(nil) }

// close implements part.
func (t *teams) close() error {
	t.way.end()
	if t.cards != nil {
		t.cards.Close()
	}
	t.work.Wait()
	t.way.close()
	return nil
}

// teamLink is how a team reaches agents. It implements team.Agents.
type teamLink struct {
	t    *teams
	name string
}

// Send implements team.Agents.
func (l *teamLink) Send(ctx context.Context, agent string, task *a2a.Task, hops uint64) (team.Delivery, error) {
	s, err := l.t.session(l.name)
	if err != nil {
		return nil, err
	}
	d, err := l.t.way.set.A2A.Send(ctx, s, task, a2a.SendOptions{Agent: agent, Hops: hops})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Describe implements team.Agents.
func (l *teamLink) Describe(ctx context.Context, agent string) (team.Description, error) {
	s, err := l.t.session(l.name)
	if err != nil {
		return team.Description{}, err
	}
	card, err := l.t.cards.Get(ctx, s, agent)
	if err == nil {
		return team.Description{Card: card.Payload}, nil
	}
	for _, a := range l.t.d.profiles.A2A.Agents() {
		if a.ID == agent && a.Online {
			return team.Description{Capabilities: a.Capabilities}, nil
		}
	}
	return team.Description{}, err
}

// toldCard is the card of a team as it was told last.
type toldCard struct {
	mu      sync.Mutex
	card    agdisc.Card
	until   time.Time
	asking  bool
	waiting []func(agdisc.Card, error)
}

// Bounds of asking for the card of a team.
const (
	maxCardWaiting = 1024
	teamCardFor    = 5 * time.Second
)

var errCardBusy = fmt.Errorf("daemon: more than %d ask for the card of a team", maxCardWaiting)

// Agents implements agdisc.Source.
func (t *teams) Agents() []agdisc.Entry {
	list := make([]agdisc.Entry, 0, len(t.names))
	for _, name := range t.names {
		k := t.told[name]
		k.mu.Lock()
		list = append(list, agdisc.Entry{AgentID: name, Revision: k.card.Revision})
		k.mu.Unlock()
	}
	return list
}

// Card implements agdisc.Source. The card is made when it is asked for, and again
// when it is as old as what is known of members may be.
func (t *teams) Card(agentID string, found func(agdisc.Card, error)) bool {
	k := t.told[agentID]
	if k == nil {
		return false
	}
	k.mu.Lock()
	card := k.card
	card.MaxAge = time.Until(k.until)
	full := len(k.waiting) >= maxCardWaiting
	if card.MaxAge <= 0 && !full {
		k.waiting = append(k.waiting, found)
		if !k.asking {
			k.asking = true
			t.work.Go(func() { t.make(agentID, k) })
		}
	}
	k.mu.Unlock()
	switch {
	case card.MaxAge > 0:
		found(card, nil)
	case full:
		found(agdisc.Card{}, errCardBusy)
	}
	return true
}

// make makes the card of a team and tells it to those who wait.
func (t *teams) make(name string, k *toldCard) {
	ctx, cancel := context.WithTimeout(context.Background(), teamCardFor)
	defer cancel()
	octets, err := t.list[name].Card(ctx)
	card := agdisc.Card{
		AgentID: name, Revision: agdisc.RevisionOf(octets), ETag: agdisc.HashOf(octets), Payload: octets, MaxAge: t.d.config.Teams[name].Refresh,
	}
	k.mu.Lock()
	if err == nil {
		k.card, k.until = card, time.Now().Add(card.MaxAge)
	}
	waiting := k.waiting
	k.waiting, k.asking = nil, false
	k.mu.Unlock()
	for _, found := range waiting {
		found(card, err)
	}
}

// PlanTeam is a team of a Plan.
type PlanTeam struct {
	Name    string   `json:"name"`
	Default string   `json:"default"` // id of a member
	Members []string `json:"members"` // id=agent
	Allowed []string `json:"allowed"` // patterns of the identities that may do something there
	Denied  []string `json:"denied"`  // agents of members that the team itself may send no message
}

func (p *Plan) teams(c *config.Config) error {
	policy, err := newPolicy(&c.Access)
	if err != nil {
		return err
	}
	send := "a2a/" + a2abinding.Version + "/" + a2abinding.SendMessage
	for _, name := range slices.Sorted(maps.Keys(c.Teams)) {
		conf := c.Teams[name]
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
			if !inside && !policy.Allowed(teamPrefix+name, "a2a", "task", task) {
				one.Denied = append(one.Denied, agent)
				p.Warnings = append(p.Warnings, fmt.Sprintf("teams.%s: access.rules do not let %s send %s to %s", name, teamPrefix+name, task, agent))
			}
		}
		one.Allowed = whoMay(&c.Access, func(may *access.Policy) bool {
			return slices.ContainsFunc(a2abinding.Kinds(), func(kind string) bool { return may.Allowed(anyone, "a2a", "task", name+"/"+kind) })
		})
		p.Teams = append(p.Teams, one)
	}
	return nil
}

var _ agdisc.Source = (*teams)(nil)
