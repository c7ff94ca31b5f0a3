package a2a

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// agent is an agent_id that a session declared. It outlives the session, up to
// a bound: tasks of its kinds wait for it, and for as long as Abandoned nobody
// else gets its name. The mu of the Service guards it.
type agent struct {
	id       string
	identity string
	kinds    []string
	instance string                                // of its process, empty if it names none
	cross    func(context.Context) context.Context // of a partner, see Service.Partner
	host     *host                                 // nil while it is away
	left     time.Time
	tasks    map[*task]struct{} // assigned to it

	version uint64    // of its declaration in the store, 0 if there is none
	stored  []string  // the kinds in it, or about to be
	renew   time.Time // when it is stored again though nothing changed
}

// host is a session that has agents.
type host struct {
	session profiles.Session
	agents  map[string]*agent
	unwatch func() bool
}

// instanceParam is the service parameter of a Handshake that tells one process
// of an agent from the next.
const instanceParam = "instance="

var (
	errAgentDenied = &profiles.Error{Code: profiles.SecurityPolicy, Detail: "agent_id", Text: "a2a: agent_id is not for this identity", Denied: true}
	errAgents      = profiles.Busy("a2a_agents", "too many agents")
)

// serveHandshake takes a Handshake. It takes effect at once.
func (s *Service) serveHandshake(req *profiles.Request) error {
	var in HandshakeBody
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	session := req.Session
	identity, id := session.Peer().Identity, string(in.AgentID)
	if !req.May(s.opts.Access, "a2a", "handshake", id) || !s.opts.MayUse(identity, id) || isPartner(id) || s.local(id) {
		return errAgentDenied
	}
	kinds := make([]string, len(in.Capabilities))
	for i, kind := range in.Capabilities {
		kinds[i] = string(kind)
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	instance := ""
	for typ, value := range req.Extensions.All() {
		if rest, ok := bytes.CutPrefix(value, []byte(instanceParam)); ok && typ == profiles.ExtParam {
			instance = string(rest)
		}
	}
	s.mu.Lock()
	a, err := s.seat(session, identity, id)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	a.kinds, a.instance = kinds, instance
	var returned, waiting []*task
	for t := range a.tasks {
		if t.at.Phase == phaseAgent && (t.out == nil || t.out.session != session || t.at.Instance != instance) {
			returned = append(returned, t)
		}
	}
	for t := range s.idle {
		if a.offers(t) {
			waiting = append(waiting, t)
			delete(s.idle, t)
		}
	}
	s.mu.Unlock()
	s.remember(a)
	for _, t := range returned {
		s.spawn(func() { t.returned(session, instance) })
	}
	for _, t := range waiting {
		s.spawn(func() { t.dispatch(nil, true) })
	}
	return nil
}

// seat finds or makes the agent of an id and puts it on a session. The caller
// holds mu.
func (s *Service) seat(session profiles.Session, identity, id string) (*agent, error) {
	if s.closed {
		return nil, errClosed
	}
	a := s.agents[id]
	if a != nil && a.identity != identity {
		if a.host != nil || len(a.tasks) > 0 || time.Since(a.left) < s.opts.Abandoned {
			return nil, errAgentDenied
		}
		delete(s.agents, id)
		a = nil
	}
	h := s.hosts[session]
	if (a == nil || a.host != h || h == nil) && h != nil && len(h.agents) >= s.opts.AgentsPerSession {
		return nil, errAgents
	}
	if a == nil {
		if !s.roomForAgent() {
			return nil, errAgents
		}
		a = &agent{id: id, identity: identity, tasks: make(map[*task]struct{})}
		s.agents[id] = a
	}
	s.place(a, session)
	return a, nil
}

// place puts an agent on a session, and takes it from another. The caller holds mu.
func (s *Service) place(a *agent, session profiles.Session) {
	h := s.hosts[session]
	if h == nil {
		h = &host{session: session, agents: make(map[string]*agent)}
		h.unwatch = context.AfterFunc(session.Context(), func() { s.vacate(h) })
		s.hosts[session] = h
	}
	if a.host != nil && a.host != h {
		s.unseat(a)
	}
	a.host = h
	h.agents[a.id] = a
}

// roomForAgent makes room for one more agent, if need be at the cost of the one
// that has been away longest and has no tasks. The caller holds mu.
func (s *Service) roomForAgent() bool {
	if len(s.agents) < s.opts.Agents {
		return true
	}
	var oldest *agent
	for _, a := range s.agents {
		if a.host == nil && len(a.tasks) == 0 && !a.partner() && (oldest == nil || a.left.Before(oldest.left)) {
			oldest = a
		}
	}
	if oldest == nil {
		return false
	}
	delete(s.agents, oldest.id)
	return true
}

// unseat takes an agent from its session. The caller holds mu.
func (s *Service) unseat(a *agent) {
	h := a.host
	delete(h.agents, a.id)
	a.host, a.left = nil, time.Now()
	if len(h.agents) == 0 {
		h.unwatch()
		delete(s.hosts, h.session)
	}
}

// vacate is called when the session of agents is gone.
func (s *Service) vacate(h *host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range h.agents {
		s.unseat(a)
	}
}

// offers reports whether a task may be given to an agent, now or when it is
// back. The caller holds mu.
func (a *agent) offers(t *task) bool {
	if a.partner() {
		return strings.HasPrefix(t.agent, a.id) && len(t.agent) > len(a.id)
	}
	_, found := slices.BinarySearch(a.kinds, t.kind)
	return found && (t.agent == "" || t.agent == a.id)
}

// choose returns the agent for a task, with the session that it is on: of those
// that are here, the one that has least to do. known says whether there is any,
// here or not. The caller holds mu.
func (s *Service) choose(t *task) (best *agent, known bool) {
	for _, a := range s.agents {
		if !a.offers(t) {
			continue
		}
		known = true
		if a.host != nil && (best == nil || len(a.tasks) < len(best.tasks) || len(a.tasks) == len(best.tasks) && a.id < best.id) {
			best = a
		}
	}
	return best, known
}

// beacon repeats a Handshake.
type beacon struct {
	s     *Service
	key   beaconKey
	timer *time.Timer
}

type beaconKey struct {
	session profiles.Session
	agentID string
}

// beaconInterval is a fifth of the time after which a session with nothing in
// flight is idle.
const beaconInterval = 2 * time.Minute

// Declare tells the peer of a session that an agent is here which carries out
// tasks of some kinds: those of the Workers. The Handshake is sent at once, and
// again every two minutes as long as the session lives, so that a session on
// which nothing but work is awaited is not idle. A later Declare of the same
// agent_id on the same session replaces the kinds. A peer that refuses it has no
// way to say so in this profile.
func (s *Service) Declare(ctx context.Context, session profiles.Session, agentID string, kinds []string) error {
	m := HandshakeBody{AgentID: []byte(agentID)}
	for _, kind := range kinds {
		m.Capabilities = append(m.Capabilities, []byte(kind))
	}
	env := handshake(&m, s.instance)
	if err := new(HandshakeBody).Decode(env.Payload); err != nil {
		return err
	}
	if err := session.Send(ctx, env); err != nil {
		return err
	}
	b := &beacon{s: s, key: beaconKey{session, agentID}}
	s.mu.Lock()
	old := s.beacons[b.key]
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.beacons[b.key] = b
	b.timer = s.later(beaconInterval, func() { b.send(m) })
	s.mu.Unlock()
	if old != nil {
		old.timer.Stop()
	}
	context.AfterFunc(session.Context(), b.stop)
	return nil
}

// send repeats the Handshake. The peer may be slow to read; it is not waited
// for longer than until the next one is due.
func (b *beacon) send(m HandshakeBody) {
	ctx, cancel := context.WithTimeout(b.s.ctx, beaconInterval)
	defer cancel()
	if b.key.session.Send(ctx, handshake(&m, b.s.instance)) != nil && b.key.session.Context().Err() != nil {
		return
	}
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if b.s.beacons[b.key] == b {
		b.timer = b.s.later(beaconInterval, func() { b.send(m) })
	}
}

func (b *beacon) stop() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if b.s.beacons[b.key] == b {
		delete(b.s.beacons, b.key)
	}
	b.timer.Stop()
}

// handshake is a Handshake of this process.
func handshake(m *HandshakeBody, instance string) e1.Envelope {
	return e1.Envelope{
		ProfileID: ProfileID, MsgType: TypeHandshake,
		Extensions: e1.AppendExtension(nil, profiles.ExtParam, []byte(instanceParam+instance)),
		Payload:    m.Append(make([]byte, 0, m.Size())),
	}
}
