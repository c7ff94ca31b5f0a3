package command

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/a2a"
)

func newA2A(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "a2a",
		Short: "Send tasks to agents, and carry out tasks",
		Long: `Send tasks to the agents behind an endpoint, carry out tasks for it, and serve its
agents to other programs over HTTP.

A task that was sent continues if this program ends or the connection is lost.
A journal in $XDG_STATE_HOME/swp-client (default ~/.local/state/swp-client) records
sent tasks and the printed events. A task is named by its id or by a unique prefix
of it.`,
		Example: `  swp-client a2a send swp+tls://127.0.0.1:7777 --kind summarize --input @report.txt
  swp-client a2a resume 3fa94c01
  swp-client a2a worker swp+tls://127.0.0.1:7777 --agent summarizer --kind summarize -- ./summarize.sh
  swp-client a2a http swp+tls://127.0.0.1:7777/billing --listen 127.0.0.1:8081`,
	}
	cmd.AddCommand(newA2ASend(f), newA2AResume(f), newA2AWatch(f), newA2ACancel(f), newA2AList(f), newA2AWorker(f), newA2AHTTP(f))
	return cmd
}

func newA2ASend(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send ADDR[/AGENT] --kind KIND",
		Short: "Send a task and print its events and output",
		Long: `Send a task. Each of its events is printed as it arrives, a line each: the message,
or the payload unchanged. The output follows. The task id is on standard error. A name
after the address selects the agent, like --agent; for an agent of a partner it is
PARTNER/AGENT. PARTNER alone selects any agent of the partner for the kind, like
--kind PARTNER/KIND.

If the connection is lost, this continues over a new one; it gives up after --timeout
without an answer. Ctrl-C leaves the task running. If this program was ended, resume
prints the rest.

Exit status: 0 when the task has succeeded, 1 when it has failed or is unknown, 2 for
a wrong command line, 130 after Ctrl-C.`,
		Example: `  swp-client a2a send swp+tls://127.0.0.1:7777 --kind summarize --input "all of it"
  swp-client a2a send swp+quic://127.0.0.1:7777 --kind summarize --input @report.txt --deadline 5m --json
  swp-client a2a send swp+tls://127.0.0.1:7777/acme/planner --kind plan --input @order.json
  id=$(swp-client a2a send swp+tls://127.0.0.1:7777 --kind build --detach <build.json --input -)`,
	}
	var o sendFlags
	fl := cmd.Flags()
	fl.StringVar(&o.kind, "kind", "", "kind of the task (required)")
	fl.StringVar(&o.input, "input", "", "`text`, - for standard input, or @FILE")
	fl.StringVar(&o.agent, "agent", "", "`id` of the agent that it is meant for, if the address does not say")
	fl.StringArrayVar(&o.params, "param", nil, "service parameter `name=value`; may be repeated")
	fl.DurationVar(&o.deadline, "deadline", 0, "when the task ends with a failure; 0 leaves it to the endpoint")
	fl.BoolVar(&o.detach, "detach", false, "print the task id once the task is taken in, and leave it running")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.send(cmd.Context(), args[0], o) }
	return takes(cmd, connects, traces, hints, chains)
}

type sendFlags struct {
	kind, input, agent string
	params             []string
	deadline           time.Duration
	detach             bool
}

func (f *flags) send(ctx context.Context, address string, o sendFlags) error {
	if strings.TrimSpace(o.kind) == "" {
		return &usageError{"--kind names the kind of the task, and is required"}
	}
	for _, p := range o.params {
		if name, _, ok := strings.Cut(p, "="); !ok || name == "" {
			return &usageError{fmt.Sprintf("--param %.80q, want name=value", p)}
		}
	}
	if o.deadline < 0 {
		return &usageError{fmt.Sprintf("--deadline %v, want a duration above 0", o.deadline)}
	}
	at, agent, err := behind(address, "--agent", o.agent)
	if err != nil {
		return err
	}
	if _, err := f.options(at); err != nil {
		return err
	}
	input, err := f.readInput(o.input)
	if err != nil {
		return err
	}
	journal, err := openJournal()
	if err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	t := client.SentTask{
		Address: at, ID: hex.EncodeToString(id), Kind: o.kind, Agent: agent, Params: o.params, Sent: time.Now(), Input: input,
	}
	if o.deadline > 0 {
		t.Deadline = t.Sent.Add(o.deadline)
	}
	entry, err := journal.Add(t)
	if err != nil {
		return err
	}
	defer entry.Close()
	if o.detach {
		return f.detach(ctx, entry)
	}
	return f.follow(ctx, &follow{entry: entry, mark: true})
}

// readInput reads what an argument is: a text, @FILE, or - for standard input. A text that
// is the name of a file is perhaps meant as that file, so it says so.
func (f *flags) readInput(input string) ([]byte, error) {
	if input == "-" {
		return io.ReadAll(f.in)
	}
	if file, ok := strings.CutPrefix(input, "@"); ok {
		return cli.ReadFile(file)
	}
	if info, err := os.Stat(input); err == nil && info.Mode().IsRegular() {
		f.warnf("%q is taken as text; write @%s for the file of that name", input, input)
	}
	return []byte(input), nil
}

func openJournal() (*client.Journal, error) {
	dir, err := client.StateDir()
	if err != nil {
		return nil, err
	}
	return client.OpenJournal(dir)
}

func newA2AResume(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [ADDR[/AGENT]] TASK_ID",
		Short: "Print the rest of a task's events and its output",
		Long: `Send a task of the journal again, which does not execute it again, and print the
events that were not printed yet, then the output. An address replaces the recorded
one, and a name after it replaces the agent: use any endpoint that has the task.`,
		Example: `  swp-client a2a resume 3fa94c01
  swp-client a2a resume swp+quic://127.0.0.1:7777 3fa94c01 --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		entry, err := findTask(args[len(args)-1])
		if err != nil {
			return err
		}
		defer entry.Close()
		if len(args) == 2 {
			if err := moveTo(entry, args[0]); err != nil {
				return err
			}
		}
		return f.follow(cmd.Context(), &follow{entry: entry, resume: true, after: entry.After, mark: true})
	}
	return takes(cmd, connects, traces, hints, chains)
}

// moveTo makes a task of the journal use another address, which may name the agent
// there.
func moveTo(entry *client.Entry, address string) error {
	addr, agent, err := split(address)
	if err != nil {
		return err
	}
	if entry.Address = addr.String(); agent != "" {
		entry.Agent = agent
	}
	return nil
}

func findTask(id string) (*client.Entry, error) {
	journal, err := openJournal()
	if err != nil {
		return nil, err
	}
	return journal.Find(id)
}

func newA2AWatch(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch TASK_ID",
		Short: "Print all events of a task from the first",
		Long: `Print all stored events of a task of the journal from the first, then new ones until the
task ends, then the output. It asks the endpoint that the task was sent to. Ctrl-C ends
the watching and not the task. What resume prints afterwards is the same as without it.`,
		Example: `  swp-client a2a watch 3fa94c01`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		entry, err := findTask(args[0])
		if err != nil {
			return err
		}
		defer entry.Close()
		return f.follow(cmd.Context(), &follow{entry: entry, resume: true})
	}
	return takes(cmd, connects, traces, hints, chains)
}

func newA2ACancel(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel TASK_ID",
		Short: "Cancel a task",
		Long: `End a task of the journal before it is done: its worker is stopped, and the task has
failed. If the task has ended before, this command fails and changes nothing.`,
		Example: `  swp-client a2a cancel 3fa94c01`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		entry, err := findTask(args[0])
		if err != nil {
			return err
		}
		defer entry.Close()
		return f.cancel(cmd.Context(), entry)
	}
	return takes(cmd, connects, traces, hints, chains)
}

func newA2AList(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks sent by this client",
		Long: `List the tasks of the journal, the newest first: those whose output was printed, up to
fifty, and all others of the last thirty days.`,
		Example: `  swp-client a2a list
  swp-client a2a list --json`,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		journal, err := openJournal()
		if err != nil {
			return err
		}
		list, err := journal.List()
		return errors.Join(f.printTasks(list), err)
	}
	return cmd
}

// listed is a task of a list as JSON.
type listed struct {
	Task    string    `json:"task_id"`
	Kind    string    `json:"kind"`
	Address string    `json:"address"`
	Sent    time.Time `json:"sent"`
	After   uint64    `json:"printed"`
	Done    bool      `json:"done"`
	OK      *bool     `json:"ok,omitempty"` // once it is done
}

func (f *flags) printTasks(list []*client.Entry) error {
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	for _, e := range list {
		if f.asJSON {
			l := listed{Task: e.ID, Kind: e.Kind, Address: e.Address, Sent: e.Sent, After: e.After, Done: e.Done}
			if ok := !e.Failed; e.Done {
				l.OK = &ok
			}
			if err := f.printJSON(l); err != nil {
				return err
			}
			continue
		}
		state := "open"
		switch {
		case e.Failed:
			state = "failed"
		case e.Done:
			state = "done"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s printed\t%s\n",
			e.ID, e.Sent.Local().Format(time.DateTime), state, visible(e.Kind), plain.Count(e.After, "event"), visible(e.Address))
	}
	return f.listed(w.Flush(), len(list), "task")
}

// task is an entry in the form that is sent.
func task(e *client.Entry) *a2a.Task {
	return &a2a.Task{ID: e.TaskID(), Kind: e.Kind, Input: e.Input, Params: e.Params, Deadline: e.Deadline}
}

func (f *flags) dialer(address string) client.Dialer {
	return func(ctx context.Context) (*client.Client, error) { return f.dial(ctx, address) }
}

var errAcknowledged = errors.New("acknowledged")

// detach sends a task and waits until it is taken in, which the first event or
// the result says. Nothing of it counts as printed.
func (f *flags) detach(ctx context.Context, e *client.Entry) error {
	sent := false
	_, err := client.Follow(ctx, f.dialer(e.Address), client.FollowOptions{
		Task: task(e), Agent: e.Agent, Patience: f.timeout,
		Sent: func() { sent = true }, Event: func(*a2a.Event) error { return errAcknowledged },
	})
	switch {
	case err != nil && !sent:
		return errors.Join(err, e.Forget())
	case err != nil && !errors.Is(err, errAcknowledged):
		return fmt.Errorf("%w\nThe task may go on; it is %s", err, e.ID)
	}
	if f.asJSON {
		return f.printJSON(line{Type: "sent", Task: e.ID})
	}
	f.printf("%s\n", e.ID)
	return nil
}

// cancelReason is the reason of a task that was cancelled here.
const cancelReason = "cancelled by its initiator"

// cancel ends a task with a result of this side, and makes sure that it did.
func (f *flags) cancel(ctx context.Context, e *client.Entry) error {
	if err := f.sendCancel(ctx, e); err != nil {
		return err
	}
	result, err := client.Follow(ctx, f.dialer(e.Address), client.FollowOptions{
		Task: task(e), Agent: e.Agent, Resume: true, After: e.After, Patience: f.timeout,
		Event: func(*a2a.Event) error { return nil },
	})
	switch {
	case err != nil:
		return err
	case result.OK || result.Reason != cancelReason:
		return fmt.Errorf("the task had ended before; print its result with: %s", f.commandLine("a2a", "resume", e.ID))
	}
	return e.Finish(false)
}

func (f *flags) sendCancel(ctx context.Context, e *client.Entry) error {
	c, err := f.dial(ctx, e.Address)
	if err != nil {
		return err
	}
	defer c.Finish()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	d, err := c.A2A().Send(ctx, c.Session, task(e), a2a.SendOptions{Agent: e.Agent, Resume: true, After: e.After})
	if err != nil {
		return c.Explain(err)
	}
	defer d.Close()
	return c.Explain(d.Cancel(ctx, cancelReason))
}
