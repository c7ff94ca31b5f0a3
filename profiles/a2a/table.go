package a2a

import (
	"context"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// table has the unfinished tasks of peers, and all cursors. The mu of the Service guards
// it. It assumes one process: a task that another process would admit or end is not here,
// and its bounds count the tasks of this process.
type table struct {
	s       *Service
	byKey   map[string]*task   // by the key of their request
	open    fair.Shares        // of tasks in byKey
	places  map[string]bool    // of denied tasks in byKey
	cursors map[string]*cursor // by the run of their task, which may have ended; at most one each
}

// enter adds a task to the table. The caller holds mu.
func (tb *table) enter(t *task) {
	t.exec.hosted = t.s.pools.hosts(t.Agent)
	ctx := withOrigin(t.s.ctx, t.Trace, t.Hints)
	if credited, err := t.withDelegation(ctx); err == nil {
		ctx = credited
	}
	t.ctx, t.stop = context.WithCancelCause(ctx)
	tb.byKey[t.key] = t
	if t.denied {
		tb.places[t.place()] = true
	}
	tb.open.Force(t.Owner, 1)
}

// forget removes a task from the table, if it is there. The caller holds mu.
func (tb *table) forget(t *task) {
	if tb.byKey[t.key] != t {
		return
	}
	delete(tb.byKey, t.key)
	if t.denied {
		delete(tb.places, t.place())
	}
	tb.open.Give(t.Owner, 1)
}

// withOrigin returns ctx with the trace context and the hints of a task.
func withOrigin(ctx context.Context, trace profiles.Trace, hints []profiles.Hint) context.Context {
	ctx = profiles.WithTrace(ctx, trace)
	if len(hints) == 0 {
		return ctx
	}
	return profiles.WithHints(ctx, hints)
}
