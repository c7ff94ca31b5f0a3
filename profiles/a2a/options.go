package a2a

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Options configure a Service. The zero value executes nothing and sends tasks.
type Options struct {
	// Store keeps the tasks of peers. Nil means that this endpoint executes
	// nothing: every Task is answered with a failure, and forgotten.
	Store Store

	// Access says who may use which agent_id (handshake) and which kind (task).
	// Nil denies nothing.
	Access profiles.Access

	// Policy is asked about each task that Access allows. One that it stops ends in
	// a Result that says so, after its notice. Nil stops nothing.
	Policy profiles.Policy

	// Chains says under which credentials a task is, when it comes and when it
	// begins. Nil means that a task which waits for its beginning and names a chain
	// ends with a failure.
	Chains profiles.Chains

	// MayUse says whether an identity may be an agent. It must not block. Nil
	// means that it may, unless another identity is that agent.
	MayUse func(identity, agentID string) bool

	// Workers carry out tasks in this process, until ReplaceWorkers. A task of a kind that
	// is registered here goes to a session only if it names the agent.
	Workers []Registration

	// Partners are the identities of those endpoints, by name, for which tasks of an
	// earlier process may wait; see Service.Partner.
	Partners map[string]string

	// Validate says what is wrong with the input of a kind: the text of its
	// error reaches the initiator. It is called on goroutines of its own, by many
	// at once. Nil means every input is good.
	Validate func(kind string, input []byte) error

	// Ward looks after a task of a kind a2a/1.0/… that is given to an agent over a
	// session; agent is its name here, partner/agent behind a partner. Nil means that
	// initiators who know its id may have to do with any task of the agent's.
	Ward func(agent string, t *Task) Ward

	// Carrier sends ahead of a Task what its initiator gave it to take along: a trace
	// context, hints, credentials. After an error the Task is not sent; an
	// *profiles.Error that is not retryable is the end of the Delivery. Nil: nothing
	// goes ahead.
	Carrier profiles.Carrier

	Retention   time.Duration // of a task after its end, at least; default 24 h
	Deadline    time.Duration // of tasks that name none; default 1 h
	MaxDeadline time.Duration // what a Task may ask for at most; default 7 days
	Abandoned   time.Duration // how long a task waits for its agent to come back; default 60 s
	Unreached   time.Duration // how long one that was not given to a partner yet waits for it, after the partner has gone; default 5 s

	Tasks            int // of peers that are not over, default 4,096
	TasksPerIdentity int // of them, of one identity, default 1,024
	Events           int // of one task, default 65,536
	EventBytes       int // octets of the Events of one task, default 64 MiB
	Agents           int // agent_ids that are known, here or not, default 1,024
	AgentsPerSession int // of them, of one session, default 64

	// Identity is that of this endpoint, which goes beside the Results by which it
	// ends tasks itself (extension 53). Empty means that none does.
	Identity string

	// Refused is told of each task that was refused by a partner, or by an endpoint
	// behind it. It must not block. Nil means nobody is told.
	Refused func(Refusal)

	// Report is told what went wrong here and no peer learns: errors and panics of
	// Workers, a store that fails. It must not block. Nil means nobody is told.
	Report func(error)

	// Now is the wall clock, default time.Now. It dates what is stored; waits
	// are monotonic.
	Now func() time.Time
}

// Registration is a Worker and what it is for.
type Registration struct {
	// Agent is the agent_id whose tasks these are, and only they; no peer can then
	// declare it. Rules and policies know its tasks as agent/kind. Empty means the
	// tasks that are meant for no agent.
	Agent string

	Kinds    []string // exactly these; a kind of an agent cannot be registered twice
	Worker   Worker
	Tasks    int           // at once, default 16
	Waiting  int           // that wait for one to end, default 1,024; above it a Task is refused, to be sent again
	Deadline time.Duration // of tasks that name none; default that of Options

	// Left is called once ReplaceWorkers has taken the Worker out and the last task has
	// left it. It must not block. Nil means nobody is told.
	Left func()
}

// withDefaults returns o with the default in place of each zero.
func (o Options) withDefaults() Options {
	o.Access = cmp.Or(o.Access, profiles.Everyone)
	o.Retention = cmp.Or(o.Retention, 24*time.Hour)
	o.Deadline = cmp.Or(o.Deadline, time.Hour)
	o.MaxDeadline = cmp.Or(o.MaxDeadline, 7*24*time.Hour)
	o.Abandoned = cmp.Or(o.Abandoned, time.Minute)
	o.Unreached = cmp.Or(o.Unreached, 5*time.Second)
	o.Tasks = cmp.Or(o.Tasks, 4096)
	o.TasksPerIdentity = cmp.Or(o.TasksPerIdentity, 1024)
	o.Events = cmp.Or(o.Events, 65536)
	o.EventBytes = cmp.Or(o.EventBytes, 64<<20)
	o.Agents = cmp.Or(o.Agents, 1024)
	o.AgentsPerSession = cmp.Or(o.AgentsPerSession, 64)
	if o.MayUse == nil {
		o.MayUse = func(string, string) bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
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
		"Tasks": o.Tasks, "TasksPerIdentity": o.TasksPerIdentity, "Events": o.Events, "EventBytes": o.EventBytes,
		"Agents": o.Agents, "AgentsPerSession": o.AgentsPerSession,
	} {
		if n < 0 {
			return fmt.Errorf("a2a: %s: %d, want 0 or more", name, n)
		}
	}
	return nil
}
