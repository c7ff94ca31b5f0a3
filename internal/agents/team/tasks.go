package team

import (
	"fmt"

	"github.com/slimwire/swp/internal/bridge/a2aowners"
)

// spaceTasks is where it is kept which member has a task that a caller was told of. Of
// a task that another caller was told of nobody learns that there is one.
const spaceTasks = "team.tasks"

// newTasks returns where a team of these options keeps that.
func newTasks(o *Options) a2aowners.Ledger {
	return a2aowners.Ledger{Space: spaceTasks, Records: o.Records, Retention: o.Retention, Now: o.Now}
}

// key is the key of a task of the caller, in the tenant of the request. Members
// choose their ids, so two callers may get the same one.
func (r *request) key(id string) string {
	return a2aowners.Key(r.opts.Name, r.task.Peer, r.tenant, id)
}

// remember keeps which member has a task, and returns once that is stored. The first
// member that says a task is its own has it.
func (r *request) remember(id, member string) error {
	if err := r.tasks.Keep(r.ctx, r.task.Peer, r.key(id), member); err != nil {
		return fmt.Errorf("team: which agent has the task: %w", err)
	}
	return nil
}

// find returns the member that has a task of the caller, nil if none is known.
func (r *request) find(id string) (*participant, error) {
	member, found, err := r.tasks.Find(r.ctx, r.task.Peer, r.key(id))
	if err != nil {
		return nil, fmt.Errorf("team: which agent has the task: %w", err)
	}
	if !found {
		return nil, nil
	}
	return r.members[member], nil
}
