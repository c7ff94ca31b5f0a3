package mcpstdio

import (
	"fmt"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// A task of a server is in the memory of one child. That child stays while the task is under
// way, and gets the messages about it; when it has ended, they are refused with that reason.

// Hold implements mcpmap.Holder.
func (c *child) Hold(identity string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.held[identity]++
	c.s.tasks++
	if c.idle != nil {
		c.idle.Stop()
	}
}

// Release implements mcpmap.Holder.
func (c *child) Release(identity string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.tasks--
	c.unheld(identity)
	c.s.closeIfIdle()
}

// unheld ends one hold. The caller holds mu.
func (c *child) unheld(identity string) {
	if c.held[identity]--; c.held[identity] == 0 {
		delete(c.held, identity)
	}
	if c.free() && c.idle != nil {
		c.rest()
	}
	c.judge()
}

// told ends the hold of a response that names a task.
func (c *child) told(identity string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.unheld(identity)
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
func (c *child) free() bool { return len(c.flights) == 0 && len(c.held) == 0 }

// lost says whether the child that has the task of a request ends.
func (f *flight) lost() bool { return f.at != nil && f.at.isStopping() }

// taskLost is the error of a request about a task whose child has ended.
func (s *Server) taskLost() *profiles.Error {
	return &profiles.Error{Code: profiles.NotFound, Detail: "mcp_task", Text: fmt.Sprintf("server %q: the process that had the task has ended", s.cfg.Name)}
}

// The octets of a message are not rewritten, so two requests with one id cannot be told apart at one
// child. A request about a task cannot go to another child, and nobody knows when the other request
// ends: it is refused at once. Callers rarely meet in this way, because strange keeps the calls of
// others away from the child of a task.
var errEngaged = profiles.Busy("mcp_id", "another request at the same process of the server has the id or the progress token of this request, and they are not rewritten: ask again with another id")

// barred says whether a request that found no place would wait without a known end: for
// another request at the child of its task, or for subscriptions at all children. The caller holds mu.
func (p *pool) barred(f *flight) bool {
	if f.at != nil {
		return f.at.engaged(f, false)
	}
	if p.conv != nil {
		return false
	}
	for _, c := range p.children {
		if !c.engaged(f, true) {
			return false
		}
	}
	return len(p.children) > 0
}

// engaged says whether the child has a request that it might take f for; for endless only a
// subscription, which does not end by itself. One that was just cancelled does not count, because its id
// is about to be free. The caller holds mu.
func (c *child) engaged(f *flight, endless bool) bool {
	for _, by := range []*flight{c.flights[f.key], c.tokens[f.token]} {
		switch {
		case by == nil, endless && !by.endless:
		case by.endless && by.abandoned != nil && time.Since(by.over) < longestWait:
		default:
			return true
		}
	}
	return false
}

// strange says whether a request had better go to another child, so that its id and the ids of other callers'
// requests about tasks do not meet: the child has a task of another caller; or the request may make a
// task, and the child has a request of another caller. The caller holds mu.
func (c *child) strange(f *flight) bool {
	if len(c.held) > 1 || len(c.held) == 1 && c.held[f.who] == 0 {
		return true
	}
	if f.tasks {
		for _, other := range c.flights {
			if other.who != f.who && other.abandoned == nil {
				return true
			}
		}
	}
	return false
}

// alike says whether only a request of the same peer keeps f from a child where it is not strange. Then f
// waits: a peer that repeats an id would drive its requests to the child of another caller's task. The
// caller holds mu.
func (p *pool) alike(f *flight) bool {
	if p.conv != nil {
		return false
	}
	for _, c := range p.children {
		if c.retiring() || c.strange(f) {
			continue
		}
		for _, by := range []*flight{c.flights[f.key], c.tokens[f.token]} {
			if by != nil && profiles.Link(by.who) == profiles.Link(f.who) {
				return true
			}
		}
	}
	return false
}
