package a2ahttp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/bridge/a2abinding"
)

// Records are what a Back needs of durable state. Package store says what the
// methods promise.
type Records interface {
	Put(space, key string, was uint64, owner string, value []byte, expires time.Time,
		done func(wrote bool, version uint64, current []byte, err error))
	Get(ctx context.Context, space, key string) (version uint64, value []byte, err error)
}

// spaceOwners is where it is kept whose tasks are, by agent and id of A2A.
const spaceOwners = "a2a.owners"

// owners say whose task each task of an agent is: its caller's, who was told of it
// first (R9). To an agent at a URL all callers are this endpoint, so it can not tell
// one from another. What nobody is known to own answers like what there is not.
//
// Each is a record of its caller, within the caller's quota, and is forgotten
// retention after it was last used, give or take a quarter.
type owners struct {
	agent     string
	records   Records
	retention time.Duration
	now       func() time.Time
}

// owner is such a record.
type owner struct {
	Identity string    `json:"identity"`
	Until    time.Time `json:"until"`
}

func (w *owners) key(id string) string {
	sum := sha256.Sum256([]byte(w.agent + "/" + id))
	return hex.EncodeToString(sum[:])
}

// claim makes a task its caller's who has just been told of it, unless it is
// somebody's already. It returns once that is stored.
func (w *owners) claim(ctx context.Context, caller, id string) error {
	if id == "" {
		return nil
	}
	return w.put(ctx, caller, w.key(id), 0)
}

func (w *owners) put(ctx context.Context, caller, key string, was uint64) error {
	until := w.now().Add(w.retention)
	value, err := json.Marshal(owner{caller, until})
	if err != nil {
		return fmt.Errorf("a2ahttp: %w", err)
	}
	done := make(chan error, 1)
	w.records.Put(spaceOwners, key, was, caller, value, until, func(_ bool, _ uint64, _ []byte, err error) { done <- err })
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("a2ahttp: whose task it is can not be kept: %w", err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errNotFound is what a caller learns of a task that is not theirs, whether there is
// one or not.
var errNotFound = a2abinding.Fail(a2abinding.CodeTaskNotFound, "task not found")

// check returns errNotFound if a task is not the caller's.
func (w *owners) check(ctx context.Context, caller, id string) error {
	key := w.key(id)
	version, value, err := w.records.Get(ctx, spaceOwners, key)
	if err != nil {
		return fmt.Errorf("a2ahttp: whose task it is can not be read: %w", err)
	}
	var o owner
	if version == 0 || json.Unmarshal(value, &o) != nil || o.Identity != caller {
		return errNotFound
	}
	if o.Until.Sub(w.now()) < w.retention*3/4 {
		return w.put(ctx, caller, key, version)
	}
	return nil
}

// maxListed bounds the tasks of one page.
const maxListed = 1000

// only returns a ListTasksResponse without the tasks that are not the caller's. If
// all are, it is the one given; else the octets around those that go stay as they
// are.
func (w *owners) only(ctx context.Context, caller string, response []byte) ([]byte, error) {
	members, err := parseObject(response)
	if err != nil {
		return nil, invalid("it is not a JSON object")
	}
	list := members.last("tasks")
	if list == nil || bytes.Equal(list, null) {
		return response, nil
	}
	spans, ok := elements(list)
	if !ok {
		return nil, invalid("its tasks are no list")
	}
	if len(spans) > maxListed {
		return nil, a2abinding.Own(a2abinding.TooLarge, "the agent lists more than 1000 tasks at once")
	}
	var kept [][]byte
	for _, span := range spans {
		task := list[span[0]:span[1]]
		var id string
		if about, err := parseObject(task); err != nil || json.Unmarshal(about.last("id"), &id) != nil {
			continue
		}
		switch err := w.check(ctx, caller, id); {
		case err == nil:
			kept = append(kept, task)
		case !errors.Is(err, errNotFound):
			return nil, err
		}
	}
	if len(kept) == len(spans) {
		return response, nil
	}
	return replace(response, "tasks", append(append([]byte{'['}, bytes.Join(kept, []byte{','})...), ']'))
}
