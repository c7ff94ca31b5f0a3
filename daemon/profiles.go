package daemon

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	stateprofile "github.com/slimwire/swp/profiles/state"
)

// served are the profiles of a daemon, as a part of it.
type served struct {
	passive
	*all.Set // nil until they are there
}

// makeProfiles makes the profiles, and A2A-SDL, which is served by one of them and ends
// ahead of it.
func (d *daemon) makeProfiles() error {
	d.remoteCards = newPartnerCards(&d.partners.directory)
	d.add(d.remoteCards)
	part := new(served)
	d.add(part)
	var err error
	if d.sdl, err = newSpeaker(d); err != nil {
		return err
	}
	d.add(d.sdl)
	o, err := d.profileOptions()
	if err != nil {
		return err
	}
	d.profiles, err = all.New(o)
	part.Set = d.profiles
	return err
}

// collectors implements part.
func (s *served) collectors() []prometheus.Collector {
	return []prometheus.Collector{liveTasks(s.A2A), waitingTasks(s.A2A), relayed{s.Relay}}
}

// retire implements part. Who listens, and consumers, would do so to the last.
func (s *served) retire() {
	s.Events.Drain()
	s.MCP.Drain()
	s.Relay.Drain()
}

// drain implements part. Nobody need be connected for a task to be worth its end.
func (s *served) drain(ctx context.Context) error { return s.A2A.Drain(ctx) }

// close implements part.
func (s *served) close() error {
	if s.Set != nil {
		s.Set.Close()
	}
	return nil
}

// method finds a method that is served elsewhere: by a backend or a partner.
func (d *daemon) method(name string) (rpc.Method, bool) {
	if m, ok := d.backends.method(name); ok {
		return m, true
	}
	return d.partners.directory.Method(name)
}

// profileOptions configure the profiles. What must last they keep in the store.
func (d *daemon) profileOptions() (all.Options, error) {
	c := d.config
	tools, err := toolOptions(c, d.servers, d.inside, d.log)
	if err != nil {
		return all.Options{}, err
	}
	key, err := tokenKey(d.state)
	if err != nil {
		return all.Options{}, err
	}
	if d.words, err = d.newSLIPWords(); err != nil {
		return all.Options{}, err
	}
	if err := apart(d.backends.now.Load(), d.opts.Methods); err != nil {
		return all.Options{}, err
	}
	o := all.Options{
		Identity: d.credentials.identity(),
		Version:  d.opts.Version, More: d.opts.Profiles,
		Idle:    c.Limits.Idle,
		Access:  d.guard,
		Partner: d.partners.directory.Knows,
		MCP:     mcpmap.Options{Backend: d.partners.backend(d.servers)},
		RPC: rpc.Options{
			Methods: d.opts.Methods, Resolve: d.method, Outcomes: d.state, ReplayWindow: c.RPC.ReplayWindow, Handler: c.Limits.Handler,
		},
		A2A:    d.workers.options(&c.A2A, d.state, d.guard.MayUse, c.Partners.Identities()),
		Events: events.Options{Retention: c.Events.Retention},
		Hints:  hintOptions(&d.targets, d.partners, d.log),
		Cred:   d.verifiers.options(&c.Cred, d.state, d.credentials.identity()),
		State:  stateprofile.Options{Store: d.state, Retention: c.State.Retention},

		Artifact: artifactOptions(c, d.state.blobs, key),
		Relay:    relayOptions(c, d.state),
		SDL:      d.sdl.options(),
		SLIP:     d.slipOptions(),
		AGDISC:   agdisc.Options{Sources: []agdisc.Source{d.cards, d.teams, d.agents, d.words, d.remoteCards}},
		TOOLDISC: tools,
	}
	o.A2A.Refused = d.partners.refusedTask
	o.A2A.Ward = a2aowners.New(a2aowners.Options{Records: d.state}).Ward
	o.A2A.Workers = slices.Concat(o.A2A.Workers, d.agents.roster.registrations(), d.teams.now.Load().tasks)
	if c.Events.Retention > 0 {
		o.Events.Store = d.state
	}
	return o, nil
}
