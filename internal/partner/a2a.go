package partner

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// Tasks forwards the tasks for partner/agent. They are stored here like tasks of other
// agents, so that initiators can resume them, and continue on the next session when one is
// lost. a2a.Service implements it; see its methods.
type Tasks interface {
	Partner(name, identity, barred string, cross func(context.Context) context.Context)
	Reached(name string, session profiles.Session, agents bool)
	NoPartner(name string)
}

// Deliveries forwards the deliveries for partner/topic. They are stored here until the
// partner has accepted custody. relay.Service implements it; see its methods.
type Deliveries interface {
	Reached(name string, session profiles.Session, knows relay.Knows)
	NoPartner(name string)
}

// Chains sends revocations of credentials after them. cred.Service implements it; see its
// methods.
type Chains interface {
	Reached(session profiles.Session)
}

// declare announces the partner to Tasks and Deliveries.
func (l *Link) declare() {
	if l.opts.Tasks == nil {
		return
	}
	l.opts.Tasks.Partner(l.opts.Name, l.opts.Identity, l.opts.Barred, l.crossing)
}

// reached gives Chains, Tasks and Deliveries the session to the partner, if it serves their
// profile.
func (l *Link) reached(up *Up) {
	if l.opts.Chains != nil {
		l.opts.Chains.Reached(up.Session)
	}
	if l.opts.Tasks != nil {
		l.opts.Tasks.Reached(l.opts.Name, up.Session, profiles.Heeds(up.Session, a2a.ProfileID, a2a.ExtAgent))
	}
	if l.opts.Deliveries != nil && profiles.Serves(up.Session, relay.ProfileID) {
		l.opts.Deliveries.Reached(l.opts.Name, up.Session, relay.Knows{
			RPC: profiles.Serves(up.Session, rpc.ProfileID), Targets: profiles.Heeds(up.Session, 0, profiles.ExtTarget),
		})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil {
		l.work.Go(func() { l.list(up) })
	}
}

// retire tells Tasks and Deliveries that the partner was removed.
func (l *Link) retire() {
	if l.opts.Tasks != nil {
		l.opts.Tasks.NoPartner(l.opts.Name)
	}
	if l.opts.Deliveries != nil {
		l.opts.Deliveries.NoPartner(l.opts.Name)
	}
	if l.opts.Agents != nil {
		l.opts.Agents.Forget(l.opts.Name)
	}
	if l.opts.Tools != nil {
		l.opts.Tools.ForgetPartner(l.opts.Name)
	}
}
