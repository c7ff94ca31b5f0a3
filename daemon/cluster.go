package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/fronts"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/storage"
)

// standing is what a node does while another one is active: it passes the connections of peers to that
// one, keeps its certificates current, and shows its health.
type standing struct {
	part.Passive
	d      *daemon
	active atomic.Pointer[string]        // nil: this node does not stand by
	http   net.Listener                  // nil: none
	end    context.CancelFunc            // nil: it never stood by
	latest atomic.Pointer[config.Config] // as last read
	work   sync.WaitGroup
	left   atomic.Bool // it is about to end
}

// joinCluster has this node listed among those that share its store.
func (d *daemon) joinCluster() error {
	if !d.config.Clustered() {
		return nil
	}
	members, err := storage.Members(d.config)
	if err != nil {
		return err
	}
	d.cluster, err = entrances.JoinCluster(entrances.ClusterOptions{
		Config: d.config, Latest: d.latest, Log: d.log, Version: d.opts.Version, Self: d.credentials.Identity, Policy: d.listeners.Policy(), OnEvent: d.observer.Security, Admit: d.memory.Admit, Members: members,
		Groups: d.groups,
	})
	if err != nil {
		return err
	}
	d.add(d.cluster)
	return nil
}

// latest returns the configuration in force. While this node stands by, that is the last one that was
// read: it takes it up when it becomes active.
func (d *daemon) latest() *config.Config {
	if s := d.health.stands.Load(); s != nil {
		if c := s.latest.Load(); c != nil {
			return c
		}
	}
	return d.reloader.running.Load()
}

// begin says that the start waits for another node. At the first time this one opens its listeners, if it
// can pass connections.
func (s *standing) begin(active string) {
	d := s.d
	first := s.active.Swap(&active) == nil
	d.log.Info("standing by", zap.String("active", active), zap.Bool("passing", d.cluster.Entered()))
	if first {
		d.health.stands.Store(s)
		if err := s.open(); err != nil {
			d.log.Error("connections are not passed", zap.Error(err))
			d.health.waits.Set(err)
			d.health.stands.Store(nil)
		}
	}
	if d.opts.Standby != nil {
		d.opts.Standby(active)
	}
}

func (s *standing) open() error {
	d := s.d
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	read := func() (*config.Config, error) {
		c, err := d.opts.Read()
		if err == nil {
			s.latest.Store(c)
		}
		return c, err
	}
	if d.opts.Read == nil {
		read = nil
	}
	// The other parts take up all changes after they are made.
	certificates := newReloader(d.config, read, []part.Section{identity.Section(later(&d.credentials), func() string { return d.credentials.State() })}, d.log)
	certificates.signal, certificates.identity, certificates.hold = d.opts.Reload, d.credentials.Identity, func() {}
	certificates.when = "when this node becomes active, or at its next start"
	s.work.Go(func() { certificates.Serve(ctx) })
	if !d.cluster.Entered() {
		d.admin.serves(s.paths())
		return nil
	}
	if err := d.listeners.Listen(); err != nil {
		return err
	}
	if at := d.config.HTTP.Address; at != config.HTTPOff {
		var err error
		if s.http, err = d.sockets.Listen(at); err != nil {
			return entrances.ListenError("http.address", at, err)
		}
	}
	d.admin.serves(s.paths())
	d.cluster.Pass(d.listeners, s.http)
	return d.writeAddrFile()
}

// leave ends a node that stands by, before it became active: peers whose connections it passes get their
// answers, and connect elsewhere.
func (s *standing) leave() {
	d := s.d
	if s.end == nil || !d.cluster.Entered() {
		return
	}
	s.left.Store(true)
	d.log.Info("stopping", zap.Int64("passed", d.cluster.Status().Passed), zap.Duration("at_most", d.opts.Drain))
	ctx, cancel := d.drainTime()
	defer cancel()
	_ = d.listeners.Close()
	if s.http != nil {
		_ = s.http.Close()
	}
	d.cluster.Leave(ctx)
}

// rise ends the standing by. The sockets stay open, and serve the active node.
func (s *standing) rise() {
	if s.end == nil {
		return
	}
	s.end()
	s.d.cluster.Rise()
	s.work.Wait()
	s.d.admin.serves(newStarting(&s.d.health))
	s.d.health.stands.Store(nil)
	if s.http != nil && !s.left.Load() {
		_ = s.http.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Time{})
		s.d.sockets.Keep(s.d.config.HTTP.Address, s.http)
	}
}

// Close implements part.Part: it closes what a start that failed has left open.
func (s *standing) Close() error {
	if s.end == nil {
		return nil
	}
	return errors.Join(s.d.listeners.Close(), s.d.sockets.Close())
}

// look returns the health of a node that stands by.
func (s *standing) look() Health {
	v := Health{Reasons: []string{}, Warnings: []string{}}
	if s.left.Load() {
		v.Reasons = append(v.Reasons, "stopping")
		return v
	}
	s.d.cluster.Stands(*s.active.Load(), &v)
	v.Ready = len(v.Reasons) == 0
	return v
}

// paths returns the paths of the admin listener of a node that stands by.
func (s *standing) paths() *paths {
	open, mux := http.NewServeMux(), http.NewServeMux()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.d.cluster.Collectors()...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	observe(open, &s.d.health, (*Health).Open, registry)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.status())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusServiceUnavailable, fmt.Sprintf("node %s is active, and this one stands by", *s.active.Load()))
	})
	return &paths{open: open, inner: mux}
}

// status is the status of a node that stands by. It has no sessions, partners and shares.
func (s *standing) status() Status {
	d := s.d
	url := ""
	if s.http != nil {
		url = fronts.URLOf(&d.config.HTTP, s.http.Addr())
	}
	cluster := d.cluster.Status()
	cluster.Stands = true
	return Status{
		Health: s.look(), Version: d.opts.Version, Identity: d.credentials.Identity(), Config: absolute(d.config.Source), Started: d.started,
		Addresses: d.listeners.Addresses(), HTTP: url, Probes: d.probes.address(), NotAfter: d.credentials.NotAfter(), Store: storage.Describe(d.config),
		Certificates: []identity.Info{d.credentials.Certificate()}, Cluster: cluster,
	}
}
