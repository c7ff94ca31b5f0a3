package daemon

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/fronts"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/mcpservers"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/partners"
	"github.com/slimwire/swp/daemon/internal/rpcbackends"
	"github.com/slimwire/swp/daemon/internal/sdlserver"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/daemon/internal/slip"
	"github.com/slimwire/swp/daemon/internal/storage"
	"github.com/slimwire/swp/daemon/internal/teams"
	"github.com/slimwire/swp/daemon/internal/telemetry"
	"github.com/slimwire/swp/daemon/internal/trail"
	"github.com/slimwire/swp/daemon/internal/workers"
	"github.com/slimwire/swp/profiles/rpc"
)

// makeBase makes the parts that all others need. It waits for the Workload API until ctx ends.
func (d *daemon) makeBase(ctx context.Context) error {
	var err error
	if d.sockets, err = entrances.NewSockets(d.opts.Sockets); err != nil {
		return err
	}
	d.admin, d.probes = newAdminPart(d), &web{most: maxProbes}
	d.add(d.admin)
	d.add(d.probes)
	if err = d.admin.start(); err != nil {
		return err
	}
	if err = d.probes.open(d, "health", d.config.Health, newProbes(&d.health)); err != nil {
		return err
	}
	d.memory = entrances.NewMemory(int(d.config.Limits.InFlightBytes))
	d.add(d.memory)
	if d.opts.InFlight != nil {
		d.memory.CollectFirst()
		d.opts.InFlight(d.memory.Budget.Used)
	}
	d.reloader = newReloader(d.config, d.opts.Read, d.sections(), d.log)
	d.reloader.signal, d.reloader.hold = d.opts.Reload, d.recheck
	d.reloader.identity = func() string { return d.credentials.Identity() }
	if d.credentials, err = identity.New(ctx, d.config, time.Now, d.log); err != nil {
		return err
	}
	d.add(d.credentials)
	d.served = served.New(d.log)
	d.observer = telemetry.NewObserver(d.log, d.exchanges, d.credentials.Explain)
	reads := func(identity string) bool { return d.partners.Directory().Tells(identity) }
	d.guard, err = guard.New(guard.Options{
		Access: &d.config.Access, HTTP: &d.config.HTTP, Log: d.log, Running: func() *config.Config { return d.reloader.running.Load() },
		Changed: func(differs func(identity, server string) bool) {
			d.served.Set().MCP.RulesChanged(differs)
		},
		Security: d.observer.Security, Farewells: entrances.NewFarewells(reads),
	})
	if err != nil {
		return err
	}
	d.endpoints = &entrances.Endpoints{
		Config: d.config, Log: d.log, Parts: &d.parts, Self: d.credentials.Identity, Observer: d.observer, Access: d.guard, Admit: d.memory.Admit, Memory: d.memory.Budget,
		Proxies:   entrances.NewProxies(d.config.Limits.Networks()),
		Farewells: entrances.NewFarewells(reads),
		Ask:       rpc.Acquaint, Handler: func(most time.Duration) { d.served.Set().SetHandler(most) },
	}
	d.listeners = entrances.NewListeners(entrances.Options{
		Config: d.config, Log: d.log, Sockets: d.sockets, Credentials: d.credentials.Current, Endpoints: d.endpoints, Security: d.observer.Security, Keeper: d.guard,
		Cluster: func() *entrances.Cluster { return d.cluster },
	})
	d.groups = part.KeepGroups(d.config, d.log)
	if err := d.joinCluster(); err != nil {
		return err
	}
	stands := &standing{d: d}
	d.add(stands)
	d.state, err = storage.Open(ctx, storage.Options{
		Config: d.config, Log: d.log, Migrate: true, AcceptDamage: d.opts.AcceptDamage, Served: d.served.Set,
		Asserts: d.guard.MayAssert, Standby: stands.begin, Ousted: func(err error) { d.ousted <- err },
	})
	if ctx.Err() != nil {
		stands.leave()
	}
	stands.rise()
	if err != nil {
		return err
	}
	d.add(d.state)
	// What follows assumes one process: the store, which is open, keeps others out of the data.
	d.behind = telemetry.NewRecords(d.config.HealthFile(), d.log)
	d.add(d.behind)
	d.trail, err = trail.New(trail.Options{
		Config: d.config, Log: d.log, Identity: d.credentials.Identity, Certificate: func() *tls.Certificate { return d.credentials.Current().Certificate },
		Rule: d.guard.RuleOf, Ruled: d.guard.Ruled, PartnerOf: d.exchanges.PartnerOf, RecordLong: func(before time.Time) { d.parts.RecordLong(before) },
		Roots: d.credentials.RootsOf,
	})
	if err != nil {
		return err
	}
	d.add(d.trail)
	d.endpoints.Recorder = d.trail
	d.guard.SetRecord(d.trail.Deny)
	d.add(d.reloader)
	d.add(d.guard)
	d.add(d.exchanges)
	return nil
}

// makeFiles makes the parts that read files, and the declarations for hints.
func (d *daemon) makeFiles() error {
	var err error
	if d.cards, err = served.NewCards(d.config); err != nil {
		return err
	}
	d.add(d.cards)
	if d.verifiers, err = served.NewVerifiers(d.config, d.served, d.credentials.Identity); err != nil {
		return err
	}
	d.add(d.verifiers)
	d.hints = served.NewHints(d.config, d.log)
	d.add(d.hints)
	return nil
}

// makeBackends makes the servers, methods, agents and partners that work for peers.
func (d *daemon) makeBackends() error {
	groups, err := d.groups()
	if err != nil {
		return err
	}
	d.servers, err = mcpservers.New(mcpservers.Options{
		Config: d.config, Log: d.log, Groups: groups, Place: d.cluster.Place, Memory: d.memory.Budget, Served: d.served.Set, Health: d.behind, Declare: d.hints.SetServers, Forgotten: d.exchanges.ForgetServer,
	})
	if err != nil {
		return err
	}
	d.add(d.servers)
	d.workers, err = workers.New(workers.Options{
		Config: d.config, Log: d.log, Groups: groups, Place: d.cluster.Place, Memory: d.memory.Budget, Hires: d.served, MayUse: d.guard.MayUse, Health: d.behind, Declare: d.hints.SetWorkers,
	})
	if err != nil {
		return err
	}
	d.add(d.workers)
	d.agents, err = workers.NewAgents(workers.AgentOptions{
		Config: d.config, Log: d.log, Records: d.state, Memory: d.memory.Budget, Access: d.guard, Cards: d.cards, Hires: d.served, Health: d.behind, Declare: d.hints.SetAgents,
	})
	if err != nil {
		return err
	}
	d.add(d.agents)
	d.backends, err = rpcbackends.New(rpcbackends.Options{Config: d.config, Log: d.log, Memory: d.memory.Budget, Own: d.opts.Methods, Health: d.behind, Declare: d.hints.SetMethods})
	if err != nil {
		return err
	}
	d.add(d.backends)
	if d.inside, err = mcpservers.NewInside(d.servers, d.config, d.log); err != nil {
		return err
	}
	d.add(d.inside)
	d.teams, err = teams.New(teams.Options{Config: d.config, Log: d.log, Records: d.state, Door: d.door(), Served: d.served, Declare: d.hints.SetTeams})
	if err != nil {
		return err
	}
	d.add(d.teams)
	key, err := d.state.CallerKey()
	if err != nil {
		return err
	}
	d.partners = partners.New(partners.Options{
		Config: d.config, Key: key, Records: d.state, Log: d.log, Credentials: d.credentials, Served: d.served, Local: d.servers, Security: d.observer.Security,
		Endpoints: d.endpoints, Listeners: d.listeners, Keeper: d.guard, Drifted: d.trail.Drifted, Changed: d.trail.LinksChanged, Taken: d.servers.Yield, Stored: d.state.Named, Vouch: d.vouch, Forgotten: d.exchanges.ForgetPartner,
		Removed: func(identities []string) { d.guard.Expel(identities, d.recheck) },
	})
	d.add(d.partners)
	d.trail.SetPartners(d.partners.Receipts)
	d.endpoints.InFlightOf = d.partners.InFlight
	d.hints.Behind(d.partners.Target, func(agentID string) (string, bool) { return d.served.Set().A2A.Declared(agentID) })
	d.exchanges.Name(d.servers.Has, d.partners.Of)
	return nil
}

// makeProfiles makes the profiles, and the A2A-SDL server, which uses them and is closed
// before them.
func (d *daemon) makeProfiles() error {
	var err error
	d.words, err = slip.New(slip.Options{Config: d.config, Log: d.log, MayUse: d.guard.MayUse, Directory: d.partners.Directory(), Served: d.served, Door: d.door(), Remote: d.agents.SLIP})
	if err != nil {
		return err
	}
	d.add(d.words)
	d.agents.SetAnchors(d.words.Anchors)
	d.add(d.served)
	d.ways, err = sdlserver.NewWays(sdlserver.WayOptions{
		Config: d.config, Log: d.log, Self: d.credentials.Identity, Served: d.served, Guard: d.guard, Directory: d.partners.Directory(),
	})
	if err != nil {
		return err
	}
	d.add(d.ways)
	d.sdl, err = sdlserver.New(sdlserver.Options{
		Config: d.config, Log: d.log, Records: d.state, Memory: d.memory.Budget, Door: d.door(), Served: d.served, Guard: d.guard, Ways: d.ways, Has: d.servers.Has, Split: d.partners.Split,
	})
	if err != nil {
		return err
	}
	d.add(d.sdl)
	return d.served.Make(d.parts, served.Options{
		Version: d.opts.Version, More: d.opts.Profiles, Methods: d.opts.Methods,
		Handler: d.config.Limits.Handler, ReplayWindow: d.config.RPC.ReplayWindow,
	})
}

// makeEntrances makes the listeners for peers and the in-process doors.
func (d *daemon) makeEntrances() error {
	var err error
	set := d.served.Set()
	d.metrics = telemetry.NewMetrics(set.Registry, d.opts.Version)
	d.observer.Count(d.metrics)
	d.add(d.metrics.KeepHistory(d.config.HistoryFile(), d.log))
	d.traces, err = telemetry.NewTraces(telemetry.TraceOptions{
		Carriers: set.Carriers, Collector: d.config.Telemetry.OTLP, Version: d.opts.Version, Identity: d.credentials.Identity, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.add(d.traces)
	d.endpoints.Registry, d.endpoints.Tracer = set.Registry, d.traces
	d.add(d.listeners)
	d.streams, err = sdlserver.NewStreams(sdlserver.StreamOptions{
		Config: d.config, Log: d.log, Door: d.door(), Memory: d.memory.Budget, Served: d.sdl, Ways: d.ways, Access: d.guard,
	})
	if err != nil {
		return err
	}
	d.add(d.streams)
	d.fronts, err = fronts.New(fronts.Options{
		Config: d.config, Log: d.log, Sockets: d.sockets, Door: d.door(), Carrier: d.served, Now: d.credentials.Now, Memory: d.memory.Budget, Shared: d.endpoints.Proxies.Shared,
		Running: func() *config.Config { return d.reloader.running.Load() }, Partner: d.partners.Has, SDL: d.streams.Handler, Access: d.guard, SetCallers: d.guard.SetCallers,
		Passed: d.cluster.HTTP(),
	})
	if err != nil {
		return err
	}
	d.add(d.fronts)
	mux := http.NewServeMux()
	all := func(h *Health) []string { return h.Warnings }
	observe(mux, &d.health, all, d.metrics.Registry)
	d.monitor, err = fronts.NewMonitor(fronts.MonitorOptions{Config: d.config, Log: d.log, Sockets: d.sockets, Now: d.credentials.Now, Handler: mux})
	if err != nil {
		return err
	}
	d.add(d.monitor)
	if err := d.makeDesk(); err != nil {
		return err
	}
	d.watch()
	d.listeners.Observe(d.partners.Adopting(d.observer))
	return d.listeners.Listen()
}

// watch has records of partners, certificates and the store, whose states are known without a use.
func (d *daemon) watch() {
	d.behind.Watch(telemetry.Partner, d.partners.Health)
	d.behind.Watch(telemetry.Certificate, d.credentials.Health)
	d.behind.Watch(telemetry.Certificate, d.fronts.Health)
	d.behind.Watch(telemetry.Certificate, d.monitor.Health)
	d.behind.Watch(telemetry.Store, d.state.Health)
	d.behind.Watch(telemetry.Store, d.trail.Health)
}

// door returns the options of the in-process doors to this endpoint.
func (d *daemon) door() part.DoorOptions {
	return part.DoorOptions{Version: d.opts.Version, Self: d.credentials.Identity, Endpoints: d.endpoints, Keeper: d.guard}
}

// vouch lets nobody have a name whose data came under other authorities.
func (d *daemon) vouch() {
	if d.credentials.Withhold(d.state.Vouch(d.credentials.Claims())) {
		d.recheck()
	}
}

// recheck closes connections whose peers are no longer trusted or admitted.
func (d *daemon) recheck() {
	kept, closed := d.parts.Recheck()
	d.log.Info("peers held against the new trust anchors and rules", zap.Int("kept", kept), zap.Int("closed", closed))
}
