package mcpstdio

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// pool is the children that serve the same requests: those that are shared, or
// the one of a session. It implements owner. Its fields are guarded by the
// Server's mu; callbacks are called without it.
type pool struct {
	s        *Server
	conv     *conversation // nil for the shared one
	who      string        // identity of the client of conv, or ""
	max      int
	children []*child
	due      bool                // conv has no child yet
	placed   bool                // the place of its child is taken already
	waiting  fair.Queue[*flight] // without a child
	yielded  bool                // the session ends, so that another one gets its process
	heir     *pool               // that one, until it has it
	shutting bool

	// For the shared one only.
	places fair.Shares          // of waiting
	calls  fair.Shares          // of requests at children
	slow   map[string]time.Time // peers that have used up the patience of a child, since when
}

// extensionTasks is in the capabilities of a client that knows tasks.
var extensionTasks = []byte(`"io.modelcontextprotocol/tasks"`)

// maxCalls bounds the requests at shared children, subscriptions among them.
const maxCalls = 1280

// flight is one request on its way through a child.
type flight struct {
	x          *mcpmap.Exchange
	who        string // the identity of its client
	id         []byte // octet for octet
	key        string // of the id
	token      string // key of the progress token, "" if there is none
	initialize bool
	endless    bool   // a subscription
	tasks      bool   // its client knows tasks
	at         *child // that alone can execute it, because it has its task; or nil
	child      *child // nil while it waits
	given      time.Time
	patience   time.Duration // with a child that says nothing

	// abandoned marks a request that is over for the client but not for the child:
	// its id stays taken until the child has answered, and messages of the
	// child about it are dropped. It is over since then.
	abandoned *time.Timer
	over      time.Time
}

func (s *Server) newPool(conv *conversation, limit int) *pool {
	p := &pool{s: s, conv: conv, max: limit, places: fair.NewShares(s.cfg.MaxWaiting), calls: fair.NewShares(maxCalls), slow: make(map[string]time.Time)}
	if conv != nil {
		p.who = conv.client.Peer().Identity
	}
	s.pools[p] = struct{}{}
	return p
}

// do takes over a request, for the child at if that is not nil.
func (p *pool) do(x *mcpmap.Exchange, at *child) {
	m := &x.Message
	f := &flight{
		x: x, who: x.Peer().Identity, id: slices.Clone(m.ID()), key: x.Key(), token: mcpmap.TokenKey(m.ProgressToken()),
		initialize: m.Is(mcpmap.MethodInitialize), endless: m.Is(mcpmap.MethodListen), at: at,
		tasks:    p.conv == nil && m.Is(mcpmap.MethodToolsCall) && bytes.Contains(m.Octets(), extensionTasks),
		patience: p.s.Timeout(m),
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
	case f.lost():
		return p.failed(f, s.taskLost())
	case p.conv == nil && s.era.known && !s.era.modern:
		return p.refused(f)
	case p.place(f):
		return nil
	case p.barred(f):
		return p.failed(f, errEngaged)
	case len(p.children) == 0 && time.Until(s.resume) > longestWait:
		return p.failed(f, s.pausing())
	}
	if fault := p.wait(f); fault != nil {
		return p.failed(f, fault)
	}
	return nil
}

var errWaiting = profiles.Busy("mcp_waiting", "too many requests wait for this server")

// wait makes a request wait for its turn, if there is room. The caller holds mu.
func (p *pool) wait(f *flight) *profiles.Error {
	if p.conv != nil {
		if p.waiting.Len() >= p.s.cfg.MaxWaiting {
			return errWaiting
		}
	} else if fault := p.places.Take(f.who, 1).Refuse(errWaiting); fault != nil {
		return fault
	}
	p.waiting.Push(f.who, f)
	return nil
}

// waited gives back the place of a request that no longer waits. The caller holds mu.
func (p *pool) waited(f *flight) {
	if p.conv == nil {
		p.places.Give(f.who, 1)
	}
}

// endWaiting ends all requests that wait; end returns how. The caller holds mu.
func (p *pool) endWaiting(end func(f *flight) func()) (list []func()) {
	for f, ok := p.waiting.Pop(nil); ok; f, ok = p.waiting.Pop(nil) {
		p.waited(f)
		list = append(list, end(f))
	}
	return list
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

// busy says whether any request or task is under way.
func (p *pool) busy() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for _, c := range p.children {
		if !c.free() {
			return true
		}
	}
	return p.waiting.Len() > 0
}

// place gives a request to a child that can take it, starting one if need and
// bounds be. The caller holds mu.
func (p *pool) place(f *flight) bool {
	s := p.s
	if p.conv == nil && !s.era.known {
		s.startProbe()
		return false
	}
	if p.conv == nil && p.calls.Ask(f.who, 1) != fair.Taken {
		return false
	}
	if f.at != nil {
		return !f.at.confuses(f) && p.give(f.at, f)
	}
	if p.among(f, false) {
		return true
	}
	// A session has one child and gets no other.
	if p.conv != nil && !p.due || !s.mayStart(p) || len(p.children) >= p.max {
		return !p.alike(f) && p.among(f, true)
	}
	s.spawn(p)
	return p.give(p.children[len(p.children)-1], f)
}

// among gives a request to one of the children; to one where it is strange only if strange is true. The
// caller holds mu.
func (p *pool) among(f *flight, strange bool) bool {
	for _, c := range p.children {
		if !c.retiring() && !c.confuses(f) && (strange || p.conv != nil || !c.strange(f)) && p.give(c, f) {
			return true
		}
	}
	return false
}

// mayStart says whether another process may be started now for a pool. The child of a session that
// follows another one waits for the place of that one. The caller holds mu.
func (s *Server) mayStart(p *pool) bool {
	if s.closed || time.Until(s.resume) > 0 {
		return false
	}
	return p.placed || !p.due && s.children.Ask(p.who, 1) == fair.Taken
}

// give hands a request to a child. The caller holds mu.
func (p *pool) give(c *child, f *flight) bool {
	// The octets of a request that waits are still there: its cancellation comes
	// by here first, and takes it out of the queue.
	octets := f.x.Message.Octets()
	ahead := maxQueuedLines
	if p.conv == nil {
		ahead = maxAhead
	}
	if !c.hasRoom(len(octets), ahead) {
		return false // it does not keep up: as if it were not there
	}
	line, replaced := lineOf(octets)
	if !c.write(line) {
		return false
	}
	p.s.stats.replaced.Add(replaced)
	c.used = time.Now()
	f.child, f.given = c, c.used
	c.flights[f.key] = f
	if p.conv == nil {
		p.calls.Force(f.who, 1)
	}
	if f.token != "" {
		c.tokens[f.token] = f
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	return true
}

// confuses says whether the child might take f for a request that it has. The
// caller holds mu.
func (c *child) confuses(f *flight) bool {
	return c.flights[f.key] != nil || c.tokens[f.token] != nil
}

// retiring says whether the child gets nothing new. That of a session does
// until the session has a moment's rest. The caller holds mu.
func (c *child) retiring() bool {
	return c.isStopping() || (c.aged() || c.silent()) && !c.ofSession()
}

// aged says whether the child is to be replaced. The caller holds mu.
func (c *child) aged() bool {
	life := c.s.cfg.Lifetime
	return c.departing || life > 0 && time.Since(c.started) >= life
}

// depart has the child replaced, because its node is about to end.
func (c *child) depart() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.departing = true
	if _, probing := c.owner.(*probe); !probing && c.free() {
		c.rest()
	}
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
	c.returned(f)
	if c.tokens[f.token] == f {
		delete(c.tokens, f.token)
	}
	if f.abandoned != nil {
		f.abandoned.Stop()
	} else {
		c.s.finished()
	}
	c.used = time.Now()
	if c.free() {
		c.rest()
	}
}

// returned gives back the place of a request at a shared child. The caller holds mu.
func (c *child) returned(f *flight) {
	if p, ok := c.owner.(*pool); ok && p.conv == nil {
		p.calls.Give(f.who, 1)
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
	if c.departing {
		wait = 0
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
	if c.free() && (c.aged() || !c.ofSession() && time.Since(c.used) >= c.s.cfg.Idle) {
		c.dismiss()
	}
}

// dismiss stops a child that is not needed any more. The caller holds mu.
func (c *child) dismiss() {
	c.dismissed = true
	c.terminate()
}

// retry places what waits, in turn, as far as possible, and returns how the
// others end that wait in vain. The caller holds mu.
func (p *pool) retry() (end []func()) {
	s := p.s
	switch {
	case p.conv == nil && s.era.known && !s.era.modern:
		return p.endWaiting(p.refused)
	case s.closed && s.shared == p && !s.era.known:
		return p.endWaiting(func(f *flight) func() { return p.failed(f, errClosed) })
	}
	for f, ok := p.waiting.Find((*flight).lost); ok; f, ok = p.waiting.Find((*flight).lost) {
		p.waited(f)
		end = append(end, p.failed(f, s.taskLost()))
	}
	for f, ok := p.waiting.Find(p.place); ok; f, ok = p.waiting.Find(p.place) {
		p.waited(f)
	}
	for f, ok := p.waiting.Find(p.barred); ok; f, ok = p.waiting.Find(p.barred) {
		p.waited(f)
		end = append(end, p.failed(f, errEngaged))
	}
	give := s.closed || len(p.children) == 0 && time.Until(s.resume) > longestWait
	if give && len(p.children) == 0 {
		return append(end, p.endWaiting(func(f *flight) func() { return p.failed(f, s.pausing()) })...)
	}
	return end
}

// cancelled ends a request for the client: octets is its cancellation, or nil
// if the client is gone or the time is up, when one is written in its place.
func (p *pool) cancelled(f *flight, octets []byte) {
	if p.abandon(f, octets) {
		f.child.observe(Event{What: Silent, Err: errOverdue})
	}
}

var errOverdue = errors.New("mcpstdio: no message of the server in the time of a call")

// abandon is cancelled, and reports whether the request had its whole time without a message of the child.
func (p *pool) abandon(f *flight, octets []byte) (overdue bool) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.child == nil {
		if p.waiting.Remove(f.who, func(other *flight) bool { return other == f }) {
			p.waited(f)
			s.finished()
		}
		return false
	}
	c := f.child
	if c.flights[f.key] != f || f.abandoned != nil {
		return false
	}
	whole := octets == nil && c.quietSince(f.given) >= f.patience/10*9 // it may have waited for the child a little
	if !f.initialize {
		if octets == nil {
			octets = mcpmap.AppendCancelled(nil, f.id)
		}
		line, replaced := lineOf(octets)
		s.stats.replaced.Add(replaced)
		c.write(line)
	}
	f.over = time.Now()
	f.abandoned = time.AfterFunc(s.cfg.abandoned, func() { p.forgotten(f) })
	switch {
	case f.endless:
		c.ask(f)
		time.AfterFunc(longestWait, s.serveWaiting) // the id is not free soon: see engaged
	case whole:
		c.life.overdue = c.age()
		c.ask(nil)
	}
	c.judge()
	s.finished()
	return whole && !f.endless && c.process.Load() != nil
}

// forgotten gives up waiting for the answer to a cancelled request.
func (p *pool) forgotten(f *flight) {
	p.s.mu.Lock()
	c := f.child
	if c.flights[f.key] == f && !c.ofSession() && c.quietSince(f.over) >= p.s.cfg.abandoned {
		c.ask(nil)
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
	c.life.stop()
	var lost []*flight
	for _, f := range c.flights {
		c.returned(f)
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
	if p.placed {
		p.placed = false
		p.s.children.Give(p.who, 1)
	}
	end = p.endWaiting(func(f *flight) func() { return p.failed(f, why) })
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
