package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	messages "github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// slipWords are what section slip says: who the agents of nSLIP are, and for whom of
// those who are away the relay keeps messages. They are listed all the while, so that
// partners pass messages for them on to here; patterns are not. It implements Relay of
// profile 1025 and agdisc.Source.
type slipWords struct {
	now   atomic.Pointer[slipTable]
	relay func() *relay.Service
}

// slipTable is one reading of the section.
type slipTable struct {
	messages.Options               // but for what does not change
	kept             *access.Names // nil: nobody
	names            []string      // of those who are kept for, and patterns
	ttl              time.Duration // of messages that are kept
}

// readSLIP reads what the configuration names.
func readSLIP(c *config.SLIP) (*slipTable, error) {
	t := &slipTable{names: c.Relay, ttl: c.TTL}
	t.Numbers, t.Forms = c.Numbers(), make(map[string]uint64)
	for agent, form := range c.Forms {
		t.Forms[agent] = messages.TypeNSLIP
		if form == config.FormBinary {
			t.Forms[agent] = messages.TypeBinary
		}
	}
	var err error
	if t.Anchors, err = slipAnchors(c.UCR); err != nil || len(c.Relay) == 0 {
		return t, err
	}
	if t.kept, err = access.NewNames(c.Relay); err != nil {
		return nil, fmt.Errorf("slip.relay: %w", err)
	}
	return t, nil
}

// newSLIPWords reads section slip for the first time.
func (d *daemon) newSLIPWords() (*slipWords, error) {
	table, err := readSLIP(&d.config.SLIP)
	w := &slipWords{relay: func() *relay.Service { return d.profiles.Relay }}
	w.now.Store(table)
	return w, err
}

// slipOptions configure profile 1025.
func (d *daemon) slipOptions() messages.Options {
	o := d.words.now.Load().Options
	o.MayUse, o.Partners, o.Relay = d.guard.MayUse, newSLIPRoutes(&d.partners.directory), d.words
	return o
}

// prepareSLIP reads section slip again.
func (d *daemon) prepareSLIP(c *config.Config) (change, error) {
	table, err := readSLIP(&c.SLIP)
	return change{
		fields: []zap.Field{zap.Int("slip_agents", len(c.SLIP.Agents)), zap.Int("slip_kept", len(c.SLIP.Relay))},
		commit: func() bool {
			d.words.now.Store(table)
			_ = d.profiles.SLIP.SetWords(table.Options) // which the configuration has checked
			return false
		},
	}, err
}

// slipFiles are those that section slip reads again.
func slipFiles(c *config.Config) []string {
	if c.SLIP.UCR == "" {
		return nil
	}
	return []string{c.SLIP.UCR}
}

// Keeps implements Relay of profile 1025.
func (w *slipWords) Keeps(agentID string) bool {
	kept := w.now.Load().kept
	return kept != nil && kept.Match(agentID)
}

// Keep implements Relay of profile 1025.
func (w *slipWords) Keep(ctx context.Context, identity, agentID string, msgID, text []byte, hops uint64) error {
	return all.KeepSLIP(w.relay(), all.SLIPRelay{TTL: w.now.Load().ttl}).Keep(ctx, identity, agentID, msgID, text, hops)
}

// slipAnchors reads the anchors of this installation; nil if there is no file.
func slipAnchors(file string) (*ucr.Table, error) {
	if file == "" {
		return nil, nil
	}
	octets, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("slip.ucr: %w", err)
	}
	table, err := ucr.Load(octets)
	if err != nil {
		return nil, fmt.Errorf("slip.ucr: %s: %w", file, err)
	}
	return table, nil
}

// PlanSLIP is what a Plan knows of nSLIP and SLIP v1.
type PlanSLIP struct {
	Numbers map[string]string `json:"agents"`  // agent_ids by their numbers in nSLIP
	Kept    []string          `json:"kept"`    // patterns of agents whose messages are kept
	Anchors int               `json:"anchors"` // of this installation
}

func (p *Plan) slip(c *config.Config) error {
	p.SLIP = PlanSLIP{Numbers: make(map[string]string), Kept: append([]string{}, c.SLIP.Relay...)}
	maps.Copy(p.SLIP.Numbers, c.SLIP.Agents)
	table, err := slipAnchors(c.SLIP.UCR)
	if err == nil && table != nil {
		p.SLIP.Anchors = len(table.Anchors()) - len(ucr.Core())
	}
	return err
}

// Agents implements agdisc.Source.
func (w *slipWords) Agents() []agdisc.Entry {
	var list []agdisc.Entry
	for _, agent := range w.now.Load().names {
		if slipstream.IsAgent(agent) {
			list = append(list, agdisc.Entry{AgentID: agent})
		}
	}
	return list
}

// Card implements agdisc.Source: nobody is there to have one.
func (*slipWords) Card(string, func(agdisc.Card, error)) bool { return false }

// slipRoutes knows which agents partners announce: those that swp.agents.list of each
// tells this endpoint. It implements Partners of profile 1025.
type slipRoutes struct {
	directory *partner.Directory

	mu    sync.Mutex
	links map[*partner.Link]*announced
}

// announced is what a partner has announced.
type announced struct {
	mu     sync.Mutex // held while it is asked
	at     time.Time  // when it was asked last
	agents map[string]bool
}

// How partners are asked which agents they have. An agent that was announced is looked
// for there until the list is old; for one that was not the partner is asked again, but
// not more often than once in a pause.
const (
	slipListOld   = 30 * time.Second
	slipListPause = time.Second
	slipListWait  = 2 * time.Second // for one partner
	slipListPages = 100             // of agdisc.MaxList agents
)

func newSLIPRoutes(directory *partner.Directory) *slipRoutes {
	return &slipRoutes{directory: directory, links: make(map[*partner.Link]*announced)}
}

// Find implements Partners of profile 1025. Of several partners the first by name counts.
func (r *slipRoutes) Find(ctx context.Context, agentID string) (profiles.Session, bool) {
	links := r.directory.Links()
	for _, link := range links {
		if up := r.of(link, links).find(ctx, link, agentID); up != nil {
			return up.Session, true
		}
	}
	return nil, false
}

// of returns what a link has announced, and forgets the links that are gone.
func (r *slipRoutes) of(link *partner.Link, links []*partner.Link) *announced {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.links[link]; a != nil {
		return a
	}
	now := make(map[*partner.Link]*announced, len(links))
	for _, l := range links {
		if now[l] = r.links[l]; now[l] == nil {
			now[l] = new(announced)
		}
	}
	r.links = now
	if now[link] == nil { // the directory has changed meanwhile
		return new(announced)
	}
	return now[link]
}

// find returns the session to the partner if it has announced an agent.
func (a *announced) find(ctx context.Context, link *partner.Link, agentID string) *partner.Up {
	ctx, cancel := context.WithTimeout(ctx, slipListWait)
	defer cancel()
	up, err := link.Ready(ctx)
	if err != nil || !link.Serves(up, messages.ProfileID) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	age := time.Since(a.at)
	if a.at.IsZero() || age > slipListOld || !a.agents[agentID] && age > slipListPause {
		if agents, err := list(ctx, up); err == nil {
			a.agents = agents
		}
		a.at = time.Now()
	}
	if !a.agents[agentID] {
		return nil
	}
	return up
}

// list asks a partner which agents it has.
func list(ctx context.Context, up *partner.Up) (map[string]bool, error) {
	agents := make(map[string]bool)
	var in agdisc.ListParams
	for range slipListPages {
		params, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		octets, err := rpc.Call(ctx, up.Session, agdisc.MethodList, params)
		if err != nil {
			return nil, err
		}
		var page agdisc.ListResult
		if err := json.Unmarshal(octets, &page); err != nil {
			return nil, err
		}
		for _, entry := range page.Agents[:min(len(page.Agents), agdisc.MaxList)] {
			agents[entry.AgentID] = true
		}
		if page.Next == "" || page.Next <= in.After {
			break
		}
		in.After = page.Next
	}
	return agents, nil
}
