package a2a

import (
	"context"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
)

// A partner is an endpoint that has agents behind it. It is an agent like any other,
// whose id ends in a slash, but for three things: a task is for it if it names it, or one
// of its agents, whatever its kind; it keeps its tasks, so that it may be restarted; and
// a task that was given to it waits for it until its own deadline, because it goes on
// meanwhile. A task that was not yet given to it waits for Unreached at most.

// partnerInstance stands for every process of a partner.
const partnerInstance = "partner"

// Partner has tasks for the agents of a partner, name/agent, passed on to it. There
// may be no session yet: tasks wait. cross returns the context of a task as it is
// told to the partner; nil means as it is.
func (s *Service) Partner(name, identity string, cross func(context.Context) context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := name + "/"
	a := s.agents.byID[id]
	if a != nil && a.identity != identity && a.host != nil {
		s.agents.unseat(a)
	}
	if a == nil || a.identity != identity { // tasks of another one fail at their deadline
		a = s.agents.enter(id, identity)
		a.left = time.Now()
	}
	a.instance, a.cross = partnerInstance, cross
}

// Reached puts a partner on a session, which takes effect at once: tasks that were
// given to it go on there where they were, and tasks that waited are given to it. agents
// says that the partner tells its agents apart: a task for one of them is not given to
// a partner that does not.
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

// NoPartner takes a partner from its session for good. Tasks that it was given wait
// for their deadline, or for Partner to name it again.
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
		delete(s.agents.byID, a.id)
	}
}

// toPartner returns for whom a task is, and its kind there, if it names a partner and no
// agent: in place of an agent, or ahead of its kind, as in partner/report. What is returned
// otherwise is what was given.
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

// remoteAgent returns an agent behind a partner as the partner knows it; empty if id is
// not that of a partner.
func remoteAgent(id, agent string) string {
	if !isPartner(id) {
		return ""
	}
	return strings.TrimPrefix(agent, id)
}

// waitLimit is how long a task may wait for those who are away, and why it fails then.
// The caller holds mu.
func (dir *directory) waitLimit(t *task) (wait time.Duration, reason string) {
	name, _, _ := strings.Cut(t.Agent, "/")
	if a := dir.byID[name+"/"]; a != nil && a.host == nil && a.canTake(t) {
		return dir.s.opts.Unreached - time.Since(a.left), reasonAway
	}
	return dir.s.opts.Abandoned, reasonGone
}
