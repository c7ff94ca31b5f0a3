package mcpstdio

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Messages of a child are routed to the request, the session or the client that
// they belong to: see MCP mapping §3, stdio correlation.

// message implements owner.
func (p *pool) message(c *child, m *mcpmap.Message) {
	switch m.Kind() {
	case mcpmap.Response:
		p.response(c, m, nil)
	case mcpmap.Notification:
		p.notification(c, m)
	case mcpmap.Request:
		p.request(c, m)
	}
	if p.conv != nil {
		p.conv.heard()
	}
}

// malformed implements owner: a malformed response with an id.
func (p *pool) malformed(c *child, m *mcpmap.Message) {
	if m.Method() != nil || len(m.ID()) == 0 {
		return
	}
	p.response(c, m, &profiles.Error{
		Code: profiles.InvalidMCPPayload, Detail: "mcp_shape", Text: "the server's answer is no JSON-RPC response",
	})
}

// response ends the request that it answers, octet for octet, or with fault.
func (p *pool) response(c *child, m *mcpmap.Message, fault *profiles.Error) {
	key := mcpmap.TokenKey(m.ID())
	p.s.mu.Lock()
	f := c.flights[key]
	if key == "" {
		f = c.only()
	}
	abandoned := f == nil || f.abandoned != nil
	task := !abandoned && m.Task() != nil
	if task {
		c.held++ // until it is known that it is under way
	}
	if f != nil {
		c.take(f)
	}
	p.s.mu.Unlock()
	if task {
		f.x.From(c)
		defer c.told()
	}
	switch {
	case abandoned:
		p.s.stats.dropped.Add(1)
	case fault != nil:
		f.x.Fail(fault)
	case m.Error() != nil:
		f.x.FinishFailed(m.Octets(), 0)
	default:
		f.x.Finish(m.Octets())
	}
	if f != nil {
		p.s.serveWaiting()
	}
}

// only returns the request that the child must mean when it names none: the
// only one in flight. A cancelled one counts, so that no client hears what was
// meant for another. The caller holds mu.
func (c *child) only() *flight {
	if len(c.flights) != 1 {
		return nil
	}
	for _, f := range c.flights {
		return f
	}
	return nil
}

// notification passes a notification to the exchange it belongs to: by its
// progress token or subscription, else the only one, else to the session.
func (p *pool) notification(c *child, m *mcpmap.Message) {
	progress, subscription := m.Progressed(), m.SubscriptionID()
	p.s.mu.Lock()
	var f *flight
	named := true
	switch {
	case progress != nil && m.Is(mcpmap.MethodProgress):
		f = c.tokens[mcpmap.TokenKey(progress)]
	case subscription != nil:
		f = c.flights[mcpmap.TokenKey(subscription)]
	case m.Is(mcpmap.MethodCancelled):
		named = false // of its own request
	default:
		f = c.only()
		named = f != nil
	}
	abandoned := f != nil && f.abandoned != nil
	p.s.mu.Unlock()
	switch {
	case f != nil && !abandoned:
		f.x.Notify(m.Octets())
	case !named && p.conv != nil:
		p.conv.client.Notify(m.Octets())
	default:
		p.s.stats.dropped.Add(1)
	}
}

// request passes a question of the server to the client of the session. In the
// stateless era a server has none.
func (p *pool) request(c *child, m *mcpmap.Message) {
	if p.conv == nil {
		c.unasked(m)
		return
	}
	p.s.mu.Lock()
	f := c.only()
	p.s.mu.Unlock()
	var x *mcpmap.Exchange
	if f != nil {
		x = f.x
	}
	p.conv.client.Request(x, m, func(octets []byte) {
		line, replaced := lineOf(octets)
		p.s.stats.replaced.Add(replaced)
		if !c.write(line) {
			p.s.stats.dropped.Add(1)
		}
	})
}

// unasked answers a request of a server that has nobody to ask, so that it
// does not wait.
func (c *child) unasked(m *mcpmap.Message) {
	c.s.stats.dropped.Add(1)
	line := mcpmap.AppendFailure(nil, m.ID(), profiles.Errorf(profiles.UnknownProfile, "nobody answers requests here"))
	c.write(append(line, '\n'))
}
