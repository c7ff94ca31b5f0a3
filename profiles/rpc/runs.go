package rpc

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// Bounds on the calls under idempotency keys, see Outcomes. Identities share them.
const (
	maxRuns      = 4096
	maxRunsOfOne = 1024
	maxRunBytes  = 64 << 20
	maxSeats     = 64

	// maxAlone is the time limit of a Held method with a key.
	maxAlone = time.Hour
)

// runs are the calls with an idempotency_key in this process, by the names of their
// records. It assumes one process: a repeated request finds the running call here only.
type runs struct {
	outcomes Outcomes
	times    func() (window, handler time.Duration)
	base     context.Context
	now      func() time.Time
	apart    func(peer string) bool // of fair.Shares.Exceeds

	mu     sync.Mutex // guards what follows, and the state of each run
	live   map[string]*run
	count  fair.Shares // of live
	octets fair.Shares // that they keep
	stuck  map[*run]struct{}
}

// timesOf returns the times of a call that begins or ends now.
func (o *Options) timesOf() (window, handler time.Duration) {
	window, handler = o.Times()
	return cmp.Or(window, o.ReplayWindow), cmp.Or(handler, o.Handler)
}

func newRuns(o Options) *runs {
	return &runs{
		outcomes: o.Outcomes, times: o.timesOf, base: o.Context, now: o.Now, apart: profiles.Asserters(o.Access),
		live: make(map[string]*run), count: fair.NewShares(maxRuns), octets: fair.NewShares(maxRunBytes), stuck: make(map[*run]struct{}),
	}
}

// keyed serves a request with an idempotency_key.
func (s *service) keyed(req *profiles.Request, in *Req, m *method, left time.Duration) error {
	identity := req.Identity()
	r := &run{
		t: s.runs, method: m, identity: identity, octets: len(in.Params), left: left,
		name: nameOf(identity, in.IdempotencyKey), inputs: inputsOf(m.name, in.Params),
	}
	p := &r.pending
	p.session, p.lane, p.key, p.run, p.after = req.Session, req.Lane, string(in.IdempotencyKey), r, prior(req)
	p.came(req, m)
	err := s.sit(&p.seat, req, in, m, left, r.leave, func(held *profiles.Request) {
		// The run may outlive the exchange, and so the copy of the request.
		own := *held
		own.Envelope = held.Clone()
		r.request = &own
	})
	if err == nil {
		s.runs.enter(r)
	}
	return err
}

// review ends the calls that the rules would refuse now.
func (s *service) review() {
	if s.runs == nil || s.keeping == nil {
		return
	}
	s.runs.mu.Lock()
	list := slices.Collect(maps.Values(s.runs.live))
	s.runs.mu.Unlock()
	for _, r := range list {
		if !s.keeping.Allowed(r.identity, "rpc", "call", r.method.name) {
			r.interrupt(errUnauthorized)
		}
	}
}

// prior returns Request.After for use after the read loop has continued; nil if nothing is
// deferred.
func prior(req *profiles.Request) func(func(), ...[]byte) bool {
	ctx, done := context.WithCancel(context.Background())
	if !req.After(done) {
		done()
		return nil
	}
	return func(f func(), _ ...[]byte) bool {
		context.AfterFunc(ctx, f)
		return true
	}
}

// enter begins a run, or adds its caller to the run that it repeats.
func (t *runs) enter(r *run) {
	st := &r.pending.seat
	var refused *profiles.Error
	var answer *Error
	begins, again := false, false
	t.mu.Lock()
	host := t.live[r.name]
	switch {
	case r.gone:
	case host == nil:
		if refused = t.refusal(r); refused != nil {
			break
		}
		t.live[r.name] = r
		t.count.Force(r.identity, 1)
		t.octets.Force(r.identity, r.octets)
		r.seats = append(r.seats, st)
		begins = true
	case r.early != nil:
		answer = r.early
	case host.inputs != r.inputs && host.state != opening:
		answer = errConflict
	case len(host.seats)+len(host.rivals) >= maxSeats:
		refused = profiles.Busy("idempotency_key", "too many requests wait for the same call")
	case host.inputs != r.inputs:
		// The store decides which request owns the key.
		host.rivals = append(host.rivals, r)
	default:
		r.host = host
		host.seats = append(host.seats, st)
		again = t.retake(host)
	}
	t.mu.Unlock()
	switch {
	case begins:
		r.begin()
	case refused != nil:
		st.refuse(refused)
	case answer != nil:
		_ = st.answer(outcome{failed: answer})
	case again:
		host.keep()
	}
}

var errKeys = profiles.Busy("idempotency_keys", "too many calls under an idempotency_key")

// refusal returns why there is no room for a run, or nil. The caller holds mu.
func (t *runs) refusal(r *run) *profiles.Error {
	if t.count.Exceeds(r.identity, 1, maxRunsOfOne, t.apart) {
		return errKeys
	}
	return max(t.count.Ask(r.identity, 1), t.octets.Ask(r.identity, r.octets)).Refuse(errKeys)
}

// enterAll tries requests for a key again, in their order.
func (t *runs) enterAll(list []*run) {
	for _, r := range list {
		t.enter(r)
	}
}

// retake removes a run whose outcome the store did not accept from the list, to try again.
// The caller holds mu.
func (t *runs) retake(r *run) bool {
	if _, ok := t.stuck[r]; !ok {
		return false
	}
	delete(t.stuck, r)
	r.state = ending
	return true
}

// retakeAll tries all such runs again, because the store has just accepted something.
func (t *runs) retakeAll() {
	t.mu.Lock()
	var all []*run
	for r := range t.stuck {
		t.retake(r)
		all = append(all, r)
	}
	t.mu.Unlock()
	for _, r := range all {
		r.keep()
	}
}
