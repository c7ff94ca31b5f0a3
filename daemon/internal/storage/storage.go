// Package storage opens the store that the configuration names, monitors whether it accepts
// writes, and sets its limits.
package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store"
)

// Storage writes a probe every probeEvery. The store counts as failed if a probe takes
// longer than probeFor, so /readyz is wrong for at most the sum (ABUSE ST-03, OP-04: 5 s).
const (
	probeEvery = 2 * time.Second
	probeFor   = 2 * time.Second
)

// Storage is the store of a daemon with its health.
type Storage struct {
	part.Passive
	store.Store
	conf    *config.Config
	served  func() *all.Set
	engine  engine
	blobs   blobs // of artifacts
	commits prometheus.Histogram
	quota   atomic.Int64
	log     *zap.Logger
	failure part.Fault // why writes fail now
	others  atomic.Pointer[[]foreign]
	backup  sync.Mutex // held during a backup
	asserts func(peer string) bool
}

// Options configure a Storage.
type Options struct {
	Config *config.Config
	Log    *zap.Logger

	// Migrate takes the store over from an earlier release. Without it a store with an earlier schema
	// is refused with store.ErrOlder, and nothing is changed.
	Migrate bool

	// AcceptDamage opens a damaged store despite its damage.
	AcceptDamage bool

	// Standby is called with the name of the node that uses a shared store, when this one begins to
	// wait for it. Ousted is called, once and not before Open has returned, when another node has taken
	// a shared store over: this one can write no more. Neither may block.
	Standby func(active string)
	Ousted  func(error)

	// Asserts reports whether the callers of a peer have quotas of one identity each. Nil: none have.
	Asserts func(peer string) bool

	later []string         // steps of a planted later release
	now   func() time.Time // nil: time.Now
	fill  bool             // the store is new, and is filled

	// Served returns the profiles, which take over changed limits.
	Served func() *all.Set
}

// Open opens or creates the store that a configuration names. Its errors name the remedy.
func Open(ctx context.Context, opts Options) (*Storage, error) {
	commits := newCommits()
	open, openBlobs := enginesOf(opts.Config)
	engine, err := open(ctx, &opts, commits)
	if err != nil {
		return nil, err
	}
	s := &Storage{Store: engine, conf: opts.Config, served: opts.Served, engine: engine, commits: commits, log: opts.Log, asserts: opts.Asserts}
	s.quota.Store(int64(opts.Config.Quota.Total))
	if opts.Migrate {
		if err = s.raise(ctx); err != nil {
			_ = engine.Close()
			return nil, fmt.Errorf("data: the version of the data cannot be stored: %w", err)
		}
	}
	if s.blobs, err = openBlobs(ctx, &opts, engine); err != nil {
		_ = engine.Close()
		return nil, err
	}
	return s, nil
}

// Offer implements part.Part. It gives the profiles the store for persistent state.
func (s *Storage) Offer(o *all.Options) error {
	key, err := keptKey(s, spaceKeys, nameToken)
	if err != nil {
		return err
	}
	o.A2A.Store, o.A2A.Ward = s, a2aowners.New(a2aowners.Options{Records: s}).Ward
	o.MCP.Store, o.Cred.Store, o.RPC.Outcomes = s, s, s
	o.State.Store, o.State.Retention = s, s.conf.State.Retention
	o.A2A.Retention, o.A2A.Deadline, o.A2A.Abandoned = timesOf(s.conf)
	if o.Events.Retention = s.conf.Events.Retention; o.Events.Retention > 0 {
		o.Events.Store = s
	}
	o.Artifact = artifactOptions(s.conf, s.blobs, key)
	relayOptions(&o.Relay, s.conf, s)
	if o.Relay.Key, err = keptKey(s, spaceRelay, nameIDs); err != nil {
		return err
	}
	return nil
}

// timesOf returns the times of tasks.
func timesOf(c *config.Config) (retention, deadline, abandoned time.Duration) {
	return c.A2A.Retention, c.A2A.Deadline, c.A2A.Abandoned
}

// CallerKey returns the secret of the pseudonyms of callers. It is created once.
func (s *Storage) CallerKey() ([]byte, error) { return keptKey(s, spaceCallers, nameCallers) }

// The record of the secret of pseudonyms.
const (
	spaceCallers = "callers"
	nameCallers  = "pseudonyms"
)

// Section has the quotas and the times of stored data.
func Section(prepare part.Prepare) part.Section {
	return part.Section{
		Name: "quotas and times", Stays: "the old ones stay", Prepare: prepare,
		Keys: []string{
			"quota", "artifact", "relay.window", "relay.ttl", "relay.retention", "relay.dead_retention", "relay.ack_timeout", "relay.backoff",
			"relay.max_backoff", "relay.max_attempts", "relay.max_payload", "relay.waiting", "relay.remembered", "relay.max_in_flight", "relay.in_flight", "relay.in_flight_per_identity",
			"a2a.retention", "a2a.deadline", "a2a.abandoned", "rpc.replay_window", "state.retention",
		},
	}
}

// Prepare changes the limits. Stored data stays.
func (s *Storage) Prepare(c *config.Config) (part.Change, error) {
	return part.Change{
		Fields: []zap.Field{zap.Stringer("quota", c.Quota.Total), zap.Stringer("artifact_quota", c.Artifact.Quota.Total)},
		Commit: func() bool {
			s.engine.SetBounds(limitsOf(c, s.asserts))
			s.quota.Store(int64(c.Quota.Total))
			s.blobs.SetBounds(artifactLimitsOf(c, s.asserts))
			// No error is possible: the configuration was checked.
			_ = s.served().Artifact.SetLimits(artifactOptions(c, s.blobs, nil))
			var limits relay.Options
			relayOptions(&limits, c, s)
			_ = s.served().Relay.SetLimits(limits)
			var tasks a2a.Options
			tasks.Retention, tasks.Deadline, tasks.Abandoned = timesOf(c)
			_ = s.served().A2A.SetLimits(tasks)
			s.served().SetReplayWindow(c.RPC.ReplayWindow)
			s.served().State.SetRetention(c.State.Retention)
			return false
		},
	}, nil
}

// EventsSection is how long events are stored.
func EventsSection(prepare part.Prepare) part.Section {
	return part.Section{
		Name: "events", Stays: "the old time stays", Keys: []string{"events.retention"}, Prepare: prepare,
		Waits: "whether events are stored at all is decided at the start, because subscriptions count on stored events",
		Fits: func(started, now *config.Config) bool {
			return (started.Events.Retention == 0) == (now.Events.Retention == 0)
		},
	}
}

// PrepareEvents changes how long later events are stored.
func (s *Storage) PrepareEvents(c *config.Config) (part.Change, error) {
	return part.Change{
		Fields: []zap.Field{zap.Duration("retention", c.Events.Retention)},
		Commit: func() bool {
			if c.Events.Retention > 0 {
				s.served().Events.SetRetention(c.Events.Retention)
			}
			return false
		},
	}, nil
}

// Close implements part.Part: it closes the database and the files.
func (s *Storage) Close() error {
	err := errors.Join(s.blobs.Close(), s.Store.Close())
	if err != nil {
		s.log.Error("the store was not closed in order", zap.Error(err))
	}
	return err
}

// Check reports whether the database and the files accept writes.
func (s *Storage) Check(ctx context.Context) error {
	err := s.Store.Check(ctx)
	if err == nil {
		err = s.blobs.Check(ctx)
	}
	return err
}

// Look implements part.Part.
func (s *Storage) Look(h *part.Health) {
	if why, ok := s.failure.Text(); ok {
		h.Reasons = append(h.Reasons, "store: "+strings.TrimPrefix(why, "store: "))
	}
	s.lookOthers(h)
}

// Health returns the state of the store.
func (s *Storage) Health() []health.Seen {
	one := health.Seen{Name: "store", State: health.OK}
	if why, ok := s.failure.Text(); ok {
		one.State, one.Fault, one.Why = health.Failing, health.StoreWrite, strings.TrimPrefix(why, "store: ")
	}
	return []health.Seen{one}
}

// Serve implements part.Part: it runs the probes.
func (s *Storage) Serve(ctx context.Context) {
	part.Every(ctx, probeEvery, func() { s.probe(ctx) })
}

// probe writes once and records the result.
func (s *Storage) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	err := s.Check(ctx)
	switch {
	case err == nil:
		if s.failure.Clear() {
			s.log.Info("the store can be written again")
		}
		return
	case errors.Is(err, context.Canceled), errors.Is(err, store.ErrClosed):
		return // the daemon ends
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("a write took longer than %v", probeFor)
	}
	if s.failure.Set(err) {
		s.log.Error(unwell(err), zap.Error(err))
	}
}

// unwell describes the failure of a probe and its remedy.
func unwell(err error) string {
	switch {
	case errors.Is(err, store.ErrDamaged):
		return "the store is damaged: what cannot be read is not served; restore it from a copy, or start once with --accept-damage"
	case errors.Is(err, store.ErrFull):
		return "the store cannot be written: the volume is full; make room on it, and it goes on by itself"
	}
	return "the store cannot be written"
}

// Describe returns the durability of the store: which data survives, and what an acknowledgement
// promises.
func Describe(c *config.Config) string {
	if c.Store == config.StoreMemory {
		return "memory: gone with the process"
	}
	promise := "acknowledged state survives a power cut"
	if c.Durability == string(store.Process) {
		promise = "acknowledged state survives the end of the process, not that of the machine"
	}
	return fmt.Sprintf("%s, durability %s: %s", c.Store, c.Durability, promise)
}
