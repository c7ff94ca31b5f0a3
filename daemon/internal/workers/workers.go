// Package workers runs tasks of peers outside this process: by commands, at URLs of
// workers, and at URLs of A2A 1.0 agents.
package workers

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/bridge/schema"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/bridge/worker"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
)

// Workers run the tasks of peers outside this process.
type Workers struct {
	part.Passive
	conf    *config.Config
	groups  *proc.Groups
	place   part.Place
	memory  *memory.Budget
	hires   *served.Profiles
	mayUse  func(identity, agentID string) bool
	declare func(*config.Config)
	roster  roster[config.A2AWorker, *hand]
	schemas atomic.Pointer[schemas]
	log     *zap.Logger
	ended   *prometheus.CounterVec
	health  *health.Records
}

// schemas holds the schemas of task inputs, by kind.
type schemas map[string]*schema.Schema

// Outcomes of a task, as values of a label.
const (
	taskDone    = "done"
	taskFailed  = "failed"
	taskStopped = "stopped" // by its deadline, by its initiator or by a stop of swpd
)

var workerRunning = prometheus.NewDesc("swpd_a2a_running", "Tasks that a worker is carrying out.", []string{"worker"}, nil)

// Options configure Workers.
type Options struct {
	Config *config.Config
	Log    *zap.Logger
	Groups *proc.Groups     // keeps those of the commands
	Place  part.Place       // of commands with nodes: all
	Memory *memory.Budget   // for their answers
	Hires  *served.Profiles // registers Workers
	Health *health.Records  // has a record of each worker; nil: nobody has one

	// MayUse reports whether an identity may use an agent_id.
	MayUse func(identity, agentID string) bool

	// Declare puts the hints on workers from a configuration into force.
	Declare func(*config.Config)
}

// New makes the workers of a configuration. It connects and starts nothing.
func New(o Options) (*Workers, error) {
	w := &Workers{
		conf: o.Config, groups: o.Groups, place: o.Place, memory: o.Memory, hires: o.Hires, mayUse: o.MayUse, declare: o.Declare, health: o.Health, log: o.Log.Named(boundlog.Backend),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_a2a_runs_total", Help: "Tasks that a worker was given, by how that ended.",
		}, []string{"worker", "outcome"}),
	}
	w.roster = roster[config.A2AWorker, *hand]{
		key: "a2a.workers", build: w.build,
		bare: func(c config.A2AWorker) config.A2AWorker {
			c.Schema, c.Hints = "", config.Hints{}
			return c
		},
		left: func(name string) { w.ended.DeletePartialMatch(prometheus.Labels{"worker": name}) },
	}
	next, err := w.read(o.Config)
	if err != nil {
		return nil, err
	}
	w.put(next)
	w.health.Probe(health.Worker, w.prober)
	return w, nil
}

// prober is a health.Prober: a worker at a URL is asked for a connection.
func (w *Workers) prober(name string) func(context.Context, *health.Entry) {
	one := w.roster.named(name)
	if one == nil || one.is.client == nil {
		return nil
	}
	return health.Connects(one.conf.URL, health.WorkerUnreached)
}

// workerTable is the result of one reading of the configuration.
type workerTable struct {
	workers map[string]*enlisted[config.A2AWorker, *hand]
	schemas schemas
}

// read makes the workers of a configuration. It does not connect.
func (w *Workers) read(c *config.Config) (t workerTable, err error) {
	if t.schemas, err = loadSchemas(c); err != nil {
		return t, err
	}
	t.workers, err = w.roster.prepare(c.A2A.Workers)
	return t, err
}

// put sends new tasks to the workers of t as soon as these are hired.
func (w *Workers) put(t workerTable) (gone, come []a2a.Registration) {
	w.schemas.Store(&t.schemas)
	for name := range t.workers {
		for _, outcome := range []string{taskDone, taskFailed, taskStopped} {
			w.ended.WithLabelValues(name, outcome)
		}
	}
	return record(w.health, health.Worker, &w.roster, t.workers)
}

// Section is the reloadable part of the configuration.
func Section(prepare part.Prepare) part.Section {
	return part.Section{Name: "a2a workers", Stays: "the old ones stay", Keys: []string{"a2a.workers"}, Files: schemaFiles, Prepare: prepare}
}

// Prepare reads the workers.
func (w *Workers) Prepare(c *config.Config) (part.Change, error) {
	table, err := w.read(c)
	if err != nil {
		return part.Change{}, err
	}
	return part.Change{
		Fields: []zap.Field{zap.String("a2a_workers", part.Names(table.workers))},
		Commit: func() bool {
			w.declare(c)
			w.hires.Replace(w.put(table))
			return false
		},
		Then:    w.hires.Hire,
		Abandon: func() { w.roster.abandon(table.workers) },
	}, nil
}

// schemaFiles lists the files that the section watches.
func schemaFiles(c *config.Config) (files []string) {
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		if file := c.A2A.Workers[name].Schema; file != "" {
			files = append(files, file)
		}
	}
	return files
}

// loadSchemas reads the schemas of task inputs.
func loadSchemas(c *config.Config) (schemas, error) {
	byKind := make(schemas)
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		conf := c.A2A.Workers[name]
		if conf.Schema == "" {
			continue
		}
		s, err := schema.Load(conf.Schema)
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			err = config.Unreadable(conf.Schema, err)
		}
		if err != nil {
			return nil, fmt.Errorf("a2a.workers.%s.schema: %w", name, err)
		}
		for _, kind := range conf.Kinds {
			byKind[kind] = s
		}
	}
	return byKind, nil
}

// hand is one configured worker.
type hand struct {
	a2a.Registration
	client  *upstream.Client // of a URL; else nil
	running atomic.Int64     // tasks
}

func (h *hand) registrations() []a2a.Registration { return []a2a.Registration{h.Registration} }

func (h *hand) close() {
	if h.client != nil {
		h.client.Close()
	}
}

func (w *Workers) build(name string, c *config.A2AWorker) (*hand, error) {
	h := &hand{Registration: a2a.Registration{Kinds: c.Kinds, Tasks: c.Tasks, Deadline: c.Deadline}}
	one, err := w.worker(name, c, h)
	h.Worker = w.watch(name, one, h)
	return h, err
}

func (w *Workers) worker(name string, c *config.A2AWorker, h *hand) (a2a.Worker, error) {
	if c.URL != "" {
		h.client = upstream.New(upstream.Options{Silence: c.Timeout, Total: profiles.WholeWork(profiles.MostWork), Calls: c.Tasks, Memory: w.memory}) // as many connections as tasks, so that no task waits for another
		return worker.NewHTTP(h.client, c.URL)
	}
	program := part.Program(c.Command, c.Args, c.Env, c.Dir, w.groups)
	if c.Nodes == config.NodesAll && w.place != nil {
		program.Place = w.place("a2a/"+name, program)
	}
	return worker.NewCommand(worker.CommandOptions{
		Program: program,
		Grace:   part.ChildGrace,
		Observe: func(e worker.Event) { w.observe(name, e) },
	})
}

// validate is a2a.Options.Validate.
func (w *Workers) validate(kind string, input []byte) error {
	if s := (*w.schemas.Load())[kind]; s != nil {
		return s.Validate(input)
	}
	return nil
}

// watch wraps a Worker, and counts and logs the outcomes of its tasks.
func (w *Workers) watch(name string, one a2a.Worker, h *hand) a2a.Worker {
	return a2a.WorkerFunc(func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		h.running.Add(1)
		defer h.running.Add(-1)
		output, err := one.Run(ctx, t, event)
		outcome := taskDone
		switch {
		case ctx.Err() != nil:
			outcome = taskStopped
		case err == nil, errors.Is(err, worker.ErrRefused):
			w.health.Of(health.Worker, name).Worked()
		case h.client != nil && !errors.Is(err, upstream.ErrBusy): // observe reports commands
			w.health.Of(health.Worker, name).Failed(urlFault(err), err, nil)
		}
		if err != nil && outcome != taskStopped {
			outcome = taskFailed
			w.log.Warn("task failed", part.From(t.Peer, zap.String("worker", name), taskID(t), zap.Error(err))...)
		}
		w.ended.WithLabelValues(name, outcome).Inc()
		return output, err
	})
}

// urlFault returns the fault of a worker at a URL.
func urlFault(err error) health.Fault {
	if errors.Is(err, upstream.ErrUnreached) {
		return health.WorkerUnreached
	}
	return health.WorkerTask
}

func taskID(t *a2a.Task) zap.Field { return zap.String("task_id", hex.EncodeToString(t.ID)) }

// observe logs events of processes. It logs neither inputs nor standard output.
func (w *Workers) observe(name string, e worker.Event) {
	fields := []zap.Field{zap.String("worker", name), zap.Int("pid", e.PID), part.Node(e.Node), taskID(e.Task)}
	switch e.What {
	case worker.Started:
		w.log.Debug("worker started", fields...)
	case worker.Exited:
		w.log.Debug("worker ended", append(fields, zap.Error(e.Err))...)
		if e.Err != nil {
			w.health.Of(health.Worker, name).Failed(health.WorkerTask, e.Err, e.Output)
		}
	case worker.Failed:
		w.health.Of(health.Worker, name).Failed(health.WorkerStart, e.Err, nil)
		w.log.Error("worker could not be started", append(fields, zap.Error(e.Err))...)
	case worker.Stderr:
		w.log.Info("worker says", append(fields, zap.String("line", e.Line))...)
	}
}

// report is a2a.Options.Report.
func (w *Workers) report(err error) { w.log.Error("task", zap.Error(err)) }

// Offer implements part.Part.
func (w *Workers) Offer(o *all.Options) error {
	a := &o.A2A
	a.Workers = append(a.Workers, w.roster.registrations()...)
	a.MayUse, a.Partners, a.Validate, a.Report = w.mayUse, w.conf.Partners.Identities(), w.validate, w.report
	a.MaxPayload = int(w.conf.FramedPayload())
	return nil
}

// Close implements part.Part: it closes idle connections.
func (w *Workers) Close() error {
	w.roster.close()
	return nil
}

// Collectors implements part.Part.
func (w *Workers) Collectors() []prometheus.Collector { return []prometheus.Collector{w} }

// Describe implements prometheus.Collector. Label values are names from the configuration.
func (w *Workers) Describe(ch chan<- *prometheus.Desc) {
	ch <- workerRunning
	w.ended.Describe(ch)
}

// Collect implements prometheus.Collector.
func (w *Workers) Collect(ch chan<- prometheus.Metric) {
	running := make(map[string]int64)
	for _, one := range w.roster.list() {
		running[one.name] += one.is.running.Load()
	}
	for name, n := range running {
		ch <- prometheus.MustNewConstMetric(workerRunning, prometheus.GaugeValue, float64(n), name)
	}
	w.ended.Collect(ch)
}
