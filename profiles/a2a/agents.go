package a2a

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// directory has the known agents, connected or not. The mu of the Service guards it.
type directory struct {
	s       *Service
	byID    map[string]*agent
	places  fair.Shares // of byID, by identity
	hosts   map[profiles.Session]*host
	waiting map[*task]struct{} // tasks that wait for an agent
}

// agent is an agent_id that a session declared. It outlives the session, up to a bound:
// tasks of its kinds wait for it, and for the time Abandoned no other identity gets its
// name. The mu of the Service guards it.
type agent struct {
	id       string
	identity string
	kinds    []string
	instance string                                // of its process, empty if it names none
	declared string                                // what it declares for the hints of others, see policyhint.ParseDeclaration
	barred   string                                // of a partner, see Service.Partner
	cross    func(context.Context) context.Context // of a partner, see Service.Partner
	host     *host                                 // nil while it is not connected
	plain    bool                                  // a partner without support for names of agents
	left     time.Time
	tasks    map[*task]struct{} // assigned to it

	version uint64       // of its declaration in the store, 0 if there is none
	stored  *declaration // as it is stored, or being written; nil if there is none
	renew   time.Time    // when to store it again even without a change
}

// host is a session that has agents.
type host struct {
	session profiles.Session
	agents  map[string]*agent
	unwatch func() bool
	release func() // of profiles.Keep
}

var (
	errAgentDenied = &profiles.Error{Code: profiles.SecurityPolicy, Detail: "agent_id", Text: "a2a: agent_id is not for this identity", Denied: true}
	errAgents      = profiles.Busy("a2a_agents", "too many agents")
)

// serveHandshake handles a Handshake. It takes effect at once.
func (s *Service) serveHandshake(req *profiles.Request) error {
	var in HandshakeBody
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	session := req.Session
	identity, id := session.Peer().Identity, string(in.AgentID)
	req.About("handshake", id)
	switch {
	case !s.mayBe(identity, id):
		return errAgentDenied
	case isPartner(id), s.pools.hosts(id):
		req.Forbid(s.opts.Access, "a2a", "handshake", id, errAgentDenied.Detail)
		return errAgentDenied
	}
	kinds := make([]string, len(in.Capabilities))
	for i, kind := range in.Capabilities {
		kinds[i] = string(kind)
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	instance, declared := "", ""
	for typ, value := range req.Extensions.All() {
		if typ != ExtParam {
			continue
		}
		if rest, ok := bytes.CutPrefix(value, []byte(instanceParam)); ok {
			instance = string(rest)
			profiles.Learn(session, resumes)
		}
		if rest, ok := bytes.CutPrefix(value, []byte(hintsParam)); ok {
			declared = string(rest)
			if err := s.opts.Declaration(declared); err != nil {
				return profiles.InvalidExtension(ExtParam, "%v", err)
			}
		}
	}
	s.mu.Lock()
	a, err := s.agents.seat(session, identity, id)
	if err != nil {
		s.mu.Unlock()
		if err == errAgentDenied {
			req.Forbid(s.opts.Access, "a2a", "handshake", id, errAgentDenied.Detail)
		}
		return err
	}
	a.kinds, a.instance, a.declared = kinds, instance, declared
	s.agents.resume(a)
	s.mu.Unlock()
	s.agents.remember(a)
	if !s.mayBe(identity, id) { // the rules changed before the agent was seated
		s.agents.expel(a)
		return errAgentDenied
	}
	return nil
}

// mayBe reports whether the rules let an identity have an agent_id.
func (s *Service) mayBe(identity, id string) bool {
	return s.opts.Access.Allowed(identity, "a2a", "handshake", id) && s.opts.MayUse(identity, id)
}

// expel takes an agent from its session, because the rules no longer let its identity have
// it. Its tasks fail.
func (dir *directory) expel(a *agent) {
	s := dir.s
	s.mu.Lock()
	if a.host != nil {
		dir.unseat(a)
	}
	given := slices.Collect(maps.Keys(a.tasks))
	s.mu.Unlock()
	for _, t := range given {
		t.fail(reasonGone)
	}
}

// resumes is the offer of an agent that names its process, or of an executor that numbers
// its Events: both serve only to resume a task.
var resumes = profiles.Offer{Profiles: []uint64{ProfileID}, Extensions: map[uint64][]uint64{ProfileID: {ExtResume}}}

// resume continues the tasks of an agent that has connected, and gives it the tasks that
// waited for such an agent. The caller holds mu.
func (dir *directory) resume(a *agent) {
	s, session, instance := dir.s, a.host.session, a.instance
	for t := range a.tasks {
		x := &t.exec
		if x.at.Phase == phaseAgent && (x.delivery == nil || x.delivery.session != session || x.at.Instance != instance) {
			s.work.Go(func() { x.agentReturned(session, instance) })
		}
	}
	for t := range dir.waiting {
		if a.canTake(t) {
			delete(dir.waiting, t)
			s.work.Go(func() { t.exec.dispatch(nil, true) })
		}
	}
}

// find returns the agent of a stored task. An unknown one is entered as not connected; nil
// means that another identity has its id. The caller holds mu.
func (dir *directory) find(id, identity string) *agent {
	a := dir.byID[id]
	if a == nil {
		a = dir.enter(id, identity)
	}
	if a.identity != identity {
		return nil
	}
	return a
}

// enter makes an agent that is not connected. The caller holds mu.
func (dir *directory) enter(id, identity string) *agent {
	if old := dir.byID[id]; old != nil {
		dir.remove(old)
	}
	a := &agent{id: id, identity: identity, tasks: make(map[*task]struct{})}
	dir.byID[id] = a
	dir.places.Force(identity, 1)
	return a
}

// remove forgets an agent. The caller holds mu.
func (dir *directory) remove(a *agent) {
	delete(dir.byID, a.id)
	dir.places.Give(a.identity, 1)
}

// seat finds or makes the agent of an id and puts it on a session. The caller holds mu.
func (dir *directory) seat(session profiles.Session, identity, id string) (*agent, error) {
	s := dir.s
	if s.closed {
		return nil, errClosed
	}
	a := dir.byID[id]
	if a != nil && a.identity != identity {
		if a.host != nil || len(a.tasks) > 0 || time.Since(a.left) < s.limits.Load().Abandoned {
			return nil, errAgentDenied
		}
		dir.remove(a)
		a = nil
	}
	h := dir.hosts[session]
	if (a == nil || a.host != h || h == nil) && h != nil && len(h.agents) >= s.opts.AgentsPerSession {
		return nil, errAgents
	}
	if a == nil {
		if fault := dir.makeRoom(identity).Refuse(errAgents); fault != nil {
			return nil, fault
		}
		a = dir.enter(id, identity)
	}
	dir.move(a, session)
	return a, nil
}

// move puts an agent on a session, and takes it from another. The caller holds mu.
func (dir *directory) move(a *agent, session profiles.Session) {
	h := dir.hosts[session]
	if h == nil {
		h = &host{session: session, agents: make(map[string]*agent)}
		h.unwatch = context.AfterFunc(session.Context(), func() { dir.sessionEnded(h) })
		h.release = profiles.Keep(session) // an agent that waits for work is not idle
		dir.hosts[session] = h
	}
	if a.host != nil && a.host != h {
		dir.unseat(a)
	}
	a.host = h
	h.agents[a.id] = a
}

// makeRoom reports whether there is room for one more agent of an identity. If necessary it removes
// the agent that has been disconnected for the longest time and has no tasks; one of the identity
// itself if that is above its share. The caller holds mu.
func (dir *directory) makeRoom(identity string) fair.Answer {
	for {
		answer := dir.places.Ask(identity, 1)
		if answer == fair.Taken {
			return answer
		}
		var oldest *agent
		for _, a := range dir.byID {
			if a.host == nil && len(a.tasks) == 0 && !a.partner() && (answer == fair.Full || a.identity == identity) && (oldest == nil || a.left.Before(oldest.left)) {
				oldest = a
			}
		}
		if oldest == nil {
			return answer
		}
		dir.remove(oldest)
	}
}

// unseat takes an agent from its session. The caller holds mu.
func (dir *directory) unseat(a *agent) {
	h := a.host
	delete(h.agents, a.id)
	a.host, a.left = nil, time.Now()
	if len(h.agents) == 0 {
		h.unwatch()
		h.release()
		delete(dir.hosts, h.session)
	}
}

// sessionEnded is called at the end of a session with agents.
func (dir *directory) sessionEnded(h *host) {
	dir.s.mu.Lock()
	defer dir.s.mu.Unlock()
	for _, a := range h.agents {
		dir.unseat(a)
	}
}

// canTake reports whether a task may be given to an agent, now or after it has reconnected.
// The caller holds mu.
func (a *agent) canTake(t *task) bool {
	if a.partner() {
		return strings.HasPrefix(t.Agent, a.id)
	}
	_, found := slices.BinarySearch(a.kinds, t.Kind)
	return found && (t.Agent == "" || t.Agent == a.id)
}

// choose returns the least busy connected agent for a task. known says whether there is any
// agent for the task, connected or not. Without one, but for agents that do not keep the
// hints, stopped is the hint of such an agent. The caller holds mu.
func (dir *directory) choose(t *task) (best *agent, known bool, stopped *profiles.Violation) {
	for _, a := range dir.byID {
		if !a.canTake(t) {
			continue
		}
		if v := t.violated(a); v != nil {
			stopped = v
			continue
		}
		known = true
		if a.host != nil && (best == nil || len(a.tasks) < len(best.tasks) || len(a.tasks) == len(best.tasks) && a.id < best.id) {
			best = a
		}
	}
	return best, known, stopped
}

// declarations returns the declarations of agents of sessions that have a kind: all, or
// the one that is named. It is never nil.
func (dir *directory) declarations(agent, kind string) []string {
	dir.s.mu.Lock()
	defer dir.s.mu.Unlock()
	list := []string{}
	for _, a := range dir.byID {
		if _, found := slices.BinarySearch(a.kinds, kind); found && !a.partner() && (agent == "" || agent == a.id) {
			list = append(list, a.declared)
		}
	}
	return list
}

// Declared returns the declaration of an agent of a session for the hints of others;
// false for an agent that is unknown or forgotten.
func (s *Service) Declared(agentID string) (text string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents.byID[agentID]
	if a == nil || a.partner() {
		return "", false
	}
	return a.declared, true
}

// kinds returns the kinds that agents have declared.
func (dir *directory) kinds() (kinds []string) {
	dir.s.mu.Lock()
	defer dir.s.mu.Unlock()
	for _, a := range dir.byID {
		kinds = append(kinds, a.kinds...)
	}
	return kinds
}

// Agent is an agent that a session declared.
type Agent struct {
	ID           string
	Identity     string   // of its session, as the channel authenticated it
	Capabilities []string // kinds, as the last Handshake had them
	Online       bool     // it has a session
	Tasks        int      // unfinished tasks assigned to it
}

// Agents returns the agents that sessions have declared, sorted by ID. Agents without a
// session are kept for a while, because tasks may wait for them.
func (s *Service) Agents() []Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Agent, 0, len(s.agents.byID))
	for _, a := range s.agents.byID {
		if a.partner() {
			continue
		}
		list = append(list, Agent{
			ID: a.id, Identity: a.identity, Capabilities: slices.Clone(a.kinds), Online: a.host != nil, Tasks: len(a.tasks),
		})
	}
	slices.SortFunc(list, func(a, b Agent) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Takes reports whether an agent that is connected has declared a kind.
func (s *Service) Takes(agentID, kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents.byID[agentID]
	if a == nil || a.host == nil || a.partner() {
		return false
	}
	_, found := slices.BinarySearch(a.kinds, kind)
	return found
}

// Session returns the session of an agent, false while it is not connected.
func (s *Service) Session(agentID string) (profiles.Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents.byID[agentID]
	if a == nil || a.host == nil {
		return nil, false
	}
	return a.host.session, true
}

// Owner returns the identity that declared an agent, connected or not; false for an agent
// that is unknown or forgotten.
func (s *Service) Owner(agentID string) (identity string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents.byID[agentID]
	if a == nil {
		return "", false
	}
	return a.identity, true
}
