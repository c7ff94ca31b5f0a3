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
	"strings"
	"sync"
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
	"github.com/slimwire/swp/daemon/internal/workers"
	"github.com/slimwire/swp/profiles"
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
	logs     *telemetry.Logs
	started  time.Time
	metrics  *telemetry.Metrics
	health   *health
	observer *telemetry.Observer

	parts       part.List // those below, in the order in which they were added
	admin       *admin
	memory      *entrances.Memory
	endpoints   *entrances.Endpoints
	state       *storage.Storage
	credentials *identity.Credentials
	reloader    *reloader
	guard       *guard.Guard
	exchanges   *telemetry.Exchanges
	cards       *served.Cards
	verifiers   *served.Verifiers
	hints       *served.Hints
	servers     *mcpservers.Servers
	workers     *workers.Workers
	agents      *workers.Agents
	backends    *rpcbackends.Backends
	inside      *mcpservers.Inside
	teams       *teams.Teams
	partners    *partners.Partners
	words       *slip.Words
	remoteCards *partners.Cards
	served      *served.Profiles
	sdl         *sdlserver.Server
	traces      *telemetry.Traces
	listeners   *entrances.Listeners
	fronts      *fronts.Fronts
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
	logs, err := telemetry.OpenLogs(&opts.Config.Log, opts.Log)
	if err != nil {
		return err
	}
	defer logs.Close()
	exchanges, err := telemetry.NewExchanges(&opts.Config.Log, served.Tables(opts.Profiles), logs)
	if err != nil {
		return err
	}
	defer exchanges.CloseLog()
	d := &daemon{logs: logs, exchanges: exchanges, opts: opts, config: opts.Config, log: logs.Log, started: time.Now()}
	if err := d.start(); err != nil {
		_ = d.parts.Close() // why start failed is worth more than this
		d.traces.Wait()
		return err
	}
	return d.run(ctx)
}

// add makes something a part of the daemon, which closes ahead of those before it.
func (d *daemon) add(p part.Part) { d.parts = append(d.parts, p) }

// start makes everything that can fail for reasons of configuration.
func (d *daemon) start() error {
	for _, step := range []func() error{d.makeBase, d.makeFiles, d.makeBackends, d.makeProfiles, d.makeEntrances} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, p := range d.parts {
		d.metrics.Registry.MustRegister(p.Collectors()...)
	}
	d.metrics.Watch(d.parts.Stats)
	d.health = &health{parts: d.parts}
	return d.parts.Open()
}

func (d *daemon) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.Background()) // outlives ctx by the drain
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	for _, p := range d.parts {
		tasks.Go(func() { p.Serve(work) })
	}
	d.health.phase.Store(int32(serving))
	for _, p := range d.parts {
		p.Serving()
	}
	d.announce()
	if err := d.writeAddrFile(); err != nil {
		d.log.Error("addresses not written", zap.Error(err))
	}
	if d.opts.Ready != nil {
		d.opts.Ready(d.listeners.Addresses())
	}
	<-ctx.Done()
	return d.stop()
}

// stop ends the daemon in order: peers first, then what works for them.
func (d *daemon) stop() error {
	d.health.phase.Store(int32(draining))
	d.log.Info("stopping", zap.Int("sessions", d.parts.Stats().Sessions), zap.Duration("at_most", d.opts.Drain))
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
	unfinished := d.parts.Drain(ctx)
	_ = d.parts.Close() // a part that does not close in order has said so
	d.traces.Wait()
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
	lines := d.listeners.Addresses()
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
