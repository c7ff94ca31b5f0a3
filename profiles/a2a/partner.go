package a2a

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
)

// A partner is an endpoint with its own agents. It is handled as an agent whose id ends
// in a slash, with three differences. It gets the tasks that name it, or one of its agents,
// of any kind. It stores its tasks, so it may restart. A task that was sent to it
// waits for it until the deadline of the task, because the partner continues the task. A
// task that was not yet sent to it waits for Unreached at most.

// partnerInstance is the instance of every process of a partner.
const partnerInstance = "partner"

// Partner forwards tasks for agents of a partner, name/agent. The tasks wait if there is no
// session; barred, if set, is why it will have none, and new tasks are denied with it. cross
// returns the context of a task for the partner; nil leaves it unchanged.
func (s *Service) Partner(name, identity, barred string, cross func(context.Context) context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.federation.Load(); f.byName[name] != identity {
		byName := maps.Clone(f.byName)
		byName[name] = identity
		s.federation.Store(newFederation(byName))
	}
	id := name + "/"
	a := s.agents.byID[id]
	if a != nil && a.identity != identity && a.host != nil {
		s.agents.unseat(a)
	}
	if a == nil || a.identity != identity { // tasks of the previous identity fail at their deadline
		a = s.agents.enter(id, identity)
		a.left = time.Now()
	}
	a.instance, a.barred, a.cross = partnerInstance, barred, cross
}

// Reached assigns a session to a partner, at once: tasks that were sent to the partner
// continue there, and waiting tasks are sent. agents says that the partner supports names
// of agents; a partner without that support gets no task for an agent.
func (s *Service) Reached(name string, session profiles.Session, agents bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents.byID[name+"/"]
	if a == nil || s.closed || session.Context().Err() != nil {
		return
	}
	a.plain = !agents
	s.agents.move(a, session)
	s.agents.resume(a)
}

// federation are the partners. It is immutable.
type federation struct {
	byName     map[string]string // their identities
	identities map[string]bool
}

func newFederation(byName map[string]string) *federation {
	f := &federation{byName: make(map[string]string), identities: make(map[string]bool)}
	maps.Copy(f.byName, byName)
	for _, identity := range byName {
		f.identities[identity] = true
	}
	return f
}

// has reports whether an identity belongs to a partner or to a caller of a partner.
func (f *federation) has(identity string) bool { return f.identities[profiles.Link(identity)] }

// SetPartners replaces the partners of Options and of Partner. Tasks that a removed partner has
// given end as denied. Tasks that it was given end, too.
func (s *Service) SetPartners(byName map[string]string) {
	f := newFederation(byName)
	s.federation.Store(f)
	s.review()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents.byID {
		if a.partner() && a.host == nil && len(a.tasks) == 0 && f.byName[strings.TrimSuffix(a.id, "/")] == "" {
			s.agents.remove(a)
		}
	}
}

// orphaned reports whether the partner that has the task, or for which it waits, is none any
// more. The caller holds mu.
func (t *task) orphaned() bool {
	partners := t.s.federation.Load().byName
	if at := &t.exec.at; at.Phase == phaseAgent {
		return isPartner(at.AgentID) && partners[strings.TrimSuffix(at.AgentID, "/")] != at.Identity
	}
	name, _, behind := strings.Cut(t.Agent, "/")
	return behind && partners[name] == ""
}

// NoPartner removes a partner. Tasks that were sent to it wait for their deadline, or for a
// new call of Partner.
func (s *Service) NoPartner(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents.byID[name+"/"]
	if a == nil {
		return
	}
	if a.host != nil {
		s.agents.unseat(a)
	}
	if len(a.tasks) == 0 {
		s.agents.remove(a)
	}
}

// toPartner returns the partner of a task, and its kind at the partner, if the task names a
// partner without an agent: in place of the agent, or as prefix of its kind, as in
// partner/report. Otherwise it returns its arguments.
func (s *Service) toPartner(agent, kind string) (to, kindThere string) {
	name, rest := agent, kind
	if agent == "" {
		name, rest, _ = strings.Cut(kind, "/")
	}
	if rest == "" || strings.Contains(name, "/") {
		return agent, kind
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agents.byID[name+"/"] == nil {
		return agent, kind
	}
	return name + "/", rest
}

// partner reports whether the agent is a partner.
func (a *agent) partner() bool { return isPartner(a.id) }

func isPartner(id string) bool { return strings.HasSuffix(id, "/") }

// remoteAgent returns the name of an agent at its partner; empty if id is not a partner's.
func remoteAgent(id, agent string) string {
	if !isPartner(id) {
		return ""
	}
	return strings.TrimPrefix(agent, id)
}

// waitLimit returns how long a task may wait for an executor that is not connected, and the
// reason of its failure then. The caller holds mu.
func (dir *directory) waitLimit(t *task) (wait time.Duration, reason string) {
	name, _, _ := strings.Cut(t.Agent, "/")
	if a := dir.byID[name+"/"]; a != nil && a.host == nil && a.canTake(t) {
		if a.barred != "" {
			return 0, cutReason(reasonDenied + ": " + a.barred)
		}
		reason = reasonAway
		if dir.s.opts.Away != nil {
			if why := dir.s.opts.Away(name); why != "" {
				reason = cutReason(reasonAway + ": " + why)
			}
		}
		return dir.s.opts.Unreached - time.Since(a.left), reason
	}
	return dir.s.limits.Load().Abandoned, reasonGone
}
