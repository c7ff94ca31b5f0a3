package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/transport/endpoint"
)

// part is one of the things that a daemon is made of. The daemon asks its parts, in the
// order in which they were added, and never knows which of them has something to do. A
// part embeds passive and says only what concerns it.
type part interface {
	// collectors are the metrics of the part. It is asked once, when all parts are made.
	collectors() []prometheus.Collector

	// open makes what needs the profiles, such as endpoints. Nothing is served yet.
	open() error

	// endpoints are those of the part that peers are connected to, once it is open, and
	// door is the way of those inside, nil if it has none. The daemon counts their sessions,
	// and drains them: the doors last.
	endpoints() []*endpoint.Endpoint
	door() *door

	// serve works until ctx ends. It may return at once.
	serve(ctx context.Context)

	// begin is called when everything serves.
	begin()

	// recheck holds those who are connected against the rules and trust in force. It
	// returns how many stay and how many were disconnected.
	recheck() (kept, closed int)

	// look adds what is wrong with the part.
	look(*Health)

	// retire is the first word of a stop: the part takes nothing new, and ends what would
	// not end by itself. It does not wait.
	retire()

	// drain waits until what is under way has ended, or for the end of ctx.
	drain(ctx context.Context) error

	// close ends what is left and gives everything back. Parts close in the order opposite
	// to that in which they were added. It is called once, also if open failed or was not
	// called.
	close() error
}

// passive is a part that has nothing to do.
type passive struct{}

func (passive) collectors() []prometheus.Collector { return nil }
func (passive) open() error                        { return nil }
func (passive) endpoints() []*endpoint.Endpoint    { return nil }
func (passive) door() *door                        { return nil }
func (passive) serve(context.Context)              {}
func (passive) begin()                             {}
func (passive) recheck() (kept, closed int)        { return 0, 0 }
func (passive) look(*Health)                       {}
func (passive) retire()                            {}
func (passive) drain(context.Context) error        { return nil }
func (passive) close() error                       { return nil }

// parts are those of a daemon, in the order in which they were added.
type parts []part

// open opens all, or as many as there are before one that cannot be opened.
func (p parts) open() error {
	for _, one := range p {
		if err := one.open(); err != nil {
			return err
		}
	}
	return nil
}

// endpoints are those of all parts: what peers are connected to, and behind doors.
func (p parts) endpoints() (outer, inner []*endpoint.Endpoint) {
	for _, one := range p {
		outer = append(outer, one.endpoints()...)
		if way := one.door(); way != nil && way.passage != nil {
			inner = append(inner, way.far)
		}
	}
	return outer, inner
}

// recheck adds up what the parts return.
func (p parts) recheck() (kept, closed int) {
	for _, one := range p {
		k, c := one.recheck()
		kept, closed = kept+k, closed+c
	}
	return kept, closed
}

// drain has all parts and their endpoints end what is under way, all at the same time;
// then the doors, which what is under way may still need.
func (p parts) drain(ctx context.Context) error {
	for _, one := range p {
		one.retire()
	}
	outer, inner := p.endpoints()
	var ends []func(context.Context) error
	for _, one := range p {
		ends = append(ends, one.drain)
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

// close closes all.
func (p parts) close() error {
	var all []error
	for _, one := range slices.Backward(p) {
		all = append(all, one.close())
	}
	return errors.Join(all...)
}
