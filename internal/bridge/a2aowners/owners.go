package a2aowners

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/internal/jsonobject"
)

// Options configure Owners. Zero means the default that is named.
type Options struct {
	Records   Records          // required; every store.Store is one
	Retention time.Duration    // of the ownership of a task after its last use, default 30 days
	Now       func() time.Time // the wall clock, default time.Now
}

// Owners say whose the tasks of agents are. It is safe for concurrent use.
type Owners struct{ ledger Ledger }

// space is where that is kept, by agent, tenant and id.
const space = "a2a.owners"

// DefaultRetention is how long it is kept, after it was last used.
const DefaultRetention = 30 * 24 * time.Hour

// New returns Owners.
func New(opts Options) *Owners {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Owners{Ledger{Space: space, Records: opts.Records, Retention: cmp.Or(opts.Retention, DefaultRetention), Now: opts.Now}}
}

// Operation is an operation of a caller on an agent. It is safe for concurrent use.
type Operation struct {
	owners        *Owners
	name          string
	agent, caller string
	tenant        string
	ids           []string // of the tasks that it names, which are the caller's

	mu   sync.Mutex
	told string // id of the task that it was told of last
}

// Operation reads the input of an operation. The error is an *a2abinding.Failure:
// tasks are named in a way that two parsers could read differently.
func (o *Owners) Operation(agent, caller string, op a2abinding.Operation, input a2ajson.Object) (*Operation, error) {
	tenant, err := input.Text("tenant")
	if err != nil {
		return nil, err
	}
	ids, err := named(op, tenant, input)
	if err != nil {
		return nil, err
	}
	return &Operation{owners: o, name: op.Name, agent: agent, caller: caller, tenant: tenant, ids: ids}, nil
}

func (p *Operation) key(id string) string { return Key(p.agent, p.tenant, id) }

// errNotFound is what a caller learns of a task that is not theirs, whether there is
// one or not.
var errNotFound = a2abinding.Fail(a2abinding.CodeTaskNotFound, "task not found")

// Admit refuses an operation on tasks of other callers. A refused operation must not be
// sent to the agent. The error is an *a2abinding.Failure, or that of the records.
func (p *Operation) Admit(ctx context.Context) error {
	for _, id := range p.ids {
		if err := p.check(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (p *Operation) check(ctx context.Context, id string) error {
	_, found, err := p.owners.ledger.Find(ctx, p.caller, p.key(id))
	if err == nil && !found {
		return errNotFound
	}
	return err
}

// Told records the caller as owner of the task that a response is about. The caller
// must not get the response before keep has called done without an error. keep may be
// called again after an error, and is nil if nothing has to be stored. It does not
// wait.
func (p *Operation) Told(response a2ajson.Object) (keep func(done func(error))) {
	id, err := TaskOf(response)
	if err != nil {
		return func(done func(error)) { done(err) }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "" || id == p.told || slices.Contains(p.ids, id) {
		return nil
	}
	p.told = id
	return func(done func(error)) { p.owners.ledger.Submit(p.caller, p.key(id), "", done) }
}

// Claim is Told, and waits until that is stored.
func (p *Operation) Claim(ctx context.Context, response a2ajson.Object) error {
	if keep := p.Told(response); keep != nil {
		return wait(ctx, keep)
	}
	return nil
}

// Output filters the output of the agent for the caller: tasks of others are removed from
// lists. If the output has a new task, the caller is stored as its owner.
func (p *Operation) Output(ctx context.Context, output []byte) ([]byte, error) {
	switch p.name {
	case a2abinding.SendMessage:
		response, err := a2ajson.Parse(output)
		if err != nil {
			return output, nil //nolint:nilerr // then it tells of no task
		}
		if err := p.Claim(ctx, response); err != nil {
			return nil, err
		}
	case a2abinding.ListTasks:
		return p.only(ctx, output)
	}
	return output, nil
}

// maxListed bounds the tasks of one page.
const maxListed = 1000

// only returns a ListTasksResponse without the tasks that are not the caller's. If
// all are, it is the one given; else the octets around the removed ones are
// unchanged.
func (p *Operation) only(ctx context.Context, response []byte) ([]byte, error) {
	members, err := a2ajson.Parse(response)
	if err != nil {
		return nil, invalid("it is not a JSON object")
	}
	value, err := members.Find("tasks")
	if err != nil {
		return nil, repeated("tasks", err)
	}
	if value == nil || bytes.Equal(value, []byte("null")) {
		return response, nil
	}
	list, ok := jsonobject.Elements(value)
	if !ok {
		return nil, invalid("its tasks are no list")
	}
	if len(list) > maxListed {
		return nil, a2abinding.Own(a2abinding.TooLarge, "the agent lists more than 1000 tasks at once")
	}
	var kept [][]byte
	for _, task := range list {
		about, err := a2ajson.Parse(task.Value)
		if err != nil {
			continue
		}
		value, err := about.Find("id")
		id, ok := jsonobject.String(value)
		if err != nil || !ok {
			continue
		}
		switch err := p.check(ctx, id); {
		case err == nil:
			kept = append(kept, task.Value)
		case !errors.Is(err, errNotFound):
			return nil, err
		}
	}
	if len(kept) == len(list) {
		return response, nil
	}
	return a2ajson.Replace(response, "tasks", append(append([]byte{'['}, bytes.Join(kept, []byte{','})...), ']'))
}

// invalid is the failure for an answer that an agent must not give.
func invalid(what string) error {
	return a2abinding.Fail(a2abinding.CodeInvalidResponse, "invalid agent response: "+what)
}

// repeated is the failure for an answer in which two parsers could find two tasks.
func repeated(name string, err error) error { return invalid("member " + name + ": " + err.Error()) }
