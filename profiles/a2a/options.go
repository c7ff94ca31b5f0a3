package a2a

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Options configure a Service. The zero value executes nothing and sends tasks.
type Options struct {
	// Store keeps the tasks of peers. Nil means that this endpoint executes
	// nothing: every Task is answered with a failure, and forgotten.
	Store Store

	// Access decides about agent_ids (operation handshake) and kinds (operation task). Nil
	// denies nothing.
	Access profiles.Access

	// Owned reports whether a kind belongs to another profile, which has not sent the Task
	// over a session with this peer. Such a Task is denied. It must not block. Nil: no kind is.
	Owned func(kind string, peer *profiles.Peer) bool

	// Policy is asked about a task with hints when it begins: it may have waited, and the
	// endpoint has asked when the Task came. A forbidden task ends in a Result. Nil forbids
	// nothing.
	Policy profiles.Policy

	// Declaration returns the fault in the declaration of an agent for the hints of others.
	// Nil accepts every text.
	Declaration func(text string) error

	// Declares is such a declaration of the agents of this side, for their Handshakes. May
	// be empty.
	Declares string

	// Chains returns the delegation of a task when it arrives and when it starts. Nil: a
	// task that waits and names a chain ends with a failure.
	Chains profiles.Chains

	// MayUse reports whether an identity may use an agent_id. It must not block. Nil allows
	// every agent_id that no other identity uses.
	MayUse func(identity, agentID string) bool

	// Workers carry out tasks in this process, until ReplaceWorkers. A task of one of their
	// kinds goes to a session only if it names an agent.
	Workers []Registration

	// Partners are the identities of the partners, by name, until SetPartners. Tasks of an
	// earlier process may wait for them, see Service.Partner. A task that another partner has
	// given, or was given, ends.
	Partners map[string]string

	// Validate returns the fault of an input for a kind; the initiator gets the text of the
	// error. It is called concurrently, on separate goroutines. Nil accepts every input.
	Validate func(kind string, input []byte) error

	// Ward returns the Ward of a task of a kind a2a/1.0/… for an agent on a session; agent
	// is its name here, partner/agent for an agent of a partner. Nil: an initiator that
	// knows the id of a task may use any task of the agent.
	Ward func(agent string, t *Task) Ward

	// Card returns the card of an agent on a session, or behind the partner of a session, for
	// its Ward: agent is its name here. It may wait. Nil: no card is known.
	Card func(ctx context.Context, at profiles.Session, agent string) ([]byte, error)

	// Carrier sends the trace context, hints and credentials of the initiator ahead of a
	// Task. After an error the Task is not sent; an *profiles.Error that is not retryable
	// ends the Delivery. May be nil.
	Carrier profiles.Carrier

	Retention   time.Duration // minimum time that a task is kept after its end; default 24 h
	Deadline    time.Duration // of tasks without a deadline; default 1 h
	MaxDeadline time.Duration // maximum deadline of a Task; default 7 days
	Abandoned   time.Duration // how long a task waits for its agent to reconnect; default 60 s
	Unreached   time.Duration // how long a task that was not yet sent to its partner waits after the link was lost; default 5 s

	Tasks            int // unfinished tasks of peers, who share them, default 4,096
	MaxPayload       int // octets of an Event or a Result that this endpoint makes, as it can send them; default e1.DefaultMaxPayload
	Events           int // of one task, default 65,536
	EventBytes       int // octets of the Events of one task, default 64 MiB
	Agents           int // known agent_ids, connected or not, default 1,024; identities share them
	AgentsPerSession int // agent_ids of one session, default 64

	// Identity is the identity of this endpoint. It is added to the Results by which this
	// endpoint ends tasks itself (extension 53). Empty adds nothing.
	Identity string

	// Refused is called for each task that a partner, or an endpoint behind it, has
	// refused. It must not block. May be nil.
	Refused func(Refusal)

	// Wrong is called for each task of an owner that a partner has answered against the
	// protocol; name is that of Refusal. It must not block. May be nil.
	Wrong func(owner, name string, err error)

	// Away returns why a partner that cannot be reached refuses this endpoint; empty if that is not
	// known. It may be nil.
	Away func(partner string) string

	// Report is called with internal errors that no peer sees: errors and panics of
	// Workers, a store that fails. It must not block. May be nil.
	Report func(error)

	// Now is the wall clock, default time.Now. It dates stored data. After is the timer of
	// waits: it calls f after d, unless stop is called before; default time.AfterFunc, which
	// uses a monotonic clock.
	Now   func() time.Time
	After func(d time.Duration, f func()) (stop func() bool)
}

// Registration is a Worker and its kinds.
type Registration struct {
	// Agent is the agent_id whose tasks the Worker carries out; peers cannot declare it.
	// Rules and hints know these tasks as agent/kind. Empty: the tasks without an agent.
	Agent string

	// Spare says that sessions may declare the agent, which is not empty: the Worker carries out
	// only tasks of kinds that no session has declared for it. Their names for rules and hints
	// are their kinds, as for an agent of a session.
	Spare bool

	Kinds    []string // exactly these; a kind of an agent cannot be registered twice
	Worker   Worker
	Tasks    int           // concurrent tasks, default 16; identities share them
	Waiting  int           // waiting tasks, default 1,024; above it a Task is refused as retryable. Identities are served in turn
	Deadline time.Duration // of tasks without a deadline; default Options.Deadline

	// Left is called after ReplaceWorkers has removed the Worker and its last task has
	// ended. It must not block. May be nil.
	Left func()
}

// withDefaults returns o with the default in place of each zero.
func (o Options) withDefaults() Options {
	o.Access = cmp.Or(o.Access, profiles.Everyone)
	if o.Owned == nil {
		o.Owned = func(string, *profiles.Peer) bool { return false }
	}
	o.Retention = cmp.Or(o.Retention, 24*time.Hour)
	o.Deadline = cmp.Or(o.Deadline, time.Hour)
	o.MaxDeadline = cmp.Or(o.MaxDeadline, 7*24*time.Hour)
	o.Abandoned = cmp.Or(o.Abandoned, time.Minute)
	o.Unreached = cmp.Or(o.Unreached, 5*time.Second)
	o.Tasks = cmp.Or(o.Tasks, 4096)
	o.MaxPayload = cmp.Or(o.MaxPayload, e1.DefaultMaxPayload)
	o.Events = cmp.Or(o.Events, 65536)
	o.EventBytes = cmp.Or(o.EventBytes, 64<<20)
	o.Agents = cmp.Or(o.Agents, 1024)
	o.AgentsPerSession = cmp.Or(o.AgentsPerSession, 64)
	if o.MayUse == nil {
		o.MayUse = func(string, string) bool { return true }
	}
	if o.Declaration == nil {
		o.Declaration = func(string) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	if o.Wrong == nil {
		o.Wrong = func(string, string, error) {}
	}
	if o.Refused == nil {
		o.Refused = func(Refusal) {}
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return o
}

func (o *Options) validate() error {
	for name, d := range map[string]time.Duration{
		"Retention": o.Retention, "Deadline": o.Deadline, "MaxDeadline": o.MaxDeadline, "Abandoned": o.Abandoned,
		"Unreached": o.Unreached,
	} {
		if d < 0 {
			return fmt.Errorf("a2a: %s: %v, want 0 or more", name, d)
		}
	}
	for name, n := range map[string]int{
		"Tasks": o.Tasks, "Events": o.Events, "EventBytes": o.EventBytes,
		"Agents": o.Agents, "AgentsPerSession": o.AgentsPerSession,
	} {
		if n < 0 {
			return fmt.Errorf("a2a: %s: %d, want 0 or more", name, n)
		}
	}
	return nil
}
