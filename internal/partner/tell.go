package partner

import (
	"context"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Tell says what a partner learns of the callers of forwarded messages.
type Tell uint8

// A partner that is told distinguishes the callers: each owns what it creates there.
const (
	TellNone      Tell = iota // nothing: all callers are this endpoint
	TellPseudonym             // Options.Pseudonym of the caller
	TellCaller                // the identity of the caller
)

// An assertion is made again when less than this is left of its validity.
const remake = 15 * time.Second

// maxMade limits the assertions that are kept for a session.
const maxMade = 1024

// teller makes the assertions of callers for one session to the partner. An assertion is
// made once for each caller, and again when it is about to expire.
type teller struct {
	link    *Link
	session *endpoint.Session
	leaves  transport.Leaves

	mu         sync.Mutex
	now, older map[string]made // the older half is forgotten at once
}

type made struct {
	jwt   []byte
	until time.Time
}

// tellOn makes a session tell its peer of callers, or not to.
func (l *Link) tellOn(s *endpoint.Session) {
	leaves, ok := s.Leaves()
	if l.opts.Tell == TellNone || !ok {
		s.Assert(nil)
		return
	}
	t := &teller{link: l, session: s, leaves: leaves}
	s.Assert(t.assertion)
}

// assertion returns the assertion for an identity of this endpoint; nil if the partner does
// not know assertions.
func (t *teller) assertion(identity string) ([]byte, error) {
	if !profiles.Heeds(t.session, 0, profiles.ExtCaller) {
		return nil, nil
	}
	now := time.Now()
	t.mu.Lock()
	m, ok := t.now[identity]
	if !ok {
		m, ok = t.older[identity]
	}
	t.mu.Unlock()
	if ok && now.Before(m.until) {
		return m.jwt, nil
	}
	jwt, err := caller.Sign(t.link.claim(identity), t.leaves.Own, t.link.opts.Identity, now)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.now) >= maxMade/2 {
		t.now, t.older = nil, t.now
	}
	if t.now == nil {
		t.now = make(map[string]made)
	}
	t.now[identity] = made{jwt, now.Add(caller.Valid - remake)}
	return jwt, nil
}

// claim returns what the partner is told of an identity: the endpoints that it came by, of
// which this one is the last, and the caller.
func (l *Link) claim(identity string) *caller.Claim {
	steps := profiles.Steps(identity)
	behind := len(steps) - 1
	c := &caller.Claim{Caller: steps[behind], Chain: append([]string{l.opts.Self()}, steps[:behind]...)}
	if l.opts.Tell == TellPseudonym {
		c.Caller = l.opts.Pseudonym(identity)
	}
	return c
}

// telling reports whether the partner distinguishes callers. While it is away, it is as it
// was.
func (l *Link) telling() bool { return l.opts.Tell != TellNone && l.heeds.Load() }

// on returns ctx for messages on behalf of an identity of this endpoint. The identities share the
// session by it, and the partner is told of them according to Options.Tell.
func (l *Link) on(ctx context.Context, identity string) context.Context {
	return profiles.WithCaller(ctx, identity)
}
