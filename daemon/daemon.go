// Package daemon is swpd: from a configuration to a running endpoint. It is the
// one place that joins the endpoint, the profiles, the bridges, the log and the
// metrics.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport/endpoint"
)

// ErrAborted is the error of Run when it was told to stop at once.
var ErrAborted = errors.New("daemon: stopped before everything in flight had ended")

// Options configure Run.
type Options struct {
	// Config is what to serve. Required.
	Config *config.Config

	// Version of the program, for metrics and swp.info.
	Version string

	// Log is where log lines go, default standard error.
	Log io.Writer

	// AddrFile, if set, is written once everything listens: an address a line,
	// as swp-client takes them, the admin address as http://host:port.
	AddrFile string

	// Reload has the configuration and the files that it names read again, on each
	// receive.
	Reload <-chan struct{}

	// Read returns the configuration as it is now. Nil means that it does not change.
	Read func() (*config.Config, error)

	// Profiles of the program that embeds this one are served beside those that are
	// built in, to the same peers. What a peer may do in them is their own affair:
	// the access rules are not asked, but who is denied altogether is not let in.
	Profiles []*profiles.Profile

	// Methods of RPC are served beside the built-in ones and those of rpc.backends.
	// The access rules say who may call them, as profile rpc, operation call. A name
	// that is taken keeps the daemon from starting.
	Methods map[string]rpc.Method

	// AcceptDamage goes on with what can be read of a damaged store, which is
	// an error otherwise. The damaged file is kept beside the new one.
	AcceptDamage bool

	// Drain is how long exchanges in flight have to end after a stop was asked
	// for, default 8 s. Children have 2 s after it, so that a stop takes at most
	// ten.
	Drain time.Duration

	// Abort ends a drain at once when it is closed.
	Abort <-chan struct{}

	// Ready is called once everything listens. Nil means nobody is told.
	Ready func(addresses []string)
}

// daemon is what runs.
type daemon struct {
	opts        Options
	config      *config.Config
	log         *zap.Logger
	metrics     *telemetry
	health      *health
	credentials *credentials
	guard       *guard
	reloader    *reloader
	reloads     chan chan Reloaded
	state       *state
	memory      *memoryGuard
	observer    *observer
	exchanges   *exchanges
	traces      *traces
	servers     *servers
	targets     declared
	workers     *workers
	agents      *agents
	backends    *backends
	cards       *cards
	verifiers   *verifiers
	inside      *inside
	partners    *partners
	remoteCards *partnerCards
	fronts      *fronts
	teams       *teams
	sdl         *speaker
	profiles    *all.Set
	listeners   []*listener
	endpoints   []*endpoint.Endpoint
	admin       net.Listener
	started     time.Time
}

// Run serves until ctx ends, then drains: it stops accepting, lets what is in
// flight end, ends the servers behind it, all within 10 s, and returns nil. What
// keeps it from starting is returned as an error that says what to do.
func Run(ctx context.Context, opts Options) error {
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	if opts.Drain == 0 {
		opts.Drain = 8 * time.Second
	}
	level, err := zapcore.ParseLevel(opts.Config.Log.Level)
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	out := zapcore.Lock(zapcore.AddSync(opts.Log)) // of two logs
	log, stop := boundlog.New(boundlog.Options{Level: level, Text: opts.Config.Log.Format == "text", Output: out})
	defer stop()
	exchanges, err := newExchanges(&opts.Config.Log, out)
	if err != nil {
		return err
	}
	defer exchanges.log.Close()
	d := &daemon{exchanges: exchanges, opts: opts, config: opts.Config, log: log, started: time.Now(), reloads: make(chan chan Reloaded)}
	if err := d.start(); err != nil {
		d.close()
		return err
	}
	return d.run(ctx)
}

// start makes everything that can fail for reasons of configuration.
func (d *daemon) start() error {
	var err error
	d.reloader = newReloader(d.config, d.opts.Read, d.sections(), d.log)
	d.reloader.identity, d.reloader.recheck = func() string { return d.credentials.identity() }, d.recheck
	if d.credentials, err = newCredentials(d.config, time.Now); err != nil {
		return err
	}
	if d.guard, err = newGuard(d.config, d.log); err != nil {
		return err
	}
	if d.state, err = openState(context.Background(), d.config, d.opts.AcceptDamage, d.log); err != nil {
		return err
	}
	d.memory = newMemoryGuard()
	if d.servers, err = newServers(d.config, d.log); err != nil {
		return err
	}
	d.targets.set(d.config)
	if d.workers, err = newWorkers(d.config, d.log); err != nil {
		return err
	}
	if d.agents, err = newAgents(d.config, d.state, d.guard, d.log); err != nil {
		return err
	}
	if d.backends, err = newBackends(d.config, d.log); err != nil {
		return err
	}
	if d.cards, err = newCards(d.config); err != nil {
		return err
	}
	if d.verifiers, err = newVerifiers(d.config); err != nil {
		return err
	}
	if d.inside, err = newInside(d.servers, d.config.TOOLDISC.Refresh); err != nil {
		return err
	}
	if d.teams, err = newTeams(d); err != nil {
		return err
	}
	d.partners = newPartners(d)
	d.remoteCards = newPartnerCards(&d.partners.directory)
	if d.sdl, err = newSpeaker(d); err != nil {
		return err
	}
	d.health = &health{
		credentials: d.credentials, reloader: d.reloader, state: d.state, memory: d.memory, servers: d.servers, agents: d.agents, backends: d.backends,
		partners: d.partners,
	}
	profileOptions, err := d.profileOptions()
	if err != nil {
		return err
	}
	if d.profiles, err = all.New(profileOptions); err != nil {
		return err
	}
	d.metrics = newTelemetry(d.profiles.Registry, d.opts.Version)
	d.metrics.registry.MustRegister(d.partners, expiryGauges{d.credentials, d.partners}, d.servers, d.workers, liveTasks(d.profiles.A2A), waitingTasks(d.profiles.A2A), d.state, relayed{d.profiles.Relay}, d.backends.failures, d.agents.failures, d.teams.hops, d.guard.denials)
	d.metrics.registry.MustRegister(d.exchanges)
	d.exchanges.server, d.exchanges.partner = d.servers.has, d.partners.of
	d.servers.latency = d.exchanges.latency
	d.observer = newObserver(d.log, d.metrics, d.exchanges)
	if d.traces, err = d.newTraces(); err != nil {
		return err
	}
	if d.fronts, err = newFronts(d); err != nil {
		return err
	}
	d.metrics.registry.MustRegister(d.fronts)
	if err := d.listen(); err != nil {
		return err
	}
	if err := d.openEndpoints(); err != nil {
		return err
	}
	return d.listenAdmin()
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
	said, kept, err := d.slipOptions()
	if err != nil {
		return all.Options{}, err
	}
	methods := maps.Clone(d.backends.methods)
	for name, m := range d.opts.Methods {
		if _, taken := methods[name]; taken {
			return all.Options{}, fmt.Errorf("daemon: method %q is one of rpc.backends and of this program", name)
		}
		methods[name] = m
	}
	o := all.Options{
		Identity: d.credentials.identity(),
		Version:  d.opts.Version, More: d.opts.Profiles,
		Idle:    c.Limits.Idle,
		Access:  d.guard,
		Partner: d.partners.directory.Knows,
		MCP:     mcpmap.Options{Backend: d.partners.backend(d.servers)},
		RPC: rpc.Options{
			Methods: methods, Resolve: d.partners.directory.Method, Outcomes: d.state, ReplayWindow: c.RPC.ReplayWindow, Handler: c.Limits.Handler,
		},
		A2A:    d.workers.options(&c.A2A, d.state, d.guard.MayUse, c.Partners.Identities()),
		Events: events.Options{Retention: c.Events.Retention},
		Hints:  hintOptions(&d.targets, d.partners, d.log),
		Cred:   d.verifiers.options(d.state, d.credentials.identity()),
		State:  stateprofile.Options{Store: d.state, Retention: c.State.Retention},

		Artifact: artifactOptions(c, d.state.blobs, key),
		Relay:    relayOptions(c, d.state),
		SDL:      d.sdl.options(),
		SLIP:     said, SLIPRelay: kept,
		AGDISC:   agdisc.Options{Sources: append([]agdisc.Source{d.cards, d.teams}, append(d.agents.sources(), slipKept(c.SLIP.Relay), d.remoteCards)...)},
		TOOLDISC: tools,
	}
	o.A2A.Refused = d.partners.refusedTask
	o.A2A.Ward = a2aowners.New(a2aowners.Options{Records: d.state}).Ward
	o.A2A.Workers = slices.Concat(o.A2A.Workers, d.agents.registrations(), d.teams.registrations())
	if c.Events.Retention > 0 {
		o.Events.Store = d.state
	}
	return o, nil
}

// close gives back what start had made before it failed.
func (d *daemon) close() {
	for _, l := range d.listeners {
		_ = l.Close()
	}
	if d.fronts != nil {
		d.fronts.close()
	}
	d.sdl.close()
	if d.profiles != nil {
		d.profiles.Close()
	}
	if d.teams != nil {
		d.teams.close()
	}
	if d.remoteCards != nil {
		d.remoteCards.close()
	}
	if d.inside != nil {
		d.inside.close()
	}
	if d.servers != nil {
		d.servers.stop()
	}
	if d.workers != nil {
		d.workers.stop()
	}
	if d.agents != nil {
		d.agents.stop()
	}
	d.traces.close()
	if d.backends != nil {
		d.backends.stop()
	}
	if d.state != nil {
		_ = d.state.Close() // why start failed is worth more than this
	}
}

func (d *daemon) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.Background()) // outlives ctx by the drain
	defer cancel()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { d.watch(work) })
	tasks.Go(func() { d.memory.watch(work) })
	tasks.Go(func() { d.state.watch(work) })
	for _, l := range d.listeners {
		tasks.Go(func() {
			if err := l.endpoint.Serve(work, l); err != nil && work.Err() == nil && !errors.Is(err, endpoint.ErrShutdown) {
				d.log.Error("listener failed", zap.String("address", l.address()), zap.Error(err))
			}
		})
	}
	d.fronts.run(&tasks)
	if d.admin != nil {
		srv := newAdmin(d)
		tasks.Go(func() {
			if err := serveAdmin(srv, d.admin); err != nil {
				d.log.Error("admin listener failed", zap.Error(err))
			}
		})
		defer func() { _ = srv.Close() }()
	}
	d.health.phase.Store(int32(serving))
	d.sdl.start()
	d.partners.apply(d.config.Partners)
	d.announce()
	if err := d.writeAddrFile(); err != nil {
		d.log.Error("addresses not written", zap.Error(err))
	}
	if d.opts.Ready != nil {
		d.opts.Ready(d.addresses())
	}
	<-ctx.Done()
	return d.drain()
}

// drain ends the daemon in order: peers first, then the servers behind it.
func (d *daemon) drain() error {
	d.health.phase.Store(int32(draining))
	d.log.Info("stopping", zap.Int("sessions", d.stats().Sessions), zap.Duration("at_most", d.opts.Drain))
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.Drain)
	defer cancel()
	go func() {
		select {
		case <-d.opts.Abort:
			cancel()
		case <-ctx.Done():
		}
	}()
	d.partners.stop()
	d.profiles.Events.Drain() // who listens would do so to the last
	d.profiles.MCP.Drain()
	d.profiles.Relay.Drain() // and so would consumers
	var ends sync.WaitGroup
	results := make([]error, len(d.endpoints)+2)
	for i, ep := range d.endpoints {
		ends.Go(func() {
			if ep == d.fronts.far { // what its callers have open ends ahead of it
				results[len(d.endpoints)+1] = d.fronts.drain(ctx)
			}
			results[i] = ep.Shutdown(ctx)
		})
	}
	// Nobody need be connected for a task to be worth its end.
	ends.Go(func() { results[len(d.endpoints)] = d.profiles.A2A.Drain(ctx) })
	ends.Wait()
	d.fronts.close()
	ends.Go(d.traces.close)
	d.sdl.close()
	d.profiles.Close()
	d.remoteCards.close()
	d.teams.close()
	d.inside.close()
	d.servers.stop()
	d.workers.stop()
	d.agents.stop()
	d.backends.stop()
	ends.Wait()
	if err := d.state.Close(); err != nil {
		d.log.Error("the store was not closed in order", zap.Error(err))
	}
	switch {
	case errors.Join(results...) == nil:
		d.log.Info("stopped")
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.log.Warn("stopped with exchanges in flight", zap.Duration("after", d.opts.Drain))
		return nil
	}
	d.log.Warn("stopped at once")
	return ErrAborted
}

// addresses are where peers really connect: ports that the system chose are
// filled in.
func (d *daemon) addresses() []string {
	list := make([]string, len(d.listeners))
	for i, l := range d.listeners {
		list[i] = l.address()
	}
	return list
}

func (d *daemon) writeAddrFile() error {
	if d.opts.AddrFile == "" {
		return nil
	}
	lines := d.addresses()
	if d.admin != nil {
		lines = append(lines, "http://"+d.admin.Addr().String())
	}
	tmp, err := os.CreateTemp(filepath.Dir(d.opts.AddrFile), ".addresses-*")
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	_, err = tmp.WriteString(strings.Join(lines, "\n") + "\n")
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), d.opts.AddrFile)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("daemon: %w", err)
	}
	return nil
}

func (d *daemon) listenAdmin() error {
	if d.config.Admin == config.AdminOff {
		return nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", d.config.Admin)
	if err != nil {
		return listenError("admin", d.config.Admin, err)
	}
	d.admin = ln
	return nil
}
