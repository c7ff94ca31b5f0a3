package daemon

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/bridge/schema"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/bridge/worker"
	"github.com/slimwire/swp/profiles/a2a"
)

// workers carry out the tasks of peers, outside this process.
type workers struct {
	passive
	list    []a2a.Registration
	schemas map[string]*schema.Schema // of inputs, by kind
	client  *upstream.Client
	log     *zap.Logger

	running *prometheus.GaugeVec
	ended   *prometheus.CounterVec
}

// How a task ended, as a label.
const (
	taskDone    = "done"
	taskFailed  = "failed"
	taskStopped = "stopped" // by its deadline, its initiator or a stop of swpd
)

func newWorkers(c *config.Config, log *zap.Logger) (*workers, error) {
	w := &workers{
		client: upstream.New(upstream.Options{Calls: maxPosts(c)}),
		log:    log.Named(boundlog.Backend),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "swpd_a2a_running", Help: "Tasks that a worker is carrying out.",
		}, []string{"worker"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_a2a_runs_total", Help: "Tasks that a worker was given, by how that ended.",
		}, []string{"worker", "outcome"}),
	}
	var err error
	if w.schemas, err = loadSchemas(c); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		conf := c.A2A.Workers[name]
		one, err := w.build(name, conf)
		if err != nil {
			return nil, fmt.Errorf("a2a.workers.%s: %w", name, err)
		}
		w.list = append(w.list, a2a.Registration{
			Kinds: conf.Kinds, Worker: w.watch(name, one), Tasks: conf.Tasks, Deadline: conf.Deadline,
		})
		w.running.WithLabelValues(name)
		for _, outcome := range []string{taskDone, taskFailed, taskStopped} {
			w.ended.WithLabelValues(name, outcome)
		}
	}
	return w, nil
}

// maxPosts is how many tasks can be posted at once: no worker waits for another.
func maxPosts(c *config.Config) (n int) {
	for _, conf := range c.A2A.Workers {
		n += conf.Tasks
	}
	return n
}

// loadSchemas reads the schemas of inputs, by kind.
func loadSchemas(c *config.Config) (map[string]*schema.Schema, error) {
	byKind := make(map[string]*schema.Schema)
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		conf := c.A2A.Workers[name]
		if conf.Schema == "" {
			continue
		}
		s, err := schema.Load(conf.Schema)
		if err != nil {
			return nil, fmt.Errorf("a2a.workers.%s.schema: %w", name, err)
		}
		for _, kind := range conf.Kinds {
			byKind[kind] = s
		}
	}
	return byKind, nil
}

func (w *workers) build(name string, c config.A2AWorker) (a2a.Worker, error) {
	if c.URL != "" {
		return worker.NewHTTP(w.client, c.URL)
	}
	env := make([]string, 0, len(c.Env))
	for _, key := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, key+"="+c.Env[key])
	}
	return worker.NewCommand(worker.CommandOptions{
		Program: proc.Config{Command: c.Command, Args: c.Args, Env: env, Path: os.Getenv("PATH"), Dir: c.Dir},
		Grace:   childGrace,
		Observe: func(e worker.Event) { w.observe(name, e) },
	})
}

// validate is a2a.Options.Validate.
func (w *workers) validate(kind string, input []byte) error {
	if s := w.schemas[kind]; s != nil {
		return s.Validate(input)
	}
	return nil
}

// watch counts and logs how tasks end.
func (w *workers) watch(name string, one a2a.Worker) a2a.Worker {
	running := w.running.WithLabelValues(name)
	return a2a.WorkerFunc(func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		running.Inc()
		defer running.Dec()
		output, err := one.Run(ctx, t, event)
		outcome := taskDone
		switch {
		case ctx.Err() != nil:
			outcome = taskStopped
		case err != nil:
			outcome = taskFailed
			w.log.Warn("task failed", zap.String("worker", name), taskID(t), zap.String("peer", t.Peer), zap.Error(err))
		}
		w.ended.WithLabelValues(name, outcome).Inc()
		return output, err
	})
}

func taskID(t *a2a.Task) zap.Field { return zap.String("task_id", hex.EncodeToString(t.ID)) }

// observe logs what happens to processes. Inputs and what they write to standard
// output are not logged.
func (w *workers) observe(name string, e worker.Event) {
	fields := []zap.Field{zap.String("worker", name), zap.Int("pid", e.PID), taskID(e.Task)}
	switch e.What {
	case worker.Started:
		w.log.Debug("worker started", fields...)
	case worker.Exited:
		w.log.Debug("worker ended", append(fields, zap.Error(e.Err))...)
	case worker.Failed:
		w.log.Error("worker could not be started", append(fields, zap.Error(e.Err))...)
	case worker.Stderr:
		w.log.Info("worker says", append(fields, zap.ByteString("line", e.Line))...)
	}
}

// report is a2a.Options.Report.
func (w *workers) report(err error) { w.log.Error("task", zap.Error(err)) }

// options configure the profile. Its state is in the store.
func (w *workers) options(c *config.A2A, store a2a.Store, mayUse func(identity, agentID string) bool, partners map[string]string) a2a.Options {
	return a2a.Options{
		Store: store, MayUse: mayUse, Partners: partners, Workers: w.list, Validate: w.validate, Report: w.report,
		Retention: c.Retention, Deadline: c.Deadline, Abandoned: c.Abandoned,
	}
}

// liveTasks counts the tasks of a Service.
func waitingTasks(s *a2a.Service) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swpd_a2a_waiting", Help: "Tasks of peers that wait for a worker, or for an agent that is away.",
	}, func() float64 { return float64(s.Waiting()) })
}

func liveTasks(s *a2a.Service) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swpd_a2a_tasks", Help: "Tasks of peers that are not over, wherever they are carried out.",
	}, func() float64 { return float64(s.Live()) })
}

// close implements part: the connections that no task is using are given back.
func (w *workers) close() error {
	w.client.Close()
	return nil
}

// collectors implements part.
func (w *workers) collectors() []prometheus.Collector { return []prometheus.Collector{w} }

// Describe implements prometheus.Collector. Labels are names from the
// configuration.
func (w *workers) Describe(ch chan<- *prometheus.Desc) {
	w.running.Describe(ch)
	w.ended.Describe(ch)
}

// Collect implements prometheus.Collector.
func (w *workers) Collect(ch chan<- prometheus.Metric) {
	w.running.Collect(ch)
	w.ended.Collect(ch)
}
