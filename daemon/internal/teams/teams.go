// Package teams runs the team agents of this endpoint. A team agent passes its tasks to the
// members of the team.
package teams

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

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport/endpoint"
)

// Teams are the team agents of this endpoint. Each has the identity team:NAME and uses a
// session over a pipe to this endpoint, so that access rules, limits and the audit trail
// apply as to any peer. Reloads are serial; all other methods are safe for concurrent use.
// It implements agdisc.Source.
type Teams struct {
	part.Passive
	o    Options
	log  *zap.Logger
	now  atomic.Pointer[table]
	hops *prometheus.CounterVec

	way   *part.Door
	cards *agdisc.Cache // of members

	mu    sync.Mutex
	links map[string]*endpoint.Session // by team
	here  map[string]int               // tables in use by unfinished tasks, by team
	work  sync.WaitGroup
}

// table is the result of one reading of the configuration.
type table struct {
	conf  config.Teams
	files map[string][]byte // cards, by team
	names []string          // sorted
	list  map[string]*team.Team
	told  map[string]*toldCard // by team
	tasks []a2a.Registration
}

// Outcomes of a delivery to a member, as values of a label.
const (
	hopReturned = "returned" // the answer goes to the caller
	hopRouted   = "routed"   // the task went to another member
	hopFailed   = "failed"
)

// Options configure Teams.
type Options struct {
	Config  *config.Config
	Log     *zap.Logger
	Records a2aowners.Records // which member has a task
	Door    part.DoorOptions
	Served  *served.Profiles

	// Declare puts the hints on teams from a configuration into force.
	Declare func(*config.Config)
}

// New makes the teams of a configuration. It sends nothing to members.
func New(o Options) (*Teams, error) {
	t := &Teams{
		o: o, log: o.Log.Named(boundlog.Backend), links: make(map[string]*endpoint.Session), here: make(map[string]int),
		cards: agdisc.NewCache(agdisc.CacheOptions{}),
		hops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_team_hops_total", Help: "Deliveries to the members of a team, by what became of the answer.",
		}, []string{"team", "outcome"}),
	}
	t.now.Store(new(table))
	next, err := t.read(o.Config)
	if err != nil {
		return nil, err
	}
	t.put(next)
	t.way, err = part.NewDoor(o.Door, all.Options{A2A: a2a.Options{Carrier: o.Served}})
	return t, err
}

// read makes the teams of a configuration. It sends nothing to members.
func (t *Teams) read(c *config.Config) (*table, error) {
	next := &table{
		conf: bare(c.Teams), files: make(map[string][]byte), names: slices.Sorted(maps.Keys(c.Teams)), told: make(map[string]*toldCard),
	}
	var options []team.Options
	for _, name := range next.names {
		o, err := t.options(name, c.Teams[name])
		if err != nil {
			return nil, fmt.Errorf("teams.%s: %w", name, err)
		}
		options = append(options, o)
		next.files[name], next.told[name] = o.Card, new(toldCard)
	}
	var err error
	if next.list, err = team.New(options...); err != nil {
		return nil, err
	}
	for _, name := range next.names {
		r := next.list[name].Registration()
		r.Left = func() { t.left(name) }
		next.tasks = append(next.tasks, r)
	}
	return next, nil
}

// bare returns the teams without their hints, a change of which replaces none.
func bare(teams config.Teams) config.Teams {
	teams = maps.Clone(teams)
	for name, team := range teams {
		team.Hints = config.Hints{}
		teams[name] = team
	}
	return teams
}

// put sends new tasks to the teams of next as soon as their Workers are hired.
func (t *Teams) put(next *table) (gone, come []a2a.Registration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range next.names {
		t.here[name]++
		for _, outcome := range []string{hopReturned, hopRouted, hopFailed} {
			t.hops.WithLabelValues(name, outcome)
		}
	}
	return t.now.Swap(next).tasks, next.tasks
}

// left records that a table has no unfinished tasks for a team. After the last such table
// the team is removed.
func (t *Teams) left(name string) {
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

// Section is the reloadable part of the configuration.
func Section(prepare part.Prepare) part.Section {
	return part.Section{Name: "teams", Stays: "the old ones stay", Keys: []string{"teams"}, Files: files, Prepare: prepare}
}

// Prepare reads the teams. Teams can be members of each other, so a change of one replaces
// all.
func (t *Teams) Prepare(c *config.Config) (part.Change, error) {
	table, err := t.read(c)
	if err != nil {
		return part.Change{}, err
	}
	return part.Change{
		Fields: []zap.Field{zap.String("teams", strings.Join(table.names, " "))},
		Commit: func() bool {
			t.o.Declare(c)
			if old := t.now.Load(); !reflect.DeepEqual(old.conf, table.conf) || !reflect.DeepEqual(old.files, table.files) {
				t.o.Served.Replace(t.put(table))
			}
			return false
		},
		Then: t.o.Served.Hire,
	}, nil
}

// files lists the files that the section watches.
func files(c *config.Config) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Teams)) {
		if file := c.Teams[name].Card; file != "" {
			list = append(list, file)
		}
	}
	return list
}

func (t *Teams) options(name string, c config.Team) (team.Options, error) {
	o := team.Options{
		Name: name, Title: c.Title, Text: c.Description, Members: make(map[string]team.Member, len(c.Members)), Default: c.Default,
		MaxHops: c.MaxHops, BasicReply: team.BasicReply(c.BasicReply), Context: int(c.Context), Held: int(c.Held),
		Tasks: c.Tasks, Deadline: c.Deadline, Refresh: c.Refresh, Retention: c.Retention,
		Agents: &teamLink{t, name}, Records: t.o.Records, Observe: t.observe,
	}
	for id, m := range c.Members {
		o.Members[id] = team.Member{
			Agent: m.Name(id), Name: m.Title, Text: m.Description, Capabilities: m.Capabilities, Routes: m.Routes, Form: team.Form(m.Form), Sends: m.Sends,
		}
	}
	if c.Card != "" {
		var err error
		if o.Card, err = part.ReadUpTo(c.Card, agdisc.MaxCard); err != nil {
			return o, fmt.Errorf("card: %w", err)
		}
	}
	return o, nil
}

// observe logs and counts deliveries to members.
func (t *Teams) observe(h team.Hop) {
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

// Offer implements part.Part.
func (t *Teams) Offer(o *all.Options) error {
	o.A2A.Workers = append(o.A2A.Workers, t.now.Load().tasks...)
	o.AGDISC.Sources = append(o.AGDISC.Sources, t)
	return nil
}

// Collectors implements part.Part.
func (t *Teams) Collectors() []prometheus.Collector { return []prometheus.Collector{t.hops} }

// teamExchanges is the limit of concurrent exchanges of one team. An operation makes one
// delivery at a time and reads each card once. A changed team exists twice until its old
// tasks have ended.
const teamExchanges = 4 * (config.MaxTasks + team.MaxMembers)

// Open implements part.Part.
func (t *Teams) Open() error { return t.way.Open(teamExchanges) }

// Door implements part.Part.
func (t *Teams) Door() *part.Door { return t.way }

// session returns the open session of a team, or opens one.
func (t *Teams) session(name string) (*endpoint.Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	identity := guard.TeamPrefix + name
	if s := t.links[name]; s != nil && t.way.Serves(identity, s) {
		return s, nil
	}
	s, err := t.way.Pass(identity)
	if err == nil {
		t.links[name] = s
	}
	return s, err
}

// Recheck implements part.Part.
func (t *Teams) Recheck() (kept, closed int) { return t.way.Recheck() }

// Close implements part.Part.
func (t *Teams) Close() error {
	t.way.End()
	t.cards.Close()
	t.work.Wait()
	t.way.Close()
	return nil
}

// teamLink connects a team to its members. It implements team.Agents.
type teamLink struct {
	t    *Teams
	name string
}

// Send implements team.Agents.
func (l *teamLink) Send(ctx context.Context, agent string, task *a2a.Task, hops uint64) (team.Delivery, error) {
	s, err := l.t.session(l.name)
	if err != nil {
		return nil, err
	}
	d, err := l.t.way.Profiles().A2A.Send(ctx, s, task, a2a.SendOptions{Agent: agent, Hops: hops})
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
	for _, a := range l.t.o.Served.Set().A2A.Agents() {
		if a.ID == agent && a.Online {
			return team.Description{Capabilities: a.Capabilities}, nil
		}
	}
	return team.Description{}, err
}

// toldCard is the last card of a team.
type toldCard struct {
	mu      sync.Mutex
	card    agdisc.Card
	until   time.Time
	asking  bool
	waiting []func(agdisc.Card, error)
}

// Limits of making the card of a team.
const (
	maxCardWaiting = 1024
	teamCardFor    = 5 * time.Second
)

var errCardBusy = fmt.Errorf("more than %d ask for the card of a team", maxCardWaiting)

// Agents implements agdisc.Source.
func (t *Teams) Agents() []agdisc.Entry {
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

// Card implements agdisc.Source. The card of a team is made on demand, and again after the
// maximum age of the cards of members.
func (t *Teams) Card(agentID string, found func(agdisc.Card, error)) bool {
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
			t.work.Go(func() { table.makeCard(agentID, k) })
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

// makeCard makes the card of a team and returns it to the waiting callers.
func (t *table) makeCard(name string, k *toldCard) {
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

var _ agdisc.Source = (*Teams)(nil)
