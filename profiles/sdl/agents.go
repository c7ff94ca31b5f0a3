package sdl

import (
	"context"
	"slices"
	"sync"

	"github.com/slimwire/swp/profiles"
)

// agents records the last session of each agent. An agent_id belongs to an identity here:
// two identities that may use the same agent_id share nothing.
type agents struct {
	bound int

	mu       sync.Mutex
	at       map[speaker]profiles.Session
	of       map[profiles.Session][]speaker
	passages passages
}

type speaker struct{ identity, agentID string }

// maxSpoken limits the agent_ids that are recorded for one session.
const maxSpoken = 64

// heard records that an identity has sent a message as an agent on a session. Above the limits it records
// nothing; the agent then counts as absent.
func (a *agents) heard(session profiles.Session, identity, agentID string) {
	who := speaker{identity, agentID}
	a.mu.Lock()
	defer a.mu.Unlock()
	was, known := a.at[who]
	if was == session {
		return
	}
	if !known && len(a.at) >= a.bound || len(a.of[session]) >= maxSpoken {
		return
	}
	if a.at == nil {
		a.at, a.of = make(map[speaker]profiles.Session), make(map[profiles.Session][]speaker)
	}
	if _, watched := a.of[session]; !watched {
		context.AfterFunc(session.Context(), func() { a.gone(session) })
	}
	if known {
		a.of[was] = slices.DeleteFunc(a.of[was], func(s speaker) bool { return s == who })
	}
	a.at[who] = session
	a.of[session] = append(a.of[session], who)
}

// gone forgets a session.
func (a *agents) gone(session profiles.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, who := range a.of[session] {
		if a.at[who] == session {
			delete(a.at, who)
		}
	}
	delete(a.of, session)
}

func (a *agents) session(identity, agentID string) (profiles.Session, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.at[speaker{identity, agentID}]
	return s, ok && s.Context().Err() == nil
}
