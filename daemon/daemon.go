// Package daemon is swpd: it makes a running endpoint from a configuration. It joins the
// endpoint, the profiles, the bridges, the log and the metrics.
package daemon

import (
	"context"
	"errors"
	"io"
	"os"
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
	"github.com/slimwire/swp/daemon/internal/trail"
	"github.com/slimwire/swp/daemon/internal/workers"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// ErrAborted is returned by Run if Abort ended the drain.
var ErrAborted = errors.New("stopped before all work in flight had ended")

// Options configure Run.
type Options struct {
	// Config is the configuration to serve. Required.
	Config *config.Config

	// Version of the program, for metrics and swp.info.
	Version string

	// Log receives the log lines, default standard error.
	Log io.Writer

	// AddrFile, if set, is written when all listeners are open: one address per line, as
	// swp-client takes them, and the admin address as http://host:port or unix:PATH.
	AddrFile string

	// Reload makes the daemon read the configuration and its files again, for each value
	// received.
	Reload <-chan struct{}

	// Read returns the present configuration. Nil means that it never changes.
	Read func() (*config.Config, error)

	// Profiles of the embedding program are served to the same peers as the built-in ones,
	// including their Methods. Their handlers check access with the Rules of a request.
	// Pass the same profiles to config.Load, so that access rules can name them.
	Profiles []*profiles.Profile

	// Methods of RPC are served in addition to the built-in ones and those of rpc.backends.
	// The access rules (profile rpc, operation call) decide who may call them. A name that
	// is in use prevents the start.
	Methods map[string]rpc.Method

	// AcceptDamage continues with the readable part of a damaged store, which is an error
	// otherwise. The damaged file is kept.
	AcceptDamage bool

	// Permissions returns the rights of an identity under a configuration, as a value for JSON. The
	// page of the admin listener shows it; without Permissions it does not.
	Permissions func(c *config.Config, identity string) (any, error)

	// Drain is how much time exchanges in flight have to end after a stop, default 8 s.
	// Child processes have 2 s more, so a stop takes at most ten.
	Drain time.Duration

	// Abort, when closed, ends a drain at once.
	Abort <-chan struct{}

	// Sockets are sockets that a service manager has opened. Each is used for the address of
	// listeners, http.address, metrics.address, health or admin that it is bound to; one that no address uses
	// prevents the start. Run closes them.
	Sockets []*os.File

	// InFlight is called once, before listeners open, with a function that returns the octets
	// in flight, to bound the garbage beside them. The function is safe for concurrent use. If InFlight
	// is nil, GOGC alone bounds the garbage, and large messages do not wait for a collection, either.
	InFlight func(octets func() int)

	// Ready is called when all listeners are open. May be nil.
	Ready func(addresses []string)

	// Standby is called each time this node begins to stand by for another one that uses the
	// shared store. May be nil.
	Standby func(active string)
}

// daemon is a running swpd.
type daemon struct {
	opts     Options
	config   *config.Config
	log      *zap.Logger
	logs     *telemetry.Logs
	started  time.Time
	metrics  *telemetry.Metrics
	health   health
	observer *telemetry.Observer

	sockets     *entrances.Sockets
	parts       part.List // the parts below, in the order of their addition
	admin       *admin
	leave       chan struct{} // one slot; filled by an operator who wants a stop
	ousted      chan error    // one slot; another node has taken the store over
	probes      *web
	monitor     *fronts.Monitor
	memory      *entrances.Memory
	endpoints   *entrances.Endpoints
	cluster     *entrances.Cluster // nil: no other node shares the store
	groups      part.Groups
	state       *storage.Storage
	desk        *storage.Desk
	credentials *identity.Credentials
	reloader    *reloader
	guard       *guard.Guard
	exchanges   *telemetry.Exchanges
	behind      *telemetry.Records
	trail       *trail.Trail
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
	served      *served.Profiles
	ways        *sdlserver.Ways
	sdl         *sdlserver.Server
	streams     *sdlserver.Streams
	traces      *telemetry.Traces
	listeners   *entrances.Listeners
	fronts      *fronts.Fronts
}

// Run serves until ctx ends. Then it drains: it stops accepting, waits for exchanges in
// flight, stops the child processes, all within 10 s, and returns nil. If it cannot start,
// the error says what to do.
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
	d := &daemon{logs: logs, exchanges: exchanges, leave: make(chan struct{}, 1), ousted: make(chan error, 1), opts: opts, config: opts.Config, log: logs.Log, started: time.Now()}
	if err := d.start(ctx); err != nil {
		_ = d.parts.Close() // the error of start is more important
		d.traces.Wait()
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			d.log.Info("stopped during the start")
			return nil
		}
		return err
	}
	return d.run(ctx)
}

// add adds a part, which is closed before those added earlier.
func (d *daemon) add(p part.Part) { d.parts = append(d.parts, p) }

// start makes everything that a faulty configuration can prevent.
func (d *daemon) start(ctx context.Context) error {
	if err := d.makeBase(ctx); err != nil {
		return err
	}
	for _, step := range []func() error{d.makeFiles, d.makeBackends, d.makeProfiles, d.makeEntrances} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, p := range d.parts {
		d.metrics.Registry.MustRegister(p.Collectors()...)
	}
	d.metrics.Watch(d.parts.Stats, d.parts.Curtailed)
	d.health.parts = d.parts
	if err := d.parts.Open(); err != nil {
		return err
	}
	return d.sockets.Unused()
}

func (d *daemon) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.Background()) // ends after the drain, later than ctx
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	for _, p := range d.parts {
		p.Opened()
	}
	for _, p := range d.parts {
		tasks.Go(func() { p.Serve(work) })
	}
	d.health.phase.Store(int32(serving))
	d.announce()
	if err := d.writeAddrFile(); err != nil {
		d.log.Error("addresses not written", zap.Error(err))
	}
	if d.opts.Ready != nil {
		d.opts.Ready(d.listeners.Addresses())
	}
	select {
	case <-ctx.Done():
	case <-d.leave:
	case err := <-d.ousted:
		d.log.Error("another node has taken the store over", zap.Error(err))
		d.opts.Drain = 0 // nothing that is in flight can be stored
		_ = d.stop()
		return err
	}
	return d.stop()
}

// stop ends the daemon: connections of peers first, then the parts behind them.
func (d *daemon) stop() error {
	d.health.phase.Store(int32(draining))
	d.reloader.ending.Store(true)
	d.log.Info("stopping", zap.Int("sessions", d.parts.Stats().Sessions), zap.Duration("at_most", d.opts.Drain))
	ctx, cancel := d.drainTime()
	defer cancel()
	d.reloader.halt(ctx)
	unfinished := d.parts.Drain(ctx)
	_ = d.parts.Close() // a part that fails to close has logged it
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

// drainTime returns a context that ends with the time for a drain, or with Abort.
func (d *daemon) drainTime() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.Drain)
	go func() {
		select {
		case <-d.opts.Abort:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (d *daemon) writeAddrFile() error {
	if d.opts.AddrFile == "" {
		return nil
	}
	at := d.admin.address()
	if _, unix := config.UnixSocket(at); !unix && at != "" {
		at = "http://" + at
	}
	return d.listeners.WriteAddresses(d.opts.AddrFile, at)
}
