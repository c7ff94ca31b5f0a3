package command

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/bridge/worker"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/store/sqlstore"
)

type workerFlags struct {
	agent string
	kinds []string
	tasks int
	drain time.Duration
	card  string
	hints string
}

func newA2AWorker(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker ADDR --agent ID --kind KIND [--kind KIND]... -- COMMAND [ARG]...",
		Short: "Carry out tasks of an endpoint with a command",
		Long: `Declare an agent at an endpoint, and carry out the tasks of its kinds: the command is
run for each task, without a shell. It gets the input of the task on standard input,
and in its environment SWP_TASK_ID, SWP_TASK_KIND, SWP_PEER and, if there is one, the
trace context as TRACEPARENT and TRACESTATE.

Each line it writes to standard output is an event: a JSON object as payload, other
text as message. A JSON object with a member "output" carries the output of the task.
With exit status 0 the task has succeeded; with any other it has failed, and the last
line of standard error is the reason.

If the connection is lost, running tasks continue and this reconnects, without a time
limit. Ctrl-C accepts no new tasks and waits for the running ones, up to --drain; a
second Ctrl-C ends them.`,
		Example: `  swp-client a2a worker swp+tls://127.0.0.1:7777 --agent summarizer --kind summarize -- ./summarize.sh
  swp-client a2a worker swp+tls://127.0.0.1:7777 --agent summarizer --card card.json --kind summarize -- ./summarize.sh
  swp-client a2a worker swp+quic://edge.example:7777 --agent ci --kind build --kind test --tasks 2 -- python3 ci.py`,
	}
	var o workerFlags
	fl := cmd.Flags()
	fl.StringVar(&o.agent, "agent", "", "`id` of the agent (required)")
	fl.StringArrayVar(&o.kinds, "kind", nil, "kind of task that it executes (required); may be repeated")
	fl.IntVar(&o.tasks, "tasks", 4, "at once; more wait")
	fl.DurationVar(&o.drain, "drain", 30*time.Second, "that tasks have to end after Ctrl-C")
	fl.StringVar(&o.hints, "hints", "", "what the agent `declares` for the policy hints of others: external_network, pii, region and cost, such as 'region=eu-west-1;pii=false'")
	fl.StringVar(&o.card, "card", "", "`file` with the card of the agent, which the endpoint serves to permitted callers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.work(cmd.Context(), args[0], args[1:], o)
	}
	return cli.UntilStopped(takes(cmd, connects))
}

func (f *flags) work(ctx context.Context, address string, command []string, o workerFlags) error {
	switch {
	case strings.TrimSpace(o.agent) == "":
		return &usageError{"--agent is required"}
	case len(o.kinds) == 0 || slices.ContainsFunc(o.kinds, func(k string) bool { return strings.TrimSpace(k) == "" }):
		return &usageError{"--kind is required, and not blank"}
	case o.tasks < 1 || o.drain <= 0:
		return &usageError{"--tasks is at least 1, and --drain above 0"}
	}
	if err := policyhint.CheckDeclaration(o.hints); err != nil {
		return &usageError{"--hints: " + plain.Error(err)}
	}
	var card []byte
	if o.card != "" {
		var err error
		if card, err = cli.ReadFile(o.card); err != nil {
			return err
		}
		if err := agdisc.CheckA2A(card); err != nil {
			f.warnf("--card %s is no card of A2A: %v; clients of A2A may refuse it", o.card, err)
		}
	}
	options, err := f.options(address)
	if err != nil {
		return err
	}
	log := &workLog{f: f}
	cmd, err := newCommand(command, log)
	if err != nil {
		return err
	}
	// It need not outlive this process: the endpoint keeps the tasks.
	store, err := sqlstore.Open(ctx, sqlstore.Options{})
	if err != nil {
		return err
	}
	err = client.Work(ctx,
		func(ctx context.Context, set *all.Set) (*client.Client, error) {
			options.Profiles = set
			ctx, cancel := context.WithTimeout(ctx, f.timeout)
			defer cancel()
			return client.Dial(ctx, address, options)
		},
		client.WorkOptions{
			Agent: o.agent, Card: card, Declares: o.hints, Store: store, Drain: o.drain, Abort: cli.Abort(ctx),
			Registration: a2a.Registration{Kinds: o.kinds, Worker: log.around(cmd), Tasks: o.tasks},
			Connected:    func(c *client.Client) { log.connected(c, o) },
			Lost:         log.lost,
			Draining:     log.draining,
			Report:       func(err error) { log.say(workLine{Type: "error", Error: plain.Error(err)}, "%v", err) },
		})
	return errors.Join(err, store.Close())
}

// newCommand makes the worker of a command line, which is looked up as a shell
// would, and gets the environment and the directory of this process.
func newCommand(line []string, log *workLog) (*worker.Command, error) {
	path := line[0]
	if strings.ContainsRune(path, filepath.Separator) {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		path = abs
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cmd, err := worker.NewCommand(worker.CommandOptions{
		Program: proc.Config{Command: path, Args: line[1:], Env: environment(), Path: os.Getenv("PATH"), Dir: dir},
		Observe: log.observe,
	})
	if err != nil {
		return nil, &usageError{plain.Error(err)}
	}
	return cmd, nil
}

// environment is the environment of this process, except PATH.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, ok := strings.Cut(kv, "=")
		return !ok || name == "" || name == "PATH"
	})
}

// workLog says on standard error what a worker does; as JSON on standard output.
type workLog struct {
	f  *flags
	mu sync.Mutex
}

// workLine is a line of JSON of a worker.
type workLine struct {
	Type   string   `json:"type"` // connected, lost, started, stderr, done, failed, draining or error
	Agent  string   `json:"agent,omitempty"`
	Kinds  []string `json:"kinds,omitempty"`
	Peer   string   `json:"peer,omitempty"`
	Task   string   `json:"task_id,omitempty"`
	Kind   string   `json:"kind,omitempty"`
	PID    int      `json:"pid,omitempty"`
	Text   string   `json:"text,omitempty"`
	Tasks  int      `json:"tasks,omitempty"`
	Error  string   `json:"error,omitempty"`
	Millis int64    `json:"pause_ms,omitempty"`
}

func (l *workLog) say(line workLine, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f.asJSON {
		_ = l.f.printJSON(line)
		return
	}
	l.f.warnf(format, args...)
}

func (l *workLog) connected(c *client.Client, o workerFlags) {
	peer := c.Peer().Identity
	l.say(workLine{Type: "connected", Agent: o.agent, Kinds: o.kinds, Peer: peer},
		"connected to %s as agent %s for %s", peer, o.agent, strings.Join(o.kinds, ", "))
}

func (l *workLog) lost(err error, pause time.Duration) {
	l.say(workLine{Type: "lost", Error: plain.Error(root(err)), Millis: pause.Milliseconds()},
		"%s; trying again in %v", lost(err), pause.Round(time.Millisecond))
}

func (l *workLog) draining(tasks int) {
	l.say(workLine{Type: "draining", Tasks: tasks}, "stopping at the end of %s; interrupt again to end at once", plain.Count(tasks, "task"))
}

func (l *workLog) observe(e worker.Event) {
	id := hex.EncodeToString(e.Task.ID)
	switch e.What {
	case worker.Started:
		l.say(workLine{Type: "started", Task: id, Kind: e.Task.Kind, PID: e.PID}, "task %s: %s started, process %d", id, e.Task.Kind, e.PID)
	case worker.Stderr:
		l.say(workLine{Type: "stderr", Task: id, Text: e.Line}, "task %s says: %s", id, e.Line)
	case worker.Failed:
		l.say(workLine{Type: "error", Task: id, Error: plain.Error(e.Err)}, "task %s: %v", id, e.Err)
	case worker.Exited: // around knows more
	}
}

// around tells how each task ended.
func (l *workLog) around(w a2a.Worker) a2a.Worker {
	return a2a.WorkerFunc(func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		output, err := w.Run(ctx, t, event)
		id := hex.EncodeToString(t.ID)
		if err != nil {
			l.say(workLine{Type: "failed", Task: id, Error: plain.Error(err)}, "task %s failed: %v", id, err)
		} else {
			l.say(workLine{Type: "done", Task: id}, "task %s done", id)
		}
		return output, err
	})
}
