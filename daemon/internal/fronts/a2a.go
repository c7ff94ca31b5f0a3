package fronts

import (
	"context"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/profiles/agdisc"
)

// openA2A makes the front for A2A clients.
func (f *Fronts) openA2A() error {
	o := a2aTerms(f.conf)
	o.Link = func(caller string) a2afront.Link { return a2aLink{f, caller} }
	o.Caller, o.Carried, o.Partner = gate.Caller, f.carried, f.o.Partner
	o.Memory, o.Served = f.o.Memory, func(caller string) bool { return f.o.Access.Serves(caller, "a2a") }
	o.MaxBody = max(1, min(int64(f.o.Config.Limits.PayloadBytes), maxPayload)-payloadRoom)
	var err error
	f.a2a, err = a2afront.New(o)
	return err
}

// a2aTerms returns the options that a reload can change.
func a2aTerms(conf *config.HTTP) a2afront.Options {
	c := &conf.A2A
	return a2afront.Options{
		Default: c.Default, Verbatim: c.Card == config.CardVerbatim, Params: c.Parameters, TenantV1: c.TenantV1, URL: conf.URL,
	}
}

const (
	// maxPayload is the maximum of the stored request of a task.
	maxPayload = 8 << 20

	// payloadRoom is the part of a payload for the id and the kind of a task.
	payloadRoom = 1 << 10
)

// a2aLink is the link of one caller to the agents.
type a2aLink struct {
	fronts *Fronts
	caller string
}

// Session implements a2afront.Link.
func (l a2aLink) Session(context.Context) (a2afront.Session, error) {
	link, err := l.fronts.link(l.caller)
	if err != nil {
		return a2afront.Session{}, err
	}
	return a2afront.Session{Session: link.Session, Tasks: l.fronts.way.Profiles().A2A}, nil
}

// Bounds of the cached cards of one caller.
const (
	callerCards      = 256
	callerCardOctets = 8 << 20
)

// Card implements a2afront.Link. Cards are cached per caller, because callers have
// different rights.
func (l a2aLink) Card(ctx context.Context, agent string) (agdisc.Card, error) {
	s, err := l.Session(ctx)
	if err != nil {
		return agdisc.Card{}, err
	}
	f := l.fronts
	f.mu.Lock()
	cache := f.cards[l.caller]
	if cache == nil {
		cache = agdisc.NewCache(agdisc.CacheOptions{Cards: callerCards, Octets: callerCardOctets})
		f.cards[l.caller] = cache
	}
	f.mu.Unlock()
	return cache.Get(ctx, s.Session, agent)
}

// closeCards ends pending requests for cards.
func (f *Fronts) closeCards() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cache := range f.cards {
		cache.Close()
	}
}
