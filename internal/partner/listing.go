package partner

import (
	"context"
	"encoding/json"
	"time"

	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// listEvery is how often a partner is asked again which agents and tools it has.
const listEvery = 5 * time.Minute

// Agents are told which agents partners list. An agdisc.Partners is one; see there for the
// methods.
type Agents interface {
	Set(partner string, list []agdisc.Entry)
	Away(partner string)
	Forget(partner string)
}

// Tools are told which tools partners list. A tooldisc.Service is one; see there for the
// methods.
type Tools interface {
	SetPartner(partner string, tools []tooldisc.Tool)
	PartnerAway(partner string)
	ForgetPartner(partner string)
}

// list keeps the lists of the partner's agents and tools while a session carries what is
// passed on.
func (l *Link) list(up *Up) {
	ctx, cancel := l.while(l.ctx, up)
	defer cancel()
	every := time.NewTicker(listEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		l.listAgents(ctx, up)
		l.listTools(ctx, up)
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

// listAgents takes over which agents the partner lists. One that fails to say leaves the
// list as it was.
func (l *Link) listAgents(ctx context.Context, up *Up) {
	if l.opts.Agents == nil || !l.Serves(up, agdisc.ProfileID) || !l.Serves(up, rpc.ProfileID) {
		return
	}
	var list []agdisc.Entry
	for params := (agdisc.ListParams{}); len(list) < agdisc.MaxPartnerAgents; {
		octets, err := json.Marshal(params)
		if err == nil {
			octets, err = rpc.Call(ctx, up.Session, agdisc.MethodList, octets)
		}
		var page agdisc.ListResult
		if err != nil || json.Unmarshal(octets, &page) != nil {
			return
		}
		list = append(list, page.Agents...)
		if page.Next <= params.After || len(page.Agents) == 0 { // an endless list, too
			break
		}
		params.After = page.Next
	}
	l.opts.Agents.Set(l.opts.Name, list)
}

// listTools takes over which tools the partner lists.
func (l *Link) listTools(ctx context.Context, up *Up) {
	if l.opts.Tools == nil || !l.Serves(up, tooldisc.ProfileID) {
		return
	}
	var tools []tooldisc.Tool
	octets := 0
	for tool, err := range tooldisc.List(ctx, up.Session, "") {
		if err != nil {
			return
		}
		tools = append(tools, tool)
		if octets += len(tool.Payload); len(tools) >= tooldisc.MaxPartnerTools || octets > tooldisc.MaxPartnerOctets {
			break
		}
	}
	l.opts.Tools.SetPartner(l.opts.Name, tools)
}
