package mcpstdio

import (
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// era is which protocol a server speaks to those who come without a session. It
// is learned once, from a separate child, when the first stateless request
// arrives; servers that only have sessions are never asked.
type era struct {
	known     bool
	modern    bool
	supported []string // versions of a server that is not
}

// probe learns the era of a server: it asks server/discover, and initialize
// when that is refused or stays unanswered, as clients do. It implements owner.
type probe struct {
	s     *Server
	child *child

	// Guarded by the Server's mu.
	asked    bool // initialize too
	done     bool
	discover *time.Timer
	deadline *time.Timer
}

// startProbe starts learning the era, unless that is under way or no process
// may be started now. The caller holds mu.
func (s *Server) startProbe() {
	if s.probe != nil || !s.mayStart(s.shared) {
		return
	}
	p := &probe{s: s}
	p.child = newChild(s, p)
	s.probe = p
	p.child.write([]byte(mcpmap.ProbeDiscover + "\n"))
	p.discover = time.AfterFunc(s.cfg.discover, p.impatient)
	p.deadline = time.AfterFunc(s.cfg.ProbeTime, func() {
		p.child.fail(&profiles.Error{
			Code: profiles.Internal, Detail: "mcp_probe", Cause: errProbe, Text: "the server does not answer", Retryable: true,
		})
	})
	s.children.Force("", 1)
	s.launch(p.child, func() { s.children.Give("", 1) })
}

// initialize asks the second question. The caller holds mu.
func (p *probe) initialize() {
	if !p.asked && !p.done {
		p.asked = true
		p.child.write([]byte(mcpmap.ProbeInitialize + "\n"))
	}
}

// impatient asks the second question of a server that ignores the first.
func (p *probe) impatient() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.initialize()
}

// message implements owner.
func (p *probe) message(c *child, m *mcpmap.Message) {
	if m.Kind() == mcpmap.Request {
		c.unasked(m)
		return
	}
	p.s.mu.Lock()
	switch mcpmap.TokenKey(m.ID()) {
	case mcpmap.TokenKey([]byte(mcpmap.ProbeDiscoverID)):
		if mcpmap.DiscoveredModern(m.Result()) {
			p.learned(era{known: true, modern: true})
		} else {
			p.initialize()
		}
	case mcpmap.TokenKey([]byte(mcpmap.ProbeInitializeID)):
		p.learned(era{known: true, supported: mcpmap.InitializedVersions(m.Result())})
	}
	done := p.done
	p.s.mu.Unlock()
	if done {
		p.s.serveWaiting()
	}
}

// learned ends the probe. A child that knows of no session yet is as good as
// new and is kept. The caller holds mu.
func (p *probe) learned(e era) {
	if p.done {
		return
	}
	p.end()
	p.s.era = e
	c := p.child
	if !e.modern || p.asked {
		c.dismiss()
		return
	}
	c.owner = p.s.shared
	p.s.shared.children = append(p.s.shared.children, c)
	c.rest()
}

// end stops the clocks. The caller holds mu.
func (p *probe) end() {
	p.done = true
	p.discover.Stop()
	p.deadline.Stop()
	p.s.probe = nil
}

// malformed implements owner.
func (p *probe) malformed(*child, *mcpmap.Message) {}

// ended implements owner: a probe that ended before it learned anything fails
// those that wait for it.
func (p *probe) ended(c *child, why *profiles.Error) {
	s := p.s
	s.mu.Lock()
	if p.done {
		s.mu.Unlock()
		return
	}
	p.end()
	s.exited(c, false)
	var end []func()
	if !s.closed {
		end = s.shared.endWaiting(func(f *flight) func() { return s.shared.failed(f, why) })
	}
	s.mu.Unlock()
	for _, f := range end {
		f()
	}
}
