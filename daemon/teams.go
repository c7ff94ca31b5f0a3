package daemon

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport/endpoint"
)

// teams are agents of this endpoint that hand what they are told to others. Each has a
// session of its own to this endpoint, over a pipe, so that rules, limits and the
// audit trail see it as they see every peer; it is the identity team:NAME. Reloads come
// one at a time; everything else may be done meanwhile. It implements agdisc.Source.
type teams struct {
	passive
	d    *daemon
	log  *zap.Logger
	now  atomic.Pointer[teamTable]
	hops *prometheus.CounterVec

	way   *door
	cards *agdisc.Cache // of members

	mu    sync.Mutex
	links map[string]*endpoint.Session // by team
	here  map[string]int               // tables that something is left to do for, by team
	work  sync.WaitGroup
}

// teamTable is what one configuration says of them.
type teamTable struct {
	conf  config.Teams
	files map[string][]byte // cards, by team
	names []string          // sorted
	list  map[string]*team.Team
	told  map[string]*toldCard // by team
	tasks []a2a.Registration
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
		d: d, log: d.log.Named(boundlog.Backend), links: make(map[string]*endpoint.Session), here: make(map[string]int),
		cards: agdisc.NewCache(agdisc.CacheOptions{}),
		hops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_team_hops_total", Help: "Deliveries to the members of a team, by what became of the answer.",
		}, []string{"team", "outcome"}),
	}
	t.now.Store(new(teamTable))
	table, err := t.read(d.config)
	if err != nil {
		return nil, err
	}
	t.put(table)
	t.way, err = newDoor(d, all.Options{A2A: a2a.Options{Carrier: carrier{d}}})
	return t, err
}

// read makes the teams of a configuration. Members are not asked.
func (t *teams) read(c *config.Config) (*teamTable, error) {
	table := &teamTable{
		conf: c.Teams, files: make(map[string][]byte), names: slices.Sorted(maps.Keys(c.Teams)), told: make(map[string]*toldCard),
	}
	var options []team.Options
	for _, name := range table.names {
		o, err := t.options(name, c.Teams[name])
		if err != nil {
			return nil, fmt.Errorf("teams.%s: %w", name, err)
		}
		options = append(options, o)
		table.files[name], table.told[name] = o.Card, new(toldCard)
	}
	var err error
	if table.list, err = team.New(options...); err != nil {
		return nil, err
	}
	for _, name := range table.names {
		r := table.list[name].Registration()
		r.Left = func() { t.left(name) }
		table.tasks = append(table.tasks, r)
	}
	return table, nil
}

// put has tasks that come from now on go to other teams, once their Workers are hired.
func (t *teams) put(table *teamTable) (gone, come []a2a.Registration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range table.names {
		t.here[name]++
		for _, outcome := range []string{hopReturned, hopRouted, hopFailed} {
			t.hops.WithLabelValues(name, outcome)
		}
	}
	return t.now.Swap(table).tasks, table.tasks
}

// left takes note that a team, as one table has it, has nothing left to do. After the
// last of its tables nothing of the team stays.
func (t *teams) left(name string) {
	t.mu.Lock()
	t.here[name]--
	var link *endpoint.Session
	if t.here[name] == 0 {
		link = t.links[name]
		delete(t.here, name)
		delete(t.links, name)
		t.hops.DeletePartialMatch(prometheus.Labels{"team": name})
	}
	t.mu.Unlock()
	if link != nil {
		link.Close(profiles.OK)
	}
}

// prepareTeams makes the teams of a configuration ready. They are members of each other,
// so that all change if one does.
func (d *daemon) prepareTeams(c *config.Config) (change, error) {
	table, err := d.teams.read(c)
	if err != nil {
		return change{}, err
	}
	return change{
		fields: []zap.Field{zap.String("teams", strings.Join(table.names, " "))},
		commit: func() bool {
			if old := d.teams.now.Load(); !reflect.DeepEqual(old.conf, table.conf) || !reflect.DeepEqual(old.files, table.files) {
				d.hiring.add(d.teams.put(table))
			}
			return false
		},
		then: d.hire,
	}, nil
}

// teamFiles are those that section teams reads again.
func teamFiles(c *config.Config) (files []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Teams)) {
		if file := c.Teams[name].Card; file != "" {
			files = append(files, file)
		}
	}
	return files
}

func (t *teams) options(name string, c config.Team) (team.Options, error) {
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

// collectors implements part.
func (t *teams) collectors() []prometheus.Collector { return []prometheus.Collector{t.hops} }

// teamExchanges is how many exchanges of one team are under way at most. Each operation
// is one delivery at a time, and asks for each card once; of a team that has changed
// there are two for a while.
const teamExchanges = 4 * (config.MaxTasks + team.MaxMembers)

// open implements part.
func (t *teams) open() error { return t.way.open(teamExchanges) }

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
	t.cards.Close()
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
	table := t.now.Load()
	list := make([]agdisc.Entry, 0, len(table.names))
	for _, name := range table.names {
		k := table.told[name]
		k.mu.Lock()
		list = append(list, agdisc.Entry{AgentID: name, Revision: k.card.Revision})
		k.mu.Unlock()
	}
	return list
}

// Card implements agdisc.Source. The card is made when it is asked for, and again
// when it is as old as what is known of members may be.
func (t *teams) Card(agentID string, found func(agdisc.Card, error)) bool {
	table := t.now.Load()
	k := table.told[agentID]
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
			t.work.Go(func() { table.tell(agentID, k) })
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

// tell makes the card of a team and tells it to those who wait.
func (t *teamTable) tell(name string, k *toldCard) {
	ctx, cancel := context.WithTimeout(context.Background(), teamCardFor)
	defer cancel()
	octets, err := t.list[name].Card(ctx)
	card := agdisc.Card{
		AgentID: name, Revision: agdisc.RevisionOf(octets), ETag: agdisc.HashOf(octets), Payload: octets, MaxAge: t.conf[name].Refresh,
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
