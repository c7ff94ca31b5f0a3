package team

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Records are what a Team needs of durable state. Package store says what the methods
// promise.
type Records interface {
	Put(space, key string, was uint64, owner string, value []byte, expires time.Time,
		done func(wrote bool, version uint64, current []byte, err error))
	Get(ctx context.Context, space, key string) (version uint64, value []byte, err error)
}

// spaceTasks is where it is kept which member has a task that a caller was told of.
// Each is a record of the caller, within the caller's quota, and is forgotten
// Retention after it was last used, give or take a quarter. Of a task that another
// caller was told of nobody learns that there is one.
const spaceTasks = "team.tasks"

// place is such a record.
type place struct {
	Member string    `json:"member"`
	Until  time.Time `json:"until"`
}

func (t *Team) taskKey(caller, id string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", t.opts.Name, caller, id))
	return hex.EncodeToString(sum[:])
}

// remember keeps which member has a task, and returns once that is stored. The first
// member that says a task is its own has it.
func (t *Team) remember(ctx context.Context, caller, id, member string) error {
	return t.keep(ctx, caller, t.taskKey(caller, id), member, 0)
}

func (t *Team) keep(ctx context.Context, caller, key, member string, was uint64) error {
	until := t.opts.Now().Add(t.opts.Retention)
	value, err := json.Marshal(place{member, until})
	if err != nil {
		return fmt.Errorf("team: %w", err)
	}
	done := make(chan error, 1)
	t.opts.Records.Put(spaceTasks, key, was, caller, value, until, func(_ bool, _ uint64, _ []byte, err error) { done <- err })
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("team: which agent has the task can not be kept: %w", err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find returns the member that has a task of a caller, nil if none is known.
func (t *Team) find(ctx context.Context, caller, id string) (*participant, error) {
	key := t.taskKey(caller, id)
	version, value, err := t.opts.Records.Get(ctx, spaceTasks, key)
	if err != nil {
		return nil, fmt.Errorf("team: which agent has the task can not be read: %w", err)
	}
	if version == 0 {
		return nil, nil
	}
	var p place
	if err := json.Unmarshal(value, &p); err != nil {
		return nil, fmt.Errorf("team: which agent has the task can not be read: %w", err)
	}
	if p.Until.Sub(t.opts.Now()) < t.opts.Retention*3/4 {
		err = t.keep(ctx, caller, key, p.Member, version)
	}
	return t.members[p.Member], err
}
