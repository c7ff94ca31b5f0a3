package mcpstdio

import (
	"fmt"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// A task of a server is in the memory of one child. That child stays while the task is under
// way, and gets the messages about it; when it has ended, they are refused with that reason.

// Hold implements mcpmap.Holder.
func (c *child) Hold() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.held++
	c.s.tasks++
	if c.idle != nil {
		c.idle.Stop()
	}
}

// Release implements mcpmap.Holder.
func (c *child) Release() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.tasks--
	c.unheld()
	c.s.closeIfIdle()
}

// unheld ends one hold. The caller holds mu.
func (c *child) unheld() {
	c.held--
	if c.free() && c.idle != nil {
		c.rest()
	}
}

// told ends the hold of a response that names a task.
func (c *child) told() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.unheld()
}

// Do implements mcpmap.Holder.
func (c *child) Do(x *mcpmap.Exchange) {
	p, ok := c.owned().(*pool)
	if !ok {
		x.Fail(c.s.taskLost())
		return
	}
	p.do(x, c)
}

// free says whether the child has nothing to do. The caller holds mu.
func (c *child) free() bool { return len(c.flights) == 0 && c.held == 0 }

// lost says whether the child that has the task of a request ends.
func (f *flight) lost() bool { return f.at != nil && f.at.isStopping() }

// taskLost is the error of a request about a task whose child has ended.
func (s *Server) taskLost() *profiles.Error {
	return &profiles.Error{Code: profiles.NotFound, Detail: "mcp_task", Text: fmt.Sprintf("server %q: the process that had the task has ended", s.cfg.Name)}
}

var errEngaged = profiles.Busy("mcp_id", "a subscription in the process of the task has the id or the progress token of this request: ask again with another id")

// engaged says whether the child might take f for a subscription that it has, which does not
// end by itself. The caller holds mu.
func (c *child) engaged(f *flight) bool {
	by := c.flights[f.key]
	if by == nil && f.token != "" {
		by = c.tokens[f.token]
	}
	return by != nil && by.endless
}
