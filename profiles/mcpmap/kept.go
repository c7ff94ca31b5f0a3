package mcpmap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Tasks that are not in the memory of a process of this endpoint outlive a restart: those of
// a server at a URL, or of a partner. So does their ownership.

// Store stores the owners of tasks. Package store says what the methods promise. A Mapping
// assumes one process that writes the records: it reads them once.
type Store interface{ store.Records }

const spaceTasks = "mcp.tasks"

// keptTask is the stored form of a task.
type keptTask struct {
	Server    string    `json:"server"`
	ID        string    `json:"id"`
	Owner     string    `json:"owner"`
	Operation string    `json:"operation"`
	Name      string    `json:"name"`
	Began     time.Time `json:"began"`
	Used      time.Time `json:"used"`
	TTL       *int64    `json:"ttl_ms,omitempty"` // nil if it is not known
	Ended     bool      `json:"ended,omitempty"`
}

// record is the key of the record of a task.
func (k taskKey) record() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", k.server, k.id))
	return hex.EncodeToString(sum[:])
}

// lasts reports whether a task is to be stored.
func (t *tasks) lasts(one *task) bool { return t.store != nil && one.holder == nil }

// keep stores a task; done is called when that has succeeded or failed.
func (t *tasks) keep(one *task, done func(error)) {
	t.mu.Lock()
	if one.writing { // a renewal of what is being stored
		t.mu.Unlock()
		done(nil)
		return
	}
	one.writing = true
	was, until := one.version, one.forgotten()
	one.until = until
	k := keptTask{
		Server: one.key.server, ID: one.key.id, Owner: one.owner, Operation: one.operation, Name: one.name,
		Began: one.began, Used: one.used, Ended: one.ended,
	}
	if ms := one.ttl.Milliseconds(); one.ttl >= 0 {
		k.TTL = &ms
	}
	value, err := json.Marshal(k)
	t.mu.Unlock()
	if err != nil {
		panic(err) // of texts, numbers and times
	}
	t.store.Put(spaceTasks, one.key.record(), was, one.owner, value, until, func(r store.PutResult) {
		t.mu.Lock()
		one.writing = false
		if r.Err == nil {
			one.version = r.Version
		}
		t.mu.Unlock()
		done(r.Err)
	})
}

// Restore reads the tasks of an earlier process. It is called once, before the first request.
func (m *Mapping) Restore(ctx context.Context) error {
	t := m.tasks
	if t.store == nil {
		return nil
	}
	var broken error
	var list []*task
	now := time.Now()
	err := t.store.Scan(ctx, spaceTasks, "", "", func(key string, version uint64, value []byte) bool {
		var k keptTask
		if broken = json.Unmarshal(value, &k); broken != nil {
			broken = fmt.Errorf("mcpmap: record %s of %s: %w", key, spaceTasks, broken)
			return false
		}
		one := &task{
			key: taskKey{k.Server, k.ID}, owner: k.Owner, operation: k.Operation, name: k.Name, began: k.Began, used: k.Used,
			ttl: -1, ended: k.Ended, version: version,
		}
		if k.TTL != nil {
			one.ttl = time.Duration(*k.TTL) * time.Millisecond
		}
		one.until = one.forgotten()
		if now.Before(one.until) {
			list = append(list, one)
		}
		return true
	})
	slices.SortFunc(list, func(a, b *task) int { return a.used.Compare(b.used) })
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range list {
		t.places.Force(one.owner, 1)
		t.enter(one)
	}
	return errors.Join(err, broken)
}

// errKeep is the answer to a call whose task cannot be stored. The task is under way.
func errKeep(cause error) *profiles.Error {
	return &profiles.Error{
		Code: profiles.Internal, Detail: "mcp_task", Cause: cause,
		Text: "the server has made a task, whose owner cannot be stored here, so nobody can ask about it",
	}
}
