package endpoint

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// maxHeard limits the verified assertions that a session remembers.
const maxHeard = 1024

// callers are the verified assertions of a peer (extension 51), so that a repeated one costs
// a lookup. The older half is forgotten at once.
//
// The callers of a profiles.Asserter have separate error budgets: one may not end the connection of all.
type callers struct {
	mu         sync.Mutex
	now, older map[string]heard

	minute  time.Time // when the minute of the error budgets began
	refused map[string]refusals
}

// heard is who a message with a certain assertion is from.
type heard struct {
	peer  *profiles.Peer
	until time.Time
}

func (c *callers) find(jwt []byte) (heard, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.now[string(jwt)]
	if !ok {
		h, ok = c.older[string(jwt)]
	}
	return h, ok
}

func (c *callers) add(jwt []byte, h heard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.now) >= maxHeard/2 {
		c.now, c.older = nil, c.now
	}
	if c.now == nil {
		c.now = make(map[string]heard)
	}
	c.now[string(jwt)] = h
}

// charge counts a refusal of a message of a caller. It returns false if it counts too many
// callers already.
func (c *callers) charge(identity string, forPace bool, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counting(now) {
		c.minute, c.refused = now, make(map[string]refusals)
	}
	r, known := c.refused[identity]
	if !known && len(c.refused) >= maxHeard {
		return false
	}
	r.count(forPace)
	c.refused[identity] = r
	return true
}

// spent reports whether a caller has spent an error budget.
func (c *callers) spent(identity string, b *Bounds, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) == 0 || !c.counting(now) {
		return false
	}
	r := c.refused[identity]
	return r.errors >= b.ErrorBudget || r.paced >= b.PaceBudget
}

// counting reports whether the minute of the error budgets lasts.
func (c *callers) counting(now time.Time) bool {
	d := now.Sub(c.minute)
	return d >= 0 && d < time.Minute
}

// errCaller refuses the messages of a caller whose error budget is spent.
var errCaller = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "error_budget", Text: "too many refused messages of this caller, which is heard again within a minute",
	Retryable: true, Domain: true,
}

// charge counts a refusal: against the caller of the message, if the callers of the peer
// have separate bounds, or else against the connection, which has to end if spent.
func (s *Session) charge(who *profiles.Peer, forPace bool) (spent bool) {
	if who != nil && fair.Apart(s.peer.Identity, profiles.Asserters(s.opts.Access)) {
		if s.callers.charge(who.Identity, forPace, s.opts.Now()) {
			return false
		}
		forPace = true
	}
	return s.limiter.charge(&s.opts.Bounds, forPace)
}

// hear reads the caller that a message asserts. A message whose assertion does not verify is
// refused: it must not pass for one of the peer itself.
func (l *lane) hear(profile *profiles.Profile) error {
	if len(l.req.Extensions) == 0 || !l.s.opts.Callers || l.typ.Role&profiles.Initiating == 0 {
		return nil
	}
	var jwt []byte
	assertions := 0
	for typ, value := range l.req.Extensions.All() {
		if typ == profiles.ExtCaller {
			jwt = value
			assertions++
		}
	}
	if assertions == 0 {
		return nil
	}
	h, known := l.s.callers.find(jwt)
	var err error
	switch {
	case assertions > 1:
		err = errTwoCallers
	case !known:
		if h, err = l.s.verify(jwt, l.now); err == nil {
			l.s.callers.add(jwt, h)
		}
	case l.now.After(h.until):
		err = caller.ErrTime
	}
	if err == nil {
		l.req.Caller = h.peer
		if l.s.callers.spent(h.peer.Identity, &l.s.opts.Bounds, l.now) {
			return errCaller
		}
		if rules, ok := l.s.opts.Access.(profiles.Admitter); ok && rules.Deny(h.peer.Identity) != nil {
			return l.keepOut(profile)
		}
		return nil
	}
	l.s.opts.Observer.Security(transport.SecurityEvent{
		Transport: l.s.peer.Transport, Addr: l.s.peer.Addr, Identity: l.s.peer.Identity, Reason: transport.ReasonCaller, Err: err,
	})
	return &profiles.Error{
		Code: profiles.SecurityPolicy, Detail: detailCaller, Cause: err,
		Text:   "the assertion of the caller (extension 51) is not valid here: " + strings.TrimPrefix(err.Error(), "caller: "),
		Domain: errors.Is(err, caller.ErrTime), // clocks that differ must not cost the connection
	}
}

// keepOut refuses the message of a caller that the rules do not admit. It puts the request to
// the rules, because they audit each denial; a message that its handler would refuse, too.
func (l *lane) keepOut(profile *profiles.Profile) error {
	act, _ := l.act(profile)
	l.s.opts.Access.Allowed(l.req.Identity(), act.Profile, act.Operation, act.Name)
	return profiles.Deny(&profiles.Error{Code: profiles.SecurityPolicy, Detail: "access", Text: "the caller is not admitted here", Domain: true})
}

// detailCaller marks messages that are refused because of their assertion, or not sent
// because it is missing.
const detailCaller = "caller"

var (
	errTwoCallers = errors.New("caller: more than one assertion in a message")
	errNoLeaf     = errors.New("caller: this connection has no certificates")
)

// verify verifies an assertion of the peer.
func (s *Session) verify(jwt []byte, now time.Time) (heard, error) {
	conn, ok := s.conn.(transport.Certified)
	if !ok {
		return heard{}, errNoLeaf
	}
	claim, until, err := caller.Verify(jwt, conn.Leaves().Peer, s.peer.Identity, s.opts.Identity(), now)
	if err != nil {
		return heard{}, err
	}
	who := claim.Caller
	for _, endpoint := range slices.Backward(claim.Chain) {
		who = profiles.OnBehalf(endpoint, who)
	}
	peer := s.peer
	peer.Identity = who
	return heard{&peer, until}, nil
}

// Leaves returns the certificates that the two ends have presented; false if the connection
// has none.
func (s *Session) Leaves() (transport.Leaves, bool) {
	conn, ok := s.conn.(transport.Certified)
	if !ok {
		return transport.Leaves{}, false
	}
	return conn.Leaves(), true
}

// Assert makes the session assert callers. f returns the assertion for an identity of
// profiles.WithCaller, or nil to send none; its error is the error of the message. It is called
// for each message that opens an exchange on behalf of a caller, by many goroutines at once,
// and must not block. A nil f ends that.
func (s *Session) Assert(f func(identity string) ([]byte, error)) {
	if f == nil {
		s.asserts.Store(nil)
		return
	}
	s.asserts.Store(&f)
}

// tell appends the assertion of the caller of ctx to a message that opens an exchange. The
// messages that follow in the exchange belong to the same caller.
func (s *Session) tell(ctx context.Context, env *e1.Envelope) error {
	f := s.asserts.Load()
	if f == nil {
		return nil
	}
	who := profiles.CallerOf(ctx)
	if who == "" {
		return nil
	}
	if !s.begins(env) {
		return nil
	}
	jwt, err := (*f)(who)
	if err != nil {
		return &profiles.Error{
			Code: profiles.SecurityPolicy, Detail: detailCaller, Domain: true, Cause: err,
			Text: "there is no assertion of the caller for the partner: " + strings.TrimPrefix(err.Error(), "caller: "),
		}
	}
	if jwt != nil {
		env.Extensions = e1.AppendExtension(slices.Clip(env.Extensions), profiles.ExtCaller, jwt)
	}
	return nil
}

// begins reports whether a message asks for something: it opens an exchange, and does not end
// another. One of an unknown profile does.
func (s *Session) begins(env *e1.Envelope) bool {
	p, ok := s.opts.Registry.Lookup(env.ProfileID)
	if !ok {
		return true
	}
	t, _ := p.Type(env.MsgType)
	return t.Role&(profiles.Initiating|profiles.Concluding) == profiles.Initiating
}
