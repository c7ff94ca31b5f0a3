package slip

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
	messages "github.com/slimwire/swp/profiles/slip"
)

// routes finds the partner that serves an agent, from the answers of partners to
// swp.agents.list. It implements Partners of profile 1025.
type routes struct {
	directory *partner.Directory

	mu    sync.Mutex
	links map[*partner.Link]*announced
}

// announced is the agent list of one partner.
type announced struct {
	mu     sync.Mutex  // held during a request
	on     *partner.Up // session of the last request
	at     time.Time   // time of the last request
	failed bool        // it had no answer
	agents map[string]bool
}

// Limits of agent lists. A list is used until it is old. For an agent that is not in the
// list the partner is asked again, at most once in a pause; one that has given no list, when
// that is old, or over its next session.
const (
	listOld   = 30 * time.Second
	listPause = time.Second
	listWait  = 2 * time.Second        // for one partner
	listMost  = 100 * profiles.MaxList // entries
)

func newRoutes(directory *partner.Directory) *routes {
	return &routes{directory: directory, links: make(map[*partner.Link]*announced)}
}

// Find implements Partners of profile 1025. If several partners serve the agent, the first
// by name is used.
func (r *routes) Find(ctx context.Context, agentID string) (messages.Way, bool) {
	links := r.directory.Links()
	for _, link := range links {
		if up := r.of(link, links).find(ctx, link, agentID); up != nil {
			name := link.Name() + "/" + agentID
			return messages.Way{Session: up.Session, Name: name, Onward: func(ctx context.Context, identity string, p profiles.Passage) (context.Context, e1.Extensions, error) {
				return link.Onward(ctx, identity, p, profiles.Onward{Name: name}, nil)
			}}, true
		}
	}
	return messages.Way{}, false
}

// of returns the agent list of a link, and removes the lists of links that are gone.
func (r *routes) of(link *partner.Link, links []*partner.Link) *announced {
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
	if now[link] == nil { // the link was removed in the meantime
		return new(announced)
	}
	return now[link]
}

// find returns the session of the partner if its list has the agent.
func (a *announced) find(ctx context.Context, link *partner.Link, agentID string) *partner.Up {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	up, err := link.Ready(ctx)
	if err != nil || !profiles.Serves(up.Session, messages.ProfileID) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	age := time.Since(a.at)
	if a.on != up || age > listOld || !a.failed && !a.agents[agentID] && age > listPause {
		agents, err := list(ctx, up)
		if a.failed = err != nil; !a.failed {
			a.agents = agents
		}
		a.on, a.at = up, time.Now()
	}
	if !a.agents[agentID] {
		return nil
	}
	return up
}

// list asks a partner for its agent list.
func list(ctx context.Context, up *partner.Up) (map[string]bool, error) {
	agents, entries := make(map[string]bool), 0
	call := func(params, result any) error {
		return rpc.CallJSON(ctx, up.Session, agdisc.MethodList, params, result)
	}
	for entry, err := range agdisc.Entries(call) {
		if errors.Is(err, profiles.ErrNext) {
			break
		}
		if err != nil {
			return nil, err
		}
		agents[entry.AgentID] = true
		if entries++; entries == listMost {
			break
		}
	}
	return agents, nil
}
