// Package daemon is swpd: from a configuration to a running endpoint. It is the
// one place that joins the endpoint, the profiles, the bridges, the log and the
// metrics.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
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
	// built in, to the same peers, and so are their Methods. They ask the Rules of a
	// request what a peer may do; rules can name them in a configuration that Load was
	// given them for.
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
	opts     Options
	config   *config.Config
	log      *zap.Logger
	level    zap.AtomicLevel // of log
	text     *atomic.Bool    // it is for people, and the access log, too
	started  time.Time
	metrics  *telemetry
	health   *health
	observer *observer
	targets  declared
	profiles *all.Set

	parts       parts // those below, in the order in which they were added
	admin       *admin
	memory      *memoryGuard
	state       *state
	credentials *credentials
	reloader    *reloader
	hiring      hiring // of a reload that is under way
	guard       *guard
	exchanges   *exchanges
	servers     *servers
	workers     *workers
	agents      *agents
	backends    *backends
	inside      *inside
	teams       *teams
	partners    *partners
	remoteCards *partnerCards
	sdl         *speaker
	words       *slipWords
	traces      *traces
	listeners   *listeners
	fronts      *fronts

	cards     *cards
	verifiers *verifiers
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
	level, err := zap.ParseAtomicLevel(opts.Config.Log.Level)
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	text := new(atomic.Bool)
	text.Store(opts.Config.Log.Format == config.LogText)
	out := zapcore.Lock(zapcore.AddSync(opts.Log)) // of two logs
	log, stop := boundlog.New(boundlog.Options{Level: level, Text: text, Output: out})
	defer stop()
	exchanges, err := newExchanges(&opts.Config.Log, slices.Concat(all.Tables(), opts.Profiles), text, out)
	if err != nil {
		return err
	}
	defer exchanges.log.Close()
	d := &daemon{exchanges: exchanges, opts: opts, config: opts.Config, log: log, level: level, text: text, started: time.Now()}
	if err := d.start(); err != nil {
		_ = d.parts.close() // why start failed is worth more than this
		d.traces.wait()
		return err
	}
	return d.run(ctx)
}

// add makes something a part of the daemon, which closes ahead of those before it.
func (d *daemon) add(p part) { d.parts = append(d.parts, p) }

// start makes everything that can fail for reasons of configuration.
func (d *daemon) start() error {
	for _, step := range []func() error{d.makeBase, d.makeBackends, d.makeProfiles, d.makeEntrances} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, p := range d.parts {
		d.metrics.registry.MustRegister(p.collectors()...)
	}
	d.metrics.watch(d.stats)
	d.health = &health{parts: d.parts}
	return d.parts.open()
}

// makeBase makes what all others rest on.
func (d *daemon) makeBase() error {
	var err error
	d.admin = &admin{d: d}
	d.add(d.admin)
	d.memory = newMemoryGuard()
	d.add(d.memory)
	d.reloader = newReloader(d.config, d.opts.Read, d.sections(), d.log)
	d.reloader.signal, d.reloader.hold = d.opts.Reload, d.recheck
	d.reloader.identity = func() string { return d.credentials.identity() }
	if d.credentials, err = newCredentials(d.config, time.Now); err != nil {
		return err
	}
	if d.guard, err = newGuard(d.config, d.log); err != nil {
		return err
	}
	if d.state, err = openState(context.Background(), d.config, d.opts.AcceptDamage, d.log); err != nil {
		return err
	}
	d.add(d.state)
	d.add(d.credentials)
	d.add(d.reloader)
	d.add(d.guard)
	d.add(d.exchanges)
	return nil
}

// makeBackends makes what works for peers, here and elsewhere.
func (d *daemon) makeBackends() error {
	var err error
	if d.servers, err = newServers(d.config, d.log); err != nil {
		return err
	}
	d.add(d.servers)
	d.targets.set(d.config)
	if d.workers, err = newWorkers(d.config, d.log); err != nil {
		return err
	}
	d.add(d.workers)
	if d.agents, err = newAgents(d.config, d.state, d.guard, d.log); err != nil {
		return err
	}
	d.add(d.agents)
	if d.backends, err = newBackends(d.config, d.log); err != nil {
		return err
	}
	d.add(d.backends)
	if d.cards, err = newCards(d.config); err != nil {
		return err
	}
	if d.verifiers, err = newVerifiers(d.config); err != nil {
		return err
	}
	if d.inside, err = newInside(d.servers, d.config.TOOLDISC.Refresh); err != nil {
		return err
	}
	d.add(d.inside)
	if d.teams, err = newTeams(d); err != nil {
		return err
	}
	d.add(d.teams)
	d.partners = newPartners(d)
	d.add(d.partners)
	d.exchanges.server, d.exchanges.partner = d.servers.has, d.partners.of
	d.servers.latency = d.exchanges.latency
	return nil
}

// makeEntrances makes what peers, and those inside this process, come by.
func (d *daemon) makeEntrances() error {
	var err error
	d.metrics = newTelemetry(d.profiles.Registry, d.opts.Version)
	d.observer = newObserver(d.log, d.metrics, d.exchanges)
	if d.traces, err = d.newTraces(); err != nil {
		return err
	}
	d.add(d.traces)
	d.listeners = &listeners{d: d}
	d.add(d.listeners)
	if d.fronts, err = newFronts(d); err != nil {
		return err
	}
	d.add(d.fronts)
	return d.listeners.listen()
}

func (d *daemon) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.Background()) // outlives ctx by the drain
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	for _, p := range d.parts {
		tasks.Go(func() { p.serve(work) })
	}
	d.health.phase.Store(int32(serving))
	for _, p := range d.parts {
		p.begin()
	}
	d.announce()
	if err := d.writeAddrFile(); err != nil {
		d.log.Error("addresses not written", zap.Error(err))
	}
	if d.opts.Ready != nil {
		d.opts.Ready(d.listeners.addresses())
	}
	<-ctx.Done()
	return d.stop()
}

// stop ends the daemon in order: peers first, then what works for them.
func (d *daemon) stop() error {
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
	d.reloader.halt(ctx)
	unfinished := d.parts.drain(ctx)
	_ = d.parts.close() // a part that does not close in order has said so
	d.traces.wait()
	switch {
	case unfinished == nil:
		d.log.Info("stopped")
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.log.Warn("stopped with exchanges in flight", zap.Duration("after", d.opts.Drain))
		return nil
	}
	d.log.Warn("stopped at once")
	return ErrAborted
}

func (d *daemon) writeAddrFile() error {
	if d.opts.AddrFile == "" {
		return nil
	}
	lines := d.listeners.addresses()
	if at := d.admin.address(); at != "" {
		lines = append(lines, "http://"+at)
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
