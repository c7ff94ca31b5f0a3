package mcpstdio

import (
	"context"
	"errors"
	"maps"
	"time"

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
	if c.answered(key) {
		p.s.mu.Unlock()
		p.s.serveWaiting()
		return
	}
	f := c.flights[key]
	if key == "" {
		f = c.only()
	}
	abandoned := f == nil || f.abandoned != nil
	task := !abandoned && m.Task() != nil
	if task {
		c.held[f.who]++ // until it is known that it is under way
	}
	if f != nil {
		c.take(f)
	}
	p.s.mu.Unlock()
	if task {
		f.x.From(c)
		defer c.told(f.who)
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
	sent := false
	switch {
	case f != nil && !abandoned:
		sent = p.pace(c, f) && f.x.Notify(m.Octets())
	case !named && p.conv != nil:
		_ = p.conv.client.Pace(c.reading)
		sent = p.conv.client.Notify(m.Octets())
	}
	if !sent {
		p.s.stats.dropped.Add(1)
	}
}

// atOnce is a context that has ended: Pace then fails where it would wait.
var atOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// pace waits, and the child with it, until the client of a request has room for a notification.
// A client that keeps the child waiting for too long gets an error in place of the rest.
func (p *pool) pace(c *child, f *flight) bool {
	if err := f.x.Pace(atOnce); !errors.Is(err, context.Canceled) {
		return true // there is room, or the request has ended, and Notify decides
	}
	patience := profiles.UnreadWait
	if p.conv == nil {
		patience = p.patience(f.who)
	}
	ctx, cancel := context.WithTimeout(c.reading, patience)
	defer cancel()
	if f.x.Pace(ctx) == nil || ctx.Err() == nil || c.reading.Err() != nil {
		return true
	}
	if p.conv == nil {
		p.tooSlow(f.who)
	}
	f.x.Overrun()
	p.cancelled(f, nil)
	return false
}

// patience returns how long a shared child waits for a client.
func (p *pool) patience(who string) time.Duration {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if time.Since(p.slow[profiles.Link(who)]) < hastyTime {
		return 0
	}
	return profiles.SharedWait
}

// tooSlow records that a peer has used up the patience of a shared child.
func (p *pool) tooSlow(who string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	maps.DeleteFunc(p.slow, func(_ string, since time.Time) bool { return time.Since(since) >= hastyTime })
	p.slow[profiles.Link(who)] = time.Now()
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
