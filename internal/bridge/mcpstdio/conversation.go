package mcpstdio

import (
	"time"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// conversation is a session of the legacy era: one child, one client. It
// implements mcpmap.Conversation.
type conversation struct {
	client mcpmap.Counterpart
	pool   *pool
	quiet  *time.Timer
}

// Do implements mcpmap.Conversation.
func (c *conversation) Do(x *mcpmap.Exchange) {
	c.heard()
	c.pool.do(x, nil)
}

// Notify implements mcpmap.Conversation.
func (c *conversation) Notify(m *mcpmap.Message) {
	c.heard()
	s := c.pool.s
	line, replaced := lineOf(m.Octets())
	s.stats.replaced.Add(replaced)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, child := range c.pool.children {
		if child.write(line) {
			return
		}
	}
	s.stats.dropped.Add(1)
}

// Close implements mcpmap.Conversation.
func (c *conversation) Close() {
	c.quiet.Stop()
	s := c.pool.s
	s.mu.Lock()
	end := c.pool.shut(s.upstream("ended the session", nil))
	s.mu.Unlock()
	end()
}

// heard puts off the end of a session that nobody uses.
func (c *conversation) heard() { c.quiet.Reset(c.pool.s.cfg.SessionIdle) }

func (c *conversation) expire() {
	if c.pool.busy() {
		c.heard()
		return
	}
	c.client.Ended()
}
