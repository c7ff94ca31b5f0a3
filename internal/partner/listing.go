package partner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// listEvery is the interval between requests for the agents of a partner, and the maximum
// age of its list of tools. Tools are requested only on demand, because the partner starts
// its MCP servers to list them.
const listEvery = 5 * time.Minute

// listAgain is how long a partner that did not list its tools is not asked again.
const listAgain = 30 * time.Second

// list updates the list of agents of the partner while a session is current.
func (l *Link) list(up *Up) {
	ctx, cancel := l.while(l.ctx, up)
	defer cancel()
	every := time.NewTicker(listEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		l.listAgents(ctx, up)
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
	l.mu.Lock()
	away := l.current == nil && l.ctx.Err() == nil
	l.mu.Unlock()
	if !away {
		return
	}
	if l.opts.Agents != nil {
		l.opts.Agents.Away(l.opts.Name)
	}
	if l.opts.Tools != nil {
		l.opts.Tools.PartnerAway(l.opts.Name)
	}
}

// listAgents reads the list of agents of the partner. On failure the old list stays.
func (l *Link) listAgents(ctx context.Context, up *Up) {
	if l.opts.Agents == nil || !profiles.Serves(up.Session, agdisc.ProfileID) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	about := Wrong{Profile: agdisc.Name, Operation: "list", Name: l.opts.Name}
	var list []agdisc.Entry
	call := func(params, result any) error {
		return rpc.CallJSON(ctx, up.Session, agdisc.MethodList, params, result)
	}
	for entry, err := range agdisc.Entries(call) {
		if errors.Is(err, profiles.ErrNext) { // the entries so far are used
			_ = l.wrong(err, about)
			break
		}
		if err != nil {
			_ = l.wrong(err, about)
			return
		}
		if len(list) == agdisc.MaxPartnerAgents {
			_ = l.wrong(errTooMany, about)
			break
		}
		list = append(list, entry)
	}
	l.opts.Agents.Set(l.opts.Name, list)
}

// errTooMany reports a list above the bounds for one partner.
var errTooMany = profiles.Errorf(profiles.InvalidProfilePayload, "more than is listed of one partner; the rest is left out")

// RefreshTools updates the lists of tools of the connected partners that are wanted, so
// that none is older than five minutes. It waits for that or for ctx.
func (d *Directory) RefreshTools(ctx context.Context, wanted func(partner string) bool) {
	var asked sync.WaitGroup
	for _, l := range d.Links() {
		if wanted(l.Name()) {
			asked.Go(func() { l.refreshTools(ctx) })
		}
	}
	asked.Wait()
}

// refreshTools updates the list of tools, one goroutine at a time.
func (l *Link) refreshTools(ctx context.Context) {
	select {
	case l.tools <- struct{}{}:
		defer func() { <-l.tools }()
	case <-ctx.Done():
		return
	}
	l.mu.Lock()
	up, due := l.current, l.current != l.toolsOf || !time.Now().Before(l.toolsDue)
	l.mu.Unlock()
	if up == nil || !due || l.opts.Tools == nil {
		return
	}
	again := listEvery
	switch {
	case l.listTools(ctx, up):
	case errors.Is(ctx.Err(), context.Canceled): // whoever wanted them has left
		return
	default:
		again = listAgain
	}
	l.mu.Lock()
	l.toolsOf, l.toolsDue = up, time.Now().Add(again)
	l.mu.Unlock()
}

// listTools reads the list of tools of the partner, and reports success.
func (l *Link) listTools(ctx context.Context, up *Up) bool {
	about := Wrong{Profile: tooldisc.Name, Operation: "list", Name: l.opts.Name}
	var tools []tooldisc.Tool
	octets := 0
	for tool, err := range tooldisc.List(ctx, up.Session, "") {
		if err != nil {
			_ = l.wrong(err, about)
			return false
		}
		if octets += tool.Octets(); len(tools) == tooldisc.MaxPartnerTools || octets > tooldisc.MaxPartnerOctets {
			_ = l.wrong(errTooMany, about)
			break
		}
		tools = append(tools, tool)
	}
	l.unlessClosed(func() { l.opts.Tools.SetPartner(l.opts.Name, tools) })
	return true
}
