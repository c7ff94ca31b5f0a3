// Package a2aowners stores which caller owns which task of an A2A agent, for agents that
// see this endpoint as their only caller: agents at URLs, agents reached over a session of
// this endpoint, and members of a team.
//
// A task belongs to the caller that received its id first. Other callers get the same
// answers as for a task that never existed.
//
// Specification: mcp-a2a mapping R9, ABUSE PR-04.
package a2aowners

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/slimwire/swp/store"
)

// Records are what a Ledger needs of durable state. Package store says what the
// methods promise.
type Records interface {
	Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult))
	Get(ctx context.Context, space, key string) (version uint64, value []byte, err error)
}

// Ledger keeps notes for callers, under keys. Each is a record of its caller, within
// the caller's quota, and is forgotten Retention after it was last used, give or take
// a quarter. It is safe for concurrent use.
type Ledger struct {
	Space     string
	Records   Records
	Retention time.Duration
	Now       func() time.Time // the wall clock
}

// entry is the stored form of a note.
type entry struct {
	Identity string    `json:"identity"`
	Note     string    `json:"note,omitempty"`
	Until    time.Time `json:"until"`
}

// Key returns the key for a path of names: for a task the agent, the tenant, and the
// id. Ids are unique for one agent and one tenant only.
func Key(names ...string) string {
	h := sha256.New()
	for _, name := range names {
		_, _ = fmt.Fprintf(h, "%q ", name) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Submit keeps a note for a caller, unless there is one under the key already,
// whosever it is. It does not wait: done is called when that is stored, or cannot be,
// and must not block.
func (l *Ledger) Submit(caller, key, note string, done func(error)) {
	l.put(caller, key, note, 0, done)
}

// Keep is Submit, and waits.
func (l *Ledger) Keep(ctx context.Context, caller, key, note string) error {
	return wait(ctx, func(done func(error)) { l.Submit(caller, key, note, done) })
}

// Find returns the note of a caller, false if there is none.
func (l *Ledger) Find(ctx context.Context, caller, key string) (note string, found bool, err error) {
	version, value, err := l.Records.Get(ctx, l.Space, key)
	if err != nil {
		return "", false, fmt.Errorf("a2aowners: %s cannot be read: %w", l.Space, err)
	}
	var e entry
	if version > 0 {
		if err := json.Unmarshal(value, &e); err != nil {
			return "", false, fmt.Errorf("a2aowners: %s: a record cannot be read: %w", l.Space, err)
		}
	}
	if version == 0 || e.Identity != caller {
		return "", false, nil
	}
	if e.Until.Sub(l.Now()) < l.Retention*3/4 {
		err = wait(ctx, func(done func(error)) { l.put(caller, key, e.Note, version, done) })
	}
	return e.Note, err == nil, err
}

func (l *Ledger) put(caller, key, note string, was uint64, done func(error)) {
	until := l.Now().Add(l.Retention)
	value, err := json.Marshal(entry{caller, note, until})
	if err != nil {
		done(fmt.Errorf("a2aowners: %w", err))
		return
	}
	l.Records.Put(l.Space, key, was, caller, value, until, func(r store.PutResult) {
		if r.Err != nil {
			done(fmt.Errorf("a2aowners: %s cannot be written: %w", l.Space, r.Err))
			return
		}
		done(nil)
	})
}

// wait begins something and waits for its end, or that of ctx.
func wait(ctx context.Context, begin func(done func(error))) error {
	done := make(chan error, 1)
	begin(func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
