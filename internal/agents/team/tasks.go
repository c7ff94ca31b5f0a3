package team

import (
	"fmt"
	"strings"

	"github.com/slimwire/swp/internal/bridge/a2aowners"
)

// spaceTasks stores which member has a task of a caller. Other callers cannot learn that
// the task exists.
const spaceTasks = "team.tasks"

// newTasks returns the storage for a team.
func newTasks(o *Options) a2aowners.Ledger {
	return a2aowners.Ledger{Space: spaceTasks, Records: o.Records, Retention: o.Retention, Now: o.Now}
}

// key is the key of a task of the caller, in the tenant of the request. Members choose task
// ids, so the ids of two callers may be equal.
func (r *request) key(id string) string {
	return a2aowners.Key(r.opts.Name, r.task.Peer, r.tenant, id)
}

// remember stores the member that has a task, and who gave it the task: User or the id of a
// member. It returns when that is durable. The first member that reports the task keeps it.
func (r *request) remember(id, member, giver string) error {
	if giver != User {
		member += "\n" + giver // no id has a line break
	}
	if err := r.tasks.Keep(r.ctx, r.task.Peer, r.key(id), member); err != nil {
		return fmt.Errorf("team: which agent has the task: %w", err)
	}
	return nil
}

// find returns the member that has a task of the caller, and who gave it the task; nil if
// unknown. A giver that has left the team gives way to the caller.
func (r *request) find(id string) (m *participant, giver string, err error) {
	note, found, err := r.tasks.Find(r.ctx, r.task.Peer, r.key(id))
	if err != nil {
		return nil, "", fmt.Errorf("team: which agent has the task: %w", err)
	}
	if !found {
		return nil, "", nil
	}
	member, giver, _ := strings.Cut(note, "\n")
	if r.members[giver] == nil {
		giver = User
	}
	return r.members[member], giver, nil
}
