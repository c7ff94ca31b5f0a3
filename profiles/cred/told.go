package cred

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// A revocation goes where its chain went: Forward notes the recipients in the record of a
// chain, and a revoked chain is ended there, now or on the next session (Reached).

// telling is a recipient of a chain: a peer, and the caller for which the chain was sent.
type telling struct{ peer, caller string }

// maxTold bounds the tellings of a chain.
const maxTold = 64

var errTold = profiles.Busy("cred_told", "cred: the chain was forwarded on behalf of too many callers")

// toldPauses are the pauses before a peer is told again that has refused for now.
var toldPauses = backoff.Exponential{First: 100 * time.Millisecond, Longest: 2 * time.Second}

// teller tells one peer of revoked chains. The mu of the table guards it.
type teller struct {
	session    profiles.Session
	busy, more bool
}

// tellingOn returns the recipient of messages on a lane in ctx; false for a lane that does not
// know its session.
func tellingOn(ctx context.Context, lane profiles.Lane) (telling, profiles.Session, bool) {
	l, ok := profiles.Near(lane).(interface{ Session() profiles.Session })
	if !ok {
		return telling{}, nil, false
	}
	session := l.Session()
	return telling{session.Peer().Identity, profiles.CallerOf(ctx)}, session, true
}

// note records that a chain is about to be told, and waits until that is durable.
func (s *Service) note(ctx context.Context, d *profiles.Delegation, to telling, session profiles.Session) error {
	stored := make(chan error, 1)
	t := &s.table
	t.mu.Lock()
	c := t.find(d.Owner, d.ChainID, s.clock.steady())
	switch {
	case c == nil || c.revoked:
		t.mu.Unlock()
		return profiles.ErrChain
	case slices.Contains(c.told, to):
		if c.writing == nil {
			t.mu.Unlock()
			return nil
		}
	case len(c.told) >= maxTold:
		t.mu.Unlock()
		return errTold
	default:
		c.told = append(c.told, to)
	}
	s.reach(session)
	s.write(c, func(err error) {
		if err != nil { // it is not told
			t.mu.Lock()
			c.told = slices.DeleteFunc(c.told, func(other telling) bool { return other == to })
			t.mu.Unlock()
		}
		stored <- err
	})
	t.mu.Unlock()
	select {
	case err := <-stored:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overtaken reports whether a chain was revoked while it was told. It is then ended there
// once more, because the REVOKE may have come first.
func (s *Service) overtaken(d *profiles.Delegation, to telling) bool {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	now := s.clock.steady()
	c := t.find(d.Owner, d.ChainID, now)
	if c == nil || !c.revoked && !t.dead(c, now) {
		return false
	}
	if !slices.Contains(c.told, to) {
		c.told = append(c.told, to)
		s.write(c, func(error) {})
	}
	s.wake(to.peer)
	return true
}

// Reached tells a peer, on a new session, which of the chains that Forward has told it were
// revoked since. It does not wait.
func (s *Service) Reached(session profiles.Session) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.reach(session)
	s.wake(session.Peer().Identity)
}

// reach has a peer be told on a session. The caller holds the lock of the table.
func (s *Service) reach(session profiles.Session) {
	t := &s.table
	peer := session.Peer().Identity
	if one := t.tellers[peer]; one != nil && one.session == session || s.ctx.Err() != nil {
		return
	}
	one := &teller{session: session}
	t.tellers[peer] = one
	context.AfterFunc(session.Context(), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.tellers[peer] == one {
			delete(t.tellers, peer)
		}
	})
}

// wake has a peer be told, if there is a session to it. The caller holds the lock of the
// table.
func (s *Service) wake(peer string) {
	one := s.table.tellers[peer]
	switch {
	case one == nil || s.opts.Sync == nil || s.ctx.Err() != nil:
	case one.busy:
		one.more = true
	default:
		one.busy = true
		s.work.Go(func() { s.tell(peer, one) })
	}
}

// wakeAll has the recipients of a revoked chain, and of chains with its tokens, be told. The
// caller holds the lock of the table.
func (s *Service) wakeAll(c *chain) {
	if c.others == 0 {
		for _, to := range c.told {
			s.wake(to.peer)
		}
		return
	}
	for peer := range s.table.tellers {
		s.wake(peer)
	}
}

// owed is a chain that is to be ended at a peer.
type owed struct {
	*chain
	telling
}

// owed returns the chains that are to be ended at a peer.
func (s *Service) owed(peer string) (list []owed) {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	now := s.clock.steady()
	for _, c := range t.own {
		if len(c.told) == 0 || c.over(now) || !c.revoked && !t.dead(c, now) {
			continue
		}
		for _, to := range c.told {
			if to.peer == peer {
				list = append(list, owed{c, to})
			}
		}
	}
	return list
}

// tell ends chains at a peer until it is owed none, or its session ends.
func (s *Service) tell(peer string, one *teller) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(one.session.Context(), cancel)()
	failures := 0
	for ctx.Err() == nil {
		failed := false
		for _, o := range s.owed(peer) {
			err := s.end(ctx, one.session, o)
			if refused := (*profiles.PeerError)(nil); err == nil || errors.As(err, &refused) && !refused.Retryable() {
				s.settle(o)
			} else {
				failed = true
			}
		}
		if failed {
			failures++
			_ = backoff.Wait(ctx, toldPauses.After(failures))
			continue
		}
		failures = 0
		s.table.mu.Lock()
		if !one.more {
			one.busy = false
			s.table.mu.Unlock()
			return
		}
		one.more = false
		s.table.mu.Unlock()
	}
}

// end revokes a chain at a peer.
func (s *Service) end(ctx context.Context, session profiles.Session, o owed) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Forward)
	defer cancel()
	if o.caller != "" {
		ctx = profiles.WithCaller(ctx, o.caller)
	}
	lane, err := session.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	return End(ctx, lane, s.opts.Sync, []byte(o.id), profiles.ChainRevoked)
}

// settle removes what the peer has confirmed.
func (s *Service) settle(o owed) {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(o.told, o.telling)
	if i < 0 || t.own[o.key()] != o.chain {
		return
	}
	o.told = slices.Delete(o.told, i, i+1)
	s.write(o.chain, func(error) {}) // if it fails, the peer is told once more
}

func (to *telling) encode() []byte {
	return p1.AppendBytes(p1.AppendBytes(nil, 1, to.peer), 2, to.caller)
}

// Close ends the telling of peers.
func (s *Service) Close() {
	s.table.mu.Lock()
	s.close()
	s.table.mu.Unlock()
	s.work.Wait()
}
