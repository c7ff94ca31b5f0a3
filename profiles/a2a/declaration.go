package a2a

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/store"
)

// spaceAgents has the declarations, by agent_id. After a restart the tasks of a kind wait
// for the agent that declared it, as after a lost connection. A declaration is forgotten
// Retention after it was last stored.
const spaceAgents = "a2a.agents"

// declaration is the last declaration of an agent.
type declaration struct {
	Identity string
	Kinds    []string // sorted
	Hints    string   // as in the Handshake
}

func (d *declaration) encode() []byte {
	dst := p1.AppendBytes(nil, 1, d.Identity)
	for _, kind := range d.Kinds {
		dst = p1.AppendBytes(dst, 2, kind)
	}
	return p1.AppendBytes(dst, 3, d.Hints)
}

func (d *declaration) decode(value []byte) error {
	*d = declaration{}
	if err := p1.Scan(value, &d.Identity, &d.Kinds, &d.Hints); err != nil {
		return fmt.Errorf("a2a: stored declaration: %w", err)
	}
	return nil
}

// remember stores the declaration of an agent, unless a recent one is stored. If that
// fails, tasks do not wait for the agent after a restart; there is no other effect. The
// caller does not hold mu.
func (dir *directory) remember(a *agent) {
	s := dir.s
	if s.opts.Store == nil {
		return
	}
	s.mu.Lock()
	now := s.opts.Now()
	d := &declaration{a.identity, a.kinds, a.declared}
	if s.closed || a.stored != nil && slices.Equal(a.stored.Kinds, d.Kinds) && a.stored.Hints == d.Hints && now.Before(a.renew) {
		s.mu.Unlock()
		return
	}
	a.stored, a.renew = d, now.Add(s.limits.Load().Retention/2)
	id, was := a.id, a.version
	s.mu.Unlock()
	dir.record(a, id, was, d, now.Add(s.limits.Load().Retention))
}

// record submits a declaration, which replaces the stored version was.
func (dir *directory) record(a *agent, id string, was uint64, d *declaration, expires time.Time) {
	s := dir.s
	s.opts.Store.Put(spaceAgents, id, was, d.Identity, d.encode(), expires, func(r store.PutResult) {
		s.mu.Lock()
		if r.Err == nil {
			a.version = r.Version
		} else {
			a.stored, a.renew = nil, time.Time{} // the next Handshake tries again
		}
		closed := s.closed
		s.mu.Unlock()
		if r.Err == nil && !r.Wrote && !closed {
			dir.record(a, id, r.Version, d, expires)
		}
	})
}

// reload enters the agents of an earlier process, as disconnected since now. It runs before
// New returns.
func (dir *directory) reload() error {
	s := dir.s
	var fault error
	err := s.opts.Store.Scan(s.ctx, spaceAgents, "", "", func(id string, version uint64, value []byte) bool {
		var d declaration
		if fault = d.decode(value); fault != nil {
			return false
		}
		a := dir.enter(id, d.Identity)
		a.kinds, a.declared, a.left, a.version = d.Kinds, d.Hints, time.Now(), version
		return len(dir.byID) < s.opts.Agents
	})
	if err != nil {
		return err
	}
	return fault
}

// DeclaredIDs returns the first agent_ids of stored declarations that begin with a prefix,
// in the order of their octets, and at most most.
func DeclaredIDs(ctx context.Context, in store.Scanner, prefix string, most int) (ids []string, err error) {
	err = in.Scan(ctx, spaceAgents, prefix, "", func(id string, _ uint64, _ []byte) bool {
		ids = append(ids, id)
		return len(ids) < most
	})
	return ids, err
}
