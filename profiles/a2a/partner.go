package a2a

import (
	"context"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
)

// A partner is an endpoint that has agents behind it. It is an agent like any other,
// whose id ends in a slash, but for three things: a task is for it if it names one of
// its agents, whatever its kind; it keeps its tasks, so that it may be restarted; and
// a task that was given to it waits for it until its own deadline, because it goes on
// meanwhile. One that was not yet waits for Unreached at most.

// partnerInstance stands for every process of a partner.
const partnerInstance = "partner"

// Partner has tasks for the agents of a partner, name/agent, passed on to it. There
// may be no session yet: tasks wait. cross returns the context of a task as it is
// told to the partner; nil means as it is.
func (s *Service) Partner(name, identity string, cross func(context.Context) context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := name + "/"
	a := s.agents[id]
	if a != nil && a.identity != identity {
		if a.host != nil {
			s.unseat(a)
		}
		a = nil // tasks of the other one fail at their deadline
	}
	if a == nil {
		a = &agent{id: id, identity: identity, left: time.Now(), tasks: make(map[*task]struct{})}
		s.agents[id] = a
	}
	a.instance, a.cross = partnerInstance, cross
}

// Reached puts a partner on a session, which takes effect at once: tasks that were
// given to it go on there where they were, and tasks that waited are given to it.
func (s *Service) Reached(name string, session profiles.Session) {
	s.mu.Lock()
	a := s.agents[name+"/"]
	if a == nil || s.closed || session.Context().Err() != nil {
		s.mu.Unlock()
		return
	}
	s.place(a, session)
	var returned, waiting []*task
	for t := range a.tasks {
		if t.at.Phase == phaseAgent && (t.out == nil || t.out.session != session) {
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
	for _, t := range returned {
		s.spawn(func() { t.returned(session, partnerInstance) })
	}
	for _, t := range waiting {
		s.spawn(func() { t.dispatch(nil, true) })
	}
}

// NoPartner takes a partner from its session for good. Tasks that it was given wait
// for their deadline, or for Partner to name it again.
func (s *Service) NoPartner(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents[name+"/"]
	if a == nil {
		return
	}
	if a.host != nil {
		s.unseat(a)
	}
	if len(a.tasks) == 0 {
		delete(s.agents, a.id)
	}
}

// partner reports whether the agent is a partner.
func (a *agent) partner() bool { return isPartner(a.id) }

func isPartner(id string) bool { return strings.HasSuffix(id, "/") }

// behind returns the agent of a partner that a task is meant for, as the partner
// knows it; empty if it was not given to a partner.
func (t *task) behind(id string) string {
	if !isPartner(id) {
		return ""
	}
	return strings.TrimPrefix(t.Agent, id)
}

// target is what the agent of an id here is called that the task is meant for.
func (t *task) target(id string) string {
	if isPartner(id) {
		return t.Agent
	}
	return id
}

// patience is how long a task may wait for those who are away, and why it fails then.
// The caller holds mu.
func (s *Service) patience(t *task) (wait time.Duration, reason string) {
	name, _, _ := strings.Cut(t.Agent, "/")
	if a := s.agents[name+"/"]; a != nil && a.host == nil && a.offers(t) {
		return s.opts.Unreached - time.Since(a.left), reasonAway
	}
	return s.opts.Abandoned, reasonGone
}

// name is what rules and policies know the task by: its kind, for an agent of this
// process agent/kind, behind a partner partner/agent/kind.
func (t *task) name() string { return t.s.nameOf(t.Agent, t.Kind) }

func (s *Service) nameOf(agent, kind string) string {
	if strings.Contains(agent, "/") || s.local(agent) {
		return agent + "/" + kind
	}
	return kind
}
