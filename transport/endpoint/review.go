package endpoint

import "github.com/slimwire/swp/profiles"

// permits is what the access rules have allowed an exchange. Most have asked for one thing.
type permits struct {
	first profiles.Permit
	more  []profiles.Permit
}

func (p *permits) add(one profiles.Permit) {
	if p.first.Rules == nil {
		p.first = one
		return
	}
	p.more = append(p.more, one)
}

// stand asks the rules again.
func (p *permits) stand() bool {
	if p.first.Rules != nil && !p.first.Stands() {
		return false
	}
	for i := range p.more {
		if !p.more[i].Stands() {
			return false
		}
	}
	return true
}

// Permit implements profiles.Permitter.
func (x *exchanger) Permit(p profiles.Permit) { x.account.permits.add(p) }

// Permit implements profiles.Permitter.
func (r *responder) Permit(p profiles.Permit) { r.account.permits.add(p) }

// Permit implements profiles.Permitter.
func (e *exchange) Permit(p profiles.Permit) {
	e.mu.Lock()
	e.account.permits.add(p)
	e.mu.Unlock()
	e.review() // the rules may have changed since they were asked
}

// Review asks the access rules again for all exchanges in flight, and ends those that they
// would refuse now. Call it after the rules have changed. Profiles with Profile.Reviews do
// this for their exchanges themselves.
func (e *Endpoint) Review() {
	e.reviews.Add(1)
	for s := range e.Sessions() {
		for _, x := range s.held() {
			x.review()
		}
	}
}

// held returns the exchanges in flight.
func (s *Session) held() []*exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*exchange, 0, len(s.inflight))
	for _, x := range s.inflight {
		list = append(list, x)
	}
	return list
}

// errRevoked ends an exchange that the access rules no longer allow.
var errRevoked = &profiles.Error{
	Code: profiles.SecurityPolicy, Detail: "access", Text: "the access rules do not allow this any more", Domain: true, Denied: true,
}

// review ends the exchange if the rules would refuse it now.
func (e *exchange) review() {
	if e.profile != nil && e.profile.Reviews {
		return
	}
	e.mu.Lock()
	permits := e.account.permits
	over := e.done || e.answered
	e.mu.Unlock()
	if over {
		return
	}
	stands := permits.stand() // asked in any case, because the rules audit each denial
	if rules, ok := e.s.opts.Access.(profiles.Admitter); ok && rules.Deny(e.req.Identity()) != nil || !stands {
		e.revoke(errRevoked)
	}
}

// revoke ends the exchange for a reason, which its peer is told. Its handler finds the end
// of its context.
func (e *exchange) revoke(why *profiles.Error) {
	e.mu.Lock()
	if !e.done {
		e.why = why
	}
	e.mu.Unlock()
	e.end(why, false)
}

// watch ends the exchange with its chain of credentials.
func (e *exchange) watch() {
	d := profiles.DelegationOf(e.ctx)
	if d == nil || d.Watch == nil || e.profile != nil && e.profile.Reviews {
		return
	}
	e.unwatch = d.Watch(func(why *profiles.Error) {
		fault := *why
		fault.Domain = true // the chain was valid when the message came
		e.revoke(&fault)
	})
}
