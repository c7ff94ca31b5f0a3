package mcpstdio

import (
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// pool is the children that serve the same requests: those that are shared, or
// the one of a session. It implements owner. Its fields are guarded by the
// Server's mu; callbacks are called without it.
type pool struct {
	s        *Server
	conv     *conversation // nil for the shared one
	max      int
	children []*child
	waiting  []*flight // without a child, oldest first
	shutting bool
}

// flight is one request on its way through a child.
type flight struct {
	x          *mcpmap.Exchange
	id         []byte // octet for octet
	key        string // of the id
	token      string // key of the progress token, "" if there is none
	initialize bool
	child      *child // nil while it waits

	// abandoned marks a request that is over for the client but not for the child:
	// its id stays taken until the child has answered, and messages of the
	// child about it are dropped.
	abandoned *time.Timer
}

// abandonedTime is how long an answer to a cancelled request is expected.
const abandonedTime = time.Minute

func (s *Server) newPool(conv *conversation, limit int) *pool {
	p := &pool{s: s, conv: conv, max: limit}
	s.pools[p] = struct{}{}
	return p
}

// do takes over a request.
func (p *pool) do(x *mcpmap.Exchange) {
	m := &x.Message
	f := &flight{
		x: x, id: slices.Clone(m.ID()), key: x.Key(), token: mcpmap.TokenKey(m.ProgressToken()),
		initialize: m.Is(mcpmap.MethodInitialize),
	}
	p.s.mu.Lock()
	p.s.begun()
	end := p.accept(f)
	p.s.mu.Unlock()
	if end != nil {
		end()
		return
	}
	x.OnCancel(func(octets []byte) { p.cancelled(f, octets) })
}

// accept places a request or lets it wait; or returns how it ends at once. The
// caller holds mu, and calls what is returned without.
func (p *pool) accept(f *flight) (end func()) {
	s := p.s
	switch {
	case s.closed || p.shutting:
		return p.failed(f, errClosed)
	case p.conv == nil && s.era.known && !s.era.modern:
		return p.refused(f)
	case p.place(f):
		return nil
	case len(p.children) == 0 && time.Until(s.resume) > longestWait:
		return p.failed(f, s.pausing())
	case len(p.waiting) >= s.cfg.MaxWaiting:
		return p.failed(f, profiles.Busy("mcp_waiting", "too many requests wait for this server"))
	}
	p.waiting = append(p.waiting, f)
	return nil
}

// failed and refused return how a request ends that no child gets. The caller
// holds mu.
func (p *pool) failed(f *flight, why *profiles.Error) func() {
	p.s.finished()
	return func() { f.x.Fail(why) }
}

func (p *pool) refused(f *flight) func() {
	p.s.finished()
	supported := p.s.era.supported
	return func() { f.x.FailVersion(supported) }
}

// busy says whether any request is under way.
func (p *pool) busy() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for _, c := range p.children {
		if len(c.flights) > 0 {
			return true
		}
	}
	return len(p.waiting) > 0
}

// place gives a request to a child that can take it, starting one if need and
// bounds be. The caller holds mu.
func (p *pool) place(f *flight) bool {
	s := p.s
	if p.conv == nil && !s.era.known {
		s.startProbe()
		return false
	}
	for _, c := range p.children {
		if !c.retiring() && !c.confuses(f) && p.give(c, f) {
			return true
		}
	}
	// A session has had its child from the start and gets no other.
	if p.conv != nil || !s.mayStart() || len(p.children) >= p.max {
		return false
	}
	s.spawn(p)
	return p.give(p.children[len(p.children)-1], f)
}

// mayStart says whether another process may be started now. The caller holds
// mu.
func (s *Server) mayStart() bool {
	return !s.closed && s.children < s.cfg.MaxChildren && time.Until(s.resume) <= 0
}

// give hands a request to a child. The caller holds mu.
func (p *pool) give(c *child, f *flight) bool {
	// The octets of a request that waits are still there: its cancellation comes
	// by here first, and takes it out of the queue.
	octets := f.x.Message.Octets()
	if !c.hasRoom(len(octets)) {
		return false // it does not keep up: as if it were not there
	}
	line, replaced := lineOf(octets)
	if !c.write(line) {
		return false
	}
	p.s.stats.replaced.Add(replaced)
	f.child = c
	c.flights[f.key] = f
	if f.token != "" {
		c.tokens[f.token] = f
	}
	c.used = time.Now()
	if c.idle != nil {
		c.idle.Stop()
	}
	return true
}

// confuses says whether the child might take f for a request that it has. The
// caller holds mu.
func (c *child) confuses(f *flight) bool {
	if _, taken := c.flights[f.key]; taken {
		return true
	}
	_, taken := c.tokens[f.token]
	return taken && f.token != ""
}

// retiring says whether the child gets nothing new. That of a session does
// until the session has a moment's rest. The caller holds mu.
func (c *child) retiring() bool { return c.isStopping() || c.aged() && !c.ofSession() }

func (c *child) aged() bool {
	life := c.s.cfg.Lifetime
	return life > 0 && time.Since(c.started) >= life
}

func (c *child) ofSession() bool {
	p, ok := c.owner.(*pool)
	return ok && p.conv != nil
}

// take removes a request from its child. The caller holds mu.
func (c *child) take(f *flight) {
	if c.flights[f.key] != f {
		return
	}
	delete(c.flights, f.key)
	if c.tokens[f.token] == f {
		delete(c.tokens, f.token)
	}
	if f.abandoned != nil {
		f.abandoned.Stop()
	} else {
		c.s.finished()
	}
	c.used = time.Now()
	if len(c.flights) == 0 {
		c.rest()
	}
}

// rest starts the time after which a child that has nothing to do is stopped.
// That of a session stays, unless it is old. The caller holds mu.
func (c *child) rest() {
	wait := c.s.cfg.Idle
	if c.ofSession() {
		wait = 1<<63 - 1
	}
	if life := c.s.cfg.Lifetime; life > 0 {
		wait = min(wait, max(0, life-time.Since(c.started)))
	}
	if c.idle == nil {
		c.idle = time.AfterFunc(wait, c.tired)
	} else {
		c.idle.Reset(wait)
	}
}

// tired stops a child that has rested for long enough.
func (c *child) tired() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if len(c.flights) == 0 && (c.aged() || !c.ofSession() && time.Since(c.used) >= c.s.cfg.Idle) {
		c.dismiss()
	}
}

// dismiss stops a child that is not needed any more. The caller holds mu.
func (c *child) dismiss() {
	c.dismissed = true
	c.terminate()
}

// retry places what waits, in order, as far as possible, and returns how the
// others end that wait in vain. The caller holds mu.
func (p *pool) retry() (end []func()) {
	s := p.s
	if p.conv == nil && s.era.known && !s.era.modern {
		for _, f := range p.waiting {
			end = append(end, p.refused(f))
		}
		p.waiting = nil
		return end
	}
	give := s.closed || len(p.children) == 0 && time.Until(s.resume) > longestWait
	rest := p.waiting[:0]
	for _, f := range p.waiting {
		switch {
		case s.closed && s.shared == p && !s.era.known:
			end = append(end, p.failed(f, errClosed))
		case p.place(f):
		case give && len(p.children) == 0:
			end = append(end, p.failed(f, s.pausing()))
		default:
			rest = append(rest, f)
		}
	}
	clear(p.waiting[len(rest):])
	p.waiting = rest
	return end
}

// cancelled ends a request for the client: octets is its cancellation, or nil
// if the client is gone or the time is up, when one is written in its place.
func (p *pool) cancelled(f *flight, octets []byte) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.child == nil {
		if i := slices.Index(p.waiting, f); i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			s.finished()
		}
		return
	}
	c := f.child
	if c.flights[f.key] != f || f.abandoned != nil {
		return
	}
	if !f.initialize {
		if octets == nil {
			octets = mcpmap.AppendCancelled(nil, f.id)
		}
		line, replaced := lineOf(octets)
		s.stats.replaced.Add(replaced)
		c.write(line)
	}
	heard := c.lines.Load()
	f.abandoned = time.AfterFunc(abandonedTime, func() { p.forgotten(f, heard) })
	s.finished()
}

var errSilent = errors.New("mcpstdio: not a word since a request was cancelled")

// forgotten gives up waiting for the answer to a cancelled request. A child
// that has not said a word since is taken for dead.
func (p *pool) forgotten(f *flight, heard int64) {
	p.s.mu.Lock()
	c := f.child
	if c.flights[f.key] == f && c.lines.Load() == heard {
		c.fail(p.s.upstream("does not answer any more", errSilent))
	}
	c.take(f)
	p.s.mu.Unlock()
	p.s.serveWaiting()
}

// ended implements owner: requests in flight fail.
func (p *pool) ended(c *child, why *profiles.Error) {
	s := p.s
	s.mu.Lock()
	if i := slices.Index(p.children, c); i >= 0 {
		p.children = slices.Delete(p.children, i, i+1)
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	var lost []*flight
	for _, f := range c.flights {
		if f.abandoned != nil {
			f.abandoned.Stop()
			continue
		}
		lost = append(lost, f)
		s.finished()
	}
	clear(c.flights)
	clear(c.tokens)
	if !p.shutting && !s.closed && !c.dismissed {
		s.exited(c, p.conv != nil)
	}
	over := p.conv != nil
	var end []func()
	if over {
		end = p.drop(why)
	}
	s.mu.Unlock()
	for _, f := range lost {
		f.x.Fail(why)
	}
	for _, f := range end {
		f()
	}
	if over {
		p.conv.client.Ended()
	}
}

// drop takes a pool out of the Server; what waits fails. The caller holds mu.
func (p *pool) drop(why *profiles.Error) (end []func()) {
	p.shutting = true
	delete(p.s.pools, p)
	for _, f := range p.waiting {
		end = append(end, p.failed(f, why))
	}
	p.waiting = nil
	p.s.closeIfIdle()
	return end
}

// shut stops the children of a pool for good. The caller holds mu, and calls
// what is returned without.
func (p *pool) shut(why *profiles.Error) func() {
	end := p.drop(why)
	for _, c := range p.children {
		c.broken.CompareAndSwap(nil, why)
		c.terminate()
	}
	return func() {
		for _, f := range end {
			f()
		}
	}
}
