package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	messages "github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// slipOptions configure profile 1025, and what of it the relay keeps.
func (d *daemon) slipOptions() (messages.Options, all.SLIPRelay, error) {
	c := &d.config.SLIP
	o := messages.Options{
		MayUse: d.guard.MayUse, Partners: newSLIPRoutes(&d.partners.directory), Numbers: c.Numbers(), Forms: make(map[string]uint64),
	}
	for agent, form := range c.Forms {
		o.Forms[agent] = messages.TypeNSLIP
		if form == config.FormBinary {
			o.Forms[agent] = messages.TypeBinary
		}
	}
	var err error
	if o.Anchors, err = slipAnchors(c.UCR); err != nil {
		return o, all.SLIPRelay{}, err
	}
	if len(c.Relay) == 0 {
		return o, all.SLIPRelay{}, nil
	}
	kept, err := access.NewNames(c.Relay)
	if err != nil {
		return o, all.SLIPRelay{}, fmt.Errorf("slip.relay: %w", err)
	}
	return o, all.SLIPRelay{Agents: kept.Match, TTL: c.TTL}, nil
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

// slipKept are the agents whose messages are kept while they are away: listed all the
// while, so that partners pass them on to here. Patterns are not. It implements
// agdisc.Source.
type slipKept []string

// Agents implements agdisc.Source.
func (k slipKept) Agents() []agdisc.Entry {
	var list []agdisc.Entry
	for _, agent := range k {
		if slipstream.IsAgent(agent) {
			list = append(list, agdisc.Entry{AgentID: agent})
		}
	}
	return list
}

// Card implements agdisc.Source: nobody is there to have one.
func (slipKept) Card(string, func(agdisc.Card, error)) bool { return false }

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
