// Package part defines the structure of swpd. A Part is a component with a life cycle,
// metrics and health; a Section is a part of the configuration that can be reloaded. The
// package also has what several parts share: doors, which are sessions in memory, and
// helpers for files and failures.
package part

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport/endpoint"
)

// Part is a component of a daemon. The daemon calls its parts in the order of their
// addition, without knowing which of them have something to do. A part embeds Passive and
// implements only the methods that it needs.
type Part interface {
	// Offer sets the options of the profiles that are the part's own, before the profiles are
	// made, and no others.
	Offer(*all.Options) error

	// Collectors are the metrics of the part. It is called once, after all parts are made.
	Collectors() []prometheus.Collector

	// Open makes the things that need the profiles, such as endpoints. Nothing is served
	// yet.
	Open() error

	// Endpoints are the endpoints for peers, available after Open. Door is the door for
	// callers inside this process, or nil. The daemon counts and drains their sessions,
	// doors last.
	Endpoints() []*endpoint.Endpoint
	Door() *Door

	// Opened is called when all parts are open, before a peer is admitted.
	Opened()

	// Serve works until ctx ends. It may return earlier.
	Serve(ctx context.Context)

	// Recheck checks connected peers, and the work for them, against the rules and the
	// trust in force. It returns how many stay and how many were disconnected.
	Recheck() (kept, closed int)

	// Look adds the faults of the part.
	Look(*Health)

	// Retire begins a stop: the part accepts nothing new, and ends work without an expected
	// end. It does not wait.
	Retire()

	// Drain waits until the remaining work has ended, or for the end of ctx.
	Drain(ctx context.Context) error

	// Close ends the remaining work and releases all resources. Parts close in the reverse
	// order of their addition. It is called once, also if Open failed or was not called.
	Close() error
}

// Health is the answer of /readyz and /status.
type Health struct {
	Ready    bool     `json:"ready"`
	Reasons  []string `json:"reasons"`  // why not
	Warnings []string `json:"warnings"` // for the operator

	open []string // the warnings as programs without credentials may read them
}

// Warn adds warnings for everybody: they consist of our words, and of names of entries of the configuration.
func (h *Health) Warn(texts ...string) {
	h.Warnings = append(h.Warnings, texts...)
	h.open = append(h.open, texts...)
}

// WarnWith adds a warning with an end that is not for everybody: a name, an id or a text of others, or an
// error, because it can quote one.
func (h *Health) WarnWith(text, end string) {
	h.Warnings = append(h.Warnings, text+end)
	h.open = append(h.open, text)
}

// Open returns the warnings without their ends from WarnWith.
func (h *Health) Open() []string { return h.open }

// Passive implements Part by doing nothing.
type Passive struct{}

// Offer implements Part.
func (Passive) Offer(*all.Options) error { return nil }

// Collectors implements Part.
func (Passive) Collectors() []prometheus.Collector { return nil }

// Open implements Part.
func (Passive) Open() error { return nil }

// Endpoints implements Part.
func (Passive) Endpoints() []*endpoint.Endpoint { return nil }

// Door implements Part.
func (Passive) Door() *Door { return nil }

// Serve implements Part.
func (Passive) Serve(context.Context) {}

// Opened implements Part.
func (Passive) Opened() {}

// Recheck implements Part.
func (Passive) Recheck() (kept, closed int) { return 0, 0 }

// Look implements Part.
func (Passive) Look(*Health) {}

// Retire implements Part.
func (Passive) Retire() {}

// Drain implements Part.
func (Passive) Drain(context.Context) error { return nil }

// Close implements Part.
func (Passive) Close() error { return nil }

// List has the parts of a daemon, in the order of their addition.
type List []Part

// Offer calls Offer of all parts, until one fails.
func (l List) Offer(o *all.Options) error {
	for _, one := range l {
		if err := one.Offer(o); err != nil {
			return err
		}
	}
	return nil
}

// Open opens the parts, until one fails.
func (l List) Open() error {
	for _, one := range l {
		if err := one.Open(); err != nil {
			return err
		}
	}
	return nil
}

// endpoints returns the endpoints for peers, and those of doors.
func (l List) endpoints() (outer, inner []*endpoint.Endpoint) {
	for _, one := range l {
		outer = append(outer, one.Endpoints()...)
		if door := one.Door(); door != nil && door.passage != nil {
			inner = append(inner, door.passage.far)
		}
	}
	return outer, inner
}

// Sessions yields the open sessions of peers, in no order.
func (l List) Sessions() iter.Seq[*endpoint.Session] {
	return func(yield func(*endpoint.Session) bool) {
		outer, _ := l.endpoints()
		for _, one := range outer {
			for s := range one.Sessions() {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Stats adds up the figures of all endpoints, but for InFlightBytes, whose budget they share.
func (l List) Stats() (sum endpoint.Stats) {
	outer, inner := l.endpoints()
	for _, ep := range slices.Concat(outer, inner) {
		s := ep.Stats()
		sum.Sessions += s.Sessions
		sum.Handlers += s.Handlers
		sum.DeferredBytes += s.DeferredBytes
		sum.Unreceived += s.Unreceived
	}
	return sum
}

// Pools returns who uses what all endpoints share.
func (l List) Pools() (list []Pool) {
	outer, inner := l.endpoints()
	byName := make(map[string][]Pool)
	for _, ep := range slices.Concat(outer, inner) {
		for _, pool := range append(ep.Shared(), ep.Handlers()) {
			byName[pool.Name] = append(byName[pool.Name], pool)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, fair.Join(name, byName[name]...))
	}
	return list
}

// Curtailed adds up how many messages were sent without their end-to-end extensions.
func (l List) Curtailed() (sum uint64) {
	outer, inner := l.endpoints()
	for _, ep := range slices.Concat(outer, inner) {
		sum += ep.Curtailed()
	}
	return sum
}

// RecordLong has exchanges be recorded that began before a time and are not over.
func (l List) RecordLong(before time.Time) {
	outer, inner := l.endpoints()
	for _, ep := range slices.Concat(outer, inner) {
		ep.RecordLong(before)
	}
}

// SetLimits changes the limits for new connections.
func (l List) SetLimits(o endpoint.Options) error {
	var failed []error
	outer, _ := l.endpoints()
	for _, ep := range outer {
		failed = append(failed, ep.SetLimits(o))
	}
	for _, one := range l {
		failed = append(failed, one.Door().setLimits(o))
	}
	return errors.Join(failed...)
}

// Recheck adds up the results of the parts, and then asks the rules again for all exchanges
// in flight.
func (l List) Recheck() (kept, closed int) {
	for _, one := range l {
		k, c := one.Recheck()
		kept, closed = kept+k, closed+c
	}
	outer, inner := l.endpoints()
	for _, ep := range slices.Concat(outer, inner) {
		ep.Review()
	}
	return kept, closed
}

// Drain drains all parts and their endpoints at the same time, and then the doors, which
// the parts may need until then.
func (l List) Drain(ctx context.Context) error {
	for _, one := range l {
		one.Retire()
	}
	outer, inner := l.endpoints()
	var ends []func(context.Context) error
	for _, one := range l {
		ends = append(ends, one.Drain)
	}
	for _, ep := range outer {
		ends = append(ends, ep.Shutdown)
	}
	err := together(ctx, ends)
	ends = nil
	for _, ep := range inner {
		ends = append(ends, ep.Shutdown)
	}
	return errors.Join(err, together(ctx, ends))
}

// together calls functions at the same time and returns their errors.
func together(ctx context.Context, list []func(context.Context) error) error {
	errs := make([]error, len(list))
	var work sync.WaitGroup
	for i, f := range list {
		work.Go(func() { errs[i] = f(ctx) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// Close closes all parts.
func (l List) Close() error {
	var failed []error
	for _, one := range slices.Backward(l) {
		failed = append(failed, one.Close())
	}
	return errors.Join(failed...)
}

// ChildGrace is how long a child process has between SIGTERM and SIGKILL.
const ChildGrace = 2 * time.Second

// Environ returns the environment of a child process as exec takes it, in the order of the
// names.
func Environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// Every calls f each time d has passed, until ctx ends.
func Every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// Pool is what identities share, for the status.
type Pool = fair.Pool

// Use is the part of one identity.
type Use = fair.Use
