// Package part defines what swpd is made of: a Part is a component with a life cycle,
// metrics and health, and a Section is the part of the configuration that a component takes
// up while the daemon serves. The package also has what several parts share: doors, which
// are sessions in memory, and how files and failures are read and described.
package part

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport/endpoint"
)

// Part is one of the things that a daemon is made of. The daemon asks its parts, in the
// order in which they were added, and never knows which of them has something to do. A
// part embeds Passive and says only what concerns it.
type Part interface {
	// Offer adds what the part has for the profiles, before they are made.
	Offer(*all.Options) error

	// Collectors are the metrics of the part. It is asked once, when all parts are made.
	Collectors() []prometheus.Collector

	// Open makes what needs the profiles, such as endpoints. Nothing is served yet.
	Open() error

	// Endpoints are those of the part that peers are connected to, once it is open, and
	// Door is the way of those inside, nil if it has none. The daemon counts their sessions,
	// and drains them: the doors last.
	Endpoints() []*endpoint.Endpoint
	Door() *Door

	// Opened is called when all parts are open, and nobody is let in yet.
	Opened()

	// Serve works until ctx ends. It may return at once.
	Serve(ctx context.Context)

	// Recheck holds those who are connected against the rules and trust in force. It
	// returns how many stay and how many were disconnected.
	Recheck() (kept, closed int)

	// Look adds what is wrong with the part.
	Look(*Health)

	// Retire is the first word of a stop: the part takes nothing new, and ends what would
	// not end by itself. It does not wait.
	Retire()

	// Drain waits until what is under way has ended, or for the end of ctx.
	Drain(ctx context.Context) error

	// Close ends what is left and gives everything back. Parts close in the order opposite
	// to that in which they were added. It is called once, also if Open failed or was not
	// called.
	Close() error
}

// Health is what /readyz and /status say.
type Health struct {
	Ready    bool     `json:"ready"`
	Reasons  []string `json:"reasons"`  // why not
	Warnings []string `json:"warnings"` // what somebody should look at
}

// Passive is a part that has nothing to do.
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

// List is the parts of a daemon, in the order in which they were added.
type List []Part

// Offer asks all, until one of them fails.
func (l List) Offer(o *all.Options) error {
	for _, one := range l {
		if err := one.Offer(o); err != nil {
			return err
		}
	}
	return nil
}

// Open opens all, or as many as there are before one that cannot be opened.
func (l List) Open() error {
	for _, one := range l {
		if err := one.Open(); err != nil {
			return err
		}
	}
	return nil
}

// endpoints are those of all parts: what peers are connected to, and behind doors.
func (l List) endpoints() (outer, inner []*endpoint.Endpoint) {
	for _, one := range l {
		outer = append(outer, one.Endpoints()...)
		if door := one.Door(); door != nil && door.passage != nil {
			inner = append(inner, door.passage.far)
		}
	}
	return outer, inner
}

// Stats adds up what the endpoints of all parts count.
func (l List) Stats() (sum endpoint.Stats) {
	outer, inner := l.endpoints()
	for _, ep := range slices.Concat(outer, inner) {
		s := ep.Stats()
		sum.Sessions += s.Sessions
		sum.Handlers += s.Handlers
		sum.InFlightBytes += s.InFlightBytes
		sum.DeferredBytes += s.DeferredBytes
	}
	return sum
}

// SetLimits has connections that come from now on be bound by other limits.
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

// Recheck adds up what the parts return.
func (l List) Recheck() (kept, closed int) {
	for _, one := range l {
		k, c := one.Recheck()
		kept, closed = kept+k, closed+c
	}
	return kept, closed
}

// Drain has all parts and their endpoints end what is under way, all at the same time;
// then the doors, which what is under way may still need.
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

// together calls functions at the same time and returns what went wrong.
func together(ctx context.Context, list []func(context.Context) error) error {
	errs := make([]error, len(list))
	var work sync.WaitGroup
	for i, f := range list {
		work.Go(func() { errs[i] = f(ctx) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// Close closes all.
func (l List) Close() error {
	var failed []error
	for _, one := range slices.Backward(l) {
		failed = append(failed, one.Close())
	}
	return errors.Join(failed...)
}

// ChildGrace is how long a child process has between SIGTERM and SIGKILL.
const ChildGrace = 2 * time.Second
